# What the end-to-end tests share: run the built command, compare what it says. Sourced, with the command as
# the first argument; a failed expectation is printed and counted, and `finish` gives the exit code.
# shellcheck shell=bash

set -uo pipefail
ferry="$1"
failures=0
scratch="$(mktemp -d)"
started=""
trap '[[ -z "$started" ]] || kill -KILL "$started" 2>/dev/null; rm -rf "$scratch"' EXIT

# The caller's own settings must not decide the outcome.
for variable in "${!FERRY_@}" COLUMNS; do unset "$variable"; done

# run [NAME=value...] ARGUMENT...: leaves the exit code in `code` and the texts in `out` and `err`.
run() {
  local settings=()
  while (($# > 0)) && [[ "$1" == FERRY_*=* ]]; do
    settings+=("$1")
    shift
  done
  ran="${settings[*]} ferry $*"
  env "${settings[@]}" "$ferry" "$@" >"$scratch/out" 2>"$scratch/err"
  code=$?
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
}

complain() {
  printf '%s: %s\n  exit code: %s\n  stdout: %s\n  stderr: %s\n' "$ran" "$1" "$code" "$out" "$err"
  failures=$((failures + 1))
}

expect_code() { [[ "$code" == "$1" ]] || complain "expected exit code $1"; }
expect_out() { [[ "$out" == *"$1"* ]] || complain "expected on stdout: $1"; }
expect_err() { [[ "$err" == "$1" ]] || complain "expected on stderr: $1"; }
expect_err_has() { [[ "$err" == *"$1"* ]] || complain "expected somewhere on stderr: $1"; }
expect_one_line_of_error() { [[ -n "$err" && "$err" != *$'\n'* ]] || complain "expected one line on stderr"; }
expect_silence() { [[ -z "$err" ]] || complain "expected nothing on stderr"; }

# expect_refusal TEXT: of what was asked for, before any work. expect_failure TEXT: of what could not be done.
expect_refusal() {
  expect_code 2
  expect_one_line_of_error
  expect_err_has "$1"
  [[ -z "$out" ]] || complain "expected nothing on stdout"
}
expect_failure() {
  expect_code 1
  expect_one_line_of_error
  expect_err_has "$1"
}

# expect_no_plan TEXT: no plan fits the budget.
expect_no_plan() {
  expect_code 3
  expect_one_line_of_error
  expect_err_has "$1"
}

# expect_same FILE FILE...: all have the bytes of the first.
expect_same() {
  local first="$1" other
  for other in "${@:2}"; do cmp -s "$first" "$other" || complain "expected the same bytes: $first $other"; done
}

# expect_json FILE KEY...: it is JSON, and has these keys.
expect_json() {
  local key
  if command -v python3 >"$scratch/python3"; then
    python3 -m json.tool "$1" >"$scratch/json" || complain "expected JSON: $1"
  fi
  for key in "${@:2}"; do grep -q "\"$key\":" "$1" || complain "expected in $1: $key"; done
}

# start ARGUMENT...: like run, in the background; its process id is in `started`. `signal NAME` ends it.
start() {
  ran="ferry $*"
  : >"$scratch/out"  # at once, so that nobody waits for what the run before had printed
  "$ferry" "$@" >"$scratch/out" 2>"$scratch/err" &
  started=$!
}
signal() {
  ran+=", then SIG$1"
  kill -s "$1" "$started"
  within 60 gone "$started" || kill -KILL "$started"
  wait "$started"
  code=$?
  started=""
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
}

# within SECONDS COMMAND...: waits for it to be true, but not forever.
within() {
  local tenths=$(($1 * 10))
  shift
  until "$@"; do
    ((tenths-- > 0)) || return 1
    sleep 0.1
  done
}
# shellcheck disable=SC2317  # called by name
gone() { ! kill -0 "$1" 2>"$scratch/kill"; }

finish() { exit "$((failures > 0))"; }
