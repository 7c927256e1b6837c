#!/usr/bin/env bash
# plain_c.sh PLAIN FERRY SOURCE_FOLDER [COMMAND]: the trainer in C by hand and the same with Ferry give the same bits under every policy
# and budget, evaluation included; and little had to change for it.
set -uo pipefail
plain="$1"
ferried="$2"
example="$3/examples/05_plain_c"
command="${4-}"
most_changed_lines=45
failures=0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# The caller's own settings must not decide the outcome.
for variable in "${!FERRY_@}"; do unset "$variable"; done
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive # other tests have the cores too

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
expect_same_bits() {
  [[ "$code" == 0 ]] || complain "expected exit code 0"
  cmp -s "$scratch/out" "$scratch/reference" || complain "expected the very bits of: $(<"$scratch/reference")"
}

steps=6
run "$plain" "$steps"
[[ "$code" == 0 ]] || complain "expected exit code 0"
cp "$scratch/out" "$scratch/reference"
[[ "$(grep -c '^step ' "$scratch/reference")" == "$steps" ]] || complain "expected $steps losses"
[[ "$(grep -c '^evaluation ' "$scratch/reference")" == 2 ]] || complain "expected an evaluation in every fourth step"
grep -qE '^weights [0-9a-f]{16}$' "$scratch/reference" || complain "expected a checksum of the weights"

run "$ferried" "$steps" # no setting: everything is kept
expect_same_bits
for policy in recompute offload auto selective sqrt every=2; do
  for budget in 60% 40% 30% 15%; do
    run FERRY_POLICY="$policy" FERRY_BUDGET="$budget" FERRY_STATS="$scratch/stats" "$ferried" "$steps"
    expect_same_bits
  done
done
tail -n 1 "$scratch/stats" | grep -q '"evaluations":2' || complain "expected the evaluations to be counted as such"

# A plan of the program's own step, without a line of code.
if [[ -n "$command" ]]; then
  run FERRY_PROFILE="$scratch/profile.json" FERRY_POLICY=recompute FERRY_BUDGET=60% "$ferried" "$steps"
  expect_same_bits
  run "$command" plan --profile "$scratch/profile.json" --gpu laptop --budget 60% -o "$scratch/plan.json"
  [[ "$code" == 0 ]] || complain "expected a plan"
  run FERRY_POLICY="plan=$scratch/plan.json" FERRY_BUDGET=70% "$ferried" "$steps"
  expect_same_bits
  run FERRY_PROFILE="$scratch/no/such/folder/profile.json" "$ferried" 1
  [[ "$code" == 1 ]] || complain "expected exit code 1"
  grep -q "FERRY_PROFILE" "$scratch/err" || complain "expected the variable's name"
fi

# What goes wrong is said, in one line.
run FERRY_POLICY=keep FERRY_BUDGET=30% "$ferried" "$steps"
[[ "$code" == 1 ]] || complain "expected exit code 1"
grep -q "out of device memory" "$scratch/err" || complain "expected what is missing"
[[ "$(wc -l <"$scratch/err")" == 1 ]] || complain "expected one line of error"
run FERRY_POLICY=wrong "$ferried" "$steps"
[[ "$code" == 1 ]] || complain "expected exit code 1"
grep -q "FERRY_POLICY='wrong'" "$scratch/err" || complain "expected the setting and its value"

changed="$(diff "$example/trainer.c" "$example/trainer_ferry.c" | grep -c '^[<>]')"
ran="diff of the sources" code=0
((changed <= most_changed_lines)) || complain "$changed lines are added or removed; at most $most_changed_lines may be"

exit "$((failures > 0))"
