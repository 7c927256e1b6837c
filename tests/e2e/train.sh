#!/usr/bin/env bash
# `ferry train` when all goes well: it learns, says what it did, saves and goes on from there with the same bits,
# whatever policy and budget, and Ctrl-C loses nothing.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

tiny=(train --preset tiny --validate-every 0 --sample 0)

# Without a flag that says what to train on, it has a text; a falling loss is the point of training.
run train --preset tiny --steps 60 --lr 0.003 --warmup 5 --validate-every 20 --sample 50 --json "$scratch/run.json"
expect_code 0
expect_silence
expect_out "GPT of 2 layers, 64 features, 2 heads, context 64, vocabulary 256, tiled attention"
expect_out "policy auto; budget 5"
for step in 20 40 60; do expect_out "step $step: validation loss "; done
expect_out "a sample:"
expect_out "60 steps, median"
[[ "$out" != *$'\r'* && "$out" != *$'\033'* ]] || complain "expected plain lines where there is no terminal"
grep -Eq '^step 60/60  loss [0-9.]+ +[0-9]+ tokens/s  device [0-9.]+ [KM]iB of [0-9.]+ MiB' <<<"$out" ||
  complain "expected a line with loss, speed and device bytes"
(($(grep -c '^step .*tokens/s' <<<"$out") <= 22)) || complain "expected at most a line for every twentieth part"
sed -n 's/.*; loss \([0-9.]*\) -> \([0-9.]*\);.*/\1 \2/p' <<<"$out" |
  awk '{ good = $2 < $1 - 1.5 } END { exit !good }' || complain "expected the loss to fall by more than 1.5"
expect_json "$scratch/run.json" steps summary step loss seconds peak_device_bytes peak_pinned_bytes waiting_us \
  recompute_flops validation_loss learning_rate tokens_per_second final_loss median_seconds policy budget_bytes \
  steps_done session
grep -q '"steps_done": 60' "$scratch/run.json" || complain "expected 60 steps in the JSON file"
run train --preset tiny --steps 2 --sample 5 --validate-every 0 --json -
expect_code 0
expect_silence
expect_json "$scratch/out" steps summary steps_done
[[ "$out" == "{"* ]] || complain "expected nothing but JSON"

# What is printed is text, whatever bytes a model that has learnt nothing comes up with.
run train --preset tiny --steps 1 --sample 300 --temperature 100 --prompt $'h\xc3\xa9 \xff \xe2\x82\xac \x1b[31m'
expect_code 0
expect_out $'\nh\xc3\xa9 ? \xe2\x82\xac ?[31m'
tail -n +7 <<<"$out" | LC_ALL=C grep -q $'[\x01-\x08\x0e-\x1f\x7f]' && complain "expected no control characters"
if command -v iconv >"$scratch/iconv"; then
  iconv -f UTF-8 -t UTF-8 "$scratch/out" >"$scratch/iconv" || complain "expected UTF-8"
fi

# On a terminal: a bar that rewrites its line, no longer than the line; validations stay.
if command -v script >"$scratch/script"; then
  for columns in 60 80 160; do
    ran="ferry train on a terminal of $columns columns"
    script -qec "stty cols $columns; '$ferry' train --preset tiny --steps 4 --budget 50% --policy offload --validate-every 2 --sample 0" \
      /dev/null </dev/null >"$scratch/out"
    code=$?
    out="$(<"$scratch/out")"
    expect_code 0
    expect_out $'\r\033[K['
    expect_out "loss"
    expect_out "step 2: validation loss"
    expect_out ":00 left  "
    awk -v most="$columns" 'BEGIN { RS = "\r" } /^\033\[K\[/ && length($0) - 3 >= most { exit 1 }' "$scratch/out" ||
      complain "expected a bar that fits"
  done
  expect_out "device "
  expect_out "ferried "
fi

# Saved and resumed, the same bits: the model, the state and the gradients. The rising learning rate does not
# depend on the number of steps.
run "${tiny[@]}" --steps 6 --save "$scratch/whole.st" --save-grads "$scratch/whole.grads"
expect_code 0
run "${tiny[@]}" --steps 3 --save "$scratch/parts.st"
expect_code 0
run "${tiny[@]}" --steps 6 --save "$scratch/parts.st" --resume --save-grads "$scratch/parts.grads"
expect_code 0
expect_out "step 4/6"
expect_same "$scratch/whole.st" "$scratch/parts.st"
expect_same "$scratch/whole.st.state" "$scratch/parts.st.state"
expect_same "$scratch/whole.grads" "$scratch/parts.grads"
for name in transformer.wte.weight transformer.h.1.attn.c_attn.weight transformer.h.0.mlp.c_proj.bias \
  transformer.ln_f.weight; do
  head -c 4000 "$scratch/whole.st" | grep -aq "\"$name\"" || complain "expected in the saved model: $name"
  head -c 4000 "$scratch/whole.grads" | grep -aq "\"$name\"" || complain "expected in the gradients: $name"
done

# From a model alone: its shape is known without flags.
run train --init "$scratch/whole.st" --steps 2 --sample 0
expect_code 0
expect_out "GPT of 2 layers, 64 features, 2 heads, context 64"
expect_out "whole.st' with 2 heads, as the file says"
run train --init "$scratch/whole.st" --heads 4 --steps 2 --sample 0
expect_code 0
expect_out "with 4 heads, as --heads says"
sed 's/"ferry.heads"/"other.heads"/' "$scratch/whole.st" >"$scratch/without.st"
run train --init "$scratch/without.st" --steps 2 --sample 0
expect_code 0
expect_out "with 1 head, which is assumed, one for every 64 features: give --heads if it has others"
run train --init "$scratch/whole.st" --preset tiny --steps 2 --sample 0 --save "$scratch/whole.st" --overwrite
expect_code 0

# The same gradients under every policy and budget, slow links included.
for form in "--accumulate 2" "--attention explicit --untied"; do
  read -ra flags <<<"$form"
  flags+=(--steps 4)
  run "${tiny[@]}" "${flags[@]}" --policy keep --save-grads "$scratch/keep.grads"
  expect_code 0
  for policy in keep recompute offload selective sqrt every=2 auto; do
    [[ "$policy" == keep ]] && budget=100% || budget=50%
    run FERRY_CHECK_ORDER=on FERRY_LINK_GBPS=0.3 FERRY_VERIFY=checksum "${tiny[@]}" "${flags[@]}" --policy "$policy" \
      --budget "$budget" --save-grads "$scratch/some.grads"
    expect_code 0
    expect_silence
    expect_out "policy $policy; budget"
    expect_same "$scratch/keep.grads" "$scratch/some.grads"
  done
  expect_out "rebuilt "
done

# A link that becomes slow and fast again on the way changes no bit and is taken note of.
run "${tiny[@]}" --steps 6 --policy keep --save-grads "$scratch/keep.grads"
expect_code 0
loss="$(grep '^step 6/6' <<<"$out" | grep -o 'loss [0-9.]*')"
for policy in offload auto; do
  run FERRY_LOG=info FERRY_LINK_GBPS=2@0,0.1/0.2@2,1@4 "${tiny[@]}" --steps 6 --policy "$policy" --budget 50% \
    --save-grads "$scratch/some.grads"
  expect_code 0
  [[ -n "$loss" && "$(grep '^step 6/6' <<<"$out")" == *"$loss "* ]] || complain "expected at the end: $loss"
  expect_same "$scratch/keep.grads" "$scratch/some.grads"
  expect_err_has "step 2: the link has 0.1 GB/s out and 0.2 GB/s back"
  expect_err_has "step 4: the link has 1 GB/s out and 1 GB/s back"
done

# The flag goes before the variable; both share one syntax.
run FERRY_POLICY=offload FERRY_BUDGET=1KiB "${tiny[@]}" --steps 1 --policy recompute --budget 3.5MiB
expect_code 0
expect_out "policy recompute; budget 3.50 MiB"
run FERRY_POLICY=sqrt FERRY_BUDGET=3584KiB "${tiny[@]}" --steps 1
expect_code 0
expect_out "policy sqrt; budget 3.50 MiB"

# A budget beyond what keeping everything needs is none: no more is taken for it, on any device.
run "${tiny[@]}" --steps 2 --budget 100% --policy keep --json "$scratch/all.json"
expect_code 0
run "${tiny[@]}" --steps 2 --budget 1000TiB --policy keep --json "$scratch/more.json"
expect_code 0
expect_out "so of 1000 TiB no more is taken), "
for key in budget_bytes limit_bytes; do
  [[ "$(grep "\"$key\"" "$scratch/all.json")" == "$(grep "\"$key\"" "$scratch/more.json")" ]] || complain "expected the same $key"
done

# Any text, and files of tokens.
for ((i = 0; i < 400; ++i)); do printf 'line %d of a text\r\n\xe9\x01' "$i"; done >"$scratch/text"
run "${tiny[@]}" --data "$scratch/text" --steps 2
expect_code 0
for ((i = 0; i < 2000; ++i)); do printf '%b' "\\x$((i % 90 + 10))\\x01"; done >"$scratch/u16.bin"
for ((i = 0; i < 2000; ++i)); do printf '%b' "\\x$((i % 90 + 10))\\x01\\0\\0"; done >"$scratch/u32.bin"
for bits in 16 32; do
  run train --preset tiny --data "$scratch/u$bits.bin" --tokens "uint$bits" --vocab 500 --steps 2 --sample 5 \
    --save-grads "$scratch/u$bits.grads"
  expect_code 0
  expect_out "1800 tokens to train on, 200 to validate"
  grep -Eq '^([0-9]+ ){5}$' <<<"$out" || complain "expected a sample of five tokens"
done
expect_same "$scratch/u16.grads" "$scratch/u32.grads"

# Profiled, planned, and trained by the plan: the same gradients; another model is refused.
run "${tiny[@]}" --steps 4 --policy keep --save-grads "$scratch/keep.grads"
run "${tiny[@]}" --steps 4 --budget 4MiB --profile "$scratch/profile.json"
expect_code 0
run plan --profile "$scratch/profile.json" --gpu laptop --budget 4MiB -o "$scratch/plan.json"
expect_code 0
run "${tiny[@]}" --steps 4 --budget 4MiB --policy "plan=$scratch/plan.json" --save-grads "$scratch/some.grads"
expect_code 0
expect_same "$scratch/keep.grads" "$scratch/some.grads"
run "${tiny[@]}" --layers 3 --steps 2 --budget 8MiB --policy "plan=$scratch/plan.json"
expect_failure "x (segment 2, micro-batch 0) is not in it"
run "${tiny[@]}" --steps 2 --policy "plan=$scratch/none.json"
expect_failure "$scratch/none.json"

# A vocabulary that dwarfs the model.
run "${tiny[@]}" --vocab 20000 --batch 1 --steps 1
expect_code 0

# Ctrl-C: what was done is saved, and going on gives what one run would have.
rising=(--warmup 100000)
for name in INT TERM; do
  saved="$scratch/$name.st"
  start "${tiny[@]}" "${rising[@]}" --steps 20000 --save "$saved" --save-grads "$scratch/$name.grads" \
    --json "$scratch/$name.json"
  within 120 grep -q '^step' "$scratch/out" || complain "expected it to begin"
  signal "$name"
  expect_code 130
  expect_silence
  expect_out "interrupted after step"
  expect_out "saved to $saved, go on with --resume"
  [[ -s "$scratch/$name.grads" ]] || complain "expected gradients of the last step"
  grep -q '"interrupted": true' "$scratch/$name.json" || complain "expected a JSON file that says so"
done
done_already="$(sed -n 's/^interrupted after step \([0-9]*\).*/\1/p' <<<"$out")"
run "${tiny[@]}" "${rising[@]}" --steps "$((done_already + 2))" --save "$scratch/TERM.st" --resume
expect_code 0
run "${tiny[@]}" "${rising[@]}" --steps "$((done_already + 2))" --save "$scratch/straight.st"
expect_code 0
expect_same "$scratch/straight.st" "$scratch/TERM.st"

# A link that changes shows in the JSON file, and what is done about it; the weights do not know of it.
run FERRY_LINK_GBPS=4@0,0.2@10 FERRY_LINK_LATENCY_US=0 "${tiny[@]}" --layers 8 --steps 20 --budget 40% --json "$scratch/link.json" --save "$scratch/link.st"
expect_code 0
expect_json "$scratch/link.json" link_gbps plans plan_changes planned_us
run "${tiny[@]}" --layers 8 --steps 20 --policy keep --save "$scratch/kept.st"
expect_code 0
expect_same "$scratch/kept.st" "$scratch/link.st"
if command -v python3 >"$scratch/python3"; then
  python3 - "$scratch/link.json" <<'END' || complain "expected the link's speeds, and a plan from the third step on"
import json, sys
steps = json.load(open(sys.argv[1]))["steps"]
assert all("planned_us" in step for step in steps[2:])
assert steps[9]["link_gbps"][0] > 2 * steps[19]["link_gbps"][0], [step["link_gbps"] for step in steps]
END
fi

# What ends without a chance to save can go on from the last of --save-every.
start "${tiny[@]}" "${rising[@]}" --steps 20000 --save "$scratch/every.st" --save-every 2
within 120 test -s "$scratch/every.st" || complain "expected it to save"
signal KILL
done_already="$(head -c 2000 "$scratch/every.st.state" | grep -ao '"ferry.steps_done":"[0-9]*' | grep -o '[0-9]*$')"
run "${tiny[@]}" "${rising[@]}" --steps "$((done_already + 1))" --save "$scratch/every.st" --resume
expect_code 0
expect_out "step $((done_already + 1))/$((done_already + 1))"

finish
