#!/usr/bin/env bash
# prefix.sh BUILD SOURCE SCRATCH: installs into the prefix that the other tests use, and looks at what is there.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rm -rf "$prefix"
quietly "$source/scripts/install" --build "$build" --prefix "$prefix"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
libraries="$(where_libraries_are "$prefix")"

cd "$prefix"
for file in bin/ferry include/ferry/{ferry,session,version}.hpp include/ferry/export.h include/ferry/nn/trainer.hpp \
  "$libraries"/libferry{,_nn}.{a,so,so."${version%%.*}",so."$version"} \
  "$libraries"/cmake/ferry/ferryConfig{,Version}.cmake "$libraries"/pkgconfig/ferry{,-nn}.pc \
  share/man/man1/ferry.1 share/bash-completion/completions/ferry share/zsh/site-functions/_ferry \
  share/doc/ferry/{copyright,README.md,CHANGELOG.md}; do
  [[ -s "$file" ]] || fail "not installed, or empty: $file"
done
# Every public header of what was built, and no private one.
diff <(cd "$source/include" && find ferry -name '*.h' -o -name '*.hpp' | grep -v '^ferry/torch' | sort) \
  <(cd include && find . -type f -printf '%P\n' | grep -v '^ferry/torch' | sort) || fail "headers differ, see above"

for name in ferry ferry_nn; do
  library="$libraries/lib$name.so.$version"
  readelf -d "$library" | grep -q "SONAME.*\[lib$name.so.${version%%.*}\]" || fail "$library has another SONAME"
  ! readelf -d "$library" | grep -E 'R(UN)?PATH' | grep -vF "[\$ORIGIN]" || fail "$library has paths of the build in it"
done
! grep -rlIF -e "$build" -e "$source" lib* share/man share/bash-completion share/zsh 2>/dev/null ||
  fail "the texts above have paths of the build in them"

expect "ferry $version" bin/ferry --version
expect FERRY_BUDGET bin/ferry env
[[ -z "$(ferry_needed bin/ferry)" ]] || fail "the command needs libraries of the package"
bash -n share/bash-completion/completions/ferry
