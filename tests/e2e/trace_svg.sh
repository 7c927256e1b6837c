#!/usr/bin/env bash
# scripts/trace_svg.py turns a trace into a picture; and the example of docs/runtime.md is one.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

if ! command -v python3 >"$scratch/python3"; then
  echo "skipped: there is no python3"
  exit 0
fi
source_folder="$3"
cd "$scratch" || exit 1

# draw ARGUMENT...: like run, of the script.
draw() {
  ran="trace_svg.py $*"
  python3 "$source_folder/scripts/trace_svg.py" "$@" >out 2>err
  code=$?
  out="$(<out)"
  err="$(<err)"
}
expect_xml() {
  python3 -c 'import sys, xml.etree.ElementTree as t; t.parse(sys.argv[1])' "$1" 2>err || complain "expected XML: $1"
}

# The example: its seventh step has dropped items, a fetch that was given up, and the recipe that took over.
chain=(simulate --profile "$source_folder/examples/profiles/chain_of_eight.json" --gpu rtx4090 --policy auto --budget 40% --steps 12)
run FERRY_ADAPT=off FERRY_LINK_GBPS=12@0,4@6 FERRY_TRACE=trace.json "${chain[@]}" --json rule.json
expect_code 0
draw trace.json --step 7 -o step.svg
expect_code 0
expect_silence
expect_xml step.svg
for words in '>compute<' '>out<' '>in<' '>host<' '>F0<' '>B7<' 'class="forward completed"' 'class="backward completed"' \
  'class="offload completed"' 'class="fetch completed"' 'class="fetch abandoned"' 'class="rebuild completed"' 'class="wait completed"' \
  'class="bytes"' 'device bytes, at most ' 'class="decision"' 'dropped: an operation would have waited ' 'recomputed: would have waited '; do
  grep -qF "$words" step.svg || complain "expected in the picture: $words"
  grep -qF "$words" "$source_folder/docs/runtime_trace.svg" || complain "expected in the picture of docs/runtime.md: $words"
done
draw trace.json --step 7
expect_code 0
expect_same step.svg out
draw trace.json --title '<a> & "b"' -o last.svg
expect_code 0
expect_xml last.svg
grep -qF '&lt;a&gt; &amp; "b"' last.svg || complain "expected the title as text"

# What the example is told for: the rule, and better still adaptation, against a plan that is followed blindly.
run FERRY_ADAPT=off FERRY_STALL_TOLERANCE_US=1e9 FERRY_LINK_GBPS=12@0,4@6 "${chain[@]}" --json blind.json
expect_code 0
run FERRY_LINK_GBPS=12@0,4@6 "${chain[@]}" --json adapted.json
expect_code 0
python3 - <<'END' || complain "expected steps as docs/runtime.md has them"
import json
steps = {name: json.load(open(name + ".json"))["steps_us"] for name in ("blind", "rule", "adapted")}
print(steps)
for times in steps.values():
    assert abs(times[5] - 99000) < 500
assert steps["blind"][6] > 1.4 * steps["rule"][6] and steps["rule"][6] < 108000
assert steps["adapted"][6] <= steps["rule"][6] and steps["adapted"][11] <= steps["rule"][11]
END

# A trace of real times, of several micro-batches; and one that a killed run has left open.
run FERRY_DEVICE=host FERRY_TRACE=trace.json train --preset tiny --validate-every 0 --sample 0 --steps 3 --accumulate 2 --policy offload --budget 50%
expect_code 0
draw trace.json -o host.svg
expect_code 0
expect_xml host.svg
grep -qF 'step 3: ' host.svg || complain "expected the last step"
sed '$d' trace.json >open.json
draw open.json -o open.svg
expect_code 0
expect_same host.svg open.svg

# Errors are one line.
draw trace.json --step 9
expect_code 1
expect_err "trace_svg.py: --step=9: the trace has steps 1 to 3"
draw none.json
expect_code 1
expect_err "trace_svg.py: 'none.json': No such file or directory"
echo '{"steps": 3}' >other.json
draw other.json
expect_code 1
expect_err "trace_svg.py: 'other.json': it is no trace; give a file that FERRY_TRACE has written"
head -c 1000 /dev/urandom >other.json
draw other.json
expect_code 1
expect_one_line_of_error
echo '[{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":1}]' >other.json
draw other.json
expect_code 1
expect_err "trace_svg.py: 'other.json': no step in it was measured to its end"
draw trace.json -o no/such/folder/step.svg
expect_code 1
expect_err "trace_svg.py: 'no/such/folder/step.svg': No such file or directory"

finish
