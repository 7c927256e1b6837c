#!/usr/bin/env bash
# FERRY_TORCH with no LibTorch, with a broken one, and with a value that it does not know: configure.sh SOURCE_FOLDER
set -euo pipefail
source="$1"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$scratch/project"
cat >"$scratch/project/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH "$source/cmake")
set(FERRY_HAS_CUDA OFF)
include(torch)
message(STATUS "adapter: \${FERRY_HAS_TORCH}, flags: '\${CMAKE_CXX_FLAGS}'")
TEXT

# expect NAME STATUS TEXT ARGUMENT...: configuring with these arguments ends so, and says so.
expect() {
  local name="$1" wanted="$2" text="$3" status=0
  shift 3
  cmake -S "$scratch/project" -B "$scratch/$name" "$@" >"$scratch/$name.log" 2>&1 || status=$?
  # CMake breaks lines of its errors wherever it likes.
  if [[ "$status" != "$wanted" ]] || ! tr '\n' ' ' <"$scratch/$name.log" | tr -s ' ' | grep -qF -- "$text"; then
    printf '%s: exit code %s instead of %s, or no "%s" in:\n' "$name" "$status" "$wanted" "$text"
    cat "$scratch/$name.log"
    exit 1
  fi
}

# An installation whose libraries are no libraries.
fake="$scratch/fake"
mkdir -p "$fake/include/torch/csrc/autograd" "$fake/include/torch/csrc/api/include/torch" "$fake/include/c10/util" "$fake/lib"
touch "$fake/include/torch/csrc/autograd/saved_variable_hooks.h" "$fake/include/torch/csrc/api/include/torch/torch.h"
echo '#define TORCH_CHECK(condition, text) static_cast<void>(condition)' >"$fake/include/c10/util/Exception.h"
for library in torch torch_cpu c10; do echo 'not a library' >"$fake/lib/lib$library.so"; done

expect off 0 "adapter: OFF, flags: ''" -DFERRY_TORCH=OFF
expect unknown 1 "FERRY_TORCH=maybe: give AUTO, ON or OFF" -DFERRY_TORCH=maybe
expect broken_auto 0 "does not compile or link: see CMakeFiles/ferry_torch_probe.log; building without the adapter" \
  -DCMAKE_PREFIX_PATH="$fake"
expect broken_on 1 "FERRY_TORCH=ON, but LibTorch is the one in" -DFERRY_TORCH=ON -DCMAKE_PREFIX_PATH="$fake"
rm "$fake/lib/libc10.so"
expect partial 0 "not found (FERRY_LIB_c10)" -DCMAKE_PREFIX_PATH="$fake"
