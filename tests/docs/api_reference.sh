#!/usr/bin/env bash
# api_reference.sh SOURCE_FOLDER: Doxygen makes the reference without a word, every type in it has a comment, and a wrong
# comment would be noticed.
set -uo pipefail
cd "$1" || exit 1
failures=0
if ! command -v doxygen >/dev/null; then
  echo "skipped: there is no doxygen; scripts/setup --tests installs it"
  exit 77
fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

complain() {
  printf '%s\n' "$1"
  failures=$((failures + 1))
}
# reference NAME SETTING...: into a folder of that name; what Doxygen says is in NAME.log.
reference() {
  local name="$1"
  mkdir -p "$scratch/$name"
  { cat docs/Doxyfile && printf '%s\n' "OUTPUT_DIRECTORY = $scratch/$name" "${@:2}"; } | doxygen - >"$scratch/$name.log" 2>&1
}

reference whole || complain "Doxygen fails"
[[ ! -s "$scratch/whole.log" ]] || complain "Doxygen has to say: $(<"$scratch/whole.log")"
for page in classferry_1_1session structferry_1_1config classferry_1_1host__device session_8hpp index; do
  [[ -s "$scratch/whole/html/$page.html" ]] || complain "there is no page $page"
done
grep -q "what a trainer calls between forward and backward" "$scratch/whole/html/session_8hpp.html" ||
  complain "what a header opens with is not on its page"

# A member may speak for itself, a type may not.
reference strict "EXTRACT_ALL = NO" "WARN_AS_ERROR = NO" || complain "Doxygen fails without EXTRACT_ALL"
if grep 'Compound .* is not documented' "$scratch/strict.log" >"$scratch/bare"; then
  complain "types without a comment: $(<"$scratch/bare")"
fi

printf '%s\n' '// A header.' '#pragma once' '' '/// Doubles.' '/// @param wrong  there is no such parameter' 'int doubled(int x);' >"$scratch/wrong.hpp"
reference wrong "INPUT = $scratch/wrong.hpp" && complain "a comment on a parameter that does not exist goes unnoticed"
grep -q "wrong.hpp:[456]: .*wrong" "$scratch/wrong.log" || complain "expected the place of the mistake: $(<"$scratch/wrong.log")"

exit "$((failures > 0))"
