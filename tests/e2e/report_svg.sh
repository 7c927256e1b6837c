#!/usr/bin/env bash
# `ferry report --svg` draws a step of a trace; and the example of docs/runtime.md is one.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

source_folder="$(realpath "$3")"
ferry="$(realpath "$ferry")"
cd "$scratch" || exit 1

expect_xml() {
  grep -q '</svg>' "$1" || complain "expected the end of a picture: $1"
  if command -v python3 >"$scratch/python3"; then
    python3 -c 'import sys, xml.etree.ElementTree as t; t.parse(sys.argv[1])' "$1" || complain "expected XML: $1"
  fi
}

# The example: its seventh step has dropped items, a fetch that was given up, and the recipe that took over.
chain=(simulate --profile "$source_folder/examples/profiles/chain_of_eight.json" --gpu rtx4090 --policy auto --budget 50% --steps 12)
run FERRY_ADAPT=off FERRY_LINK_GBPS=12@0,4@6 FERRY_TRACE=trace.json "${chain[@]}" --json rule.json
expect_code 0
run report trace.json --step 7 --svg step.svg
expect_code 0
expect_silence
expect_out "trace.json: 12 steps"
[[ ! -e report.html ]] || complain "expected no page that nobody has asked for"
expect_xml step.svg
for words in '>compute<' '>out<' '>in<' '>host<' '>F0<' '>B7<' 'class="forward edged"' 'class="backward edged"' \
  'class="offload edged"' 'class="fetch edged"' 'class="fetch given-up"' '; abandoned after ' 'class="rebuild edged"' 'class="wait edged"' \
  'class="device-line"' 'device bytes, at most ' 'class="axis dashed"' 'fill="#9db8d9"' '(prefers-color-scheme: dark)' 'dropped: an operation would have waited ' 'recomputed: would have waited '; do
  grep -qF "$words" step.svg || complain "expected in the picture: $words"
  grep -qF "$words" "$source_folder/docs/runtime_trace.svg" || complain "expected in the picture of docs/runtime.md: $words"
done
if grep -q 'var(' step.svg; then complain "expected colours that any viewer knows"; fi
run report trace.json --step 7 --svg -
expect_code 0
expect_same step.svg "$scratch/out"
run report trace.json --svg last.svg --title '<a> & "b"' -o page.html --json page.json
expect_code 0
expect_xml last.svg
grep -qF '&lt;a&gt; &amp; &quot;b&quot;' last.svg || complain "expected the title as text"
grep -q '</html>' page.html || complain "expected the page too, when -o asks for it"
expect_json page.json runs

# What the example is told for: the rule, and better still adaptation, against a plan that is followed blindly.
run FERRY_ADAPT=off FERRY_STALL_TOLERANCE_US=1e9 FERRY_LINK_GBPS=12@0,4@6 "${chain[@]}" --json blind.json
expect_code 0
run FERRY_LINK_GBPS=12@0,4@6 "${chain[@]}" --json adapted.json
expect_code 0
! command -v python3 >"$scratch/python3" || python3 - >"$scratch/steps" <<'END' || complain "expected steps as docs/runtime.md has them"
import json
steps = {name: json.load(open(name + ".json"))["steps_us"] for name in ("blind", "rule", "adapted")}
print(steps)
for times in steps.values():
    assert abs(times[5] - 97500) < 500
assert steps["blind"][6] > 1.4 * steps["rule"][6] and steps["rule"][6] < 108000
assert steps["adapted"][6] <= steps["rule"][6] and steps["adapted"][11] <= steps["rule"][11]
END

# A trace of real times, of several micro-batches; and one that a killed run has left open.
run FERRY_DEVICE=host FERRY_TRACE=trace.json train --preset tiny --validate-every 0 --sample 0 --steps 3 --accumulate 2 --policy offload --budget 50%
expect_code 0
run report trace.json --svg host.svg
expect_code 0
expect_xml host.svg
grep -qF 'step 3: ' host.svg || complain "expected the last step"
sed '$d' trace.json >open.json
run report open.json --svg open.svg
expect_code 0
expect_same host.svg open.svg
# The simulated trainer's own trace, in which a step has no number.
run simulate --profile "$source_folder/examples/profiles/chain_of_eight.json" --gpu rtx4090 --budget 40% --policy auto --trace sim.json
expect_code 0
run report sim.json --svg sim.svg
expect_code 0
expect_xml sim.svg

# Errors are one line, and leave no file.
run report trace.json --svg none.svg --step 9
expect_refusal "--step 9: the trace has steps 1 to 3"
run report trace.json --step 2
expect_refusal "--step requires --svg"
run report trace.json --svg none.svg --step -1
expect_refusal "--step"
run report rule.json --svg none.svg
expect_refusal "--svg needs a trace: give a file that FERRY_TRACE has written"
run report trace.json sim.json --svg none.svg
expect_refusal "--svg draws a step of one trace"
run report trace.json --svg trace.json
expect_refusal "'trace.json' is read and would be written over: give another --svg"
run report trace.json --svg both --json both
expect_refusal "--svg and --json are the same file"
run report trace.json --svg both -o both
expect_refusal "-o and --svg are the same file"
run report none.json --svg none.svg
expect_failure "'none.json': cannot be opened"
echo '[{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":1}]' >other.json
run report other.json --svg none.svg
expect_failure "'other.json': it holds no step"
run report trace.json --svg no/such/folder/step.svg
expect_failure "no/such/folder/step.svg"
[[ ! -e none.svg && ! -e both ]] || complain "expected no picture of what was refused"

finish
