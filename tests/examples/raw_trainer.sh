#!/usr/bin/env bash
# raw_trainer.sh PLAIN FERRY SOURCE_FOLDER: the trainer by hand and the same with Ferry give the same bits; under a budget
# that the first does not fit, the second still does; and little had to change for it.
set -uo pipefail
plain="$1"
ferried="$2"
example="$3/examples/02_raw_trainer"
most_changed_lines=45
small=6000000
failures=0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# The caller's own settings must not decide the outcome.
for variable in "${!FERRY_@}"; do unset "$variable"; done

complain() {
  printf '%s: %s\n  exit code: %s\n  stdout: %s\n  stderr: %s\n' "$ran" "$1" "$code" "$(<"$scratch/out")" "$(<"$scratch/err")"
  failures=$((failures + 1))
}
# run [NAME=value...] PROGRAM ARGUMENT...
run() {
  ran="$*"
  env "$@" >"$scratch/out" 2>"$scratch/err"
  code=$?
}
# expect_error CODE TEXT: nothing on standard output, one line on the other.
expect_error() {
  [[ "$code" == "$1" ]] || complain "expected exit code $1"
  grep -qF -- "$2" "$scratch/err" || complain "expected on stderr: $2"
  [[ "$(wc -l <"$scratch/err")" == 1 && ! -s "$scratch/out" ]] || complain "expected one line of error and nothing else"
}

# Enough memory: the reference. A loss for each step as a hexadecimal number, and a checksum of all weights.
steps=5
run "$plain" --steps "$steps"
[[ "$code" == 0 ]] || complain "expected exit code 0"
cp "$scratch/out" "$scratch/reference"
[[ "$(grep -cE '^step [0-9]+ loss [0-9.]+ 0x1\.[0-9a-f]+p\+[0-9]$' "$scratch/reference")" == "$steps" ]] || complain "expected $steps losses"
grep -qE '^weights [0-9a-f]{16}$' "$scratch/reference" || complain "expected a checksum of the weights"
awk '/^step/ { if (NR > 1 && $4 >= last) exit 1; last = $4 }' "$scratch/reference" || complain "expected the loss to fall"

run "$plain" --steps "$steps" --memory "$small"
expect_error 1 "does not fit: activations need 12294144 bytes, --memory is $small"

for policy in offload recompute auto; do
  run FERRY_POLICY="$policy" FERRY_CHECK_ORDER=on FERRY_STATS="$scratch/$policy" "$ferried" --steps "$steps" --memory "$small"
  [[ "$code" == 0 ]] || complain "expected exit code 0"
  cmp -s "$scratch/out" "$scratch/reference" || complain "expected the very bits of: $(<"$scratch/reference")"
done
# It is not by chance that it fits: what was not kept went somewhere.
has() { tail -n 1 "$scratch/$1" | grep -qE "$2" || complain "expected in the statistics under $1: $2"; }
has offload '"restores":80,.*"device_to_host":\{"transfers":[1-9]'
has recompute '"restores":80,"recomputes":40,.*"device_to_host":\{"transfers":0'

run FERRY_POLICY=keep "$ferried" --steps 1 --memory "$small"
expect_error 1 "out of device memory"

# What a reader gets wrong.
for program in "$plain" "$ferried"; do
  run "$program" --help
  [[ "$code" == 0 ]] || complain "expected exit code 0"
  grep -q -- "--memory BYTES" "$scratch/out" || complain "expected the flags"
  run "$program" --memory 1
  expect_error 1 "does not fit"
  run "$program" --memory 6MB
  expect_error 2 "--memory '6MB': not a whole number"
  run "$program" --steps
  expect_error 2 "--steps needs a number"
  run "$program" --step 3
  expect_error 2 "no flag '--step'"
  run "$program" "$scratch"
  expect_error 2 "cannot read the text file"
  echo short >"$scratch/short"
  run "$program" "$scratch/short"
  expect_error 2 "needs 66 bytes"
  run "$program" --steps 1 "$example/trainer.cpp"
  [[ "$code" == 0 ]] || complain "expected exit code 0"
  cp "$scratch/out" "$scratch/of_file_${program##*/}"
done
cmp "$scratch"/of_file_* || complain "expected the same bits of another text"
run FERRY_POLICY=wrong "$ferried"
expect_error 1 "FERRY_POLICY='wrong'"

changed="$(diff "$example/trainer.cpp" "$example/trainer_ferry.cpp" | grep -c '^[<>]')"
ran="diff of the sources" code=0
grep -q 'activations need 12294144 bytes, --memory is 6000000' "$3/docs/linking.md" || complain "docs/linking.md has other figures"
((changed <= most_changed_lines)) || complain "$changed lines are added or removed; at most $most_changed_lines may be"

exit "$((failures > 0))"
