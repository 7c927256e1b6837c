#!/usr/bin/env bash
# The explorer as a user calls it, and the scripts around it: usage: command.sh EXPLORER DEVICE ROOT
# shellcheck source-path=SCRIPTDIR source=../e2e/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/expect.sh"
device="$2"
root="$3"

# Every number is a program, and the same one each time.
run --replay 7
expect_code 0
expect_out "program 7 on $device: nothing goes wrong"
first="$out"
run --replay 7
[[ "$out" == "$first" ]] || complain "expected the same program again"
run --replay 8
[[ "$out" != "$first" ]] || complain "expected another program"

run --programs 20 --seed 5 --jobs 2 --coverage --quiet
expect_code 0
expect_silence
expect_out "exploring on $device, seed 5"
expect_out "20 programs on $device"
expect_out "never met:"

# Interrupted, it says how far it got. Into files of its own: in others the line that is waited for may stand already.
"$ferry" --seconds 600 --jobs 1 --quiet >"$scratch/long.out" 2>"$scratch/long.err" &
started=$!
for ((i = 0; i < 600; ++i)); do
  grep -qs exploring "$scratch/long.out" && break
  sleep 0.1
done
kill -INT "$started"
wait "$started"
code=$?
started=""
ran="interrupted" out="$(<"$scratch/long.out")" err="$(<"$scratch/long.err")"
expect_code 0
expect_out "0 failed"

# Bad input.
run --numbers "$scratch/nowhere"
expect_refusal "nowhere' cannot be read"
echo "$device twelve" >"$scratch/numbers"
run --numbers "$scratch/numbers"
expect_refusal "has a line that is no device and number: $device twelve"
for wrong in "--jobs 0" "--seconds x" "--bogus" "--replay -1" "--programs -1"; do
  # shellcheck disable=SC2086  # two words
  run $wrong
  [[ "$code" != 0 && -n "$err" ]] || complain "expected to be refused"
done

script() {
  ran="$*"
  (cd "$scratch" && "$@") >"$scratch/out" 2>"$scratch/err"
  code=$?
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
}
for name in explore mutate; do
  script "$root/scripts/$name" --help
  expect_code 0
  expect_silence
  expect_out "usage: scripts/$name"
done
for wrong in --bogus --seconds "--seconds 0" "--jobs x" "--device gpu" "--replay 5"; do
  # shellcheck disable=SC2086  # two words
  script "$root/scripts/explore" $wrong
  expect_refusal "explore: "
done
script "$root/scripts/mutate" no-such-mistake
expect_refusal "no such mistake: no-such-mistake"

finish
