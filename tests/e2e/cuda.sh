#!/usr/bin/env bash
# The command on the CUDA device, over an emulated runtime with two GPUs: it trains to the losses of the host device.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
export XDG_CACHE_HOME="$scratch/cache"

tiny=(train --layers 2 --width 16 --heads 2 --context 8 --batch 2 --steps 3)
losses() { grep -o '"loss": *[0-9.]*' "$1" | sed 's/.*: *//'; }

run "${tiny[@]}" --device host --json "$scratch/host.json"
expect_code 0
for policy in keep offload recompute auto; do
  run "${tiny[@]}" --device cuda --policy "$policy" --json "$scratch/$policy.json"
  expect_code 0
  expect_silence
  [[ "$(losses "$scratch/$policy.json")" == "$(losses "$scratch/host.json")" ]] ||
    complain "expected the host device's losses: $(losses "$scratch/host.json" | tr '\n' ' ')"
done
ls "$scratch"/cache/ferry/link-*.json >/dev/null 2>&1 || complain "expected the link's speed in the cache folder"

run "${tiny[@]}" --device cuda:1 --policy offload
expect_code 0
run FERRY_DEVICE=cuda "${tiny[@]}" --compare
expect_code 0
expect_out "yes"
run FERRY_DEVICE=cuda "${tiny[@]}" --steps 8 --compare --slow-link
expect_refusal "--slow-link: the link of cuda is what it is; give --device host"

run "${tiny[@]}" --device cuda:2
expect_refusal "cuda:2: this machine has 2 GPUs, counted from cuda:0"

run devices
expect_code 0
expect_out "cuda"

finish
