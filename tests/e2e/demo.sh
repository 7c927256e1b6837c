#!/usr/bin/env bash
# The demo at small sizes: its table, its exit codes, the stream-order checker's silence, and Ctrl-C.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

demo="$ferry"
small=(--layers 8 --rows 256 --width 128 --steps 1)

# expect_row POLICY: it ran, and gave the reference's gradients.
expect_row() { grep -Eq "^$1 .* yes$" <<<"$out" || complain "expected a row of $1 with identical gradients"; }

run FERRY_CHECK_ORDER=on "${small[@]}" --json "$scratch/demo.json"
expect_code 0
expect_silence
expect_out "budget 512 KiB (40% of that)"
expect_out "as a 7B-class block does on an A100 with PCIe 4"
expect_out "keep       out of device memory: 128 KiB for 'x' do not fit the budget of 512 KiB"
for policy in reference recompute sqrt offload mix; do expect_row "$policy"; done
expect_out "Try next: FERRY_BUDGET="
grep -q '"gradients_identical": true' "$scratch/demo.json" || complain "expected gradients in the JSON file"
grep -q '"gradients_identical": false' "$scratch/demo.json" && complain "expected no differing gradients"

# A budget for everything: keep fits, as it should. Sizes that are no multiple of a tile or of 256 bytes.
run FERRY_LINK_GBPS=2,1 FERRY_BUDGET=100% --layers 3 --rows 131 --width 33 --steps 1
expect_code 0
expect_out "link 2 GB/s out, 1 GB/s back"
expect_row keep
expect_row mix

# The flag goes before the variable.
run FERRY_BUDGET=1KiB "${small[@]}" --budget 640KiB
expect_code 0
expect_out "budget 640 KiB (50% of that)"

run "${small[@]}" --budget 200KiB
expect_code 1
expect_err_has "offload did not fit the budget"

run FERRY_POLICY=offload "${small[@]}"
expect_code 0
expect_err "matmul_chain: FERRY_POLICY has no effect here, the demo decides that itself"

run --help
expect_code 0
for flag in layers rows width budget steps json; do expect_out "--$flag"; done

# expect_refusal TEXT: one line that says so, before any work.
expect_refusal() {
  expect_code 2
  expect_one_line_of_error
  expect_err_has "$1"
}
run --budget lots
expect_refusal "--budget='lots'"
run --budget 0
expect_refusal "must be above zero"
run --layers 1
expect_refusal "--layers"
run --no-such-flag
expect_refusal "--no-such-flag"
run FERRY_BUDGTE=1GiB
expect_refusal "did you mean FERRY_BUDGET?"
run FERRY_LINK_GBPS=fast
expect_refusal "FERRY_LINK_GBPS='fast'"
run FERRY_DEVICE=cuda
expect_refusal "FERRY_DEVICE=cuda"

# expect_failure TEXT: the same for what is well written, but cannot be.
expect_failure() {
  expect_code 1
  expect_one_line_of_error
  expect_err_has "$1"
  [[ -z "$out" ]] || complain "expected nothing on stdout"
}
run --json "$scratch/no/such/folder/demo.json"
expect_failure "cannot write"
run --rows 1048576 --width 32768 --layers 1024
expect_failure "this machine has"

# within SECONDS COMMAND...: waits for it to be true, but not forever.
within() {
  local tenths=$(($1 * 10))
  shift
  until "$@"; do
    ((tenths-- > 0)) || return 1
    sleep 0.1
  done
}
# shellcheck disable=SC2317  # called by name
gone() { ! kill -0 "$1" 2>/dev/null; }

for signal in INT TERM; do
  ran="demo, then SIG$signal"
  "$demo" --layers 8 --rows 256 --width 128 --steps 1000 >"$scratch/out" 2>"$scratch/err" &
  started=$!
  within 120 grep -q '^link' "$scratch/out" || complain "expected it to start its work"
  sleep 0.3
  kill -s "$signal" "$started"
  within 60 gone "$started" || kill -KILL "$started"
  wait "$started"
  code=$?
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
  expect_code 130
  expect_err "matmul_chain: interrupted"
done

finish
