#!/usr/bin/env bash
# bundle.sh BUILD SOURCE SCRATCH CC CXX: trainers in C and C++ with one archive and headers and nothing else; what they load; that
# the archive shows no names but Ferry's; and the package that has it.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cc="$1" cxx="$2"
needs "$cc" "$cxx" ninja nm readelf pkg-config
here="$scratch/bundle.$cxx"
bundle="$build/lib/bundled/libferry.a"
if [[ ! -e "$bundle" ]]; then
  echo "skipped: no bundle was made: the linker of this build cannot"
  exit 77
fi
fresh "$here"
mkdir -p "$here/include/ferry"
cp "$source"/include/ferry/{ferry,export}.h "$here/include/ferry"
cp "$bundle" "$here"
example="$source/examples/05_plain_c"
flags=(-O2 -ffp-contract=off -Wno-unknown-pragmas)
inside=(-lstdc++ -lpthread -lm)

# loads_only_the_system FILE: of shared libraries, what every program in C++ loads.
loads_only_the_system() {
  local others
  others="$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vxE '(libstdc\+\+|libm|libgcc_s|libc|libpthread|libdl|ld-linux-x86-64|ld-linux-aarch64)\.so\.[0-9]+' || true)"
  [[ -z "$others" ]] || fail "$1 loads $others"
}

# In C: the same bits as the trainer by hand, under policies that move and that rebuild.
cd "$here"
quietly "$cc" -std=c99 "${flags[@]}" "$example/trainer.c" -lm -o by_hand
quietly "$cc" -std=c99 "${flags[@]}" "$example/trainer_ferry.c" -Iinclude libferry.a "${inside[@]}" -o trainer
loads_only_the_system trainer
./by_hand 4 >wanted
for policy in offload recompute auto; do
  env -i FERRY_POLICY="$policy" FERRY_BUDGET=40% FERRY_VERIFY=checksum FERRY_LOG=info ./trainer 4 >found 2>log ||
    fail "under $policy: $(<log)"
  cmp -s wanted found || fail "under $policy there are other bits"
done
# In a shared library, as a plugin has it.
quietly "$cc" -std=c99 "${flags[@]}" -shared -fPIC "$example/trainer_ferry.c" -Iinclude libferry.a "${inside[@]}" -o plugin.so
loads_only_the_system plugin.so

# In C++, beside another fmt and oneTBB of the trainer's own, by names that are the libraries' own.
quietly "$cxx" -std=c++20 -O1 -Wall -Wextra -Werror -I"$source/include" "$source/tests/install/consumers/consumer.cpp" libferry.a \
  -lpthread -o consumer
loads_only_the_system consumer
expect "all is right" ./consumer
cat >beside.cpp <<'TEXT'
#define FMT_HEADER_ONLY
#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <atomic>
#include <cstdio>
#include <ferry/ferry.hpp>
int main() {
  ferry::host_device_options options;
  options.device_bytes = options.pinned_bytes = 1 << 20;
  auto device = ferry::make_host_device(options);
  ferry::stream compute(*device, ferry::stream_kind::compute, "compute");
  std::atomic<int> sum{0};
  device->launch(compute, "sum", {}, [&] { tbb::parallel_for(0, 100, [&](int i) { sum += i; }); });
  compute.synchronize();
  try {
    ferry::config{}.set("FERRY_BUDGET", "much");
  } catch (ferry::setting_error const& problem) {
    std::puts(fmt::format("{} and {}", sum.load(), problem.what()).c_str());
  }
}
TEXT
quietly "$cxx" -std=c++20 -O1 -I"$source/include" beside.cpp libferry.a -ltbb -lpthread -o beside
expect "4950 and FERRY_BUDGET='much'" ./beside

# Names: of what is defined only Ferry's can be seen, and all that the shared library exports; nothing is wanted of what is inside.
nm --defined-only --extern-only libferry.a 2>/dev/null | awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u >seen
! grep -vE '^(ferry_|_ZN5ferry|_ZNK5ferry|_ZT[ISV]N5ferry|_ZThn[0-9]+_N5ferry)' seen || fail "the names above are none of Ferry's"
nm --dynamic --defined-only "$build/lib/libferry.so" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | LC_ALL=C sort -u >exported
[[ -s exported ]] || fail "the shared library exports nothing"
diff exported seen || fail "the bundle shows (>) other names than the shared library (<)"
! nm --undefined-only libferry.a | grep -E '3fmt|3tbb|6spdlog|XXH|mempolicy' || fail "the names above are not inside"

# The package that has it in the place of the static library: of what is inside nothing is looked for. Its libraries are
# those that were built.
quietly cmake -S "$source" -B package -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release -DFERRY_BUNDLED=ON \
  -DFERRY_CUDA=OFF -DFERRY_TORCH=OFF -DFERRY_BUILD_{TESTS,BENCH,EXAMPLES,TOOLS,NN}=OFF
mkdir -p package/lib/bundled
cp libferry.a package/lib/bundled
cp -a "$build"/lib/libferry.so* package/lib
quietly cmake --install package --prefix "$here/c" --component c
quietly cmake --install package --prefix "$here/all"
for prefix in c all; do
  cmp libferry.a "$(find "$prefix" -name libferry.a)" || fail "$prefix has another libferry.a"
done
[[ ! -e "$(find c -name '*.hpp' -print -quit)" ]] || fail "component c has headers of C++"
read -ra flags <<<"$(PKG_CONFIG_PATH="$(dirname "$(find "$here/c" -name ferry.pc)")" pkg-config --static --cflags --libs ferry)"
[[ "${flags[*]}" != *fmt* && "${flags[*]}" != *tbb* ]] || fail "ferry.pc asks for what is inside: ${flags[*]}"
# project LANGUAGES SOURCE PREFIX
project() {
  fresh "$here/project"
  cat >"$here/project/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES $1)
set(ferry_USE_STATIC_LIBS ON)
find_package(ferry REQUIRED)
add_executable(trainer $2)
target_link_libraries(trainer PRIVATE ferry::ferry)
TEXT
  quietly cmake -S project -B project/build -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$here/$3" -DCMAKE_DISABLE_FIND_PACKAGE_{TBB,fmt}=ON
  quietly cmake --build project/build
  loads_only_the_system project/build/trainer
}
project C "$example/trainer_ferry.c" c
expect "weights " env FERRY_POLICY=offload FERRY_BUDGET=60% project/build/trainer 1
project CXX "$source/tests/install/consumers/consumer.cpp" all
expect "all is right" project/build/trainer
