#!/usr/bin/env bash
# `ferry env`: every setting with its source; wrong ones are named, and the list is printed all the same.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

settings=(DEVICE BUDGET HOST_BUDGET POLICY MIN_BYTES MAX_IN_FLIGHT CHUNK_BYTES RUN_AHEAD INSURE ADAPT PLAN_EFFORT STALL_TOLERANCE_US
  VERIFY ADVISE TRACE STATS PROFILE LOG DEVICE_BYTES PINNED_BYTES LINK_GBPS LINK_LATENCY_US COMPUTE_THREADS CHECK_ORDER)

run env
expect_code 0
expect_silence
for name in "${settings[@]}"; do expect_out "FERRY_$name "; done
[[ "$(grep -c '^FERRY_' "$scratch/out")" == "${#settings[@]}" ]] || complain "expected ${#settings[@]} settings"
[[ "$out" != *environment* ]] || complain "expected only defaults"

run FERRY_BUDGET=1024MiB env
expect_code 0
expect_out "FERRY_BUDGET             = 1GiB       (environment)"
expect_out "FERRY_POLICY             = auto       (default)"

run FERRY_LINK_GBPS=5@0,2/1.50@20 env
expect_code 0
expect_out "FERRY_LINK_GBPS          = 5@0,2/1.5@20 (environment)"
run FERRY_LINK_GBPS=5@0,1.5 env
expect_code 2
expect_err_has "FERRY_LINK_GBPS='5@0,1.5': some speeds have a step and others have none; accepted: auto"

run FERRY_BUDGET=1GiB env --reference
expect_code 0
expect_silence
[[ "$(grep -c '^### FERRY_' "$scratch/out")" == "${#settings[@]}" ]] || complain "expected a section for each setting"
expect_out "- default: \`70%\`"
[[ "$(grep -c '^| \[`FERRY_' "$scratch/out")" == "${#settings[@]}" ]] || complain "expected a row for each setting"
run env --reference --json "$scratch/env.json"
expect_code 2
expect_err_has "--json excludes --reference"

run FERRY_REQUIRE_GPU=1 env
expect_code 0
expect_silence

run "FERRY_BUDGET=12 GX" env
expect_code 2
expect_err "ferry: FERRY_BUDGET='12 GX': not a byte amount; accepted: bytes with an optional unit (512MiB, 12GiB) or a share (70%)"
expect_out "FERRY_BUDGET             = 70%        (default, the value given is wrong)"

run FERRY_BUGDET=1GiB env
expect_code 2
expect_err 'ferry: FERRY_BUGDET is not a setting; did you mean FERRY_BUDGET? `ferry env` lists them all'
expect_out "FERRY_BUDGET "

run FERRY_BUDGET=0 FERRY_LOG=loud env
expect_code 2
expect_err_has "FERRY_BUDGET='0'"
expect_err_has "FERRY_LOG='loud'"

run FERRY_RUN_AHEAD=2 env --json "$scratch/env.json"
expect_code 0
grep -q '"variable": "FERRY_RUN_AHEAD"' "$scratch/env.json" || complain "expected the setting in the JSON file"
grep -q '"source": "environment"' "$scratch/env.json" || complain "expected the source in the JSON file"

run FERRY_RUN_AHEAD=2 env --json -
expect_code 0
expect_same "$scratch/env.json" "$scratch/out"

for path in "$scratch/no/such/folder/env.json" "$scratch"; do
  run env --json "$path"
  expect_code 1
  expect_one_line_of_error
  expect_err_has "ferry: '$path': cannot be saved: "
done

finish
