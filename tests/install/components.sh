#!/usr/bin/env bash
# components.sh BUILD SOURCE SCRATCH CC CXX: each component alone, in a folder of its own: what is there, and a consumer of it. And
# what a component is built from.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cc="$1" cxx="$2"
needs "$cc" "$cxx" ninja pkg-config
here="$scratch/components"
fresh "$here"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
lib="$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")"
example="$source/examples/05_plain_c/trainer_ferry.c"

# install_component NAME [PREFIX]
install_component() { quietly cmake --install "$build" --strip --prefix "$here/${2-$1}" --component "$1"; }
# holds NAME LINE...: the component has these files and no others. $L is where libraries go, * is no wildcard.
holds() {
  local name="$1"
  shift
  install_component "$name"
  diff <(printf '%s\n' "$@" | LC_ALL=C sort) <(cd "$here/$name" && find . ! -type d -printf '%P\n' | LC_ALL=C sort) ||
    fail "component $name is to have what is marked <, and has what is marked >"
}
# library_files NAME: of both kinds.
library_files() { printf "$lib/%s\n" "lib$1".{a,so,so."${version%%.*}",so."$version"}; }
# export_files NAME: for find_package; with the build type in a name of CMake's.
type="$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt")"
export_files() { printf "$lib/cmake/ferry/ferry-$1-%s.cmake\n" static shared "static-${type,,}" "shared-${type,,}"; }
mapfile -t headers < <(cd "$source/include" && find ferry -maxdepth 1 -name '*.h*' ! -name torch.hpp -printf 'include/%p\n')
mapfile -t nn_headers < <(cd "$source/include" && find ferry/nn -type f -printf 'include/%p\n')
mapfile -t finding < <(printf "$lib/%s\n" cmake/ferry/ferryConfig{,Version}.cmake pkgconfig/ferry.pc)

holds library "${headers[@]}" $(library_files ferry) $(export_files ferry) "${finding[@]}"
holds c include/ferry/{ferry,export}.h $(library_files ferry) "${finding[@]}"
holds nn "${nn_headers[@]}" $(library_files ferry_nn) $(export_files nn) "$lib/pkgconfig/ferry-nn.pc"
holds tools bin/ferry share/bash-completion/completions/ferry share/zsh/site-functions/_ferry
holds man share/man/man1/ferry.1

# library, and nn over it: by find_package.
cat >"$here/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(ferry REQUIRED OPTIONAL_COMPONENTS nn)
add_executable(consumer $source/tests/install/consumers/consumer.cpp)
target_link_libraries(consumer PRIVATE ferry::ferry)
file(WRITE \${CMAKE_BINARY_DIR}/has_nn "\${ferry_nn_FOUND}")
TEXT
quietly cmake -S "$here" -B "$here/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$here/library"
quietly cmake --build "$here/build" --parallel "$jobs"
expect "all is right" "$here/build/consumer"
[[ "$(<"$here/build/has_nn")" == OFF ]] || fail "component library has nn in it"
install_component library both
install_component nn both
build_consumer "$cxx" "$here/both" "$here/nn_build"

# c: by pkg-config, in C99; and by find_package, in a project without C++.
flags="$(PKG_CONFIG_PATH="$here/c/$lib/pkgconfig" pkg-config --cflags --libs ferry)"
read -ra flags <<<"$flags"
quietly "$cc" -std=c99 -O1 -Wno-unknown-pragmas "$example" "${flags[@]}" -lm -o "$here/trainer"
expect "weights " env LD_LIBRARY_PATH="$here/c/$lib" FERRY_POLICY=offload FERRY_BUDGET=60% "$here/trainer" 1
mkdir "$here/in_c"
cat >"$here/in_c/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES C)
find_package(ferry REQUIRED)
add_executable(trainer $example)
target_link_libraries(trainer PRIVATE ferry::ferry m)
TEXT
quietly cmake -S "$here/in_c" -B "$here/in_c/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$here/c"
quietly cmake --build "$here/in_c/build"
expect "weights " env FERRY_POLICY=recompute FERRY_BUDGET=60% "$here/in_c/build/trainer" 1

# tools and man.
expect "ferry $version" "$here/tools/bin/ferry" --version
expect "Usage: " "$here/tools/bin/ferry" --help
grep -q '^\.TH FERRY 1' "$here/man/share/man/man1/ferry.1" || fail "the manual page is none"

# What is built for a component: nothing of what another one has.
# needs_none_of COMPONENT PATTERN...
needs_none_of() {
  local inputs pattern
  inputs="$(ninja -C "$build" -t inputs "ferry_component_$1" 2>/dev/null)" || fail "there is no target ferry_component_$1"
  [[ "$inputs" == *lib/* ]] || fail "ferry_component_$1 builds nothing"
  for pattern in "${@:2}"; do
    ! grep -E "$pattern" <<<"$inputs" || fail "ferry_component_$1 builds what is above"
  done
}
if ninja -t inputs 2>&1 | grep -q "unknown tool"; then
  echo "what is built is not looked at: this ninja cannot tell"
else
  for name in library c; do needs_none_of "$name" '(^|/)lib/nn/' '(^|/)tools/' '(^|/)tests/' '(^|/)examples/'; done
  needs_none_of nn '(^|/)tools/' '(^|/)tests/'
  needs_none_of tools '(^|/)tests/' 'libferry(_nn)?\.so'
  needs_none_of man '(^|/)tests/' 'libferry(_nn)?\.so'
fi

# And what is needed to configure: for c neither a BLAS nor flags nor test libraries.
without=()
for package in CLI11 GTest rapidcheck benchmark BLAS OpenMP; do without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
for part in TESTS BENCH EXAMPLES TOOLS NN; do without+=("-DFERRY_BUILD_$part=OFF"); done
quietly cmake -S "$source" -B "$here/only_c" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DFERRY_CUDA=OFF -DFERRY_TORCH=OFF "${without[@]}"
ninja -C "$here/only_c" -n ferry_component_c >"$here/commands" || fail "ferry_component_c cannot be built alone"
! grep -E 'lib/nn|tools/' "$here/commands" || fail "the commands above are none of component c"
