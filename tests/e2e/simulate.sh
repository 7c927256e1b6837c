#!/usr/bin/env bash
# `ferry simulate`: what a plan predicts is what the session then does; traces, policies, slow links and wrong input.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

examples="$3/examples"
cd "$scratch" || exit 1
cp "$examples"/profiles/*.json "$examples"/hardware/*.json .

# ratio FILE
ratio() { sed -n 's/^ *"ratio": \([0-9.e+-]*\),$/\1/p' "$1"; }

# A plan that takes the link as it is: within 1% of its prediction.
for input in "gpt_7b_a100 a100-80 20%" "gpt_1.3b_rtx4090 rtx4090 35%" "resnet101_rtx4090 rtx4090 25%"; do
  read -r profile gpu budget <<<"$input"
  run plan --profile "$profile.json" --gpu "$gpu" --budget "$budget" --derate 1 --no-insure --effort 2000 -o "$profile.plan"
  expect_code 0
  run simulate --profile "$profile.json" --gpu "$gpu" --plan "$profile.plan" --json simulated.json --trace trace.json
  expect_code 0
  expect_silence
  for words in "the last of 4" "predicted by the plan, simulated " $'\nwaiting ' $'\nrecompute ' $'\nlink ' $'\ndevice ' \
    $'\npinned ' "over all steps:" offloaded_by_policy "compute |FFF" "out     |" "in      |"; do
    expect_out "$words"
  done
  expect_json simulated.json step_us steps_us waiting_us rebuilds recompute_us offloaded_bytes fetched_bytes predicted_us ratio \
    session reasons
  awk -v ratio="$(ratio simulated.json)" 'BEGIN { exit !(ratio > 0.99 && ratio < 1.01) }' ||
    complain "expected the prediction within 1%"
  expect_json trace.json traceEvents ph ts dur tid
  for lane in compute out in; do grep -q "\"args\":{\"name\":\"$lane\"}" trace.json || complain "expected the lane $lane"; done
done
plan=(simulate --profile gpt_7b_a100.json --gpu a100-80 --plan gpt_7b_a100.plan)
expect_peak() {
  awk -v json="$1" 'BEGIN { RS = "\0" } match($0, /"device": \{[^}]*\}/) {
    text = substr($0, RSTART, RLENGTH)
    match(text, /"limit_bytes": [0-9]+/); limit = substr(text, RSTART + 15, RLENGTH - 15) + 0
    match(text, /"peak_bytes": [0-9]+/); peak = substr(text, RSTART + 14, RLENGTH - 14) + 0
    exit !(limit > 0 && peak > 0 && peak <= limit) }' "$1" || complain "expected a peak within the budget"
}
expect_peak simulated.json

# The same call gives the same numbers; a slow link costs time, a fast one none.
run "${plan[@]}" --json one.json
expect_code 0
run "${plan[@]}" --json two.json
expect_same one.json two.json
run "${plan[@]}" --slow link=3 --json slow.json
expect_code 0
expect_peak slow.json
awk -v ratio="$(ratio slow.json)" 'BEGIN { exit !(ratio > 1.02) }' || complain "expected a slow link to cost time"
run "${plan[@]}" --slow d2h=0.5 --slow h2d=0.5 --json fast.json
expect_code 0
awk -v ratio="$(ratio fast.json)" 'BEGIN { exit !(ratio < 1.01) }' || complain "expected a fast link to cost nothing"

# Policies.
for policy in keep recompute offload selective every=4 sqrt auto; do
  run simulate --gpt 4,256,4,128,8 --gpu laptop --policy "$policy" --budget 1GiB --steps 3 --json "$policy.json"
  expect_code 0
  expect_silence
  expect_out "policy $policy"
done
run simulate --profile gpt_7b_a100.json --hardware a100-80.json --policy offload --budget 25% --host-budget 50% --steps 2
expect_code 0
expect_out "of 8.04 GiB"
for policy in keep recompute; do
  run simulate --profile gpt_7b_a100.json --gpu a100-80 --policy "$policy" --budget 20
  expect_no_plan "out of device memory: a step with --policy $policy does not fit the budget of 20 B"
  budget="$(sed -n 's/.*; the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
  run simulate --profile gpt_7b_a100.json --gpu a100-80 --policy "$policy" --budget "${budget:-none}"
  expect_code 0
done
run simulate --gpt 32,4096,32,2048,4 --gpu t4 --policy keep
expect_failure "out of device memory"
run simulate --gpt 4,256,4,128,8 --gpu laptop --policy keep --budget 1GiB --trace -
expect_code 0
[[ "$out" == "{"*"}" ]] || complain "expected the trace and nothing else"

# Another step than the plan's is refused, with the difference; so is a broken plan.
run simulate --profile gpt_1.3b_rtx4090.json --gpu rtx4090 --plan gpt_7b_a100.plan
expect_failure "gpt_7b_a100.plan"
expect_err_has "segment"
sed 's/"bytes": 268435456/"bytes": 268435457/' gpt_7b_a100.json >other.json
run simulate --profile other.json --gpu a100-80 --plan gpt_7b_a100.plan
expect_failure "268435457"
head -c 5000 gpt_7b_a100.plan >short.plan
run simulate --profile gpt_7b_a100.json --gpu a100-80 --plan short.plan
expect_failure "short.plan"
run simulate --profile gpt_7b_a100.json --gpu a100-80 --plan none.plan
expect_failure "none.plan"
run simulate --profile gpt_7b_a100.json --gpu a100-80 --plan gpt_7b_a100.json
expect_failure "gpt_7b_a100.json"

# Flags.
for slow in d2h d2h=0 d2h=-1 d2h=x disk=2 =2 d2h=1e9; do
  run "${plan[@]}" --slow "$slow"
  expect_refusal "--slow='$slow': give d2h, h2d, link (both) or compute"
done
run simulate --profile gpt_7b_a100.json --gpu a100-80
expect_refusal "give --plan FILE or --policy NAME"
run "${plan[@]}" --policy keep
expect_refusal "give --plan FILE or --policy NAME, one of them"
run simulate --profile gpt_7b_a100.json --gpu a100-80 --policy kepe
expect_refusal "--policy='kepe'"
run simulate --profile gpt_7b_a100.json --gpu none --policy keep
expect_refusal "there is no hardware 'none'"
run "${plan[@]}" --steps 0
expect_refusal "--steps"
run "${plan[@]}" --trace no/such/trace.json
expect_failure "'no/such/trace.json': cannot be saved"

finish
