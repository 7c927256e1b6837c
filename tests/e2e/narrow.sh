#!/usr/bin/env bash
# On a narrow terminal tables fold: no row of them is wider. COLUMNS stands for the terminal.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# expect_narrow COLUMNS: what has columns, two spaces or more apart, is no wider; but a setting with its comment, to be pasted.
expect_narrow() {
  local wide
  wide="$(python3 -c '
import re, sys
for line in sys.stdin.buffer.read().decode().splitlines():
    if len(line) > int(sys.argv[1]) and re.search(r"\S  +\S", line) and not line.startswith("export "): print(line)' "$1" <<<"$out")"
  [[ -z "$wide" ]] || complain "expected no row above $1 columns: $wide"
}
command -v python3 >"$scratch/python3" || finish

step=(--gpt 6,1024,8,512,2 --gpu rtx4090)
small=(train --preset tiny --layers 12 --compare --budget 60%)
for columns in 80; do
  export COLUMNS="$columns"
  while read -ra command; do
    run "${command[@]}"
    expect_code 0
    expect_narrow "$columns"
  done <<TEXT
plan ${step[*]} --budget 60% --effort 50
plan ${step[*]} --sweep 3 --effort 50
simulate ${step[*]} --policy offload --budget 80%
tape --layers 4
tape --layers 4 --compare
tape ${step[*]} --compare
bench policies ${step[*]} --budgets 12 --plan-ms 2
bench breakeven ${step[*]}
bench link --device host --largest 1MiB
doctor --model gpt --layers 32 --width 4096 --heads 32 --context 4096 --batch 4 --gpu rtx4090
${small[*]} --steps 4
${small[*]} --steps 8 --slow-link
TEXT
done

# Every column is there, in one block or another.
export COLUMNS=80
run "${small[@]}" --steps 4
for word in policy device host time ± recompute waiting tokens/s params/GiB "final loss" gradients; do
  expect_out "$word"
done
(($(grep -c '^auto ' <<<"$out") == 2)) || complain "expected two blocks"
export COLUMNS=0
run "${small[@]}" --steps 4
(($(grep -c '^auto ' <<<"$out") == 1)) || complain "expected one block where the width is not known"

finish
