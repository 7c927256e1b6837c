// The last part of the page's script: the sections, from the data.

const began = performance.now();
const data = JSON.parse(document.getElementById('data').textContent);
const page = {main: document.getElementById('main'), sections: document.getElementById('sections'), run: 0, drawn: []};
tip.element = document.getElementById('tip');

// By policy, as in every other picture, where that tells the runs apart.
const runInk = (index) => colour(new Set(data.runs.map((run) => run.ink)).size === data.runs.length ? data.runs[index].ink : `s${index % 12}`);

function section(id, title, about, ...children) {
  page.sections.append(h('a', {href: `#${id}`}, title));
  return h('section', {id, 'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title),
           about ? h('p', {class: 'about'}, about) : null, children);
}
const card = (name, value, more, ink) => h('div', {class: 'card'}, h('span', {class: 'name'}, name), h('b', {}, value),
    more ? h('span', {class: 'more'}, more) : null, ink ? h('span', {class: 'bar', style: {background: ink}}) : null);

function table(columns, rows, attributes) {
  return h('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': (attributes || {}).label || 'Table'},
           h('table', {}, h('thead', {}, h('tr', {}, columns.map((one) => h('th', {scope: 'col', class: one.right ? 'right' : ''}, one.name)))),
             h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((cell, i) => h('td', {class: columns[i].right ? 'right' : ''}, cell)))))));
}

// ---- Steps

/// A column of a run's steps, or nothing.
const column = (run, name) => run.steps.columns[name];
const stepTime = (run) => column(run, 'step_us') || column(run, 'wall_us');

function partsOf(run) {
  const steps = run.steps.columns;
  const times = stepTime(run) || [];
  const forward = steps.forward_us;
  const parts = [];
  const zero = times.map(() => 0);
  const add = (name, ink, values) => { if (values && values.some((one) => one > 0)) parts.push({name, ink: colour(ink), values, kind: 'stack', quiet: true}); };
  const others = [steps.recompute_us, steps.arrival_us, steps.bytes_us].map((one) => one || zero);
  if (forward && steps.backward_us) {
    const rest = times.map((all, i) => Math.max(0, (all || 0) - (forward[i] || 0) - (steps.backward_us[i] || 0) -
        others.reduce((sum, one) => sum + (one[i] || 0), 0))).map((left, i) => left > 0.01 * (times[i] || 0) ? left : 0);
    const split = (i) => known(forward[i]) || known(steps.backward_us[i]);  // of the others only the sum is known
    add('forward', 'forward', forward);
    add('backward', 'backward', steps.backward_us);
    add('forward and backward', 'offload', rest.map((left, i) => split(i) ? 0 : left));
    add('rest', 'grid', rest.map((left, i) => split(i) ? left : 0));
  } else {
    add(steps.step_us ? 'forward and backward' : 'the step', 'forward',
        times.map((all, i) => Math.max(0, (all || 0) - others.reduce((sum, one) => sum + (one[i] || 0), 0))));
  }
  add('recompute', 'rebuild', steps.recompute_us);
  add(steps.bytes_us ? 'waiting for transfers' : 'waiting', 'wait', steps.arrival_us);
  add('waiting for device bytes', 'short', steps.bytes_us);
  return parts;
}

function stepSection(run) {
  const x = column(run, 'number') || [];
  const parts = partsOf(run);
  if (!x.length || !parts.length) return null;
  const layers = parts.slice();
  if (column(run, 'planned_us')) layers.push({name: 'planned, for a micro-batch', ink: colour('ink'), values: column(run, 'planned_us'), kind: 'line', dash: true});
  const together = run.steps.together;
  const name = (i) => together > 1 ? `steps ${x[i]} to ${x[i] + together - 1}, mean` : `step ${x[i]}`;
  const extra = (i) => [['out_bytes', 'ferried out', bytes], ['in_bytes', 'ferried in', bytes], ['host_waited_us', 'host waited for bytes', time],
                        ['loss', 'loss', (value) => value.toPrecision(5)], ['tokens_per_second', 'tokens/s', count]]
      .filter(([key]) => column(run, key) && known(column(run, key)[i]) && column(run, key)[i] > 0)
      .map(([key, words, format]) => ['', words, format(column(run, key)[i])])
      .concat(run.steps.worst_us ? [['', 'slowest of them', time(run.steps.worst_us[i])]] : []);
  const drawn = chart({x, layers, title: 'Time of each step and its parts', name, extra, height: 250});
  const notes = [];
  if (drawn.clipped) notes.push('Steps with a triangle are longer than the scale; point at one to read it.');
  if (together > 1) notes.push(`Each point is the mean of ${together} steps.`);
  const losses = column(run, 'loss');
  return section('steps', 'Step time', column(run, 'step_us') ? 'Of the compute stream: computing, rebuilding, and standing still.' : 'By the trainer\'s clock, with the optimizer.',
      legend(layers.slice().map((one) => ({name: one.name, ink: one.ink, kind: one.dash ? 'dash' : ''}))), drawn,
      notes.length ? h('p', {class: 'note'}, notes.join(' ')) : null,
      losses ? h('details', {}, h('summary', {}, 'Loss'), chart({x, height: 150, title: 'Loss', clip: false, words: (value) => value === 0 ? '0' : value.toPrecision(3),
                                                               layers: [{name: 'loss', ink: colour('s1'), values: losses, kind: 'line'}], name})) : null);
}

// ---- Memory

function memorySection(run) {
  const charts = [];
  const used = (values) => values && values.some((one) => one > 0);
  for (const tier of [0, 1, 2, 3]) {
    const curve = run.curves && run.curves[tier];
    const peaks = run.steps.peaks[tier];
    const references = [{value: run.limits[tier], name: tier === 2 ? 'limit' : 'budget', ink: colour('wait')}];
    const ink = colour(TIER_INK[tier]);
    const height = tier === 0 ? 190 : 120;
    let drawn = null;
    if (curve && used(curve.most)) {
      const x = curve.most.map((_, i) => i * curve.part_us);
      drawn = chart({x, height, binary: true, references, title: `Bytes on ${TIERS[tier]} over time`, xTicks: timeTicks, to: Math.max(run.end_us, x[x.length - 1]),
                     name: (i) => `at ${time(x[i])}`,
                     layers: [{name: 'most', ink, values: curve.most, least: curve.least, kind: 'band'}],
                     extra: (i) => [['', 'least', bytes(curve.least[i])]].concat(known(run.limits[tier]) ? [[colour('wait'), 'budget', bytes(run.limits[tier])]] : [])});
    } else if (used(peaks)) {
      const x = column(run, 'number');
      drawn = chart({x, height, binary: true, references, title: `Peak bytes on ${TIERS[tier]} by step`, name: (i) => `step ${x[i]}`,
                     layers: [{name: 'peak', ink, values: peaks, kind: 'band'}]});
    }
    if (!drawn) continue;
    const limit = run.limits[tier];
    const peak = run.peaks[tier];
    charts.push(h('h3', {}, h('span', {class: 'swatch', style: {background: ink}}), {0: 'Device', 1: 'Host, pinned', 2: 'In flight to the host', 3: 'Disk'}[tier],
                  h('small', {}, known(peak) ? `peak ${bytes(peak)}` : '', known(limit) ? `${known(peak) ? ' of ' : ''}${bytes(limit)}` : '',
                    known(peak) && limit > 0 ? ` (${percent(peak / limit)})` : '')), drawn);
  }
  if (!charts.length) return null;
  return section('memory', 'Memory', run.curves && run.curves.some((one) => used(one.most)) ? 'Bytes by tier over the run; the dashed line is the budget. The light band spans the least and the most of each stretch of time.'
                                                                  : 'Peak bytes of each step; a trace (FERRY_TRACE) shows them over time.', charts);
}

// ---- Lanes

function laneSection(run, items) {
  if (!run.traced || !run.traced.length) return null;
  const view = new LaneView(run, (item) => items && items.find(item));
  const about = h('p', {class: 'note'});
  const name = (step) => `step ${step.number}${step.why ? `, ${step.why}` : ''} (${time(step.took_us)})`;
  const choose = (index) => {
    const step = run.traced[index];
    view.show(step);
    const parts = [];
    if (run.traced_of > run.traced.length) parts.push(`Lanes of ${run.traced.length} of ${count(run.traced_of)} steps are in this page.`);
    if (step.left_out > 0) parts.push(`${count(step.left_out)} events of this step are left out${step.shortest_us > 0 ? `, those shorter than ${time(step.shortest_us)}` : ''}.`);
    about.textContent = parts.join(' ');
    if (items) items.follow(step);
  };
  const select = h('select', {id: 'lane-step', onchange: (event) => choose(Number(event.target.value))},
                   run.traced.map((step, i) => h('option', {value: i}, name(step))));
  const preferred = Math.max(0, run.traced.findIndex((step) => step.why.includes('median')));
  select.value = String(preferred);
  page.drawn.push(() => view.draw());
  const kinds = new Set(run.traced.flatMap((step) => step.slices.map((row) => KINDS[row[1]])));
  const made = section('lanes', 'Lanes', 'What the compute and copy streams did. Wheel, pinch or +/− zoom; drag or ← → move; point at a slice for its story, click it to find the item below.',
      h('div', {class: 'bar'}, h('label', {for: 'lane-step'}, 'Show '), select, view.tools),
      legend(KINDS.filter((kind) => kinds.has(kind) && kind !== 'step').map((kind) => ({name: KIND_WORDS[kind], ink: colour(KIND_INK[kind])}))
                 .concat(run.traced.some((step) => step.decisions.length) ? [{name: 'decision', ink: colour('ferry')}] : [])),
      view.element, about);
  choose(preferred);
  return made;
}

// ---- The rest of a run

function overview(run) {
  const sums = run.sums;
  const waiting = (sums.arrival_share || 0) + (sums.bytes_share || 0);
  const last = (name) => { const values = (column(run, name) || []).filter(known); return values.length ? values[values.length - 1] : NaN; };
  const cards = [card('Steps', count(run.steps.count), '')];
  if (known(sums.median_us)) cards.push(card('Step, median', time(sums.median_us), run.unlimited_us > 0 ? `${time(run.unlimited_us)} with unlimited memory, by the plan` : ''));
  if (known(sums.recompute_share)) cards.push(card('Recomputing', percent(sums.recompute_share), 'of the time', colour('rebuild')));
  if (known(sums.arrival_share)) cards.push(card('Standing still', percent(waiting), 'of the time, for transfers', colour('wait')));
  if (known(run.peaks[0])) cards.push(card('Device peak', bytes(run.peaks[0]), known(run.limits[0]) ? `of a budget of ${bytes(run.limits[0])}` : '', colour('keep')));
  if (run.keep_all_bytes > 0 && known(run.peaks[0])) cards.push(card('Of keeping all', percent(run.peaks[0] / run.keep_all_bytes), `which needs ${bytes(run.keep_all_bytes)}`));
  if (known(run.peaks[1])) cards.push(card('Host peak', bytes(run.peaks[1]), known(run.limits[1]) ? `of ${bytes(run.limits[1])} pinned` : '', colour('ferry')));
  if (known(last('out_bytes'))) cards.push(card('Ferried a step', bytes(last('out_bytes')), known(last('out_gbps')) ? `at ${digits(last('out_gbps'))} GB/s` : 'out'));
  if (known(last('tokens_per_second'))) cards.push(card('Tokens/s', count(Math.round(last('tokens_per_second'))), 'last step'));
  if (known(last('loss'))) cards.push(card('Loss', last('loss').toPrecision(4), 'last step'));
  if (run.policy) cards.push(card('Policy', run.policy, ''));
  const from = run.files.length > 1 ? `From ${run.files.join(', ')}, whose steps agree.` : '';
  return section('overview', 'Overview', [run.title ? `${run.title}.` : '', from].filter(Boolean).join(' '), h('div', {class: 'cards'}, cards));
}

/// What stands between backticks, as code.
const marked = (words) => words.split('`').map((part, i) => i % 2 ? h('code', {}, part) : part);

function adviceList(rows) {
  const mark = {good: '✓', hint: 'i', costly: '!'};
  return h('ul', {class: 'advice'}, rows.map((one) => h('li', {class: one.how}, h('span', {class: 'mark', 'aria-hidden': 'true'}, mark[one.how]),
      h('div', {}, h('p', {}, marked(one.seen)), one.remedy ? h('p', {class: 'remedy'}, marked(one.remedy)) : null), one.variable ? h('code', {}, one.variable) : null)));
}

function reasonSection(run) {
  if (!run.reasons.length) return null;
  const rows = run.reasons.slice().sort((a, b) => b[1] - a[1]);
  const most = rows[0][1] || 1;
  const ink = (name) => name.startsWith('kept') || name.startsWith('restored_resident') ? 'keep' : name.startsWith('offload') || name.startsWith('restored') || name.startsWith('deferred') ? 'ferry' :
      name.startsWith('dropped') || name.startsWith('recomputed') ? 'recompute' : 's8';
  return section('decisions', 'Decisions', 'Why items went where they went, over all steps.', h('div', {class: 'bars', role: 'list'}, rows.map(([name, times]) =>
      h('div', {class: 'bar-row', role: 'listitem'}, h('span', {}, plain(name)), h('span', {class: 'track'}, h('span', {style: {width: `${Math.max(0.5, 100 * times / most)}%`, background: colour(ink(name))}})), h('b', {}, count(times))))));
}

function settingSection(run) {
  const rows = run.settings.slice().sort((a, b) => (b.given || b.no_effect ? 1 : 0) - (a.given || a.no_effect ? 1 : 0));
  if (!rows.length && !run.facts.length) return null;
  const given = rows.filter((one) => one.given || one.no_effect);
  const rest = rows.filter((one) => !(one.given || one.no_effect));
  const cells = (list) => table([{name: 'Setting'}, {name: 'Value'}, {name: ''}], list.map((one) => [h('code', {}, one.variable), one.value,
      one.no_effect ? h('span', {class: 'warn'}, `no effect: ${one.no_effect}`) : '']), {label: 'Settings'});
  return section('settings', 'Settings', rows.length ? '' : 'The files name no settings.',
      given.length ? cells(given) : rows.length ? h('p', {class: 'about'}, 'All settings had their defaults.') : null,
      rest.length ? h('details', {}, h('summary', {}, `${rest.length} at their defaults`), cells(rest)) : null,
      run.facts.length ? h('details', {open: !rows.length}, h('summary', {}, 'What the files say of the run'), table([{name: 'What'}, {name: 'Value'}], run.facts, {label: 'Facts'})) : null);
}

function notesOf(run) {
  if (!run.notes.length) return null;
  return h('div', {class: 'notes'}, run.notes.map((note) => h('p', {}, note)));
}

// ---- Several runs

function compareSection() {
  const runs = data.runs;
  const medians = runs.map((run) => run.sums.median_us);
  const best = Math.min(...medians.filter(known));
  const columns = [{name: 'Run'}, {name: 'Policy'}, {name: 'Steps', right: true}, {name: 'Step, median', right: true}, {name: 'Against the fastest', right: true},
                   {name: 'Recomputing', right: true}, {name: 'Standing still', right: true}, {name: 'Device peak', right: true}, {name: 'Host peak', right: true}];
  const rows = runs.map((run, i) => [h('button', {type: 'button', class: 'link', onclick: () => showRun(i)}, h('span', {class: 'swatch', style: {background: runInk(i)}}), run.label), run.policy || '–',
      count(run.steps.count), time(medians[i]), known(medians[i]) ? (medians[i] === best ? 'fastest' : `+${digits(100 * (medians[i] / best - 1))}%`) : '–', percent(run.sums.recompute_share),
      known(run.sums.arrival_share) ? percent(run.sums.arrival_share + (run.sums.bytes_share || 0)) : '–', bytes(run.peaks[0]), bytes(run.peaks[1])]);
  const numbers = [...new Set(runs.flatMap((run) => column(run, 'number') || []))].sort((a, b) => a - b);
  const layers = runs.map((run, i) => {
    const own = new Map((column(run, 'number') || []).map((number, at) => [number, (stepTime(run) || [])[at]]));
    return {name: run.label, ink: runInk(i), values: numbers.map((number) => own.has(number) ? own.get(number) : null), kind: 'line'};
  });
  const mixed = runs.some((run) => column(run, 'step_us')) && runs.some((run) => stepTime(run) && !column(run, 'step_us'));
  return section('compare', 'Runs compared', mixed ? 'Some files have the time of the compute stream and some the trainer\'s whole step: these are not the same thing.' : '', table(columns, rows, {label: 'Runs compared'}),
                 legend(layers.map((one) => ({name: one.name, ink: one.ink}))), chart({x: numbers, layers, title: 'Time of each step, by run', height: 240, name: (i) => `step ${numbers[i]}`}));
}

function policiesSection(one, index) {
  const times = one.rows.map((row) => row.relative_time).filter(known);
  const most = Math.max(1, ...times);
  const columns = [{name: 'Policy'}, {name: 'Time of a step'}, {name: 'Device peak', right: true}, {name: 'Host peak', right: true}, {name: 'Recompute FLOPs', right: true},
                   {name: 'Waiting a step', right: true}, {name: 'Tokens/s', right: true}, {name: 'Loss', right: true}, {name: 'Gradients'}];
  const rows = one.rows.map((row) => row.fits ? [row.policy, h('span', {class: 'meter'}, h('span', {class: 'track'}, h('span', {style: {width: `${100 * (row.relative_time || 0) / most}%`, background: colour(row.ink)}})), ` ${digits(row.relative_time || 0)}×`),
      bytes(row.peak_device_bytes), bytes(row.peak_pinned_bytes), percent(row.recompute_share), time(row.waiting_us), count(Math.round(row.tokens_per_second)), known(row.final_loss) ? row.final_loss.toPrecision(5) : '–', row.identical ? 'identical' : 'differ'] :
      [row.policy, h('span', {class: 'warn'}, row.failure || 'does not fit'), '', '', '', '', '', '', '']);
  return section(`policies-${index}`, 'Policies compared', `${one.label}: a budget of ${bytes(one.budget_bytes)}; keeping all needs ${bytes(one.keep_all_bytes)}.`, table(columns, rows, {label: 'Policies'}));
}

function noteSection() {
  const notes = data.notes.slice();
  const files = data.runs.flatMap((run) => run.files).concat(data.benches.map((one) => one.label), data.comparisons.map((one) => one.label));
  return h('footer', {}, notes.map((note) => h('p', {}, note)), h('p', {}, `Made by ferry report ${data.version}${files.length ? ` from ${files.join(', ')}` : ''}. Nothing on this page is loaded from anywhere.`));
}

// ---- Putting it together

let details = null;
function showRun(index) {
  page.run = index;
  const run = data.runs[index];
  const before = [...page.sections.children].filter((one) => one.dataset.kept);
  page.sections.replaceChildren(...before);
  page.drawn = page.drawn.filter((one) => one.kept);
  const items = run.items.rows.length ? new ItemTable(run) : null;
  const overviewSection = overview(run);
  const adviceSection = run.advice.length ? section('next', 'What to try next', '', adviceList(run.advice)) : null;
  const parts = [overviewSection, adviceSection, stepSection(run), memorySection(run), laneSection(run, items),
                 items ? section('items', 'Items', 'What became of every saved tensor, the dearest first. Open one for its story.', items.element) : null, reasonSection(run), settingSection(run)];
  details.replaceChildren(...[notesOf(run), ...parts].filter(Boolean));
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const chosen = Number(tab.dataset.run) === index;
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  drawAll();
}

function tabs() {
  return h('div', {class: 'tabs', role: 'tablist', 'aria-label': 'Runs', onkeydown: (event) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    const next = (page.run + by + data.runs.length) % data.runs.length;
    showRun(next);
    document.querySelector(`[data-run="${next}"]`).focus();
  }}, data.runs.map((run, i) => h('button', {type: 'button', role: 'tab', 'data-run': i, onclick: () => showRun(i)}, h('span', {class: 'swatch', style: {background: runInk(i)}}), run.label)));
}

function themes() {
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const wanted = new URLSearchParams(location.hash.slice(1)).get('theme');
  if (wanted === 'dark' || wanted === 'light') root.dataset.theme = wanted;
  const say = () => { button.textContent = dark() ? '☀ Light' : '☾ Dark'; };
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    say();
    page.drawn.forEach((draw) => draw());
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { say(); page.drawn.forEach((draw) => draw()); });
  say();
}

function start() {
  themes();
  const fixed = [];
  if (data.runs.length > 1) fixed.push(compareSection());
  data.benches.forEach((one, i) => fixed.push(paretoSection(one, i)));
  data.comparisons.forEach((one, i) => fixed.push(policiesSection(one, i)));
  data.tables.forEach((one, i) => fixed.push(section(`table-${i}`, one.label, one.left_out ? `${count(one.left_out)} more rows are left out.` : '', table(one.columns.map((name) => ({name: plain(name)})), one.rows, {label: one.label}))));
  for (const link of page.sections.children) link.dataset.kept = '1';
  details = h('div', {id: 'run'});
  page.main.replaceChildren(...fixed, data.runs.length > 1 ? tabs() : '', details, noteSection());
  if (data.runs.length) showRun(0);
  drawAll();
  // For tests and for whoever wonders: the page is complete, and how long that took.
  document.documentElement.dataset.ready = (performance.now() - began).toFixed(0);
  document.documentElement.dataset.sinceStart = performance.now().toFixed(0);
}
start();
