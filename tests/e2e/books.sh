#!/usr/bin/env bash
# What a run says about itself: FERRY_TRACE, FERRY_STATS, --explain, and settings that had no effect.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

tiny=(train --preset tiny --validate-every 0 --sample 0)
trace="$scratch/trace.json"
stats="$scratch/stats.jsonl"

# expect_lines FILE: each is JSON.
expect_lines() {
  command -v python3 >"$scratch/python3" || return
  python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$1" || complain "expected lines of JSON: $1"
}

for device in host sim; do
  run FERRY_DEVICE="$device" FERRY_TRACE="$trace" FERRY_STATS="$stats" "${tiny[@]}" --steps 5 --policy offload --budget 50%
  expect_code 0
  expect_silence
  expect_json "$trace" ph ts dur cat transfer_us recipe_us tolerance_us words outcome arrived_bytes
  for category in forward backward offload fetch decision step ferried; do
    grep -q "\"cat\":\"$category\"" "$trace" || complain "expected in the trace: $category"
  done
  for lane in compute out in host; do
    grep -q "\"thread_name\".*\"name\":\"$lane" "$trace" || complain "expected a lane: $lane"
  done
  for counter in device pinned "in flight"; do
    grep -q "\"name\":\"$counter bytes\",\"ph\":\"C\"" "$trace" || complain "expected a counter: $counter"
  done
  (($(grep -c '^{"step":' "$stats") == 5)) || complain "expected a line for each of 5 steps"
  tail -n 1 "$stats" | grep -q '^{"steps":5,.*"settings_without_effect":\[' || complain "expected totals on the last line"
  for key in step_us exposed_us hidden_us device_peak_bytes reasons gbps items; do
    head -n 1 "$stats" | grep -q "\"$key\":" || complain "expected in a step's line: $key"
  done
  expect_lines "$stats"
done

# Under auto, a step says what was planned for it.
run FERRY_STATS="$stats" "${tiny[@]}" --steps 5 --budget 60%
expect_code 0
grep -q '"planned_us":' "$stats" || complain "expected the plan's forecast"

# Ctrl-C: both files are whole.
FERRY_TRACE="$trace" FERRY_STATS="$stats" start "${tiny[@]}" --steps 20000 --policy recompute
within 120 grep -q '^step' "$scratch/out" || complain "expected it to begin"
signal INT
expect_code 130
expect_json "$trace" ph
expect_lines "$stats"
tail -n 1 "$stats" | grep -q '^{"steps":' || complain "expected totals on the last line"

# So they are when a step finds no room.
run FERRY_TRACE="$trace" FERRY_STATS="$stats" "${tiny[@]}" --steps 3 --policy keep --budget 40%
expect_code 3
expect_json "$trace" ph
expect_lines "$stats"

# A file that cannot be is refused before the work; a disk that fills up costs the file, not the run.
for variable in FERRY_TRACE FERRY_STATS; do
  run "$variable=$scratch/no/such/folder/file" "${tiny[@]}" --steps 1
  expect_code 2
  expect_one_line_of_error
  expect_err_has "$variable='$scratch/no/such/folder/file': the file cannot be written"
  run "$variable=$scratch" "${tiny[@]}" --steps 1
  expect_code 2
  expect_err_has "$variable='$scratch'"
  if [[ -c /dev/full ]]; then
    run "$variable=/dev/full" "${tiny[@]}" --steps 3
    expect_code 0
    expect_one_line_of_error
    expect_err_has "$variable='/dev/full': No space left on device"
    expect_out "3 steps, median"
  fi
done
run FERRY_TRACE="$scratch/same" FERRY_STATS="$scratch/../${scratch##*/}/same" "${tiny[@]}" --steps 1
expect_refusal "FERRY_STATS names the same file"

# What had no effect is named at the end, what had is not; --explain says more.
run FERRY_CHUNK_BYTES=64KiB FERRY_STALL_TOLERANCE_US=10 "${tiny[@]}" --steps 2 --policy keep
expect_code 0
expect_out "FERRY_CHUNK_BYTES had no effect: nothing was copied"
expect_out "FERRY_STALL_TOLERANCE_US had no effect: it never came to a choice between a transfer and a recipe"
run FERRY_CHUNK_BYTES=64KiB "${tiny[@]}" --steps 2 --policy offload --budget 50%
expect_code 0
[[ "$out" != *"no effect"* ]] || complain "expected that all had an effect"
run FERRY_CHUNK_BYTES=64KiB FERRY_ADAPT=off simulate --profile "$3/examples/profiles/chain_of_eight.json" --gpu a100-80 --policy keep
expect_code 0
expect_out "FERRY_CHUNK_BYTES had no effect: nothing was copied"
expect_out "FERRY_ADAPT had no effect: no plan was made, and nothing was copied"
run FERRY_CHUNK_BYTES=64KiB FERRY_LOG=info "${tiny[@]}" --steps 2 --policy keep
expect_err_has "info: FERRY_CHUNK_BYTES had no effect: nothing was copied"
run FERRY_MIN_BYTES=8KiB "${tiny[@]}" --steps 3 --policy recompute --explain --json "$scratch/run.json"
expect_code 0
expect_out "time per step, over 3 steps:"
expect_out "recomputed: "
expect_out "FERRY_MIN_BYTES had no effect"
expect_json "$scratch/run.json" settings_without_effect
run "${tiny[@]}" --compare --explain
expect_refusal "leave out --explain, or --compare"

finish
