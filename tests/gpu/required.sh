#!/usr/bin/env bash
# Without a GPU the tests that need one are skipped, each with one plain message; with FERRY_REQUIRE_GPU=1 they fail.
# The GPUs of a machine that has some are hidden. Usage: required.sh PROGRAM
set -uo pipefail
program="$1"
failures=0

# expect CODE TEXT [NAME=value...]
expect() {
  local code=0 said
  said="$(env -u FERRY_REQUIRE_GPU CUDA_VISIBLE_DEVICES=-1 "${@:3}" "$program" 2>&1)" || code=$?
  if [[ "$code" != "$1" || "$said" != *"$2"* || "$said" == *"[       OK ]"* ]]; then
    printf '%s: expected exit code %s, no test that passes, and: %s\ngot %s:\n%s\n' "${*:3}" "$1" "$2" "$code" "$said"
    failures=$((failures + 1))
  fi
}

expect 0 "; FERRY_REQUIRE_GPU=1 makes this a failure"
expect 0 "no GPU: "
expect 0 "[  SKIPPED ]"
expect 0 "[  SKIPPED ]" FERRY_REQUIRE_GPU=0
expect 1 "; FERRY_REQUIRE_GPU=1 asks for it" FERRY_REQUIRE_GPU=1
expect 1 "[  FAILED  ]" FERRY_REQUIRE_GPU=1

exit "$((failures > 0))"
