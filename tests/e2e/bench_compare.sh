#!/usr/bin/env bash
# bench/compare: ratios of two outputs of a Google Benchmark program, and files that are none.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

if ! command -v python3 >"$scratch/python3"; then
  echo "skipped: there is no python3"
  exit 0
fi
source_folder="$(realpath "$3")"
cd "$scratch" || exit 1

# compare ARGUMENT...: like run, of the script.
compare() {
  ran="bench/compare $*"
  "$source_folder/bench/compare" "$@" >out 2>err
  code=$?
  out="$(<out)"
  err="$(<err)"
}
# output ROW...: a file of Google Benchmark.
output() {
  local IFS=,
  printf '{"context":{"host_name":"%s","num_cpus":2,"library_build_type":"%s"},"benchmarks":[%s]}\n' \
    "${host:-here}" "${build:-release}" "$*"
}
# row NAME REAL_TIME [MORE]: a repetition.
row() { printf '{"name":"%s","run_name":"%s","run_type":"iteration","iterations":9,"real_time":%s,"cpu_time":%s,"time_unit":"ns"%s}' "$1" "$1" "$2" "$2" "${3:-}"; }

# The median of repetitions, units of time, counters that differ, and what only one file has.
output "$(row BM_A 100 ',"allocations":0,"bytes":64')" "$(row BM_A 900 ',"allocations":0,"bytes":64')" \
  "$(row BM_A 200 ',"allocations":0,"bytes":64')" "$(row BM_B 1000)" "$(row BM_Old 5)" >before.json
output "$(row BM_A 202 ',"allocations":3,"bytes":64')" \
  '{"name":"BM_B","run_type":"iteration","real_time":1.03,"cpu_time":1.2,"time_unit":"us"}' "$(row BM_New 7)" >after.json
compare before.json after.json
expect_code 0
expect_silence
expect_out "200 ns        202 ns    1.010"
expect_out "allocations: 0 -> 3"
expect_out "1 us       1.03 us    1.030"
expect_out "only in 'before.json': BM_Old"
expect_out "only in 'after.json': BM_New"
[[ "$out" != *bytes* ]] || complain "expected no word of a counter that is the same"
compare before.json after.json --threshold 1.02 --json result.json
expect_code 1
expect_out "1.030  WORSE"
expect_out "1 of 2 beyond the threshold of 1.02"
expect_json result.json metric threshold benchmarks ratio only_before only_after warnings worse
compare before.json after.json --metric cpu_time
expect_code 1
expect_out "1.200  WORSE"
compare before.json after.json --metric allocations --threshold 1 --json -
expect_code 1
expect_json out worse
compare after.json before.json
expect_code 0
expect_out "0.990"

# Aggregates go before repetitions; of a rate, less is worse.
output "$(row BM_A 1)" '{"name":"BM_A_median","run_name":"BM_A","run_type":"aggregate","aggregate_name":"median","real_time":50,"cpu_time":50,"time_unit":"ns","items_per_second":10}' \
  '{"name":"BM_A_cv","run_name":"BM_A","run_type":"aggregate","aggregate_name":"cv","aggregate_unit":"percentage","real_time":0,"cpu_time":0,"time_unit":"ns"}' >one.json
output '{"name":"BM_A_median","run_name":"BM_A","run_type":"aggregate","aggregate_name":"median","real_time":50,"cpu_time":50,"time_unit":"ns","items_per_second":5}' >two.json
compare one.json two.json
expect_code 0
expect_out "50 ns         50 ns    1.000"
compare one.json two.json --metric items_per_second
expect_code 1
compare two.json one.json --metric items_per_second
expect_code 0

# Another machine, a debug build and a failed benchmark are said.
host=there build=debug output "$(row BM_A 50)" '{"name":"BM_B","error_occurred":true,"error_message":"no GPU"}' >three.json
compare one.json three.json
expect_code 0
expect_err_has "host_name differs: here and there"
expect_err_has "'three.json' was measured with a debug build"
expect_err_has "BM_B failed: no GPU"

# What cannot be compared is one line.
refused() {
  compare "${@:2}"
  expect_code 2
  expect_one_line_of_error
  expect_err_has "$1"
}
refused "'none.json': No such file" none.json one.json
head -c 150 before.json >cut.json
refused "'cut.json': it is no whole JSON file" before.json cut.json
head -c 500 /dev/urandom >noise.json
refused "'noise.json'" noise.json one.json
echo '{"steps": []}' >other.json
refused "'other.json': it is no output of Google Benchmark" one.json other.json
echo '{"benchmarks": [3]}' >other.json
refused "has no name" one.json other.json
output >empty.json
refused "have no benchmark in common" one.json empty.json
for time in 0 -1 NaN null '"fast"' Infinity; do
  output "$(row BM_A "$time")" >bad.json
  refused "BM_A has real_time" one.json bad.json
done
refused "--metric=bytes: no benchmark of both files has it; they have cpu_time, items_per_second, real_time" one.json two.json --metric bytes
refused "'no/such/folder/x.json': No such file or directory" one.json two.json --json no/such/folder/x.json
compare one.json
expect_code 2
compare one.json two.json --threshold 0.5
expect_code 2
expect_err_has "'0.5' is no number of 1 or more"
compare --help
expect_code 0
expect_out "--benchmark_out=after.json"

finish
