#!/usr/bin/env bash
# find_package.sh BUILD SOURCE SCRATCH CC CXX: a CMake project over the installed package, with the shared and with the
# static libraries.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cc="$1" cxx="$2"
needs "$cc" "$cxx" ninja readelf
here="$scratch/find_package.$cxx"
fresh "$here"

build_consumer "$cxx" "$prefix" "$here/shared"
[[ "$(ferry_needed "$here/shared/nn_consumer")" == "libferry.so.0 libferry_nn.so.0 " ]] ||
  fail "the consumer loads '$(ferry_needed "$here/shared/nn_consumer")'"
build_consumer "$cxx" "$prefix" "$here/static" -Dferry_USE_STATIC_LIBS=ON
[[ -z "$(ferry_needed "$here/static/nn_consumer")" ]] || fail "the static consumer loads Ferry's libraries"

if [[ -e "$prefix/include/ferry/ferry.h" ]]; then
  quietly cmake -S "$source/tests/install/consumers/find_package_c" -B "$here/c" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix"
  quietly cmake --build "$here/c" --parallel "$jobs"
  expect "all is right" "$here/c/consumer"
fi
