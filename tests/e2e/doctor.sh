#!/usr/bin/env bash
# `ferry doctor`: from a shape, from a config.json and from out-of-memory messages to a prescription whose variables Ferry
# accepts; GPUs of one's own; wrong input is one line that names it.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

cd "$scratch" || exit 1
shape=(--model gpt --layers 24 --width 2048 --heads 16 --context 2048 --batch 8)

# The question of the help, as it stands there: weights and optimizer alone are too much.
run doctor --model gpt --layers 32 --width 4096 --heads 32 --context 4096 --batch 4 --dtype bf16 --gpu rtx4090
expect_code 0
expect_silence
for words in "6.67 B parameters" "on rtx4090: 24.0 GiB" "Where memory goes" "weights          12.4 GiB" "optimizer        74.5 GiB" \
  "qkv            12.0 GiB" "does not fit with everything kept" "What would make room" "--zero 3 --ranks " "Prescription with --zero 3" \
  predicted "against unlimited memory" "of the step's FLOPs" "GiB   pinned" "largest batch" "largest context" \
  "activations are not the problem" "cannot be hidden" "already flash" "export FERRY_POLICY=auto" "not measurements"; do
  expect_out "$words"
done
grep -q ' $' <<<"$out" && complain "expected no spaces at the ends of lines"

# One that fits with a plan; the block of variables is what Ferry takes.
run doctor "${shape[@]}" --gpu "NVIDIA A100-SXM4-40GB" --json answer.json
expect_code 0
expect_out "on a100-40"
expect_out "FERRY_POLICY=auto"
expect_json answer.json ferry_doctor predicted model parameters memory weights_bytes optimizer_bytes activations operation \
  prescription policy peak_bytes step_us overhead recompute_flops_share out_bytes host_bytes alternatives largest_batch \
  largest_context warnings variables assumptions fits budget_bytes
sed -n 's/^  export //p' <<<"$out" >variables
mapfile -t variables <variables
((${#variables[@]} >= 2)) || complain "expected variables to set"
run "${variables[@]}" env
expect_code 0
expect_out "FERRY_BUDGET"
run doctor "${shape[@]}" --gpu a100-40 --json -
expect_code 0
[[ "$out" == "{"*"}" ]] || complain "expected JSON and nothing else"
run doctor "${shape[@]:0:10}" --batch 1 --gpu a100-80
expect_code 0
expect_out "fits with everything kept"
expect_out "export FERRY_POLICY=keep"

# A config.json, as a flag and by itself; flags go before it.
cat >config.json <<'JSON'
{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
 "num_key_value_heads": 8, "max_position_embeddings": 8192, "vocab_size": 128256, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "rope_theta": 500000.0}
JSON
run doctor config.json --gpu h100 --zero 2 --ranks 8 --optimizer adamw8bit
expect_code 0
expect_out "llama: 32 layers, width 4096, 32 heads (8 of keys and values), hidden 14336, vocabulary 128256; 8.03 B parameters"
expect_out "context 8192, batch 1"
expect_out "gate"
expect_out "a part of 8"
run doctor --config config.json --context 1024 --batch 3 --attention explicit --gpu a100-80 --zero 3 --ranks 8
expect_code 0
expect_out "context 1024, batch 3, bf16, explicit attention; adamw, ZeRO 3 over 8 GPUs"
expect_out "flash attention (--attention flash)"

# Optimizers: how wide, and where.
run doctor --model llama-3-8b --gpu a100-80 --context 2048 --optimizer adamw8bit
expect_code 0
expect_out "adamw8bit: 6.03 bytes a weight, with an fp32 copy of it"
expect_out "(--master none: without)"
run doctor --model llama-3-8b --gpu a100-80 --context 2048 --optimizer adamw8bit --master none
expect_code 0
expect_out "optimizer        15.2 GiB   adamw8bit: 2.03 bytes a weight"
expect_out "fits with everything kept"
run doctor --model llama-3-8b --gpu a100-80 --context 2048 --optimizer adamw-cpu
expect_code 0
expect_out "adamw-cpu: 12 bytes a weight, with an fp32 copy of it; 105 GiB of host memory"
expect_out "151 GiB of host memory for this GPU beside what the optimizer has there"
run doctor --model llama-3-8b --gpu rtx4090 --optimizer adamw-cpu
expect_refusal "--optimizer=adamw-cpu holds 105 GiB in host memory, and there are 64.0 GiB for this GPU: raise --host-memory"
run doctor --model gpt2 --gpu rtx4090 --optimizer adamw --dtype fp32 --master none
expect_refusal "--master=none changes nothing with --dtype fp32: leave it out"
run doctor --model gpt2 --gpu rtx4090 --optimizer none --master fp32
expect_refusal "--master=fp32 changes nothing without an optimizer: leave it out"

# Logits: which way is assumed, and what the other would need.
run doctor --model gpt2 --gpu rtx4090 --batch 8 --logits whole
expect_code 0
expect_out "all logits at once, with fp32 copies and gradients for the loss: 5.37 GiB"
run doctor --model gpt2 --gpu rtx4090 --batch 8
expect_code 0
expect_out "(--logits whole)"

run doctor --model llama-3-8b --gpu a100-80 --context 2048 --batch 2 --zero 2 --ranks 8
expect_code 0
expect_out "llama-3-8b: 32 layers, width 4096, 32 heads (8 of keys and values), hidden 14336"

# What docs/tuning.md shows is what the command says.
shown="$3/docs/tuning.md"
run doctor "${shape[@]}" --dtype bf16 --gpu rtx4090
expect_code 0
mapfile -t rows < <(sed -n '/^Prescription  predicted/,/^```/p' "$shown" | grep -E '^  (peak|step|link|FERRY|  step|export)')
((${#rows[@]} >= 8)) || complain "expected a prescription in docs/tuning.md"
for row in "${rows[@]}"; do expect_out "$row"; done

# Several GPUs: what they exchange, over what.
run doctor "${shape[@]}" --gpu rtx4090 --zero 3 --ranks 4 --json several.json
expect_code 0
expect_out "each way over pcie at 12.2 GB/s"
expect_out "by the 4 GPUs of a machine"
expect_json several.json interconnect kind gbps exchanged_bytes exchange_us exposed_exchange_us slower_products
run doctor "${shape[@]}" --gpu rtx4090 --zero 3 --ranks 4 --interconnect ethernet --interconnect-gbps 1.5
expect_code 0
expect_out "each way over ethernet at 1.5 GB/s"
expect_out "the GPUs' exchange decides the step"

# The plan of the prescription is what `ferry plan` finds.
run doctor --model gpt --layers 12 --width 768 --heads 12 --context 1024 --batch 32 --gpu rtx3060 --json small.json
run plan --gpt 12,768,12,1024,32 --gpu rtx3060 --budget "$(sed -n 's/.*"FERRY_BUDGET": "\(.*\)".*/\1/p' small.json)" \
  --host-budget 52428MiB --json planned.json
expect_code 0
step_us() { sed -n "/$2/,\$p" "$1" | sed -n 's/.*"step_us": \([0-9.]*\).*/\1/p' | head -n 1; }
[[ -n "$(step_us small.json prescription)" && "$(step_us small.json prescription)" == "$(step_us planned.json profile)" ]] ||
  complain "expected one plan: $(step_us small.json prescription), $(step_us planned.json profile)"

# Kernels, adapters, frozen blocks, experts.
run doctor --model llama-3-8b --gpu a100-80 --context 4096 --optimizer none --kernels eager --json eager.json
expect_code 0
expect_out "flash attention; eager kernels; none"
expect_out "785 MiB a layer"
expect_out "all logits at once"
expect_json eager.json kernels lora nf4 master host_bytes experts experts_per_token frozen
run doctor --model llama-3-8b --gpu a100-80 --context 4096 --optimizer none
expect_code 0
expect_out "544 MiB a layer"
expect_out "would save 785 MiB"
expect_out "logits in portions"
run doctor --model llama-3-8b --gpu rtx4090 --context 4096 --qlora 16
expect_code 0
expect_out "QLoRA of rank 16; adamw"
expect_out "adamw: 8 bytes a trained weight"
expect_out "export FERRY_POLICY="
run doctor --model llama-3-8b --gpu rtx4090 --lora 16 --frozen 4
expect_refusal "--lora freezes all blocks: leave out --frozen"
run doctor --model llama-3-8b --gpu rtx4090 --lora 16 --qlora 16
expect_refusal "--lora and --qlora: give one of them"
run doctor --model llama-3-8b --gpu rtx4090 --lora 16 --master fp32
expect_refusal "--master=fp32 changes nothing for adapters, which are fp32: leave it out"
run doctor --model llama-3-8b --gpu rtx4090 --qlora 16 --dtype fp32
expect_refusal "--qlora computes in 16 bits: leave out --dtype fp32"
run doctor --model llama-3-8b --gpu rtx4090 --lora 16 --optimizer none
expect_refusal "--lora trains: leave out --optimizer none"
run doctor --model llama-3-8b --gpu rtx4090 --frozen 32
expect_refusal "--frozen=32 is all of the model's 32 blocks: give at most 31"
run doctor --model llama-3-8b --gpu h200 --frozen 28
expect_code 0
expect_out "28 of 32 blocks frozen; adamw"
cat >mixtral.json <<'JSON'
{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
 "num_key_value_heads": 8, "max_position_embeddings": 32768, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
JSON
run doctor mixtral.json --context 2048 --gpu h200 --zero 3 --ranks 8
expect_code 0
expect_out "hidden 14336 of each expert, 2 of 8 experts a token, vocabulary 32000; 46.70 B parameters"
expect_out "routed"

# A page to pass on.
run doctor "${shape[@]}" --gpu rtx4090 --html page.html
expect_code 0
expect_out "In PyTorch without Ferry"
grep -q "<title>Ferry doctor: gpt on rtx4090</title>" page.html || complain "expected a page"
[[ "$(tail -n 1 page.html)" == "</html>" ]] || complain "expected a whole page"
run doctor "${shape[@]}" --gpu rtx4090 --html -
expect_code 0
[[ "$out" == "<!doctype html>"* ]] || complain "expected a page and nothing else"
run doctor "${shape[@]}" --gpu rtx4090 --html one.txt --json one.txt
expect_refusal "--html and --json are the same file: give another"
run doctor --oom message.txt --html page.html
expect_refusal "--html is a page of a prescription"

# Out-of-memory messages: from a file and a pipe, alone and with a model.
cat >torch.log <<'LOG'
step 17 loss 2.91
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 39.39 GiB of which 200.00 MiB is free. Including non-PyTorch memory, this process has 39.10 GiB memory in use. Of the allocated memory 30.00 GiB is allocated by PyTorch, and 8.50 GiB is reserved by PyTorch but unallocated.
LOG
run doctor --oom torch.log
expect_code 0
expect_out "fragmentation: 200 MiB free and 8.50 GiB reserved by PyTorch but not in use are more than the"
expect_out "the model: its config.json"
expect_out "it may be a100-40"
run doctor --oom torch.log "${shape[@]}" --gpu a100-40 --json both.json
expect_code 0
expect_out "What it means"
expect_out "Prescription"
[[ "$out" != *"also give"* ]] || complain "expected no more questions"
expect_json both.json message requested_bytes capacity_bytes findings kind still_needed prescription
run train --preset tiny --steps 2 --policy keep --budget 5%
expect_code 3
"$ferry" doctor --oom - <<<"$err" >"$scratch/told" || complain "expected Ferry's own message to be understood: $err"
grep -q "raise FERRY_BUDGET to" "$scratch/told" || complain "expected the budget that works: $(<"$scratch/told")"
echo "all is well" >well.log
# Several messages, of which the last that names an amount counts; what was allocated goes before what is estimated.
{
  cat torch.log
  printf 'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. '
  printf 'Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is '
  printf 'allocated by PyTorch, and 6.00 GiB is reserved by PyTorch but unallocated.\nRuntimeError: CUDA error: out of memory\n'
} >several.log
run doctor --oom several.log --model gpt2 --context 1024 --batch 8 --gpu a100-80 --json several.json
expect_code 0
expect_out "the last that names an amount"
expect_out "fragmentation: 1.00 GiB free and 6.00 GiB reserved by PyTorch but not in use are more than the"
expect_out "Against the estimate"
expect_out "8.00 GiB of the GPU were in no tensor of this run"
expect_out $'\n  not estimated  '
expect_out $'\n  reserve          8.00 GiB   CUDA context, cuBLAS workspace, gaps, others: measured'
expect_json several.json calibration estimated_bytes measured_bytes off number messages line_number
run doctor --oom several.log --model gpt2 --context 1024 --batch 8 --gpu a100-80 --reserve 2GiB
expect_out $'\n  reserve          2.00 GiB   CUDA context, cuBLAS workspace, gaps: assumed'
printf 'RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.\n' >jax.log
run doctor --oom jax.log
expect_code 0
expect_out "jax.checkpoint"
run doctor --oom well.log
expect_failure "no out-of-memory message was found; understood are PyTorch's"
run doctor --oom none.log
expect_failure "none.log"

# GPUs of one's own.
cat >gpus.json <<'JSON'
{"ferry_gpus": 1, "gpus": [
  {"name": "abacus", "also": ["Abacus 9000"], "memory_gib": 48, "host_gib": 128, "bf16": true,
   "half_tflops": {"peak": 200, "sustained": 150}, "fp32_tflops": {"peak": 50, "sustained": 40},
   "memory_gbps": {"peak": 1000, "sustained": 900}, "pcie": {"generation": 4, "lanes": 8}}]}
JSON
run doctor "${shape[@]}" --gpu "abacus 9000" --gpus gpus.json
expect_code 0
expect_out "on abacus: 48.0 GiB, 150 TFLOP/s, 900 GB/s; link 12.75 GB/s out"
run plan --gpt 4,256,4,128,8 --gpu abacus --gpus gpus.json --budget 60% --time-limit-ms 20
expect_code 0
sed 's/"sustained": 900/"sustained": 9000/' gpus.json >bad.json
run doctor "${shape[@]}" --gpu abacus --gpus bad.json
expect_failure "'bad.json': gpus[0].memory_gbps.sustained: is 9000, above the peak; give at most 1000"

# Wrong flags.
run doctor "${shape[@]}" --gpu rtx4095
expect_refusal "--gpu: there is no hardware 'rtx4095': did you mean rtx4090? Else give one of a100-40"
run doctor "${shape[@]}" --gpu mi300x
expect_refusal "--gpu: 'mi300x' is made by AMD, and Ferry runs on CUDA GPUs alone"
run doctor --gpu t4
expect_refusal "say which model: give --model gpt or llama with its sizes, or a Hugging Face config.json"
run doctor "${shape[@]}"
expect_refusal "give --gpu NAME or --hardware FILE"
run doctor --model gpt --layers 4 --width 64 --context 64 --gpu t4
expect_refusal "the model's --heads is missing: give it"
run doctor --model gpt --layers 4 --width 64 --heads 7 --context 64 --gpu t4
expect_refusal "--heads=7 does not divide --width=64: give for instance --heads=4"
run doctor --model llama --layers 4 --width 64 --heads 8 --kv-heads 3 --context 64 --gpu t4
expect_refusal "--kv-heads=3 does not divide --heads=8"
run doctor --model gpt --layers 10000 --width 65536 --heads 1 --context 4194304 --batch 1048576 --gpu t4
expect_refusal "this model cannot be: the dimensions are too large"
run doctor "${shape[@]}" --gpu t4 --zero 3
expect_refusal "--zero=3 divides among GPUs: give --ranks N, 2 or more"
run doctor "${shape[@]}" --gpu t4 --ranks 3
expect_refusal "--ranks=3 changes nothing without --zero"
run doctor "${shape[@]}" --gpu t4 --reserve 16GiB
expect_refusal "--reserve: 16.0 GiB is all of the 16.0 GiB that 't4' has; lower it"
run doctor "${shape[@]}" --gpu t4 --host-memory much
expect_refusal "--host-memory"
for wrong in "--layers 0" "--layers x" "--batch -1" "--dtype int4" "--optimizer adam" "--zero 4" "--attention none" "--logits some" \
  "--interconnect string" "--interconnect-gbps 0"; do
  # shellcheck disable=SC2086  # a flag and its value
  run doctor --model gpt --gpu t4 $wrong
  expect_code 2
  expect_one_line_of_error
done

# Files that are none.
echo '{"model_type": "mamba"}' >mamba.json
run doctor mamba.json --gpu t4
expect_failure "'mamba.json': model_type: is 'mamba'; known are gpt2, llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3_text, mixtral, qwen2_moe, qwen3_moe, gpt_oss; else give the shape by flags"
head -c 100 config.json >cut.json
run doctor cut.json --gpu t4
expect_failure "'cut.json': is no JSON object"
run doctor none.json --gpu t4
expect_failure "none.json"
run doctor "${shape[@]}" --gpu t4 --json no/such/folder.json
expect_failure "no/such/folder.json"

finish
