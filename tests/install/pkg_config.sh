#!/usr/bin/env bash
# pkg_config.sh BUILD SOURCE SCRATCH CC CXX: a Makefile over the installed package, with the shared library, and by
# --static with the static one.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cc="$1" cxx="$2"
needs "$cc" "$cxx" make pkg-config readelf
here="$scratch/pkg_config.$cxx"
fresh "$here"
libraries="$(where_libraries_are "$prefix")"

# make_consumer FOLDER LIBRARIES [STATIC=1]
make_consumer() {
  local folder="$here/$1" from="$2"
  shift 2
  mkdir -p "$folder"
  PKG_CONFIG_PATH="$from/pkgconfig" quietly make -C "$folder" -j "$jobs" \
    -f "$source/tests/install/consumers/pkg_config/Makefile" CC="$cc" CXX="$cxx" "$@"
}

make_consumer shared "$libraries"
for program in consumer consumer_cxx; do
  [[ "$(ferry_needed "$here/shared/$program")" == "libferry.so.0 " ]] || fail "$program does not load libferry.so.0"
  expect "all is right" env LD_LIBRARY_PATH="$libraries" "$here/shared/$program"
done

# Where a linker finds both it takes the shared one: a prefix without it.
mkdir -p "$here/only_static"
cp -r "$prefix/include" "$here/only_static/include"
static="$here/only_static/${libraries#"$prefix/"}"
mkdir -p "$static"
cp -r "$libraries/pkgconfig" "$libraries/libferry.a" "$static"
make_consumer static "$static" STATIC=1
for program in consumer consumer_cxx; do
  [[ -z "$(ferry_needed "$here/static/$program")" ]] || fail "the static $program loads Ferry's library"
  expect "all is right" "$here/static/$program"
done
[[ "$(PKG_CONFIG_PATH="$libraries/pkgconfig" pkg-config --libs ferry-nn)" == *"-lferry_nn -lferry"* ]] ||
  fail "ferry-nn does not bring ferry"
