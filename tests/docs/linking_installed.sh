#!/usr/bin/env bash
# linking_installed.sh SOURCE_FOLDER PREFIX CMAKE CXX: the programs in docs/linking.md over an installed Ferry, by the project and
# by the commands that stand there.
set -euo pipefail
source_folder="$1"
prefix="$2"
cmake="$3"
cxx="$4"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
for variable in "${!FERRY_@}"; do unset "$variable"; done
readonly page="$source_folder/docs/linking.md"
readonly expected='32 MiB saved, at most [0-9]+ MiB on the device, [0-9]+ MiB ferried'

# block FILE: what stands under <!-- file: FILE -->.
block() {
  mkdir -p "$(dirname "$scratch/$1")"
  sed -n "\\|^<!-- file: $1 -->\$|,/^\`\`\`\$/p" "$page" | sed '1,2d;$d' >"$scratch/$1"
  [[ -s "$scratch/$1" ]] || { echo "docs/linking.md has no file $1" && exit 1; }
}
# run_right PROGRAM: it says what the page says.
run_right() {
  local out
  out="$(LD_LIBRARY_PATH="$libraries" "$1")"
  [[ "$out" =~ ^$expected$ ]] || { echo "$1: expected '$expected', not '$out'" && exit 1; }
}

libraries="$(dirname "$(find "$prefix" -name libferry.so -print -quit)")"
block first.cpp
block installed/CMakeLists.txt
cp "$scratch/first.cpp" "$scratch/installed"
"$cmake" -S "$scratch/installed" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" >"$scratch/log"
"$cmake" --build "$scratch/build" >>"$scratch/log" || { cat "$scratch/log" && exit 1; }
run_right "$scratch/build/first"

if ! command -v pkg-config >/dev/null; then
  echo "without pkg-config: there is none here"
  exit 0
fi
# The page's own lines, with this test's compiler for theirs.
export PKG_CONFIG_PATH="$libraries/pkgconfig"
cd "$scratch"
lines=0
while read -r line; do
  [[ "$line" != cc* || -e "$prefix/include/ferry/ferry.h" ]] || continue
  [[ "$line" != cc* ]] || block first.c
  rm -f first
  bash -c "${line/#g++/$cxx}"
  run_right ./first
  lines=$((lines + 1))
done < <(grep -E '^(g\+\+|cc) .*pkg-config' "$page")
((lines > 0)) || { echo "docs/linking.md has no line for pkg-config" && exit 1; }
