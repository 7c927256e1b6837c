#!/usr/bin/env bash
# `scripts/gpu-check`: says at once that there is no GPU, before anything is built; and where there is one, what its
# report looks like. The GPU, the command and the tests are stand-ins here.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# gpu_check [NAME=value...] ARGUMENT...
gpu_check() {
  local settings=()
  while (($# > 0)) && [[ "$1" == [A-Z]*=* ]]; do
    settings+=("$1")
    shift
  done
  ran="${settings[*]} scripts/gpu-check $*"
  (cd "$scratch" && env "${settings[@]}" "$root/scripts/gpu-check" "$@") >"$scratch/out" 2>"$scratch/err"
  code=$?
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
}
root="$3"

# No GPU, on any machine.
for hidden in "" -1; do
  began=$SECONDS
  gpu_check "CUDA_VISIBLE_DEVICES=$hidden"
  expect_code 1
  expect_one_line_of_error
  expect_err_has "no GPU: "
  expect_err_has "scripts/test"
  [[ -z "$out" ]] || complain "expected nothing on stdout"
  ((SECONDS - began < 5)) || complain "expected to be told at once"
  [[ ! -e "$scratch/gpu-report.txt" ]] || complain "expected no report"
done

gpu_check --help
expect_code 0
expect_out "usage: scripts/gpu-check"
for wrong in --bogus --build "--output $scratch/nowhere"; do
  # shellcheck disable=SC2086  # two words
  gpu_check $wrong
  expect_code 2
  expect_one_line_of_error
done

# A GPU that is not one.
fake="$scratch/fake"
mkdir -p "$fake/bin" "$fake/build/tools/ferry" "$fake/build/tests" "$scratch/report"
stand_in() {
  cat >"$1"
  chmod +x "$1"
}
stand_in "$fake/bin/nvidia-smi" <<'TEXT'
#!/usr/bin/env bash
echo "GPU 0: stand-in"
TEXT
stand_in "$fake/bin/compute-sanitizer" <<'TEXT'
#!/usr/bin/env bash
[[ "$*" != *racecheck* ]] || { echo "ERROR SUMMARY: 1 error"; exit 86; }
TEXT
stand_in "$fake/build/tests/ferry_gpu_tests" <<'TEXT'
#!/usr/bin/env bash
[[ "$FERRY_REQUIRE_GPU" == 1 ]] || exit 1
[[ -z "${SLOW-}" ]] || { echo started >"$SLOW"; sleep 60; }
for word in "$@"; do [[ "$word" != --gtest_output=json:* ]] || echo '{}' >"${word#*json:}"; done
TEXT
stand_in "$fake/build/tools/ferry/ferry" <<'TEXT'
#!/usr/bin/env bash
[[ -z "${FERRY_BUDGET-}" ]] || exit 1
echo "ferry $*"
while (($# > 0)); do
  case "$1" in --json | --save-grads) echo '{}' >"$2" ;; esac
  shift
done
TEXT
with_gpu=(-u CUDA_VISIBLE_DEVICES "PATH=$fake/bin:$PATH" FERRY_BUDGET=1)
arguments=(--no-setup --build "$fake/build" --output "$scratch/report")

ran="scripts/gpu-check with a stand-in"
(cd "$scratch" && env "${with_gpu[@]}" "$root/scripts/gpu-check" "${arguments[@]}") >"$scratch/out" 2>"$scratch/err"
code=$?
out="$(<"$scratch/out")"
err="$(<"$scratch/err")"
expect_code 1
report="$scratch/report/gpu-report.txt"
[[ "$(head -n 1 "$report")" == "Ferry on a GPU: 1 failed" ]] || complain "expected the outcome first"
for line in '^passed  *GPU tests' '^passed  *link' '^passed  *compute-sanitizer memcheck' '^FAILED  *compute-sanitizer racecheck .*exit code 86' \
  '^passed  *train, auto' '^passed  *gradients, offload as keep' '^passed  *train, compared' '^ferry  ' '^nvcc ' '^driver ' \
  '^===== nvidia-smi' 'train --device cuda .*--policy recompute'; do
  grep -q "$line" "$report" || complain "expected in the report: $line"
done
listed="$(tar -tzf "$scratch/report/gpu-report.tar.gz")"
for file in gpu-report.txt devices.json tests.json link.json train-keep.json train-offload.json train-recompute.json \
  train-auto.json compare.json; do
  [[ "$listed" == *"gpu-report/$file"* ]] || complain "expected in the archive: $file"
done

# Interrupted: a report of what was done until then, and nothing runs on.
ran="scripts/gpu-check with a stand-in"
rm "$scratch/report"/*
(cd "$scratch" && exec env "${with_gpu[@]}" "SLOW=$scratch/slow" TMPDIR="$fake" "$root/scripts/gpu-check" "${arguments[@]}") \
  >"$scratch/out" 2>"$scratch/err" &
started=$!
within 20 test -e "$scratch/slow" || complain "expected the tests to begin"
signal TERM
expect_code 130
grep -q '^interrupted  *GPU tests' "$report" || complain "expected the table to say where it was"
[[ -z "$(find "$fake" -name 'tmp.*')" ]] || complain "expected no temporary files to be left"

finish
