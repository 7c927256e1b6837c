// Part 2 of the page's script: the lanes of a step on a canvas, with the bytes under them.

const KINDS = ['forward', 'backward', 'rebuild', 'wait', 'short', 'offload', 'fetch', 'step', 'run_ahead', 'other'];
const KIND_WORDS = {forward: 'forward', backward: 'backward', rebuild: 'recompute', wait: 'waiting for a transfer',
                    short: 'waiting for device bytes', offload: 'out: device to host', fetch: 'in: host to device',
                    step: 'the step, by the host', run_ahead: 'host held back', other: 'other'};
const KIND_INK = {forward: 'forward', backward: 'backward', rebuild: 'rebuild', wait: 'wait', short: 'short',
                  offload: 'offload', fetch: 'fetch', step: 'grid', run_ahead: 'dropped', other: 's8'};
const INNER = new Set(['rebuild', 'wait', 'short']);
const TIERS = ['device', 'host', 'in flight', 'disk'];
const TIER_INK = ['keep', 'ferry', 's5', 'disk'];

const SHORT_WORDS = {run_ahead: 'held back', wait: 'wait', short: 'wait'};
const shortOf = (slice) => SHORT_WORDS[slice.kind] || slice.name.replace(/^forward /, 'F').replace(/^backward /, 'B');

/// The first of these words that is no wider than that; none of them: nothing.
function fitting(pen, words, width) {
  return words.find((one) => one && pen.measureText(one).width <= width) || '';
}

/// A step's rows as objects, once.
function unfold(run, step) {
  if (step.unfolded) return step.unfolded;
  const label = (index) => index >= 0 ? run.labels[index] : '';
  const slices = step.slices.map((row) => ({lane: row[0], kind: KINDS[row[1]], from: row[2], to: row[2] + row[3],
                                            name: label(row[4]), item: label(row[5]), bytes: row[6],
                                            outcome: row.length > 7 ? label(row[7]) : ''}));
  const decisions = step.decisions.map((row) => ({at: row[0], item: label(row[1]), reason: label(row[2]), words: label(row[3])}));
  const ofItem = new Map();
  const of = (item) => {
    if (!ofItem.has(item)) ofItem.set(item, {slices: [], decisions: []});
    return ofItem.get(item);
  };
  for (const one of slices) if (one.item) of(one.item).slices.push(one);
  for (const one of decisions) if (one.item) of(one.item).decisions.push(one);
  step.unfolded = {slices, decisions, ofItem};
  return step.unfolded;
}

/// The lanes of one step. `onItem` is told of an item that was clicked.
class LaneView {
  constructor(run, onItem) {
    this.run = run;
    this.onItem = onItem;
    this.canvas = h('canvas', {class: 'lanes', tabindex: 0, role: 'img',
                               'aria-label': 'Lanes of the compute and copy streams over time. Plus and minus zoom, the arrow keys move, 0 shows all.'});
    this.said = h('p', {class: 'unseen', 'aria-live': 'polite'});
    this.range = h('span', {class: 'range'});
    const button = (words, label, act) => h('button', {type: 'button', 'aria-label': label, title: label, onclick: act}, words);
    this.tools = h('div', {class: 'tools', role: 'group', 'aria-label': 'Zoom'},
        button('−', 'Zoom out', () => this.zoom(1.6)), button('+', 'Zoom in', () => this.zoom(1 / 1.6)),
        button('←', 'Earlier', () => this.pan(-0.3)), button('→', 'Later', () => this.pan(0.3)),
        button('Fit', 'Show the whole step', () => this.fit()), this.range);
    const inside = h('div', {}, this.canvas, this.said);
    this.element = h('div', {class: 'lane-host'}, inside);
    this.pointers = new Map();
    this.listen();
    this.redraw = responsive(inside, (width) => { this.width = width; this.draw(); });
  }

  show(step) {
    this.step = step;
    this.data = unfold(this.run, step);
    const used = new Set(this.data.slices.map((one) => one.lane));
    this.lanes = this.run.lanes.map((name, index) => ({name, index})).filter((lane) => used.has(lane.index));
    const rank = (name) => name.startsWith('compute') ? 0 : name.startsWith('out') ? 1 : name.startsWith('in') ? 2 : 3;
    this.lanes.sort((a, b) => rank(a.name) - rank(b.name) || a.index - b.index);
    this.tiers = [0, 1, 3].filter((tier) => step.bytes[tier][0].length > 0);
    this.limit = this.run.limits[0];
    this.ends = Math.max(step.took_us, 1e-3);
    for (const one of this.data.slices) this.ends = Math.max(this.ends, one.to);
    this.ends = Math.min(this.ends, 1.5 * Math.max(step.took_us, 1e-3));
    this.fit();
  }

  fit() { this.from = 0; this.to = this.ends; this.draw(); }
  zoom(factor, at) {
    const middle = at === undefined ? (this.from + this.to) / 2 : at;
    const span = Math.min(Math.max((this.to - this.from) * factor, this.ends / 1e5), this.ends);
    const share = (middle - this.from) / (this.to - this.from);
    this.place(middle - share * span, span);
  }
  pan(share) { this.place(this.from + share * (this.to - this.from), this.to - this.from); }
  place(from, span) {
    this.from = Math.max(0, Math.min(from, this.ends - span));
    this.to = this.from + span;
    this.draw();
  }

  get left() { return this.width < 560 ? 54 : 118; }
  across(us) { return this.left + (us - this.from) / (this.to - this.from) * (this.width - this.left - 6); }
  timeAt(x) { return this.from + (x - this.left) / (this.width - this.left - 6) * (this.to - this.from); }

  draw() {
    if (!this.step || !this.width) return;
    const row = 40;
    const memory = this.tiers.length ? 92 : 0;
    const names = 16;  // of the tiers, above their curves
    const height = 22 + this.lanes.length * row + (memory ? memory + names + 14 : 0) + 4;
    const scale = window.devicePixelRatio || 1;
    const canvas = this.canvas;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${this.width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext('2d');
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(`--${name}`).trim() || '#888';
    pen.clearRect(0, 0, this.width, height);
    pen.font = '11px system-ui, sans-serif';
    this.drawGrid(pen, ink, height);
    this.drawn = [];
    this.lanes.forEach((lane, place) => this.drawLane(pen, ink, lane, 22 + place * row, row - 6));
    if (this.marked) this.drawMarks(pen, ink);
    if (memory) this.drawBytes(pen, ink, 22 + this.lanes.length * row + 10 + names, memory);
    this.range.textContent = `${time(this.from)} – ${time(this.to)} of ${time(this.ends)}`;
  }

  drawGrid(pen, ink, height) {
    pen.textAlign = 'center';
    for (const [at, words] of timeTicks(this.from, this.to, Math.max(2, Math.floor(this.width / 120)))) {
      const x = this.across(at);
      pen.fillStyle = ink('grid');
      pen.fillRect(x, 16, 1, height);
      pen.fillStyle = ink('faint');
      pen.fillText(words, Math.min(Math.max(x, this.left + 14), this.width - 22), 11);
    }
  }

  drawLane(pen, ink, lane, y, height) {
    pen.fillStyle = ink('lane');
    pen.fillRect(this.left, y, this.width - this.left - 6, height);
    pen.fillStyle = ink('ink');
    pen.textAlign = 'left';
    pen.fillText(fitting(pen, [lane.name, lane.name.split(':')[0]], this.left - 6), 0, y + height / 2 + 4);
    const depth = [];
    const labels = [];
    for (const one of this.data.slices) {
      if (one.lane !== lane.index || one.to < this.from || one.from > this.to) continue;
      if (one.kind === 'step') continue;
      const inner = INNER.has(one.kind);
      while (depth.length && depth[depth.length - 1] <= one.from + 1e-6) depth.pop();
      const nested = !inner && (one.kind === 'offload' || one.kind === 'fetch') ? Math.min(depth.length, 2) : 0;
      depth.push(one.to);
      const x = Math.max(this.across(one.from), this.left);
      const end = Math.min(this.across(one.to), this.width - 6);
      const top = y + (inner ? 14 : nested * 4);
      const tall = inner ? height - 14 : height - nested * 4;
      const wide = Math.max(end - x, 0.6);
      pen.fillStyle = ink(KIND_INK[one.kind]);
      pen.globalAlpha = one.outcome ? 0.5 : 1;
      pen.fillRect(x, top, wide > 3 ? wide - 0.6 : wide, tall);
      pen.globalAlpha = 1;
      this.drawn.push({one, x, y: top, width: Math.max(wide, 2), height: tall});
      const words = wide > 12 ? fitting(pen, [one.name, shortOf(one)], wide - 7) : '';
      const base = !inner && (one.kind === 'forward' || one.kind === 'backward') ? 10.5 : tall / 2 + 4;
      if (words) labels.push({words, x: x + 4, y: top + base, ink: inner ? 'ground' : 'ink', under: this.drawn.length});
    }
    for (const one of labels) {
      const right = one.x + pen.measureText(one.words).width;
      const covered = this.drawn.slice(one.under).some((box) => box.x < right && box.x + box.width > one.x && box.y < one.y && box.y + box.height > one.y - 8);
      pen.fillStyle = ink(one.ink);
      if (!covered) pen.fillText(one.words, one.x, one.y);
    }
    if (lane.name.startsWith('host')) {
      pen.fillStyle = ink('ferry');
      for (const one of this.data.decisions) {
        if (one.at < this.from || one.at > this.to) continue;
        const x = this.across(one.at);
        pen.fillRect(x - 0.5, y + height - 9, 1.4, 9);
        this.drawn.push({decision: one, x: x - 2, y: y + height - 10, width: 4, height: 10});
      }
    }
  }

  /// The same item wherever it is, and the way that it took.
  drawMarks(pen, ink) {
    const own = this.drawn.filter((box) => box.one && box.one.item === this.marked).sort((a, b) => a.x - b.x);
    pen.strokeStyle = ink('ink');
    pen.lineWidth = 1.5;
    for (const box of own) pen.strokeRect(box.x, box.y, box.width, box.height);
    pen.lineWidth = 1;
    pen.setLineDash([3, 3]);
    for (let i = 1; i < own.length; ++i) {
      const a = own[i - 1];
      const b = own[i];
      pen.beginPath();
      const x1 = a.x + a.width;
      const y1 = a.y + a.height / 2;
      const y2 = b.y + b.height / 2;
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1 + 30, y1, b.x - 30, y2, b.x, y2);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawBytes(pen, ink, y, height) {
    let top = 1;
    for (const tier of this.tiers) for (const value of this.step.bytes[tier][1]) top = Math.max(top, value);
    const budget = known(this.limit) && this.limit <= 4 * top;
    if (budget) top = Math.max(top, this.limit);
    top *= 1.08;
    const up = (value) => y + height * (1 - value / top);
    pen.fillStyle = ink('lane');
    pen.fillRect(this.left, y, this.width - this.left - 6, height);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, y - 12, this.width - this.left - 6, height + 12);
    pen.clip();
    for (const tier of this.tiers) {
      const [times, values] = this.step.bytes[tier];
      const shape = new Path2D();
      shape.moveTo(this.across(times[0]), y + height);
      let before = y + height;
      for (let i = 0; i < times.length; ++i) {
        const x = this.across(times[i]);
        shape.lineTo(x, before);
        before = up(values[i]);
        shape.lineTo(x, before);
      }
      const end = this.across(Math.max(times[times.length - 1], this.ends));
      shape.lineTo(end, before);
      pen.strokeStyle = ink(TIER_INK[tier]);
      pen.lineWidth = 1.5;
      pen.stroke(shape);
      shape.lineTo(end, y + height);
      pen.fillStyle = ink(TIER_INK[tier]);
      pen.globalAlpha = 0.25;
      pen.fill(shape);
      pen.globalAlpha = 1;
    }
    if (budget) {
      pen.strokeStyle = ink('wait');
      pen.setLineDash([6, 4]);
      pen.beginPath();
      pen.moveTo(this.left, up(this.limit));
      pen.lineTo(this.width, up(this.limit));
      pen.stroke();
      pen.setLineDash([]);
    }
    pen.restore();
    pen.textAlign = 'left';
    let x = this.left + 6;
    const names = this.tiers.map((tier) => [TIERS[tier], TIER_INK[tier]]).concat(budget ? [['budget of the device', 'wait']] : []);
    for (const [words, name] of names) {
      pen.fillStyle = ink(name);
      pen.fillText(words, x, y - 6);
      x += pen.measureText(words).width + 12;
    }
    pen.fillStyle = ink('ink');
    pen.fillText('bytes', 0, y + 12);
    pen.fillStyle = ink('faint');
    pen.fillText(bytes(top / 1.08), 0, y + 26);
    this.memory = {y, height};
  }

  hit(x, y) {
    for (let i = (this.drawn || []).length - 1; i >= 0; --i) {
      const box = this.drawn[i];
      const slack = Math.max(0, (4 - box.width) / 2);
      if (x >= box.x - slack && x <= box.x + box.width + slack && y >= box.y && y <= box.y + box.height) return box;
    }
    return null;
  }

  hover(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    const box = this.hit(x, y);
    const item = box ? (box.one ? box.one.item : box.decision.item) : '';
    if (item !== (this.marked || '')) {
      this.marked = item;
      this.draw();
    }
    if (box) this.tell(box, event);
    else if (this.memory && y >= this.memory.y && y <= this.memory.y + this.memory.height && x > this.left) this.tellBytes(this.timeAt(x), event);
    else tip.hide();
    this.canvas.style.cursor = item ? 'pointer' : 'grab';
    return item;
  }

  tell(box, event) {
    const one = box.one;
    if (!one) {
      tip.show(event.clientX, event.clientY, box.decision.reason.replaceAll('_', ' '),
               [['', box.decision.item], ['', box.decision.words], ['', 'at', time(box.decision.at)]]);
      return;
    }
    const rows = [[colour(KIND_INK[one.kind]), KIND_WORDS[one.kind], time(one.to - one.from)], ['', 'from', time(one.from)]];
    if (known(one.bytes)) rows.push(['', 'bytes', bytes(one.bytes)]);
    if (known(one.bytes) && (one.kind === 'offload' || one.kind === 'fetch') && one.to > one.from) {
      rows.push(['', 'rate', `${digits(one.bytes / (one.to - one.from) / 1000)} GB/s`]);
    }
    if (one.outcome) rows.push(['', 'outcome', one.outcome]);
    if (one.item) {
      rows.unshift(['', one.item]);
      const own = this.data.ofItem.get(one.item);
      for (const decision of own.decisions.slice(-3)) rows.push([colour('ferry'), decision.words]);
    }
    tip.show(event.clientX, event.clientY, one.name || KIND_WORDS[one.kind], rows);
  }

  tellBytes(at, event) {
    const rows = [];
    for (const tier of this.tiers) {
      const [times, values] = this.step.bytes[tier];
      let index = -1;
      while (index + 1 < times.length && times[index + 1] <= at) ++index;
      rows.push([colour(TIER_INK[tier]), TIERS[tier], bytes(index >= 0 ? values[index] : 0)]);
    }
    if (known(this.limit)) rows.push([colour('wait'), 'budget', bytes(this.limit)]);
    tip.show(event.clientX, event.clientY, time(at), rows);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const x = event.clientX - canvas.getBoundingClientRect().left;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 800);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), this.timeAt(Math.max(x, this.left)));
      this.hover(event);
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => {
      try { canvas.setPointerCapture(event.pointerId); } catch { /* it has gone up meanwhile */ }
      this.pointers.set(event.pointerId, event);
      this.moved = 0;
      if (this.pointers.size === 2) this.grip = this.pinch();
    });
    canvas.addEventListener('pointermove', (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) { this.hover(event); return; }
      this.pointers.set(event.pointerId, event);
      if (this.pointers.size === 1) {
        const by = event.clientX - before.clientX;
        this.moved += Math.abs(by);
        this.pan(-by / (this.width - this.left));
        if (this.moved > 3) tip.hide();
      } else if (this.grip) {
        const now = this.pinch();
        this.moved += 10;
        this.zoom(this.grip.apart / Math.max(now.apart, 10), this.timeAt(now.middle));
        this.pan(-(now.middle - this.grip.middle) / (this.width - this.left));
        this.grip = now;
      }
    });
    const up = (event) => {
      if (!this.pointers.delete(event.pointerId)) return;
      this.grip = null;
      if (event.type === 'pointerup' && this.moved < 4) {
        const item = this.hover(event);
        if (item) this.onItem(item);
      }
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => { tip.hide(); if (this.marked) { this.marked = ''; this.draw(); } });
    canvas.addEventListener('dblclick', (event) => {
      const area = canvas.getBoundingClientRect();
      const box = this.hit(event.clientX - area.left, event.clientY - area.top);
      if (box && box.one) this.place(box.one.from - 0.1 * (box.one.to - box.one.from), Math.max(1.2 * (box.one.to - box.one.from), this.ends / 1e5));
      else this.fit();
    });
    canvas.addEventListener('keydown', (event) => {
      const act = {'+': () => this.zoom(1 / 1.6), '=': () => this.zoom(1 / 1.6), '-': () => this.zoom(1.6), '0': () => this.fit(),
                   ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), Home: () => this.place(0, this.to - this.from),
                   End: () => this.place(this.ends, this.to - this.from)}[event.key];
      if (!act) return;
      event.preventDefault();
      act();
      this.said.textContent = this.range.textContent;
    });
  }

  pinch() {
    const [a, b] = [...this.pointers.values()];
    const left = this.canvas.getBoundingClientRect().left;
    return {apart: Math.abs(a.clientX - b.clientX), middle: (a.clientX + b.clientX) / 2 - left};
  }
}
