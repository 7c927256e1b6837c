#!/usr/bin/env bash
# add_subdirectory.sh BUILD SOURCE SCRATCH CXX: a project that builds Ferry within itself, of a copy of the sources that
# calls itself version 9: the tests of two versions and of the ABI use its libraries. Without optimisation, to be quick.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cxx="$1"
needs "$cxx" ninja readelf
here="$scratch/add_subdirectory"
fresh "$here"

mkdir "$here/source"
cp -r "$source"/{CMakeLists.txt,cmake,include,lib} "$here/source"
sed -i 's/\(define FERRY_VERSION_MAJOR\) .*/\1 9/' "$here/source/include/ferry/version.hpp"

quietly cmake -S "$source/tests/install/consumers/add_subdirectory" -B "$here/build" -G Ninja \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="-O0 -g0" -DFERRY_SOURCE="$here/source" -DFERRY_CUDA=OFF \
  -DPRECOMPILE=ON
quietly cmake --build "$here/build" --parallel "$jobs" --target consumer ferry_shared
expect "all is right with Ferry 9." "$here/build/consumer"
[[ -z "$(ferry_needed "$here/build/consumer")" ]] || fail "the consumer does not link the static library"
