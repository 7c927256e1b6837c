#!/usr/bin/env bash
# abi.sh BUILD SOURCE SCRATCH [--update]: what the shared libraries export is what tests/install/abi lists, whether they
# were built with optimisation and CUDA (the installed ones) or without (version 9, of add_subdirectory.sh).
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
update="${1-}"
needs g++ nm
listed="$source/tests/install/abi"

# exported LIBRARY: demangled names, without addresses; constructors and destructors have several symbols of one name.
exported() {
  nm --dynamic --defined-only --demangle "$1" | sed -E 's/^[0-9a-f]+ . //' | grep -v -x 'FERRY_[0-9]*' | LC_ALL=C sort -u
}

# compare LIBRARY LIST NODE
compare() {
  local library="$1" list="$2" node="$3"
  [[ -e "$library" ]] || fail "there is no $library"
  exported "$library" >"$scratch/exported"
  ! grep -v "@@$node\$" "$scratch/exported" || fail "$library: the names above do not carry the version $node"
  sed -i "s/@@$node\$//" "$scratch/exported"
  if [[ "$update" == --update ]]; then
    cp "$scratch/exported" "$list"
  elif ! diff "$list" "$scratch/exported"; then
    fail "$library exports (>) other names than $list lists (<).
A name that went or changed breaks programs that are linked with libferry.so.${node#FERRY_}: if that is meant, the version
has to change with it (include/ferry/version.hpp). A name that came is meant if it is documented in a public header and
marked with FERRY_API. When all is meant, build, install and list anew:
  tests/install/prefix.sh $build $source $scratch && tests/install/abi.sh $build $source $scratch --update"
  fi
}

libraries="$(where_libraries_are "$prefix")"
for name in ferry ferry_nn; do compare "$libraries/lib$name.so" "$listed/lib$name.symbols" FERRY_0; done
[[ "$update" == --update ]] || compare "$scratch/add_subdirectory/build/ferry/lib/libferry.so" "$listed/libferry.symbols" FERRY_9
wc -l "$listed"/*.symbols
