#!/usr/bin/env bash
# Every function that ferry.h declares is defined by the library, is called in the C tests, and nothing else of that kind
# is. declared.sh HEADER LIBRARY NM OBJECT...
set -euo pipefail

readonly header="$1" library="$2" nm="$3"
shift 3
readonly symbol='ferry_[a-z_]*'

# Of the prototypes only: comments name functions too.
declared="$(sed -e 's@/\*.*\*/@@' "$header" | grep -oE "^FERRY_API [^(]*\(" | grep -oE "$symbol\($" | tr -d '(' | sort -u)"
case "$library" in
  *.a) defined="$("$nm" --defined-only "$library" 2>/dev/null)" ;;
  *) defined="$("$nm" --dynamic --defined-only "$library" | sed 's/@.*//')" ;;
esac
defined="$(awk '$2 == "T" { print $3 }' <<<"$defined" | grep -xE "$symbol" | sort -u)"
called="$("$nm" --undefined-only "$@" | awk '$1 == "U" { print $2 }' | grep -xE "$symbol" | sort -u)"

failures=0
same() {
  local -r difference="$(comm -3 <(echo "$1") <(echo "$2"))"
  [[ -z "$difference" ]] && return
  printf '%s:\n%s\n' "$3" "$difference"
  failures=1
}
[[ "$(wc -l <<<"$declared")" -gt 50 ]] || { echo "only these were found in $header: $declared" && exit 1; }
same "$declared" "$defined" "declared in ferry.h (left) and defined in the library (right) differ"
same "$declared" "$called" "declared in ferry.h (left) and called by the C tests (right) differ"
((failures == 0)) && echo "$(wc -l <<<"$declared") functions are declared, defined and called"
exit "$failures"
