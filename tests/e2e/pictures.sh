#!/usr/bin/env bash
# Every picture, those of docs/ included, looks right outside of browsers: librsvg draws it, and its pixels are looked at, on
# light ground and with the style sheet for dark ground.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
for tool in rsvg-convert python3; do
  command -v "$tool" >"$scratch/tool" || { echo "skipped: there is no $tool; scripts/setup --tests installs it" && exit 77; }
done
source_folder="$(realpath "$3")"
ferry="$(realpath "$ferry")"
cd "$scratch" || exit 1

# expect_pixels NAME COLOUR...: of NAME.svg.
expect_pixels() {
  local problem
  ran="$1.svg"
  rsvg-convert "$1.svg" -o "$1.png" || complain "expected that it can be drawn"
  problem="$(python3 "$source_folder/tests/e2e/pixels.py" "$1.png" "${@:2}" 2>&1)" || complain "$problem"
}
# expect_picture FILE LIGHT... -- DARK...: the colours in it, after those of the ground.
expect_picture() {
  local light=("#ffffff")
  cp "$1" light.svg
  while [[ "$2" != -- ]]; do
    light+=("$2")
    set -- "$1" "${@:3}"
  done
  ran="$1"
  if grep -q 'var(\|`' "$1"; then complain "expected literal colours, and no backticks"; fi
  expect_pixels light "${light[@]}"
  # As a browser on dark ground reads it: librsvg knows no media.
  sed '/^@media (prefers-color-scheme: dark) {$/d; s|^}</style>$|</style>|' light.svg >dark.svg
  expect_pixels dark "#16181c" "${@:3}"
  rm -f ./{light,dark}.{svg,png}
}

tape=("#4f7cac" "#e8963c" -- "#6fa0d6" "#c9772b")
step=("#9db8d9" "#b7cfae" "#e8963c" "#7d9cc6" "#8fb37f" -- "#4d6f99" "#5c7f50" "#c9772b" "#5a7fb5" "#6b9a58")
# By their names: auto, keep, recompute.
curves=("#d62728" "#1f77b4" "#2ca02c" -- "#ff6b6b" "#5aa9e6" "#5fcf6a")
# Of heads, wherever it stands.
even=("#2ca02c" -- "#5fcf6a")
# auto, recompute, offload, unlimited memory.
bars=("#d62728" "#2ca02c" "#8c564b" "#c9c9c9" -- "#ff6b6b" "#5fcf6a" "#b98a7f" "#55585e")
drop=("#d62728" "#f6f6f6" -- "#ff6b6b" "#1f2227")

expect_picture "$source_folder/docs/tape.svg" "${tape[@]}"
expect_picture "$source_folder/docs/runtime_trace.svg" "${step[@]}"
expect_picture "$source_folder/docs/pareto.svg" "${curves[@]}"
expect_picture "$source_folder/docs/tuning_pareto.svg" "${curves[@]}"
expect_picture "$source_folder/docs/tuning_even.svg" "${even[@]}"
expect_picture "$source_folder/docs/demo.svg" "${bars[@]}"
expect_picture "$source_folder/docs/slow_link.svg" "${drop[@]}"
(($(find "$source_folder/docs" -name '*.svg' | wc -l) == 7)) || complain "expected each picture of docs/ in this test"

run tape --layers 4 --compare --svg tape.svg
expect_code 0
expect_picture tape.svg "${tape[@]}"
run bench policies --gpt 6,1024,8,512,2 --gpu rtx4090 --budgets 3 --plan-ms 20 --svg curves.svg
expect_code 0
expect_picture curves.svg "${curves[@]}"
run bench breakeven --gpt 6,1024,8,512,2 --gpu rtx4090 --svg even.svg
expect_code 0
expect_picture even.svg "${even[@]}"
run FERRY_TRACE=trace.json FERRY_ADAPT=off FERRY_LINK_GBPS=12@0,4@6 simulate --profile "$source_folder/examples/profiles/chain_of_eight.json" --gpu rtx4090 \
  --policy auto --budget 40% --steps 7
expect_code 0
run report trace.json --svg step.svg
expect_code 0
expect_picture step.svg "${step[@]}"
small=(--preset tiny --layers 8 --budget 50% --steps 8)
run FERRY_DEVICE=host train --compare "${small[@]}" --svg bars.svg
expect_code 0
expect_picture bars.svg "${bars[@]}"
run FERRY_DEVICE=host train --compare --slow-link "${small[@]}" --svg drop.svg
expect_code 0
expect_picture drop.svg "${drop[@]}"

# That this would notice: what a browser alone can draw is black.
sed 's/fill="#[0-9a-f]*"/fill="var(--keep)"/g' tape.svg >light.svg
rsvg-convert light.svg -o light.png
! python3 "$source_folder/tests/e2e/pixels.py" light.png "#ffffff" "#4f7cac" 2>light.log || complain "expected a black picture to be noticed"

finish
