#!/usr/bin/env bash
# `ferry tape`: the hand trace, its comparison, its files, and wrong input.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

examples="$3/examples"
cd "$scratch" || exit 1
cp "$examples"/profiles/*.json "$examples"/hardware/*.json .

# expect_svg FILE: a picture, whole.
expect_svg() {
  if command -v python3 >"$scratch/python3"; then
    python3 -c 'import sys, xml.etree.ElementTree as tree
sys.exit(tree.parse(sys.argv[1]).getroot().tag != "{http://www.w3.org/2000/svg}svg")' "$1" || complain "expected SVG: $1"
  fi
  grep -q '</svg>' "$1" || complain "expected the end of a picture: $1"
}

# Full, every second and every layer, side by side.
run tape --layers 4 --compare --svg compare.svg --json compare.json
expect_code 0
expect_silence
expect_out "               keep                          every=2                       recompute"
expect_out "F4             DD DD DD DD   12.00   12.00   D. .. D. ..    5.00    2.00   D. D. D. D.    6.00    4.00"
expect_out "B4             DD DD DD DD   12.00    9.00   D. .. DR RR    7.00    4.00   D. D. D. DR    6.00    3.00"
expect_out "peak                         12.00                          7.00                          6.00"
expect_out "more forward                    0%                           86%                           57%"
expect_out $'\n64                192.00   +0%     37.00  +76%     31.00  +94%     66.00  +50%'
expect_svg compare.svg
expect_json compare.json net items tapes policy steps places growth peak_bytes average_bytes recomputed
for policy in keep every=2 recompute; do
  grep -q ">$policy</text>" compare.svg || complain "expected a panel of $policy"
done
cp "$scratch/out" first
run tape --compare
expect_same first "$scratch/out"

# keep is what is shown unless something else is asked for.
run tape
expect_code 0
expect_out "policy keep, budget 24.0 MiB"
expect_out "device      peak 12.0 MiB in F4, average 7.43 MiB"
run FERRY_POLICY=recompute tape
expect_out "policy recompute"
run FERRY_POLICY=recompute tape --policy offload
expect_out "policy offload"

# Every policy, plans included.
for policy in keep recompute offload selective every=3 sqrt auto; do
  run tape --layers 6 --policy "$policy" --budget 100% --svg "$policy.svg" --json "$policy.json"
  expect_code 0
  expect_silence
  expect_out "policy $policy, budget 18.0 MiB"
  expect_out $'\nB1 '
  expect_svg "$policy.svg"
  expect_json "$policy.json" step places bytes
done
run tape --layers 6 --policy auto
expect_out "the budget holds everything, so auto keeps it; give --budget 50%"
run tape --layers 6 --policy auto --budget 50%
expect_code 0
[[ "$out" != *"holds everything"* ]] || complain "expected no note"
run plan --profile chain_of_eight.json --gpu a100-80 --budget 50% -o eight.plan
expect_code 0
run tape --profile chain_of_eight.json --policy plan=eight.plan
expect_code 0
expect_out "policy plan=eight.plan, budget 256 MiB"
expect_out $'\nB0 '

# Other sizes and times; a profile; a model; hardware.
run tape --layers 2 --bytes 256 --forward-us 10 --backward-us 30
expect_out "2 layers, each with its input x of 256 B and its inside h of 256 B"
expect_out "step        75.0 us"
run tape --layers 4 --bytes 1MiB,2MiB --policy offload --link 0.1
expect_code 0
run tape --profile gpt_7b_a100.json --policy recompute --svg wide.svg
expect_code 0
expect_out "258 are too many to name; --json has each of them"
expect_out "left out"
expect_svg wide.svg
run tape --gpt 12,768,12,1024,8 --gpu rtx4090 --policy auto --budget 30% --json - --svg gpt.svg
expect_code 0
[[ "$out" == "{"*"}" ]] || complain "expected JSON and nothing else"
expect_svg gpt.svg
run tape --layers 3 --hardware a100-80.json --svg -
expect_code 0
[[ "$out" == "<svg"*"</svg>" ]] || complain "expected the picture and nothing else"
run tape --layers 200 --policy sqrt
expect_code 0

# Wrong input.
for layers in 0 201 -1 4.5 four 99999999999999999999; do
  run tape --layers "$layers"
  expect_refusal "--layers"
done
for bytes in 0 x "1MiB," ,1MiB 1MiB,2MiB,3MiB 2TiB; do
  run tape --bytes "$bytes"
  expect_refusal "--bytes='$bytes': give the bytes of x, or of x and h"
done
run tape --forward-us 0
expect_refusal "--forward-us"
run tape --link nan
expect_refusal "--link"
run tape --compare --policy keep
expect_refusal "--compare shows policies of its own"
run tape --layers 4 --profile chain_of_eight.json
expect_refusal "leave them out with --profile or --gpt"
run tape --link 1 --gpu a100-80
expect_refusal "--link is a plain net's"
run tape --profile chain_of_eight.json --gpt 4,256,4,128,8
expect_refusal "give --profile FILE or --gpt SIZES, one of them"
run tape --gpu a100-80 --hardware a100-80.json
expect_refusal "give --gpu NAME or --hardware FILE, one of them"
run tape --gpu none
expect_refusal "there is no hardware 'none'"
run tape --policy kepe
expect_refusal "--policy='kepe'"
run tape --budget 0
expect_refusal "--budget"
run tape --svg same --json same
expect_refusal "--svg and --json are the same file"
run tape --gpt 600,64,2,32,2
expect_refusal "items, and a tape shows at most 4000"
run tape --svg ""
expect_refusal "--svg"

run tape --profile none.json
expect_failure "none.json"
head -c 200 chain_of_eight.json >short.json
run tape --profile short.json
expect_failure "short.json"
run tape --policy plan=none.plan
expect_failure "none.plan"
run tape --layers 4 --policy plan=eight.plan
expect_failure "eight.plan"
for policy in keep recompute every=2; do
  for net in "--layers 6" "--gpt 4,256,4,128,8"; do
    read -ra of <<<"$net"
    run tape "${of[@]}" --policy "$policy" --budget 5%
    expect_no_plan "out of device memory: a step with --policy $policy does not fit the budget of "
    budget="$(sed -n 's/.*; the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
    run tape "${of[@]}" --policy "$policy" --budget "${budget:-none}"
    expect_code 0
  done
done
run FERRY_PLAN_EFFORT=100 tape --gpt 4,256,4,128,8 --policy auto --budget 5%
expect_no_plan "with --policy auto does not fit"
budget="$(sed -n 's/.*; the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
run FERRY_PLAN_EFFORT=100 tape --gpt 4,256,4,128,8 --policy auto --budget "${budget:-none}"
expect_code 0
run tape --svg no/such/tape.svg
expect_failure "'no/such/tape.svg': cannot be saved"
run tape --json no/such/tape.json
expect_failure "'no/such/tape.json': cannot be saved"
[[ ! -e same ]] || complain "expected no file of a refused run"

finish
