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
for column in policy device host time ± recompute waiting tokens/s params/GiB "final loss" gradients identical; do
  expect_out "$column"
done
for policy in unlimited recompute every=2 offload selective auto; do expect_row "$policy"; done
expect_out "45%: "
expect_out " less memory for "
expect_out "; recomputation alone costs "
[[ "$out" != *$'\r'* ]] || complain "expected plain lines where there is no terminal"
expect_json "$scratch/compare.json" budget_bytes keep_all_bytes device_to_host_gbps host_to_device_gbps policies policy fits failure \
  peak_device_bytes peak_pinned_bytes relative_time recompute_share waiting_us_per_step tokens_per_second \
  parameters_per_gib final_loss gradients_identical seconds
[[ "$(grep -c '"gradients_identical": true' "$scratch/compare.json")" == 6 ]] || complain "expected six that ran"
grep -q '"gradients_identical": false' "$scratch/compare.json" && complain "expected no differing gradients"

# What does not fit says what would, and what is recommended works.
grep -q '^keep  *does not fit: the smallest that works is --budget [0-9]*KiB$' <<<"$out" || complain "expected that keep does not fit, and what would"
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
for policy in unlimited keep recompute every=2 offload selective auto; do expect_row "$policy"; done

# Several budgets, one table for each, on the same link; and a picture. Each counts once.
run "${compare[@]}" --budget 60%,70%,60% --steps 8 --svg "$scratch/bars.svg" --json "$scratch/two.json"
expect_code 0
expect_silence
expect_out "the budget is 3.45 MiB (60%)"
expect_out "the budget is 4.03 MiB (70%)"
[[ "$(grep -c '^auto .* yes$' <<<"$out")" == 2 ]] || complain "expected a row of auto for each budget"
[[ "$(grep -c '^link ' <<<"$out")" == 1 ]] || complain "expected one link"
for words in "60%: " "70%: " "Try next: "; do
  [[ "$(grep -c "^$words" <<<"$out")" == 1 ]] || complain "expected one line of $words"
done
expect_json "$scratch/two.json" other_budgets relative_time_error
[[ "$(grep -c '"budget_bytes"' "$scratch/two.json")" == 2 ]] || complain "expected two budgets"
for words in "<svg " "</svg>" "(60% of keeping all)" "(70% of keeping all)" ">auto<" ">selective<" "does not fit"; do
  grep -qF -- "$words" "$scratch/bars.svg" || complain "expected in the picture: $words"
done

# The link drops halfway: three ways to go on, the same gradients.
slow=("${compare[@]}" --slow-link --steps 8)
run FERRY_CHECK_ORDER=on "${slow[@]}" --budget 60% --svg "$scratch/drop.svg" --json "$scratch/drop.json"
expect_code 0
expect_silence
expect_out "from step 5 on"
for row in static "rule alone" auto; do
  grep -q "^$row .*x .*x .*x .* ms " <<<"$out" || complain "expected a row of $row"
done
expect_out "With a third of the link the plan that stays takes "
expect_json "$scratch/drop.json" first_slow_step link_gbps slow_link_gbps rows relative_times recompute_shares waiting_us plans_after
python3 - "$scratch/drop.json" <<'PYTHON' || complain "expected a third of the link, and every step of each"
import json, sys
drop = json.load(open(sys.argv[1]))
assert abs(drop["slow_link_gbps"] / drop["link_gbps"] - 1 / 3) < 1e-9
assert [row["policy"] for row in drop["rows"]] == ["unlimited", "static", "rule alone", "auto"]
assert all(len(row["seconds"]) == 8 for row in drop["rows"])
PYTHON
for words in "<svg " "</svg>" ">static<" ">rule alone<" ">auto<"; do
  grep -qF -- "$words" "$scratch/drop.svg" || complain "expected in the picture: $words"
done

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
for flag in --json --svg; do
  run "${compare[@]}" "$flag" "$scratch/no/such/file"
  expect_failure "create the folder"
  [[ -z "$out" ]] || complain "expected no work before that"
done
run "${compare[@]}" --json same --svg same
expect_refusal "--json and --svg are the same file"
for budget in "20%,lots" "20%," ",20%" "20%,,30%" "20% 30%" "20%,0"; do
  run "${compare[@]}" --budget "$budget"
  expect_refusal "--budget"
done
run "${compare[@]}" --budget 1%,2%,3%,4%,5%,6%,7%,8%,9%
expect_refusal "--budget: 9 budgets are too many; give at most 8"
run train --preset tiny --budget 20%,30%
expect_refusal "--budget='20%,30%': several budgets need --compare"
run train --preset tiny --slow-link
expect_refusal "add --compare"
run train --preset tiny --svg "$scratch/no.svg"
expect_refusal "--svg is a picture of --compare"
run "${slow[@]}" --budget 45%,60%
expect_refusal "--slow-link takes one budget"
run "${slow[@]}" --steps 7
expect_refusal "give --steps=8 or more"
run FERRY_LINK_GBPS=2@0,1@3 "${slow[@]}"
expect_refusal "give FERRY_LINK_GBPS one speed"
run FERRY_LINK_GBPS=0 "${slow[@]}"
expect_refusal "FERRY_LINK_GBPS=0: --slow-link needs a link with a speed"
run FERRY_DEVICE=sim "${slow[@]}"
expect_refusal "--compare needs a device that computes"
run "${slow[@]}" --budget 1MiB
expect_failure "the smallest that works is --budget "
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
start train --compare --slow-link --preset tiny --steps 5000 --budget 70%
sleep 1
signal INT
expect_code 130
expect_out "interrupted"

finish
