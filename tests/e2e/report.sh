#!/usr/bin/env bash
# `ferry report`: pages of real runs, and what a real browser makes of them; wrong input.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

cd "$scratch" || exit 1

# expect_in FILE TEXT...: it holds them all.
expect_in() {
  local text
  for text in "${@:2}"; do grep -qF -- "$text" "$1" || complain "expected in $1: $text"; done
}
expect_page() {
  expect_in "$1" "<!doctype html>" '<script id="data" type="application/json">' "</html>"
  (($(stat -c %s "$1") < 5 * 1024 * 1024)) || complain "expected $1 below 5 MiB"
  if grep -qE '(src|href)="?(https?:)?//' "$1"; then complain "expected nothing from elsewhere in $1"; fi
}

# Real runs, of every kind of output.
model=(--layers 3 --width 48 --heads 4 --context 32 --batch 4 --steps 8 --validate-every 0 --sample 0)
run FERRY_TRACE=trace.json FERRY_STATS=stats.jsonl FERRY_LINK_GBPS=0.2 FERRY_CHUNK_BYTES=64KiB train "${model[@]}" --policy offload --budget 60% --json run.json
expect_code 0
run FERRY_TRACE=other.trace FERRY_STATS=other.stats train "${model[@]}" --policy recompute --budget 60% --json other.json
expect_code 0
run train --compare "${model[@]}" --budget 60% --json compared.json
expect_code 0
run simulate --gpt 4,256,4,128,8 --gpu laptop --policy auto --budget 40% --json simulated.json --trace simulated.trace
expect_code 0
cat >bench.json <<'JSON'
{"ferry_bench": 1, "what": "policies", "device": "sim", "profile": "a step, on a100-80", "hardware": "a100-80", "keep_all_bytes": 1000000, "unlimited_us": 1000,
 "budgets_bytes": [200000, 500000], "curves": [
 {"name": "auto", "kind": "ferry", "words": "a planned mix", "points": [
  {"budget_bytes": 200000, "fits": true, "peak_bytes": 190000, "step_us": 1100, "overhead": 0.1, "recompute_us": 100, "waiting_us": 0, "offloaded_bytes": 5000},
  {"budget_bytes": 500000, "fits": true, "peak_bytes": 490000, "step_us": 1020, "overhead": 0.02, "recompute_us": 20, "waiting_us": 0, "offloaded_bytes": 500}]},
 {"name": "torchtune", "kind": "peer", "words": "offloads all", "points": [{"budget_bytes": 200000, "fits": false, "failure": "needs 400 KiB"},
  {"budget_bytes": 500000, "fits": true, "peak_bytes": 490000, "step_us": 1500, "overhead": 0.5, "recompute_us": 0, "waiting_us": 500, "offloaded_bytes": 500000}]}],
 "dominated": [], "recommended": [{"variable": "FERRY_POLICY", "value": "auto", "why": "the lowest curve", "gain": 0.3}]}
JSON

# Files of one run are put together, in any order; runs are kept apart.
for order in "trace.json stats.jsonl run.json" "run.json stats.jsonl trace.json" "stats.jsonl trace.json run.json"; do
  read -r -a files <<<"$order"
  run report "${files[@]}" -o one.html --json data.json
  expect_code 0
  expect_silence
  expect_out "8 steps, "
  expect_out " + "
  expect_json data.json runs steps advice settings items labels traced
  expect_page one.html
  [[ "$(grep -c '^      "label":' data.json)" == 1 ]] || complain "expected one run"
done
expect_in data.json '"FERRY_POLICY"' '"offload"' '"FERRY_CHUNK_BYTES"'
run report other.trace trace.json other.stats stats.jsonl run.json other.json simulated.trace simulated.json bench.json compared.json -o all.html
expect_code 0
expect_page all.html
for words in "other.trace + other.stats" "trace.json + stats.jsonl" "simulated.trace + simulated.json" "bench.json: 2 curves" "compared.json: "; do
  expect_out "$words"
done
run report run.json -o -
expect_code 0
[[ "$out" == "<!doctype html>"* ]] || complain "expected the page on standard output"

# A killed run leaves open files.
head -c $(($(stat -c %s trace.json) * 2 / 3)) trace.json >cut.trace
head -c $(($(stat -c %s stats.jsonl) * 2 / 3)) stats.jsonl >cut.stats
run report cut.trace cut.stats -o cut.html
expect_code 0
expect_out "killed"
expect_page cut.html

# Hostile names are inert.
sed 's|"item":"\([a-z0-9]*\) (|"item":"</script><img src=x onerror=document.title=1><b>\1 (|g' trace.json >hostile.trace
run report hostile.trace -o hostile.html
expect_code 0
if grep -qF '<img' hostile.html; then complain "expected no markup from a name"; fi

# Wrong input.
run report
expect_code 2
run report nowhere.json
expect_failure "'nowhere.json': cannot be opened"
run report .
expect_failure "is a folder"
: >empty.json
run report empty.json
expect_failure "'empty.json': it is empty"
echo '{"ferry_plan": 1}' >plan.json
run report plan.json
expect_failure "it is a plan, not a run; give a file of FERRY_TRACE"
run report run.json -o run.json
expect_refusal "'run.json' is read and would be written over"
run report run.json -o nowhere/page.html
expect_code 1
expect_one_line_of_error

# In a real browser: no errors, everything there, and a picture.
browser=""
for name in chromium chromium-browser google-chrome; do
  [[ -n "$browser" ]] || browser="$(command -v "$name")"
done
if [[ -z "$browser" ]]; then
  echo "no chromium, chromium-browser or google-chrome here: the pages were not opened in a browser"
  finish
fi
browse() { timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --enable-logging=stderr "$@"; }
# expect_dom PAGE TEXT...: the browser shows it without complaint, and these are in it then.
expect_dom() {
  ran="$browser $1"
  browse --virtual-time-budget=5000 --dump-dom "file://$scratch/$1" >dom.html 2>browser.log
  code=$?
  out=""
  err="$(grep -E 'CONSOLE|Uncaught' browser.log)"
  expect_code 0
  expect_silence
  expect_in dom.html 'data-ready="' "${@:2}"
}
expect_dom one.html 'id="overview"' 'id="next"' 'id="steps"' 'id="memory"' 'id="lanes"' 'id="items"' 'id="decisions"' 'id="settings"' \
  'class="lanes"' 'FERRY_POLICY' 'class="life"' 'aria-sort=' 'class="reference"' 'aria-label="Zoom in"'
expect_dom all.html 'id="compare"' 'id="pareto-0"' 'id="policies-0"' 'role="tab"' 'export FERRY_POLICY=auto' 'torchtune'
grep -q '>FERRY_POLICY</code> the lowest curve</li>' dom.html || complain "expected the gain to be said once"
if grep -q 'on a100-80; a100-80' dom.html; then complain "expected the GPU to be named once"; fi
grep -q '"name":"auto","ink":"s0"' all.html || complain "expected auto's colour of every picture"
expect_dom cut.html 'killed' 'id="steps"'
expect_dom hostile.html 'id="items"' '&lt;img'
if grep -q '<title>1</title>\|<img' dom.html; then complain "expected a name to stay text"; fi

# What readers do: a script at the end of the page does it, and writes down what came of it.
cat >reader.js <<'JS'
setTimeout(() => {
  const results = [];
  const check = (name, good) => results.push(`${name}=${good ? 'yes' : 'no'}`);
  const one = (selector) => document.querySelector(selector);
  const canvas = one('canvas.lanes');
  const range = () => one('.range').textContent;
  const changes = (act) => { const before = range(); act(); return range() !== before; };
  const box = canvas.getBoundingClientRect();
  const at = (x, y) => ({clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true});
  const touch = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, {...at(x, 40), pointerId: id, pointerType: 'touch'}));
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
  check('buttons', changes(() => one('[aria-label="Zoom in"]').click()) && changes(() => one('[aria-label="Later"]').click()));
  check('fit', changes(() => one('[aria-label="Show the whole step"]').click()) && range().startsWith('0 '));
  check('wheel', changes(() => canvas.dispatchEvent(new WheelEvent('wheel', {...at(500, 40), deltaY: -300}))));
  check('drag', changes(() => { touch('pointerdown', 1, 500); touch('pointermove', 1, 400); touch('pointerup', 1, 400); }));
  check('pinch', changes(() => {
    touch('pointerdown', 1, 400); touch('pointerdown', 2, 500); touch('pointermove', 1, 300); touch('pointermove', 2, 600);
    touch('pointerup', 1, 300); touch('pointerup', 2, 600);
  }));
  check('keys', changes(() => key(canvas, '0')) && changes(() => key(canvas, '+')) && changes(() => key(canvas, 'ArrowRight')));
  key(canvas, '0');
  let told = '';
  for (let x = 130; x < box.width && !told; x += 5) {
    canvas.dispatchEvent(new PointerEvent('pointermove', at(x, 40)));
    if (!one('#tip').hidden) told = one('#tip').textContent;
  }
  check('hover', /forward|backward/.test(told));
  const rows = () => document.querySelectorAll('.items tbody tr').length;
  const filter = one('#item-filter');
  const type = (text) => { filter.value = text; filter.dispatchEvent(new Event('input')); };
  const all = rows();
  type('no such item');
  const none = rows();
  type('segment 1');
  check('filter', all > 0 && none === 0 && rows() > 0 && rows() < all);
  type('');
  one('th[data-key=bytes] button').click();
  const down = one('th[data-key=bytes]').getAttribute('aria-sort');
  one('th[data-key=bytes] button').click();
  check('sort', down === 'descending' && one('th[data-key=bytes]').getAttribute('aria-sort') === 'ascending');
  one('.items tbody button').click();
  check('story', one('.story-row ol.story li') !== null);
  const step = one('#lane-step');
  const other = step.value === '0' ? 1 : 0;
  step.value = String(other);
  step.dispatchEvent(new Event('change'));
  one('.items tbody button').click();
  check('step', one('.story-row p').textContent === `In ${step.options[other].textContent.match(/step [0-9]+/)[0]}:`);
  const picture = one('#steps svg');
  key(picture, 'ArrowRight');
  check('read', one('#steps [aria-live]').textContent.startsWith('step 1: '));
  one('#theme').click();
  check('theme', document.documentElement.dataset.theme === 'dark');
  document.body.dataset.checked = results.join(' ');
}, 1000);
JS
{
  sed '/<\/body>/,$d' one.html
  printf '<script>\n%s\n</script>\n</body>\n</html>\n' "$(<reader.js)"
} >read.html
expect_dom read.html 'data-checked="' {buttons,fit,wheel,drag,pinch,keys,hover,filter,sort,story,step,read,theme}=yes
for look in "1280,2400 light" "1280,2400 dark" "390,2400 light"; do
  read -r size theme <<<"$look"
  browse --hide-scrollbars --window-size="$size" --screenshot="$scratch/page.png" "file://$scratch/one.html#theme=$theme" >browser.log 2>&1
  [[ "$(head -c 4 page.png | tail -c 3)" == PNG ]] || complain "expected a picture of $size"
  rm -f page.png
done
finish
