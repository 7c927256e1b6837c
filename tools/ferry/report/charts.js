// Part 1 of the page's script: elements, words for amounts, the tooltip, and charts over steps or time. Texts from the
// data reach the page as text nodes and attributes only, never as markup.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}
const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const g = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => typeof value === 'number' && Number.isFinite(value);
const colour = (name) => `var(--${name})`;

function digits(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
function withUnit(value, step, units) {
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  return `${unit === 0 && step === 1024 ? Math.round(value) : digits(value)} ${units[unit]}`;
}
const bytes = (value) => known(value) ? withUnit(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) : '–';
const time = (us) => known(us) ? (us === 0 ? '0' : withUnit(us, 1000, ['µs', 'ms', 's', 'ks'])) : '–';
const percent = (share) => known(share) ? `${digits(100 * share)}%` : '–';
const count = (value) => known(value) ? value.toLocaleString('en-US', {maximumFractionDigits: 1}) : '–';

/// "4.00 GiB" on an axis is "4 GiB".
const neat = (words) => words.replace(/\.0+(?=\D|$)/, '').replace(/(\.\d*?[1-9])0+(?=\D|$)/, '$1');

/// Round values up to `most`, about `wanted` of them; bytes in halves and doubles of their units.
function ticks(most, wanted, binary) {
  if (!(most > 0)) return [0];
  let unit = 1;
  if (binary) while (unit * 1024 <= most) unit *= 1024;
  const raw = most / unit / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  if (binary && raw >= 1) step = 2 ** Math.round(Math.log2(raw));
  const values = [];
  for (let i = 0; i * step * unit <= most * 1.0001; ++i) values.push(i * step * unit);
  return values;
}

// The tooltip: one for the page; rows of [colour, name, value].
const tip = {
  element: null,
  show(x, y, title, rows) {
    const box = this.element;
    box.replaceChildren(h('strong', {}, title), ...rows.map(([ink, name, value]) => h('div', {class: 'row'},
        h('span', {class: 'swatch', style: {background: ink || 'transparent'}}), h('span', {}, name),
        h('b', {}, value === undefined ? '' : value))));
    box.hidden = false;
    const width = box.offsetWidth;
    const height = box.offsetHeight;
    const left = x + 16 + width > innerWidth ? Math.max(8, x - width - 12) : x + 16;
    box.style.left = `${Math.min(left, innerWidth - width - 8)}px`;
    box.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
  },
  hide() { this.element.hidden = true; },
};

// What waits for its host to be on the page.
const undrawn = new Set();
function drawAll() {
  for (const draw of undrawn) draw();
  undrawn.clear();
}

/// Draws with `drawAll`, and anew whenever the host's width changes.
function responsive(host, draw) {
  let width = 0;
  const redraw = () => {
    const now = Math.floor(host.clientWidth);
    if (now > 0 && now !== width) {
      width = now;
      draw(now);
    }
  };
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(host);  // not while the browser lays out
  undrawn.add(redraw);
  return () => { if (width > 0) draw(width); };
}

function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}

function legend(entries) {
  return h('ul', {class: 'legend', 'aria-label': 'Legend'}, entries.map((one) => h('li', {},
      h('span', {class: `swatch ${one.kind || ''}`, style: {background: one.ink, borderColor: one.ink}}), one.name)));
}

/// A chart over `x`. Layers: {name, ink, values, kind}: 'stack' on top of each other, 'line' or 'band' (with
/// `least`). References: {value, name, ink}. The cursor follows the mouse, a finger, or the arrow keys.
function chart(options) {
  const {x, layers, title} = options;
  const height = options.height || 220;
  const binary = options.binary || false;
  const words = options.words || (binary ? bytes : time);
  const margin = {left: 62, right: 12, top: 12, bottom: options.plain ? 8 : 26};
  const host = h('div', {class: 'chart', style: {minHeight: `${height}px`}});
  const said = h('p', {class: 'unseen', 'aria-live': 'polite'});
  const stacks = layers.filter((layer) => layer.kind === 'stack');
  const totals = x.map((_, i) => stacks.reduce((sum, layer) => sum + (layer.values[i] || 0), 0));
  const all = [];
  for (const layer of layers) if (layer.kind !== 'stack') all.push(...layer.values.filter(known));
  all.push(...totals);
  const sorted = all.slice().sort((a, b) => a - b);
  const largest = sorted.length ? sorted[sorted.length - 1] : 1;
  const usual = sorted.length ? sorted[Math.floor(sorted.length * 0.97)] : 1;
  const clipped = !binary && options.clip !== false && largest > 2.5 * usual && usual > 0;
  const references = (options.references || []).filter((one) => known(one.value) && one.value <= 6 * Math.max(largest, 1e-9));
  let top = clipped ? usual * 1.35 : largest * 1.06;
  for (const one of references) top = Math.max(top, one.value * (1 + 22 / height));
  if (!(top > 0)) top = 1;
  const first = options.from !== undefined ? options.from : x[0];
  const last = options.to !== undefined ? options.to : x[x.length - 1];
  const bars = stacks.length > 0 && x.length <= 150;
  let cursor = -1;

  function draw(width) {
    const inner = Math.max(40, width - margin.left - margin.right);
    const down = height - margin.top - margin.bottom;
    const pad = bars ? inner / x.length / 2 : 0;
    const across = (value) => margin.left + pad +
        (last > first ? (value - first) / (last - first) : 0.5) * (inner - 2 * pad);
    const up = (value) => margin.top + down * (1 - Math.min(value / top, 1.02));
    const picture = g('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0,
                              'aria-label': `${title}. Use the arrow keys to read values.`});
    for (const value of ticks(top, Math.max(2, Math.round(down / 45)), binary)) {
      picture.append(g('line', {class: 'grid', x1: margin.left, x2: width - margin.right, y1: up(value), y2: up(value)}),
                     g('text', {class: 'faint', x: margin.left - 8, y: up(value) + 4, 'text-anchor': 'end'}, neat(words(value))));
    }
    if (stacks.length) drawStacks(picture, across, up, inner);
    for (const layer of layers) if (layer.kind !== 'stack') drawLayer(picture, layer, across, up);
    for (const one of references) {
      const label = `${one.name} ${words(one.value)}`;
      picture.append(g('line', {class: 'reference', x1: margin.left, x2: width - margin.right, y1: up(one.value),
                                y2: up(one.value), style: {stroke: one.ink}}),
                     g('text', {class: 'reference-name', x: width - margin.right - 4, y: up(one.value) - 5,
                                'text-anchor': 'end', style: {fill: one.ink}}, label));
    }
    if (!options.plain) {
      const marks = options.xTicks ? options.xTicks(first, last, Math.max(2, Math.floor(inner / 110)))
                                   : stepTicks(x, Math.max(2, Math.floor(inner / 80)));
      for (const [value, label] of marks) {
        picture.append(g('text', {class: 'faint', x: Math.min(across(value), width - 20), y: height - 8, 'text-anchor': 'middle'}, label));
      }
    }
    const line = g('line', {class: 'cursor', y1: margin.top, y2: margin.top + down, visibility: 'hidden'});
    picture.append(line);
    const point = (index, clientX, clientY) => {
      cursor = Math.max(0, Math.min(x.length - 1, index));
      const at = across(x[cursor]);
      line.setAttribute('x1', at);
      line.setAttribute('x2', at);
      line.setAttribute('visibility', 'visible');
      const rows = [];
      for (const layer of layers.slice().reverse()) {
        const value = layer.values[cursor];
        if (known(value) && (value > 0 || !layer.quiet)) rows.push([layer.ink, layer.name, words(value)]);
      }
      const heading = options.name ? options.name(cursor) : String(x[cursor]);
      if (stacks.length > 1) rows.unshift(['', 'all', words(totals[cursor])]);
      const extra = options.extra ? options.extra(cursor) : [];
      tip.show(clientX, clientY, heading, rows.concat(extra));
      return heading + ': ' + rows.concat(extra).map((row) => `${row[1]} ${row[2]}`).join(', ');
    };
    const atPointer = (event) => {
      const box = picture.getBoundingClientRect();
      const value = first + (event.clientX - box.left - margin.left - pad) / (inner - 2 * pad) * (last - first);
      point(nearest(x, value), event.clientX, event.clientY);
    };
    picture.addEventListener('pointermove', atPointer);
    picture.addEventListener('pointerdown', atPointer);
    picture.addEventListener('pointerleave', () => { tip.hide(); line.setAttribute('visibility', 'hidden'); });
    picture.addEventListener('blur', () => tip.hide());
    picture.addEventListener('keydown', (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9}[event.key];
      if (!by) return;
      event.preventDefault();
      const box = picture.getBoundingClientRect();
      said.textContent = point(cursor + by, box.left + across(x[Math.max(0, Math.min(x.length - 1, cursor + by))]), box.top + 20);
    });
    host.replaceChildren(picture, said);
  }

  function drawStacks(picture, across, up, inner) {
    let below = x.map(() => 0);
    const half = bars ? Math.max(0.6, inner / x.length / 2 - (x.length > 60 ? 0.5 : 1.5)) : 0;
    for (const layer of stacks) {
      const above = below.map((sum, i) => sum + (layer.values[i] || 0));
      let path = '';
      if (bars) {
        x.forEach((value, i) => {
          const low = up(below[i]);
          const high = up(above[i]);
          if (low - high < 0.05) return;
          const at = across(value);
          path += `M${(at - half).toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}H${(at + half).toFixed(1)}V${low.toFixed(1)}Z`;
        });
      } else {
        const edge = (sums, i) => `${across(x[i]).toFixed(1)} ${up(sums[i]).toFixed(1)}`;
        path = 'M' + x.map((_, i) => edge(above, i)).join('L') + 'L' +
            x.map((_, i) => edge(below, x.length - 1 - i)).join('L') + 'Z';
      }
      picture.append(g('path', {d: path, style: {fill: layer.ink}}));
      below = above;
    }
    if (clipped) {
      x.forEach((value, i) => {
        if (totals[i] <= top) return;
        const at = across(value);
        picture.append(g('path', {class: 'clipped', d: `M${at - 4} 9L${at} 2L${at + 4} 9Z`}));
      });
    }
  }

  function drawLayer(picture, layer, across, up) {
    let path = '';
    let pen = false;
    layer.values.forEach((value, i) => {
      if (!known(value)) { pen = false; return; }
      const at = `${across(x[i]).toFixed(1)} ${up(value).toFixed(1)}`;
      path += (pen ? 'L' : 'M') + at;
      pen = true;
    });
    if (layer.kind === 'band') {
      const least = layer.least || layer.values.map(() => 0);
      const shape = 'M' + x.map((value, i) => `${across(value).toFixed(1)} ${up(layer.values[i] || 0).toFixed(1)}`).join('L') + 'L' +
          x.map((_, i) => x.length - 1 - i).map((i) => `${across(x[i]).toFixed(1)} ${up(least[i] || 0).toFixed(1)}`).join('L') + 'Z';
      const floor = 'M' + x.map((value, i) => `${across(value).toFixed(1)} ${up(least[i] || 0).toFixed(1)}`).join('L') +
          `L${across(x[x.length - 1]).toFixed(1)} ${up(0).toFixed(1)}L${across(x[0]).toFixed(1)} ${up(0).toFixed(1)}Z`;
      picture.append(g('path', {d: shape, style: {fill: layer.ink, opacity: 0.45}}),
                     g('path', {d: floor, style: {fill: layer.ink, opacity: 0.85}}));
    }
    picture.append(g('path', {d: path, class: `series ${layer.dash ? 'dash' : ''}`, style: {stroke: layer.ink}}));
    if (layer.values.length === 1 && known(layer.values[0])) {
      picture.append(g('circle', {cx: across(x[0]), cy: up(layer.values[0]), r: 3.5, style: {stroke: layer.ink}}));
    }
  }

  host.redraw = responsive(host, draw);
  host.clipped = clipped;
  return host;
}

function stepTicks(x, wanted) {
  if (x.length <= wanted) return x.map((value) => [value, String(value)]);
  const marks = [];
  const span = x[x.length - 1] - x[0];
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, [1, 2, 5, 10].find((factor) => factor * power >= raw) * power);
  for (let value = Math.ceil(x[0] / step) * step; value <= x[x.length - 1]; value += step) marks.push([value, count(value)]);
  return marks;
}
function timeTicks(first, last, wanted) {
  const marks = [];
  const raw = (last - first) / wanted;
  if (!(raw > 0)) return [[first, time(first)]];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  for (let i = Math.ceil(first / step); i * step <= last; ++i) marks.push([i * step, neat(time(i * step))]);
  return marks;
}
