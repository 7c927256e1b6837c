#!/usr/bin/env bash
# find_package_torch.sh BUILD SOURCE SCRATCH CXX [-D...]: a LibTorch project over the installed package, with the shared
# library; what follows goes to its cmake, to find the LibTorch that the build has found.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cxx="$1"
shift
needs "$cxx" ninja readelf
here="$scratch/find_package_torch"
fresh "$here"

quietly cmake -S "$source/tests/install/consumers/find_package_torch" -B "$here/shared" -G Ninja \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" "$@"
quietly cmake --build "$here/shared" --parallel "$jobs"
expect "all is right" "$here/shared/consumer"
[[ "$(ferry_needed "$here/shared/consumer")" == "libferry.so.0 " ]] || fail "the consumer does not load libferry.so.0"
