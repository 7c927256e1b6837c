#!/usr/bin/env bash
# `ferry train` when something is wrong: one line that names the flag or the file and what to do, an exit code, and
# nothing lost. What a message recommends is done, and has to work.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

tiny=(train --preset tiny --validate-every 0 --sample 0 --steps 3)
cd "$scratch" || exit 1

# Flags: refused before any work.
refused() {
  run "${tiny[@]}" "${@:2}"
  expect_refusal "$1"
}
for flag in --layers --width --heads --context --vocab --batch --accumulate --warmup --seed --save-every \
  --validation-batches --lr --clip --weight-decay --temperature; do
  refused "$flag" "$flag" -1
  refused "$flag" "$flag" x
  refused "$flag" "$flag" 99999999999999999999999
  refused "$flag" "$flag" ""
done
for flag in --layers --width --heads --context --vocab --batch --accumulate --save-every --validation-batches; do
  refused "$flag" "$flag" 0
done
for flag in --lr --clip --weight-decay --temperature; do
  refused "$flag" "$flag" nan
  refused "$flag" "$flag" inf
done
refused "--layers: '1e9' is not a whole number" --layers 1e9
refused "--layers=100000: give a number from 1 to 10000" --layers 100000
refused "--context=10000000: give a number from 1 to 1048576" --context 10000000
refused "--heads=5 does not divide --width=64: give for instance --heads=4" --heads 5
refused "at most 262144 with --context=64" --batch 300000
refused "--vocab=100: text has 256 kinds of bytes; give --vocab=256 or more" --vocab 100
for flag in --steps --sample --validate-every; do
  run train "$flag" -1
  expect_refusal "$flag: -1 is out of range"
done
run train --steps 0
expect_refusal "--steps: 0 is out of range"
run train --preset huge
expect_refusal "--preset='huge': give one of tiny, small, deep, medium, gpt2"
refused "--policy='kepe': not one of the choices; accepted: auto, keep, recompute, offload" --policy kepe
refused "--policy='every=0'" --policy every=0
refused "--policy='': empty" --policy ""
for budget in lots 0 0% 200% -5 1e9 12GX 99999999TiB ""; do refused "--budget='$budget': " --budget "$budget"; done
refused "of memory are needed, but of the memory of" --width 65536
refused "are available; lower --budget (FERRY_BUDGET), --batch" --width 65536
# More pinned memory than there is in all.
all_kib="$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)"
run FERRY_DEVICE=host FERRY_PINNED_BYTES="$((all_kib + 2 * 1048576))KiB" FERRY_HOST_BUDGET="$((all_kib + 1048576))KiB" "${tiny[@]}"
expect_failure "FERRY_HOST_BUDGET asks for "
expect_err_has "are available; lower it"
run FERRY_BUDGET=lots "${tiny[@]}"
expect_refusal "FERRY_BUDGET='lots'"
run FERRY_BUGDET=1MiB "${tiny[@]}"
expect_refusal "did you mean FERRY_BUDGET?"
# No machine has so many GPUs; what is said depends on whether it has any.
run FERRY_DEVICE=cuda:1023 "${tiny[@]}"
expect_refusal ""
refused "" --device cuda:1023
refused "--device=" --device tpu
run FERRY_DEVICE=cuda:1023 "${tiny[@]}" --device host
expect_code 0
refused "--attention" --attention flash
refused "--no-such-flag" --no-such-flag
refused "surprise" surprise
for flag in --data --init --save --save-grads --json; do refused "$flag" "$flag" ""; done

# Flags that do not go together, or would have no effect.
refused "--resume needs --save FILE" --resume
refused "give one of them" --resume --save a.st --init b.st
refused "--save-every needs --save FILE" --save-every 2
refused "--overwrite needs --save FILE" --overwrite
refused "give one of them" --save a.st --resume --overwrite
refused "--tokens needs --data" --tokens uint16
refused "--tokens: int8 not in" --tokens int8 --data some.bin
refused "leave out --prompt" --tokens uint16 --data some.bin --prompt hello
refused "--save and --json are the same file" --save a.st --json a.st
refused "--save and --save-grads are the same file" --save a.st --save-grads ./a.st
refused "--json are the same file" --save a.st --json a.st.state
refused "--data and --save are the same file" --data a.st --save a.st

# Data.
# failed TEXT FLAG FILE ...: with that text about that file.
failed() {
  run "${tiny[@]}" "${@:2}"
  expect_failure "$1"
  expect_err_has "ferry: '$3': "
}
: >empty.txt
head -c 300 /dev/zero | tr '\0' a >short.txt
for ((i = 0; i < 1000; ++i)); do printf '\1\2'; done >some.bin
head -c 3 some.bin >odd.bin
failed "cannot be read: No such file or directory; check the path" --data nowhere.txt
failed "is empty" --data empty.txt
failed "too few for a context of 64; use --context 29 or less, or a longer file" --data short.txt
failed "is a directory" --data /
failed "is a pipe or a device" --data /dev/null
failed "token number 0 is 513, but the vocabulary is only 256; raise --vocab" --data some.bin --tokens uint16
failed "raise --vocab" --data some.bin --tokens uint32
failed "its 3 bytes are no whole number of 16-bit tokens" --data odd.bin --tokens uint16
run train --preset tiny --validate-every 0 --sample 0 --steps 1 --context 29 --data short.txt
expect_code 0

# Files to write: told before the first step.
for flag in --save --save-grads --json; do
  failed "create the folder 'no/such' first" "$flag" no/such/file
  failed "is a directory" "$flag" /
  [[ -z "$out" ]] || complain "expected nothing on stdout"
done

# Models: a good one, and what can be wrong with it.
run "${tiny[@]}" --save good.st
expect_code 0
header_bytes="$(od -An -tu8 -N8 good.st | tr -d ' ')"
header="$(tail -c +9 good.st | head -c "$header_bytes")"
tail -c "+$((header_bytes + 9))" good.st >numbers

# write_model FILE HEADER LENGTH: as safetensors, whatever the header says.
write_model() {
  local i
  for ((i = 0; i < 8; ++i)); do printf '%b' "\\x$(printf '%02x' "$((($3 >> (8 * i)) & 255))")"; done >"$1"
  printf '%s' "$2" >>"$1"
  cat numbers >>"$1"
}
# broken_by FILE FROM TO TEXT: a model whose header says TO in place of FROM is refused with that text.
broken_by() {
  local changed="${header/"$2"/"$3"}"
  [[ "$changed" != "$header" ]] || complain "expected in the header: $2"
  write_model "$1" "$changed" "${#changed}"
  failed "$4" --init "$1"
}
failed "cannot be read" --init nowhere.st
failed "is empty" --init empty.txt
failed "it is damaged or no safetensors file" --init short.txt
head -c 5 good.st >cut.st
failed "has only 5 bytes" --init cut.st
head -c 1000 good.st >cut.st
failed "claims a header of $header_bytes bytes, but only 992 follow" --init cut.st
head -c -100 good.st >cut.st
failed "is cut short: tensor 'transformer.ln_f.bias'" --init cut.st
cat good.st short.txt >long.st
failed "has 300 bytes behind its last tensor" --init long.st
write_model absurd.st "$header" "$((1 << 60))"
failed "claims a header of 1152921504606846976 bytes" --init absurd.st
wpe='"transformer.wpe.weight":{"dtype":"F32","shape":[64,64],"data_offsets":[65536,81920]}'
broken_by no_json.st '{"__' '{__' "its header is not JSON"
broken_by size.st "$wpe" "${wpe/64,64/32,64}" "'transformer.wpe.weight' needs 8192 bytes for its shape but has 16384"
broken_by dtype.st "$wpe" "${wpe/F32/I32}" "'transformer.wpe.weight' is of type I32, not F32, F16 or BF16; save it as one of these"
broken_by unknown.st "$wpe" "${wpe/F32/Q77}" "'transformer.wpe.weight' has the unknown dtype 'Q77'"
broken_by overlap.st "$wpe" "${wpe/65536,81920/65532,81916}" "overlap"
broken_by turned.st '[64,192]' '[192,64]' "has the shape (192, 64), but this model needs (64, 192)"
broken_by missing.st '"transformer.ln_f.bias"' '"transformer.ln_f.bios"' "the tensor 'transformer.ln_f.bias' is missing"
broken_by surplus.st '"transformer.wte.weight"' \
  '"surplus":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"transformer.wte.weight"' \
  "this model has no use for the tensor 'surplus'"
failed "'transformer.h.2.attn.c_attn.weight' is missing" --init good.st --layers 3
run train --init good.st --preset small
expect_refusal "--preset=small has another shape than --init='good.st': leave out --preset"

# A model that is there is not replaced unasked, nor is the state of one; the first run with --resume begins one.
cp good.st old.st
cp good.st.state old.st.state
refused "--save='good.st': 'good.st' is there already; go on with --resume, replace it with --overwrite, or save elsewhere" \
  --save good.st
refused "'good.st' is there already" --init good.st --save good.st
mv good.st moved.st
refused "--save='good.st': 'good.st.state' is there already" --save good.st
mv moved.st good.st
expect_same old.st good.st
expect_same old.st.state good.st.state
run "${tiny[@]}" --save new.st --resume
expect_code 0
expect_silence
expect_out "'new.st.state' is not there yet: training starts from the beginning"
expect_same good.st new.st
expect_same good.st.state new.st.state
run train --preset tiny --validate-every 0 --sample 0 --steps 2 --save new.st --overwrite
expect_code 0
! cmp -s good.st new.st || complain "expected another model"
run "${tiny[@]}" --save new.st --resume
expect_code 0
[[ "$out" != *"not there yet"* ]] || complain "expected no note"
expect_same good.st new.st
rm new.st.state
run "${tiny[@]}" --save new.st --resume
expect_failure "'new.st.state': is not there to resume from, but 'new.st' is; check --save"

# States.
run "${tiny[@]}" --save good.st --resume
expect_failure "'good.st.state': 3 steps are done already; raise --steps=3 to go on"
more=(train --preset tiny --validate-every 0 --sample 0 --steps 4 --save good.st --resume)
run "${more[@]}" --layers 3
expect_failure "'good.st.state': it was made with layers=2, but this run has layers=3"
run "${more[@]}" --batch 3
expect_failure "it was made with batch=8, but this run has batch=3"
run "${more[@]}" --seed 3
expect_failure "it was made with seed=1, but this run has seed=3"
cp good.st model.st.state
run "${more[@]/good.st/model.st}"
expect_failure "'model.st.state': it does not say how many steps are done"
head -c 100000 good.st.state >model.st.state
run "${more[@]/good.st/model.st}"
expect_failure "'model.st.state': is cut short"

# A full disk while saving: the old checkpoint survives, and nothing is left behind. `ulimit -f` counts KiB.
for limit in 100 700; do
  (
    ulimit -f "$limit"
    exec "$ferry" "${more[@]}" >out 2>err
  )
  code=$?
  ran="ferry train --save with a limit of $limit KiB"
  out="$(<out)"
  err="$(<err)"
  expect_failure "'good.st.state': cannot be saved: File too large; raise the limit of file sizes (ulimit -f)"
  expect_same old.st good.st
  expect_same old.st.state good.st.state
done
[[ -z "$(find . -name '.*tmp*')" ]] || complain "expected no temporary files"

# A loss that is no number: said so, and not saved.
run "${tiny[@]}" --lr 1e6 --save good.st --overwrite
expect_failure "step 2: the loss is not a number any more; lower --lr=1000000"
expect_same old.st good.st
run "${tiny[@]}" --lr 1e6 --clip 0
expect_failure "or limit the gradients with --clip=1"

# A budget that is too small: the one that is named works.
for policy in keep recompute offload selective sqrt every=2; do
  run "${tiny[@]}" --policy "$policy" --budget 1KiB
  expect_no_plan "out of device memory: a step with --policy $policy does not fit the budget of 1.00 KiB"
  budget="$(sed -n 's/.*the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
  run train --preset tiny --validate-every 10 --sample 5 --steps 20 --policy "$policy" --budget "${budget:-none}"
  expect_code 0
  expect_silence
done
run "${tiny[@]}" --policy keep --budget 4MiB --accumulate 2 --attention explicit
expect_no_plan "the smallest that works is --budget "

# The same for a device that is too small.
run FERRY_DEVICE_BYTES=1MiB "${tiny[@]}"
expect_refusal "FERRY_DEVICE_BYTES=1048576: weights, gradients and AdamW's moments alone take 2.91 MiB; raise it"
run FERRY_DEVICE_BYTES=6MiB "${tiny[@]}" --budget 20MiB
expect_refusal "--budget=20.0 MiB: FERRY_DEVICE_BYTES=6291456 leaves 3.09 MiB"
run FERRY_DEVICE_BYTES=3500KiB "${tiny[@]}" --policy recompute
expect_no_plan "the smallest that works is --budget "
advice="$(sed -n 's/.*works is --budget \([0-9]*KiB\) with \(FERRY_DEVICE_BYTES=[0-9]*KiB\)$/\2 \1/p' <<<"$err")"
run "${advice% *}" "${tiny[@]}" --policy recompute --budget "${advice#* }"
expect_code 0
run FERRY_PINNED_BYTES=1MiB "${tiny[@]}"
expect_refusal "FERRY_PINNED_BYTES=1048576: copies to and from the device alone take 5.00 MiB; raise it"
run FERRY_PINNED_BYTES=6MiB "${tiny[@]}"
expect_code 0

# Nobody listens: an error, not a run that looks well.
if [[ -w /dev/full ]]; then
  ran="ferry train >/dev/full"
  "$ferry" "${tiny[@]}" >/dev/full 2>err
  code=$?
  out=""
  err="$(<err)"
  expect_failure "standard output"
fi

finish
