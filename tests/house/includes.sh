#!/usr/bin/env bash
# includes.sh SOURCE: #include lines point downwards. A folder of lib/ includes itself, those below it and the public headers
# of what is below it; tools/ include public headers, and of lib/ only what says that it is shared with them.
set -euo pipefail
cd "$1"

# Lowest first; of one row, none includes another. docs/architecture.md shows the same.
readonly rows=(
  "support"
  "device"
  "store"
  "decide plan"
  "observe follow"
  "path"
  "simulate segments"
  "nn capi torch"
)
# Public headers that belong to a folder: those below it may not include them. All others are words that everybody uses.
declare -A folder_of=([session]=path [simulate]=simulate [segments]=segments [torch]=torch [ferry]=capi)
readonly -A folder_of

declare -A height
for ((i = 0; i < ${#rows[@]}; ++i)); do
  for folder in ${rows[i]}; do height[$folder]=$i; done
done

failures=0
complain() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}

# includes FOLDER...: lines FILE:INCLUDED
includes() {
  find "$@" -name '*.[ch]pp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | sort |
    xargs grep -HE '^#include "' | sed -E 's/:#include "([^"]+)".*/:\1/'
}

for folder in lib/*/; do
  folder="$(basename "$folder")"
  [[ -v height[$folder] ]] || complain "lib/$folder is in no row of tests/house/includes.sh"
done
while IFS=: read -r file included; do
  from="$(cut -d/ -f2 <<<"$file")"
  to="${included%%/*}"
  if [[ "$to" == ferry ]]; then
    name="$(basename "${included%.h*}")"
    [[ "$included" != ferry/nn/* ]] || name=nn
    to="${folder_of[$name]-}"
    [[ "$name" != nn ]] || to=nn
    [[ -n "$to" ]] || continue
  fi
  [[ "$to" != embedded && "$to" != "$from" ]] || continue
  if [[ ! -v height[$to] ]]; then
    complain "$file includes \"$included\", which is in no folder of lib/"
  elif ((height[$to] >= height[$from])); then
    complain "$file includes \"$included\", which points upwards"
  fi
done < <(includes lib)

while IFS=: read -r file included; do
  [[ "$included" != ferry/* && -f "lib/$included" ]] || continue
  grep -q '^// Shared with tools/' "lib/$included" ||
    complain "$file includes \"$included\", which does not say that it is shared with tools/"
done < <(includes tools)

# What a trainer includes brings in neither planner nor simulator, and C no header of C++.
reached=(ferry/ferry.hpp)
for ((i = 0; i < ${#reached[@]}; ++i)); do
  while IFS=: read -r _ included; do
    [[ " ${reached[*]} " == *" $included "* ]] || reached+=("$included")
  done < <(grep -HE '^#include "ferry/' "include/${reached[i]}" | sed -E 's/:#include "([^"]+)".*/:\1/')
done
for header in plan model_profile simulate torch; do
  [[ " ${reached[*]} " != *" ferry/$header.hpp "* ]] || complain "ferry/ferry.hpp brings in ferry/$header.hpp"
done
! grep -HE '^#include.*\.hpp' include/ferry/*.h || complain "the header of C above includes a header of C++"

((failures == 0)) || exit 1
echo "all includes point downwards"
