#!/usr/bin/env bash
# ferry.h compiles alone, and twice, as C and as C++ of several years, without a warning. header.sh INCLUDE COMPILER...
set -euo pipefail

readonly include="$1"
shift
readonly c_warnings=(-Wstrict-prototypes -Wmissing-prototypes -Wc++-compat)
readonly cxx_warnings=(-Wold-style-cast -Wzero-as-null-pointer-constant)
text=$'#include "ferry/ferry.h"\n#include "ferry/ferry.h"\n'

for compiler in "$@"; do
  [[ -n "$compiler" ]] || continue
  for language in c99 c11 c17 c++11 c++20; do
    case "$language" in
      c++*) options=(-x c++ "${cxx_warnings[@]}") ;;
      *) options=(-x c "${c_warnings[@]}") ;;
    esac
    "$compiler" "${options[@]}" "-std=$language" -Wall -Wextra -Wpedantic -Wconversion -Werror \
      -I "$include" -fsyntax-only - <<<"$text"
    echo "$compiler: $language"
  done
done
