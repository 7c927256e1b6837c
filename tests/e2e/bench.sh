#!/usr/bin/env bash
# `ferry bench`: the link, break-even and policies, on small models and a simulated GPU; what it writes and refuses.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
examples="$3/examples"
step=(--gpt 6,1024,8,512,2 --gpu rtx4090)
quick=(--budgets 3 --plan-ms 20)

# Policies on a GPU that is not there.
run bench policies "${step[@]}" "${quick[@]}" --svg "$scratch/p.svg" --json "$scratch/p.json"
expect_code 0
expect_silence
for curve in auto keep recompute every=N sqrt selective offload offload-all first-k groups inputs rebuild-only dtr; do
  [[ "$out" == *$'\n'"$curve "* ]] || complain "expected a line for $curve"
done
expect_out "export FERRY_POLICY="
expect_out "export FERRY_BUDGET="
[[ "$(head -n 2 <<<"$out" | grep -o 'rtx4090' | wc -l)" == 1 ]] || complain "expected the GPU to be named once"
expect_json "$scratch/p.json" ferry_bench budgets_bytes curves overhead dominated recommended
grep -q '</svg>' "$scratch/p.svg" || complain "expected a whole picture"

# What it recommends is what a session accepts.
while read -r line; do
  setting="${line#export }"
  run "${setting%% *}" env
  expect_code 0
done < <(run bench policies "${step[@]}" "${quick[@]}" && grep '^export ' <<<"$out")

# From a profile, to standard output.
run bench policies --profile "$examples/profiles/chain_of_eight.json" --gpu rtx4090 "${quick[@]}" --json -
expect_code 0
[[ "$out" == "{"* ]] || complain "expected JSON alone"
run bench policies --device sim --gpt 2,256,4,128,1 "${quick[@]}"
expect_code 0
expect_out "on a100-80"

# On this machine: really trained.
run bench policies --device host --gpt 2,32,2,16,2 --budgets 2 --rounds 1 --json "$scratch/host.json"
expect_code 0
expect_out "trained on host"
expect_out "offload-all"
expect_json "$scratch/host.json" noise curves

# Break-even, by formula, from a profile and as measured.
run bench breakeven "${step[@]}" --svg "$scratch/even.svg" --json "$scratch/even.json"
expect_code 0
expect_out "break-even in GB/s by context"
expect_out "break-even in GB/s by batch: as above for 1 to 16"
expect_out "predictions"
expect_out "this link"
expect_json "$scratch/even.json" break_even_gbps sweeps links
run bench breakeven --profile "$examples/profiles/chain_of_eight.json" --gpu rtx4090
expect_code 0
expect_out "first choice"
run bench breakeven --device host --gpt 2,64,1,16,2
expect_code 0
expect_out "measured on this machine"
expect_out "the host device paces its link"

# The link of this machine.
run bench link --device host --largest 1MiB --json "$scratch/link.json"
expect_code 0
expect_out "pageable out"
expect_out "sessions on the host device hold their link to FERRY_LINK_GBPS"
expect_out "memcpy of one thread on this machine"
expect_out "computation beside both"
expect_out '"contention": {"out_beside_back": '
expect_json "$scratch/link.json" both_gbps both_in_gbps chunks limit_gbps contention compute_beside_both

# What it measures is hardware that others take.
run bench link --device host --largest 1MiB --write-hardware "$scratch/here.json"
expect_code 0
expect_json "$scratch/here.json" ferry_hardware device_to_host contention tflops
run plan --gpt 4,256,4,128,2 --hardware "$scratch/here.json" --budget 50%
expect_code 0
run bench link --device host --largest 1MiB --write-hardware "$scratch/none/here.json"
expect_failure "$scratch/none/here.json"
run bench link --device host --write-hardware "$scratch/x" --json "$scratch/x"
expect_refusal "same file"
run FERRY_LINK_GBPS=2 bench link --device host --largest 1MiB
expect_code 0
expect_out "FERRY_LINK_GBPS holds the link to 2 GB/s"

# All of it.
run bench "${step[@]}" "${quick[@]}" --json "$scratch/all.json"
expect_code 0
expect_out "break-even in GB/s by width"
expect_out "export FERRY_POLICY="
expect_json "$scratch/all.json" breakeven policies recommended

# Refusals.
run bench policies --gpt 6,1024,8,512,2 --gpu rtx409
expect_refusal "rtx4090"
run bench policies --gpt 6,1000,7,512,2 --gpu rtx4090
expect_refusal "heads"
run bench policies --gpt nonsense --gpu rtx4090
expect_refusal "--gpt"
run bench policies --device host --gpu rtx4090
expect_refusal "--device"
run bench policies --device nowhere
expect_refusal "--device"
run bench policies --device host --budget 1GiB
expect_refusal "--budget"
run bench policies "${step[@]}" --budgets 1
expect_refusal "--budgets"
run bench policies "${step[@]}" --svg "$scratch/x" --json "$scratch/x"
expect_refusal "same file"
run bench link --device sim
expect_refusal "this machine"
run bench link --largest 3
expect_refusal "--largest"
run bench policies "${step[@]}" "${quick[@]}" --json "$scratch/none/x.json"
expect_failure "$scratch/none/x.json"
run bench policies --profile "$scratch/none.json" --gpu rtx4090
expect_failure "none.json"
run bench policies --gpt 2,16384,8,16384,64 --gpu t4
expect_code 3
expect_one_line_of_error
expect_err_has "smaller batch"
run bench nonsense
expect_refusal "nonsense"

# Ctrl-C ends it, and says so: what was measured by then is shown, of the rest that it was not, and nothing is recommended.
interrupted() {
  start bench "$@" --device host --json "$scratch/cut.json"
  sleep 3
  signal INT
  expect_code 130
  expect_out "interrupted"
  for words in "a step takes 0 ms" "export " "suit this machine" "auto is on or below"; do
    [[ "$out" != *"$words"* ]] || complain "expected none of: $words"
  done
}
interrupted policies --gpt 4,64,2,32,2 --budgets 3 --rounds 1000
expect_out "not measured: "
expect_json "$scratch/cut.json" curves interrupted
grep -q '"failure": "not measured"' "$scratch/cut.json" || complain "expected points that were not measured"
interrupted breakeven --gpt 6,256,4,128,4
expect_out "not measured"

finish
