#!/usr/bin/env bash
# The README's first page is short, its pictures are whole, and scripts/demo runs what it shows. docs.commands runs its commands.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

readme="$3/README.md"
ferry="$(realpath "$ferry")"
cd "$scratch" || exit 1

# What scripts/demo runs once it has built, as it stands there, on a small net.
mapfile -t screens < <(sed -n 's/.*shown=(\(.*\))$/\1/p' "$3/scripts/demo")
((${#screens[@]} == 2)) || complain "expected two screens in scripts/demo"
for index in "${!screens[@]}"; do
  read -ra words <<<"${screens[index]//\"/}"
  ((index == 0)) || words+=(--slow-link)
  run FERRY_DEVICE=host train --compare --preset deep "${words[@]}" --width 32 --heads 2 --context 32 --batch 1 --steps 8
  expect_code 0
  expect_silence
  expect_out "GPT of 16 layers"
done
for picture in demo slow_link; do
  grep -qF "(docs/$picture.svg)" "$readme" || complain "expected the picture docs/$picture.svg"
  [[ "$(tail -n 1 "$3/docs/$picture.svg")" == "</svg>" ]] || complain "expected a whole picture: docs/$picture.svg"
done

# A newcomer's first page.
ran="README.md" code="" out="" err=""
(($(wc -l <"$readme") < 200)) || complain "expected fewer than 200 lines: more belongs into docs/"

finish
