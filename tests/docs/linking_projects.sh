#!/usr/bin/env bash
# linking_projects.sh SOURCE_FOLDER CMAKE COMPILER: the CMake projects in docs/linking.md that bring Ferry's sources along can be
# configured as they stand there.
set -uo pipefail
source_folder="$(realpath "$1")"
cmake="$2"
compiler="$3"
failures=0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$scratch/fetch" "$scratch/third_party"
ln -s "$source_folder" "$scratch/third_party/ferry"
files=0
while read -r name; do
  sed -n "\\|^<!-- file: $name -->\$|,/^\`\`\`\$/p" "$source_folder/docs/linking.md" | sed '1,2d;$d' >"$scratch/$name"
  files=$((files + 1))
done < <(sed -n 's/^<!-- file: \(.*\) -->$/\1/p' "$source_folder/docs/linking.md")
((files >= 4)) || { echo "docs/linking.md has $files files; where are the others?" && exit 1; }

for project in . fetch; do
  "$cmake" -S "$scratch/$project" -B "$scratch/build/$project" -DCMAKE_CXX_COMPILER="$compiler" -DFERRY_CUDA=OFF >"$scratch/log" 2>&1 || {
    echo "the project with $project/CMakeLists.txt does not configure: $(<"$scratch/log")"
    failures=$((failures + 1))
  }
done
exit "$((failures > 0))"
