#!/usr/bin/env bash
# links.sh SOURCE_FOLDER: links between the pages, and from them to files, lead somewhere; so do those to headings.
set -uo pipefail
cd "$1" || exit 1
failures=0

# text FILE: without blocks of code, in which brackets are no links.
text() { awk '/^ *```/ { code = !code; next } !code' "$1"; }
# headings FILE: as a link names them.
headings() {
  text "$1" | sed -n 's/^##* *//p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

links=0
for page in *.md docs/*.md docs/decisions/*.md; do
  while read -r link; do
    links=$((links + 1))
    file="${link%%#*}"
    target="$(dirname "$page")/$file"
    [[ -n "$file" ]] || target="$page"
    if [[ ! -e "$target" ]]; then
      echo "$page: there is no $link"
      failures=$((failures + 1))
    elif [[ "$link" == *#* ]] && ! headings "$target" | grep -qxF -- "${link#*#}"; then
      echo "$page: $target has no heading for #${link#*#}"
      failures=$((failures + 1))
    fi
  done < <(text "$page" | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | grep -vE '^[a-z]+:')
done
((links > 20)) || { echo "only $links links were found" && exit 1; }
exit "$((failures > 0))"
