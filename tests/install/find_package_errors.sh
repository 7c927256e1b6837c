#!/usr/bin/env bash
# find_package_errors.sh BUILD SOURCE SCRATCH: what a project is told that asks the installed package for what it has not.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here="$scratch/errors"
fresh "$here"

# refused TEXT LINE...: a project of these lines is not configured, and the text is why. Whitespace does not count:
# CMake breaks lines.
refused() {
  local text="$1" out
  shift
  fresh "$here/project"
  printf '%s\n' "cmake_minimum_required(VERSION 3.25)" "project(asks LANGUAGES ${language:-CXX})" "$@" >"$here/project/CMakeLists.txt"
  if out="$(cmake -S "$here/project" -B "$here/project/build" -DCMAKE_PREFIX_PATH="$prefix" 2>&1)"; then
    fail "configured in spite of: $*"
  fi
  [[ "$(tr -s '[:space:]' ' ' <<<"$out")" == *"$text"* ]] || fail "$*: expected '$text' in: $out"
}

refused "there is no component wheels; there are ferry, nn and torch" "find_package(ferry REQUIRED COMPONENTS wheels)"
if ! compgen -G "$(where_libraries_are "$prefix")/libferry_torch.a" >/dev/null; then
  refused "component torch: this Ferry was built without LibTorch; build it with -DFERRY_TORCH=ON" \
    "find_package(ferry REQUIRED COMPONENTS torch)"
fi
refused "requested version \"9\"" "find_package(ferry 9 REQUIRED)"
refused "set ferry_USE_STATIC_LIBS before the first find_package(ferry)" "find_package(ferry REQUIRED)" \
  "set(ferry_USE_STATIC_LIBS ON)" "find_package(ferry REQUIRED COMPONENTS nn)"
language=C refused "linked by a C++ compiler; enable_language(CXX)" "set(ferry_USE_STATIC_LIBS ON)" \
  "find_package(ferry REQUIRED)"

# Optional components that are not there are no error.
fresh "$here/project"
cat >"$here/project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(asks LANGUAGES CXX)
find_package(ferry REQUIRED OPTIONAL_COMPONENTS wheels nn)
if(ferry_wheels_FOUND OR NOT ferry_nn_FOUND OR NOT TARGET ferry::nn)
  message(FATAL_ERROR "wheels: ${ferry_wheels_FOUND}, nn: ${ferry_nn_FOUND}")
endif()
TEXT
quietly cmake -S "$here/project" -B "$here/project/build" -DCMAKE_PREFIX_PATH="$prefix"
