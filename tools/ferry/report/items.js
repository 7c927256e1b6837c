// Part 3 of the page's script: the table of items, and the life of each in a step.

const DECISION_INK = {keep: 'keep', ferry: 'ferry', recompute: 'recompute', mixed: 's5'};
const plain = (name) => name.replaceAll('_', ' ');

/// Where an item was when in a step: [from, to, state].
function lifeOf(data, item) {
  const own = data.ofItem.get(item);
  if (!own) return [];
  const events = [];
  for (const one of own.decisions) {
    if (one.reason.startsWith('dropped_')) events.push([one.at, 'dropped']);
    else if (one.reason.startsWith('evicted_')) events.push([one.at, 'host']);
    else events.push([one.at, null]);
  }
  for (const one of own.slices) {
    const came = one.outcome === '';
    if (one.kind === 'offload') { events.push([one.from, 'offload']); events.push([one.to, came ? 'host' : 'device']); }
    if (one.kind === 'fetch') { events.push([one.from, 'fetch']); events.push([one.to, came ? 'device' : 'host']); }
    if (one.kind === 'rebuild') { events.push([one.from, 'rebuild']); events.push([one.to, 'device']); }
  }
  events.sort((a, b) => a[0] - b[0]);
  const parts = [];
  let state = 'device';
  for (let i = 0; i < events.length; ++i) {
    if (events[i][1]) state = events[i][1];
    const to = i + 1 < events.length ? events[i + 1][0] : events[i][0];
    const before = parts[parts.length - 1];
    if (before && before[2] === state) before[1] = to; else parts.push([events[i][0], to, state]);
  }
  return parts;
}
const LIFE_INK = {device: 'keep', offload: 'offload', host: 'ferry', fetch: 'fetch', dropped: 'dropped', rebuild: 'rebuild'};

function lifeStrip(data, item, took) {
  const parts = lifeOf(data, item);
  if (!parts.length || !(took > 0)) return h('span', {class: 'faint'}, '–');
  const words = parts.map((part) => `${part[2]} ${time(part[1] - part[0])}`).join(', ');
  return g('svg', {class: 'life', viewBox: '0 0 200 12', preserveAspectRatio: 'none', role: 'img', 'aria-label': words},
           g('title', {}, words), g('rect', {x: 0, y: 5, width: 200, height: 2, class: 'lane'}),
           parts.map((part) => g('rect', {x: 200 * Math.max(0, part[0]) / took, y: part[2] === 'dropped' || part[2] === 'host' ? 4 : 1,
                                          width: Math.max(1, 200 * (part[1] - part[0]) / took),
                                          height: part[2] === 'dropped' || part[2] === 'host' ? 4 : 10,
                                          style: {fill: colour(LIFE_INK[part[2]])}})));
}

class ItemTable {
  constructor(run) {
    this.run = run;
    const names = run.items.columns;
    const texts = new Set(['label', 'name', 'reason', 'words']);
    this.rows = run.items.rows.map((row) => Object.fromEntries(names.map((name, i) => [name, texts.has(name) ? run.labels[row[i]] : row[i]])));
    const severalBatches = this.rows.some((row) => row.micro_batch > 0);
    this.columns = [
      {key: 'label', name: 'Item', cell: (row) => h('button', {type: 'button', class: 'link', 'aria-expanded': 'false', title: row.label}, h('span', {}, row.name,
          known(row.segment) ? h('small', {class: 'faint'}, ` segment ${row.segment}`, severalBatches ? `, micro-batch ${row.micro_batch}` : '') : null))},
      {key: 'bytes', name: 'Bytes', right: true, cell: (row) => bytes(row.bytes)},
      {key: 'decision', name: 'Decision', cell: (row) => h('span', {class: 'chip', style: {background: colour(DECISION_INK[row.decision])}}, row.decision)},
      {key: 'reason', name: 'Reason', cell: (row) => plain(row.reason)},
      {key: 'life', name: 'Life in the step', still: true, cell: (row) => this.step ? lifeStrip(unfold(run, this.step), row.label, this.step.took_us) : ''},
      {key: 'offloads', name: 'Ferried', right: true, cell: (row) => count(row.offloads)},
      {key: 'recomputes', name: 'Rebuilt', right: true, cell: (row) => count(row.recomputes)},
      {key: 'exposed_us', name: 'Waited for', right: true, cell: (row) => time(row.exposed_us)},
      {key: 'recompute_us', name: 'Recipe', right: true, cell: (row) => time(row.recompute_us)},
      {key: 'hidden_us', name: 'Hidden', right: true, cell: (row) => time(row.hidden_us)},
    ].filter((one) => one.key !== 'life' || run.traced);
    this.sort = {key: 'cost', down: true};
    this.rows.forEach((row) => { row.cost = (row.exposed_us || 0) + (row.recompute_us || 0); });
    this.limit = 50;
    this.build();
  }

  build() {
    this.filter = h('input', {type: 'search', id: 'item-filter', placeholder: 'name, segment, reason …', oninput: () => { this.limit = 50; this.fill(); }});
    const decisions = ['keep', 'ferry', 'recompute', 'mixed'].filter((one) => this.rows.some((row) => row.decision === one));
    this.decision = h('select', {id: 'item-decision', onchange: () => { this.limit = 50; this.fill(); }}, h('option', {value: ''}, 'all decisions'),
                      decisions.map((one) => h('option', {value: one}, one)));
    this.head = h('tr', {}, this.columns.map((one) => h('th', {scope: 'col', class: one.right ? 'right' : '', 'data-key': one.key}, one.still ? one.name :
        h('button', {type: 'button', onclick: () => this.sortBy(one.key)}, one.name))));
    this.body = h('tbody', {});
    this.state = h('p', {class: 'note', 'aria-live': 'polite'});
    this.more = h('button', {type: 'button', class: 'wide', onclick: () => { this.limit += 200; this.fill(); }}, 'Show more');
    this.element = h('div', {}, h('div', {class: 'bar'}, h('label', {for: 'item-filter', class: 'unseen'}, 'Filter items'), this.filter,
        h('label', {for: 'item-decision', class: 'unseen'}, 'Decision'), this.decision, h('span', {class: 'grow'}), this.state),
        h('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Items'}, h('table', {class: 'items'}, h('thead', {}, this.head), this.body)), this.more);
    this.fill();
  }

  sortBy(key) {
    this.sort = {key, down: this.sort.key === key ? !this.sort.down : key !== 'label' && key !== 'reason' && key !== 'decision'};
    this.fill();
  }
  follow(step) { this.step = step; this.fill(); }
  find(item) {
    this.filter.value = item;
    this.decision.value = '';
    this.fill();
    document.getElementById('items').scrollIntoView({behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
    const first = this.body.querySelector('button');
    if (first) first.click();
  }

  fill() {
    const {key, down} = this.sort;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const exact = this.rows.filter((row) => row.label === this.filter.value);
    const found = exact.length ? exact : this.rows.filter((row) => (!this.decision.value || row.decision === this.decision.value) &&
        words.every((word) => `${row.label} ${row.reason} ${row.words} ${row.decision}`.toLowerCase().includes(word)));
    const order = (a, b) => typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : (known(a) ? a : -1) - (known(b) ? b : -1);
    found.sort((a, b) => (down ? -1 : 1) * order(a[key], b[key]));
    for (const cell of this.head.children) {
      if (cell.dataset.key === key) cell.setAttribute('aria-sort', down ? 'descending' : 'ascending'); else cell.removeAttribute('aria-sort');
    }
    this.body.replaceChildren(...found.slice(0, this.limit).map((row) => this.row(row)));
    const all = this.run.items.all;
    this.state.textContent = `${count(found.length)} of ${count(all)} items${all > this.rows.length ? `; the ${count(this.rows.length)} dearest are in this page` : ''}`;
    this.more.hidden = found.length <= this.limit;
  }

  row(row) {
    const made = h('tr', {}, this.columns.map((one) => h(one.key === 'label' ? 'th' : 'td', {class: one.right ? 'right' : '', scope: one.key === 'label' ? 'row' : null}, one.cell(row))));
    const button = made.querySelector('button');
    button.addEventListener('click', () => {
      const open = button.getAttribute('aria-expanded') === 'true';
      button.setAttribute('aria-expanded', String(!open));
      if (open) made.nextSibling.remove(); else made.after(this.story(row));
    });
    return made;
  }

  story(row) {
    const lines = [];
    if (this.step) {
      const own = unfold(this.run, this.step).ofItem.get(row.label);
      const told = [];
      if (own) {
        for (const one of own.decisions) told.push([one.at, plain(one.reason), one.words]);
        for (const one of own.slices) told.push([one.from, KIND_WORDS[one.kind], `${time(one.to - one.from)}${one.outcome ? `, ${one.outcome}` : ''}`]);
      }
      told.sort((a, b) => a[0] - b[0]);
      lines.push(h('p', {}, `In step ${this.step.number}:`), h('ol', {class: 'story'}, told.map(([at, what, words]) => h('li', {}, h('time', {}, time(at)), ' ', h('b', {}, what), words && words !== what ? ` – ${words}` : ''))));
    } else if (row.words) {
      lines.push(h('p', {}, row.words));
    }
    if (row.reasons.length) {
      lines.push(h('p', {class: 'faint'}, 'Over all steps: ', row.reasons.map(([name, times], i) => `${i ? ', ' : ''}${plain(this.run.labels[name])} ${count(times)}×`)));
    }
    return h('tr', {class: 'story-row'}, h('td', {colspan: this.columns.length},
        h('div', {class: 'told'}, lines.length ? lines : 'No more is known of it; a trace (FERRY_TRACE) tells its story.')));
  }
}
