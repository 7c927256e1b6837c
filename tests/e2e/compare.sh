#!/usr/bin/env bash
# `ferry train --compare`: the table, its JSON, and the exit codes.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

compare=(train --compare --preset tiny --steps 3)

# expect_row POLICY: it ran, and gave the reference's gradients.
expect_row() { grep -Eq "^$1 .* yes$" <<<"$out" || complain "expected a row of $1 with identical gradients"; }

run FERRY_CHECK_ORDER=on "${compare[@]}" --budget 45% --json "$scratch/compare.json"
expect_code 0
expect_silence
expect_out "the budget is 2.59 MiB (45%)"
expect_out "as a 7B-class block's on an A100 with PCIe 4"
for column in policy device host time recompute waiting tokens/s params/GiB "final loss" gradients identical; do
  expect_out "$column"
done
for policy in unlimited recompute offload auto; do expect_row "$policy"; done
[[ "$out" != *$'\r'* ]] || complain "expected plain lines where there is no terminal"
expect_json "$scratch/compare.json" budget_bytes keep_all_bytes device_to_host_gbps host_to_device_gbps policies policy fits failure \
  peak_device_bytes peak_pinned_bytes relative_time recompute_share waiting_us_per_step tokens_per_second \
  parameters_per_gib final_loss gradients_identical seconds
[[ "$(grep -c '"gradients_identical": true' "$scratch/compare.json")" == 4 ]] || complain "expected four that ran"
grep -q '"gradients_identical": false' "$scratch/compare.json" && complain "expected no differing gradients"

# What does not fit says what would, and what is recommended works.
grep -q '^keep  *out of device memory: .* does not fit the budget of 2.59 MiB; the smallest that works is --budget ' \
  <<<"$out" || complain "expected that keep does not fit, and what would"
enough="$(sed -n 's/^keep .*works is --budget \([0-9]*KiB\)$/\1/p' <<<"$out")"
read -ra advice <<<"$(sed -n 's/^Try next: \(.*\) in place of --compare$/\1/p' <<<"$out")"
run "${compare[@]}" --budget "${enough:-none}"
expect_code 0
expect_row keep
run train --preset tiny --steps 3 --sample 0 "${advice[@]:-no advice}"
expect_code 0

# A budget for everything: keep fits, as it should. More than one micro-batch, and a link that is given.
run FERRY_LINK_GBPS=2,1 "${compare[@]}" --budget 100% --accumulate 2 --attention explicit --vocab 300
expect_code 0
expect_silence
expect_out "link 2 GB/s out, 1 GB/s back"
for policy in unlimited keep recompute offload auto; do expect_row "$policy"; done

# The last of a flag counts: scripts/demo has its own first.
run "${compare[@]}" --budget 1KiB --budget 45% --steps 2
expect_code 0
expect_out "(45%)"

# A fifth of everything, if nothing else is said; the flag goes before the variable.
run "${compare[@]}" --layers 8
expect_code 0
expect_out "(20%)"
run FERRY_BUDGET=1KiB "${compare[@]}" --budget 45%
expect_code 0
run FERRY_BUDGET=45% "${compare[@]}"
expect_code 0
expect_out "(45%)"

# Too small a budget: the smallest that works does.
run "${compare[@]}" --budget 1MiB
expect_failure "recompute, offload, auto did not fit the budget of 1.00 MiB"
enough="$(sed -n 's/.*the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
run "${compare[@]}" --budget "${enough:-none}"
expect_code 0

# What would have no effect is said.
run FERRY_POLICY=keep "${compare[@]}" --budget 45%
expect_code 0
expect_err "ferry: FERRY_POLICY has no effect here: --compare tries every policy"
run "${compare[@]}" --policy keep
expect_refusal "leave out --policy"
for flag in --save --save-grads --init; do
  run "${compare[@]}" "$flag" file
  expect_refusal "leave out $([[ "$flag" == --init ]] && echo --init || echo "--save and --save-grads")"
done
run FERRY_DEVICE=sim "${compare[@]}"
expect_refusal "FERRY_DEVICE=sim: --compare needs a device that computes"
run "${compare[@]}" --device cuda:1023 # no machine has so many
expect_refusal ""
run "${compare[@]}" --budget lots
expect_refusal "--budget='lots'"
run "${compare[@]}" --json "$scratch/no/such/file.json"
expect_failure "create the folder"
run "${compare[@]}" --budget 45% --lr 1e6 --warmup 0
expect_failure "the loss is not a number any more"

# Ctrl-C.
for name in INT TERM; do
  start train --compare --preset tiny --steps 5000 --budget 70% --json "$scratch/interrupted.json"
  sleep 1
  signal "$name"
  expect_code 130
  expect_silence
  expect_out "interrupted"
done

finish
