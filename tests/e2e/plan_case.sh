#!/usr/bin/env bash
# `ferry plan --case`: chains of the planner's test cases, as good as the best that is known; infeasible ones say so.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

cases="$3/tests/data/planner-cases"
cd "$scratch" || exit 1

# number KEY FILE: the first of that name.
number() { sed -n "s/^ *\"$1\": *\([0-9.e+-]*\),\{0,1\}$/\1/p" "$2" | head -n 1; }

for name in a00_rand_L4 a08_rand_L7 a12_rand_L6_asym a14_rand_L6_host b04_gpt_h2048_L24_m15 c00_quad_s1024_L6 d01_swin_L24_m30 \
  e00_resnet_tiny_L6 f02_rand_L40 z02_fits z04_no_link z06_infinite_link; do
  # By moves: what the clock leaves time for is another plan on a busy machine.
  run plan --case "$cases/$name.json" --effort 20000 --json out.json --schedule
  expect_code 0
  expect_silence
  expect_out "makespan "
  expect_json out.json name feasible makespan first_makespan lower_bound ideal overhead solve_ms first_ms floor_bytes schedule
  best="$(number best_combined_makespan "$cases/$name.json")"
  awk -v made="$(number makespan out.json)" -v best="$best" -v bound="$(number lower_bound out.json)" \
    -v first="$(number first_makespan out.json)" \
    'BEGIN { exit !(best > 0 && made > 0 && made <= 1.01 * best && bound <= made * (1 + 1e-9) && made <= first * (1 + 1e-9)) }' ||
    complain "expected at most 1.01 of the best known, $best, and a bound below: $(head -n 8 out.json)"
  # The rows end with the backward of stage 0, when the makespan is over.
  awk -v made="$(number makespan out.json)" -F '[][, ]+' \
    '$4 == "\"B\"" && $5 == 0 { end = $3 } END { exit !(end > made * (1 - 1e-9) && end < made * (1 + 1e-9)) }' out.json ||
    complain "expected the schedule to end with the makespan"
done

run plan --case "$cases/b04_gpt_h2048_L24_m15.json" --first --json first.json
expect_code 0
run plan --case "$cases/b04_gpt_h2048_L24_m15.json" --time-limit-ms 60 --json - --schedule
expect_code 0
[[ "$out" == "{"*'"schedule": ['*"}" ]] || complain "expected JSON and nothing else"
run plan --case "$cases/a00_rand_L4.json"
expect_code 0
expect_out "a00_rand_L4: 4 stages"
expect_out "overhead"
expect_out "bound "

# Infeasible: said in both, and with the bytes that it takes.
run plan --case "$cases/z00_infeasible.json" --json out.json --schedule
expect_code 3
expect_err "ferry: no schedule of 'z00_infeasible' fits its gpu_mem_bytes of 23999999: at least 24000000 are needed, because of stage 3's backward"
[[ -z "$out" ]] || complain "expected nothing on stdout"
expect_json out.json floor_bytes
grep -q '"feasible": false' out.json || complain "expected feasible: false"
grep -q '"makespan": null' out.json || complain "expected no makespan"
grep -q '"floor_bytes": 24000000' out.json || complain "expected floor_bytes"
sed 's/"gpu_mem_bytes": *23999999\(\.0\)*/"gpu_mem_bytes": 24000000/' "$cases/z00_infeasible.json" >enough.json
run plan --case enough.json
expect_code 0

# Wrong input.
run plan --case none.json
expect_failure "none.json"
head -c 300 "$cases/a00_rand_L4.json" >short.json
run plan --case short.json --json never.json
expect_failure "short.json"
[[ ! -e never.json ]] || complain "expected no file"
echo '{"L": 2, "fwd_s": [1, 1]}' >less.json
run plan --case less.json
expect_failure "less.json"
run plan --case "$cases/a00_rand_L4.json" --json no/such/out.json
expect_failure "'no/such/out.json': cannot be saved"
run plan --case "$cases/a00_rand_L4.json" --schedule
expect_refusal "--schedule needs --json FILE"
for flag in "--budget 20%" "--gpu h100" "--profile x.json"; do
  read -ra flags <<<"$flag"
  run plan --case "$cases/a00_rand_L4.json" "${flags[@]}"
  expect_refusal "--case has the step"
done
for flag in "--sweep 5" "-o plan.json" --why --no-insure; do
  read -ra flags <<<"$flag"
  run plan --case "$cases/a00_rand_L4.json" "${flags[@]}"
  expect_refusal "--case takes only"
done

finish
