#!/usr/bin/env bash
# two_versions.sh BUILD SOURCE SCRATCH CXX: two versions of Ferry in one process, all symbols visible to all: each plugin
# gets its own, whichever is loaded first, shared or static. Version 9 is that of add_subdirectory.sh.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cxx="$1"
needs "$cxx" pkg-config
here="$scratch/two_versions"
fresh "$here"
consumers="$source/tests/install/consumers/two_versions"
libraries="$(where_libraries_are "$prefix")"
other="$scratch/add_subdirectory"
read -ra inside <<<"$(PKG_CONFIG_PATH="$libraries/pkgconfig" pkg-config --static --libs-only-l ferry |
  sed 's/-lferry //') $(PKG_CONFIG_PATH="$libraries/pkgconfig" pkg-config --static --libs-only-L ferry)"

version() { sed -n 's/.*FERRY_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$1/ferry/version.hpp" | paste -sd .; }
old="$(version "$prefix/include")" new="$(version "$other/source/include")"
headers() { if [[ "$1" == "$new" ]]; then echo "$other/source/include"; else echo "$prefix/include"; fi; }
folder() { if [[ "$1" == "$new" ]]; then echo "$other/build/ferry/lib"; else echo "$libraries"; fi; }

quietly "$cxx" -std=c++20 -O1 "$consumers/host.cpp" -o "$here/host" -ldl
for each in "$old" "$new"; do
  major="${each%%.*}"
  quietly "$cxx" -std=c++20 -O1 -fPIC -I"$(headers "$each")" -c "$consumers/plugin.cpp" -o "$here/plugin.$major.o"
  from="$(folder "$each")"
  # With the shared library; with the static one; and with a shared one as it would be without versions, to see that
  # these tests would notice.
  quietly "$cxx" -shared "$here/plugin.$major.o" -o "$here/shared.$major.so" -L"$from" -lferry -Wl,-rpath,"$from"
  quietly "$cxx" -shared "$here/plugin.$major.o" -o "$here/static.$major.so" "$from/libferry.a" \
    -Wl,--exclude-libs,libferry.a "${inside[@]}"
  quietly "$cxx" -shared -o "$here/libferry_plain.so.$major" -Wl,-soname,"libferry_plain.so.$major" \
    -Wl,--whole-archive "$from/libferry.a" -Wl,--no-whole-archive "${inside[@]}"
  quietly "$cxx" -shared "$here/plugin.$major.o" -o "$here/plain.$major.so" "$here/libferry_plain.so.$major" \
    -Wl,-rpath,"$here"
done

# each_its_own FIRST SECOND: plugins, as KIND.MAJOR
each_its_own() {
  local out i=0
  out="$("$here/host" "$here/$1.so" "$here/$2.so")" || fail "the host with $1 and $2: $out"
  echo "$1 and $2:"$'\n'"$out"
  for plugin in "$1" "$2"; do
    i=$((i + 1))
    local version="$old"
    [[ "$plugin" != *."${new%%.*}" ]] || version="$new"
    [[ "$(sed -n "${i}p" <<<"$out")" == "${version%.*} headers, $version library, in "* ]] || return 1
  done
}

a="${old%%.*}" b="${new%%.*}"
for pair in "shared.$a shared.$b" "shared.$b shared.$a" "static.$a static.$b" "static.$b static.$a" \
  "shared.$a static.$b" "static.$b shared.$a"; do
  read -r first second <<<"$pair"
  each_its_own "$first" "$second" || fail "a plugin got another's Ferry"
done
! each_its_own "plain.$a" "plain.$b" || fail "without versions nothing goes wrong either: these tests see nothing"
