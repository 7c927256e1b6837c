#!/usr/bin/env bash
# `ferry plan`: the table, the forecast and the files of the shipped profiles; a budget that no plan fits has an exit code
# of its own, and what its message recommends works; wrong input is one line that names it.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

examples="$3/examples"
cd "$scratch" || exit 1
cp "$examples"/profiles/*.json "$examples"/hardware/*.json .
gpt=(plan --profile gpt_7b_a100.json --gpu a100-80)
small=(plan --gpt "4,256,4,128,8" --gpu laptop --time-limit-ms 50)

# What is printed, and the files.
run "${gpt[@]}" --budget 20% -o plan.json --json report.json --why
expect_code 0
expect_silence
for words in "budget 6.43 GiB, 20% of the 32.2 GiB that keeping all needs" "segments  x  ln1  qkv" "kept   ferried   rebuilt" \
  "K keep, F ferry, R recompute" "with unlimited memory: overhead " "no schedule is faster than" "at most " $'\nwaiting ' \
  $'\nrecompute ' FLOP $'\nlink ' " out, " $'\ndevice ' " of 6.43 GiB, average" $'\nhost ' $'\ninsured     yes' \
  "compute |FFF" "out     |" "in      |" " ms to rebuild, " " ms to fetch"; do
  expect_out "$words"
done
grep -Eq '^32 +[KFR] +[KFR]  ' <<<"$out" || complain "expected the last segment's row"
grep -Eq '^compute \|[FBR.]{72}\|$' <<<"$out" || complain "expected 72 columns of the compute lane"
expect_json plan.json ferry_plan profile hardware budget_bytes items operations position after step_us
expect_json report.json keep_all_bytes budget_bytes insured step_us unlimited_us overhead lower_bound_us gap waiting_us \
  recompute_us recompute_flops recomputed offloaded_bytes fetched_bytes device host items reason
[[ -z "$(find . -name '.*tmp*')" ]] || complain "expected no temporary files"

# The same seed and effort give the same plan; a file of hardware is as good as its name.
for file in one.json two.json; do
  run plan --gpt "4,256,4,128,8" --gpu laptop --budget 60% --effort 500 -o "$file"
  expect_code 0
done
expect_same one.json two.json
run plan --profile gpt_1.3b_rtx4090.json --hardware rtx4090.json --budget 2GiB --host-budget 10% --no-insure --derate 1 \
  --margin 0.05 --seed 3 --time-limit-ms 100
expect_code 0
expect_out "of 1.90 GiB"
expect_out "of 6.40 GiB"
expect_out "insured     no"
run plan --profile resnet101_rtx4090.json --gpu rtx4090 --budget 30% --time-limit-ms 100
expect_code 0
expect_out "conv3"

# Reasons of one name, of one segment, of nothing that there is.
run "${gpt[@]}" --budget 20% --time-limit-ms 50 --why qkv
expect_code 0
sed -n '/^F forward/,$p' <<<"$out" | grep -Eq '^[0-9-]+ +ln1 ' && complain "expected reasons of qkv alone"
run "${gpt[@]}" --budget 20% --time-limit-ms 50 --why 32
expect_code 0
expect_out "32        lnf      "
for why in nothing 33 -1 3.ln1; do
  run "${gpt[@]}" --budget 20% --why="$why" -o never.json
  expect_refusal "--why='$why': there is no such item or segment; the items are x, ln1"
done
[[ ! -e never.json ]] || complain "expected no file"

# A file on standard output, alone.
run "${small[@]}" --budget 60% -o -
expect_code 0
[[ "$out" == "{"*"}" ]] || complain "expected the plan and nothing else"
expect_json out ferry_plan
run "${small[@]}" --budget 60% --json -
expect_code 0
expect_json out overhead

# A budget that no plan fits; the smallest works, in another run too.
for input in "--profile gpt_7b_a100.json --gpu a100-80" "--profile resnet101_rtx4090.json --gpu rtx4090" \
  "--profile resnet101_rtx4090.json --gpu rtx4090 --margin 0.1" "--gpt 4,256,4,128,8 --gpu laptop"; do
  read -ra flags <<<"$input"
  run plan "${flags[@]}" --budget 1% -o never.json
  expect_code 3
  expect_one_line_of_error
  expect_err_has "at least "
  [[ -z "$out" && ! -e never.json ]] || complain "expected neither output nor a file"
  enough="$(sed -n 's/.*the smallest that works is --budget \([0-9]*KiB\)$/\1/p' <<<"$err")"
  run plan "${flags[@]}" --budget "${enough:-none}" --time-limit-ms 50
  expect_code 0
  run plan "${flags[@]}" --budget "$((${enough%KiB} * 99 / 100))KiB" --time-limit-ms 50
  expect_code 3
done

# Budgets that are none.
for budget in lots 0 0% 200% -5 12GX ""; do
  run "${gpt[@]}" --budget "$budget"
  expect_refusal "--budget='$budget': "
done
run "${gpt[@]}" --budget 100GiB
expect_refusal "--budget=100GiB: that is 100 GiB, and 'a100-80' has 80.0 GiB; lower it"
run "${gpt[@]}" --budget 20% --host-budget 1TiB
expect_refusal "--host-budget=1TiB: 'a100-80' can pin 256 GiB"
run "${gpt[@]}"
expect_refusal "--budget BYTES is needed"

# Flags.
for value in "--derate 0" "--derate 1.1" "--derate x" "--margin -1" "--margin nan" "--time-limit-ms 0" "--effort 0" "--effort x" "--seed -1" \
  "--sweep 1" "--sweep 99999"; do
  read -ra flag <<<"$value"
  run "${gpt[@]}" --budget 20% "${flag[@]}"
  expect_code 2
  expect_one_line_of_error
done
for flag in --profile --hardware --json -o --case; do
  run "${gpt[@]}" --budget 20% "$flag" ""
  expect_refusal "is empty"
done
run plan --profile gpt_7b_a100.json --gpu gtx42 --budget 20%
expect_refusal "there is no hardware 'gtx42': give one of a100-40, a100-80, a10g"
run plan --profile gpt_7b_a100.json --budget 20%
expect_refusal "give --gpu NAME or --hardware FILE"
run plan --profile gpt_7b_a100.json --gpu h100 --hardware rtx4090.json --budget 20%
expect_refusal "give --gpu NAME or --hardware FILE, one of them"
run plan --gpu h100 --budget 20%
expect_refusal "give --profile FILE or --gpt SIZES"
for sizes in 32 1,2,3,4 1,2,3,4,5,6 a,b,c,d,e "" 0,256,4,128,8 4,255,4,128,8; do
  run plan --gpt "$sizes" --gpu h100 --budget 20%
  expect_code 2
  expect_one_line_of_error
done
run "${gpt[@]}" --budget 20% --effort 5 --time-limit-ms 5
expect_refusal "leave one out"
run "${gpt[@]}" --budget 20% --schedule
expect_refusal "--schedule and --first go with --case"
run "${gpt[@]}" --budget 20% -o same.json --json same.json
expect_refusal "the same file"

# Files that are not there, cut short, of another version, or nonsense.
run plan --profile none.json --gpu h100 --budget 20%
expect_failure "none.json"
head -c 2000 gpt_7b_a100.json >short.json
run plan --profile short.json --gpu h100 --budget 20%
expect_failure "short.json"
sed 's/"ferry_profile": 1/"ferry_profile": 2/' gpt_7b_a100.json >version.json
run plan --profile version.json --gpu h100 --budget 20%
expect_failure "version.json"
expect_err_has "ferry_profile"
sed 's/"bytes": 67108864/"bytes": -1/' gpt_7b_a100.json >negative.json
run plan --profile negative.json --gpu h100 --budget 20%
expect_failure "segments[0].items[0].bytes"
run plan --profile gpt_7b_a100.json --hardware gpt_7b_a100.json --budget 20%
expect_failure "gpt_7b_a100.json"
run plan --profile . --gpu h100 --budget 20%
expect_code 1
expect_one_line_of_error

# Files that cannot be written: refused before the work, and what was there stays.
run "${small[@]}" --budget 60% -o no/such/plan.json
expect_failure "'no/such/plan.json': cannot be saved"
[[ -z "$out" ]] || complain "expected nothing on stdout"
run "${small[@]}" --budget 60% -o .
expect_failure "it is a directory"
cp plan.json old.json
(
  ulimit -f 8
  exec "$ferry" "${gpt[@]}" --budget 30% --time-limit-ms 50 -o plan.json >out 2>err
)
code=$?
ran="ferry plan -o plan.json with a limit of 8 KiB"
out="$(<out)" err="$(<err)"
expect_failure "'plan.json': cannot be saved: File too large"
expect_same old.json plan.json
[[ -z "$(find . -name '.*tmp*')" ]] || complain "expected no temporary files"
if [[ -w /dev/full ]]; then
  ran="ferry plan -o - >/dev/full"
  "$ferry" "${small[@]}" --budget 60% -o - >/dev/full 2>err
  code=$? out="" err="$(<err)"
  expect_failure "standard output"
fi

# A sweep: more budget never gives a slower plan, and the ends are what they should be.
run plan --profile gpt_1.3b_rtx4090.json --gpu rtx4090 --sweep 12 --time-limit-ms 60 --json sweep.json
expect_code 0
expect_silence
for words in "budget  share " "overhead below 10%" "overhead below 1%" "nothing is recomputed  from" "nothing is ferried " \
  $'\noverhead\n'; do
  expect_out "$words"
done
(($(grep -c '^ .*iB .*%$' <<<"$out") == 12)) || complain "expected twelve budgets"
expect_json sweep.json smallest_budget_bytes keep_all_budget_bytes keep_all_bytes points break_even from_bytes gap
sed -n 's/^ *"step_us": \([0-9.e+]*\),$/\1/p' sweep.json |
  awk 'NR > 1 && $1 > before { bad = 1 } { before = $1 } END { exit bad || NR != 12 }' ||
  complain "expected steps that never get slower"
sed -n 's/^ *"overhead": \(.*\),$/\1/p' sweep.json | tail -n 1 | awk '{ exit !($1 < 1e-6) }' ||
  complain "expected no overhead with the largest budget"
run plan --gpt 4,256,4,128,8 --gpu laptop --sweep 3 --time-limit-ms 20 --json -
expect_code 0
[[ "$out" == "{"*"}" ]] || complain "expected JSON and nothing else"
run "${gpt[@]}" --sweep 5 --budget 20%
expect_refusal "leave out --budget"

# Ctrl-C in a sweep.
for name in INT TERM; do
  start "${gpt[@]}" --sweep 1000 --time-limit-ms 100
  sleep 1
  signal "$name"
  expect_code 130
  expect_silence
  expect_out "interrupted after "
done

finish
