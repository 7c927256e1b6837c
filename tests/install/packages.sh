#!/usr/bin/env bash
# packages.sh BUILD SOURCE SCRATCH CXX: what cpack makes, unpacked somewhere else: the command runs, a project finds it.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cxx="$1"
needs "$cxx" ninja cpack
here="$scratch/packages"
fresh "$here"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"

# use PREFIX NAME
use() {
  expect "ferry $version" "$1/bin/ferry" --version
  expect FERRY_BUDGET "$1/bin/ferry" env
  build_consumer "$cxx" "$1" "$here/consumer.$2"
}

generators=TGZ
if command -v dpkg-shlibdeps >/dev/null && command -v dpkg-deb >/dev/null; then
  generators="TGZ;DEB"
else
  echo "no .deb: there is no dpkg-shlibdeps here"
fi
quietly cpack --config "$build/CPackConfig.cmake" -G "$generators" -B "$here" -D CPACK_TGZ_COMPONENT_INSTALL=OFF
ls -l "$here"/ferry*

mkdir "$here/tar"
tar -xzf "$here"/ferry-"$version"-*.tar.gz -C "$here/tar" --strip-components=1
use "$here/tar" tar

if [[ "$generators" == *DEB ]]; then
  package="$(find "$here" -maxdepth 1 -name 'ferry_*.deb')"
  dpkg-deb --info "$package"
  dpkg-deb --extract "$package" "$here/deb"
  use "$here/deb/usr" deb
  # Found by dpkg-shlibdeps: what the libraries load, and nothing of the package itself.
  depends="$(dpkg-deb --field "$package" Depends)"
  for library in libtbb libfmt libstdc++6 libc6; do
    [[ "$depends" == *"$library"* ]] || fail "the package does not depend on $library: $depends"
  done
  [[ "$depends" != *ferry* ]] || fail "the package depends on itself: $depends"
  [[ "$(dpkg-deb --field "$package" Version)" == "$version"* ]] || fail "the package has another version"
fi
