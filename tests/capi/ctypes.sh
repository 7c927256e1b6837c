#!/usr/bin/env bash
# examples/04_ctypes.py over the shared library: what it prints, and what it says when something is wrong.
# ctypes.sh LIBRARY EXAMPLES PYTHON; exit code 77 where there is no Python.
set -uo pipefail

readonly library="$1" examples="$2" python="${3-}"
readonly script="$examples/04_ctypes.py"
if [[ -z "$python" ]]; then
  echo "skipped: python3 is not installed (scripts/setup --tests gets it)"
  exit 77
fi
for variable in "${!FERRY_@}"; do unset "$variable"; done
failures=0

# expect CODE TEXT [NAME=value...] ARGUMENT...: ends with that code, and says that.
expect() {
  local -r code="$1" text="$2"
  shift 2
  local settings=()
  while (($# > 0)) && [[ "$1" == *=* && "$1" != -* ]]; do
    settings+=("$1")
    shift
  done
  local said found
  said="$(env "${settings[@]}" "$python" "$script" "$@" 2>&1)"
  found=$?
  if [[ "$found" != "$code" || "$said" != *"$text"* ]]; then
    printf '%s %s\n  exit code %s, expected %s\n  expected: %s\n  said: %s\n' "${settings[*]}" "$*" "$found" "$code" "$text" "$said"
    failures=$((failures + 1))
  fi
}

expect 0 "every byte came back" FERRY_LIBRARY="$library"
expect 0 "8 items of 1.0 MiB under a budget of 3.0 MiB" FERRY_LIBRARY="$library"
expect 0 "chain_of_eight.json on a100-80, budget" FERRY_LIBRARY="$library" --profile "$examples/profiles/chain_of_eight.json" --gpu a100-80
expect 0 "rtx4090" FERRY_LIBRARY="$library" --gpus
expect 0 "--budget" --help
expect 1 "FERRY_ERROR_INFEASIBLE_BUDGET" FERRY_LIBRARY="$library" --budget 1KiB
expect 1 "FERRY_ERROR_SETTING: 'budget' is 'lots'" FERRY_LIBRARY="$library" --budget lots
expect 1 "FERRY_ERROR_INVALID_ARGUMENT" FERRY_LIBRARY="$library" --gpu a100-8
expect 1 "FERRY_ERROR_FORMAT" FERRY_LIBRARY="$library" --profile "$examples/hardware/rtx4090.json"
expect 1 "FERRY_ERROR_SETTING: FERRY_VERIFY" FERRY_LIBRARY="$library" FERRY_VERIFY=maybe
expect 1 "No such file" FERRY_LIBRARY="$library" --profile none.json
expect 1 "set FERRY_LIBRARY to the path" FERRY_LIBRARY=/nowhere/libferry.so
expect 2 "unrecognized arguments" FERRY_LIBRARY="$library" --nonsense
exit "$((failures > 0))"
