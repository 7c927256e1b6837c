# What the tests of the package share. Sourced, with the build folder, the source folder and a scratch folder of all these
# tests as arguments, then the script's own.
# shellcheck shell=bash disable=SC2034

set -euo pipefail
build="$1" source="$2" scratch="$3"
shift 3
prefix="$scratch/prefix"  # where prefix.sh installs
jobs="$(nproc)"
mkdir -p "$scratch"

# The caller's own settings must not decide the outcome.
for variable in "${!FERRY_@}" LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH CXXFLAGS CFLAGS LDFLAGS; do unset "$variable"; done

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# needs TOOL...: without one of them the test is skipped.
needs() {
  local tool
  for tool in "$@"; do
    if ! command -v "$tool" >/dev/null; then
      echo "skipped: there is no $tool here"
      exit 77
    fi
  done
}

# quietly COMMAND...: its output only if it fails.
quietly() {
  "$@" >"$scratch/log.$$" 2>&1 || {
    cat "$scratch/log.$$" >&2
    fail "$*"
  }
  rm -f "$scratch/log.$$"
}

# fresh FOLDER: empty, and made.
fresh() {
  rm -rf "$1"
  mkdir -p "$1"
}

# expect TEXT COMMAND...: the command succeeds and says the text.
expect() {
  local text="$1" out
  shift
  out="$("$@" 2>&1)" || fail "$* gave $?: $out"
  [[ "$out" == *"$text"* ]] || fail "$*: expected '$text' in: $out"
  printf '%s\n' "$out"
}

# where_libraries_are PREFIX: the folder of libferry in it, absolute.
where_libraries_are() { dirname "$(find "$1" -name libferry.a -print -quit)"; }

# ferry_needed FILE: the Ferry libraries that it loads.
ferry_needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(libferry[^]]*\)\]/\1/p' | sort | tr '\n' ' '; }

# build_consumer CXX PREFIX FOLDER [-D...]: the find_package project, built and run.
build_consumer() {
  local cxx="$1" from="$2" folder="$3"
  shift 3
  quietly cmake -S "$source/tests/install/consumers/find_package" -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$from" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "$@"
  quietly cmake --build "$folder" --parallel "$jobs"
  expect "all is right" "$folder/consumer"
  expect "the loss fell" "$folder/nn_consumer"
}
