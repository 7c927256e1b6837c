# What the end-to-end tests share: run the built command, compare what it says. Sourced, with the command as
# the first argument; a failed expectation is printed and counted, and `finish` gives the exit code.
# shellcheck shell=bash

set -uo pipefail
ferry="$1"
failures=0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# The caller's own settings must not decide the outcome.
for variable in "${!FERRY_@}"; do unset "$variable"; done

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

finish() { exit "$((failures > 0))"; }
