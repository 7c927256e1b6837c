// Part of the page's script: the curves of `ferry bench policies`, time against device bytes.

function paretoSection(bench, index) {
  const shown = bench.curves.map(() => true);
  const points = bench.curves.map((curve) => curve.points.filter((one) => one.fits && known(one.overhead) && known(one.budget_bytes)));
  const all = points.flat();
  const auto = bench.curves.findIndex((curve) => curve.name === 'auto');
  const largest = Math.max(0.01, ...all.map((one) => one.overhead));
  const needed = auto >= 0 && points[auto].length ? Math.max(...points[auto].map((one) => one.overhead)) : largest;
  const close = Math.min(largest, Math.max(2.5 * needed, 0.15));
  let top = close * 1.05;
  const host = h('div', {class: 'chart', style: {minHeight: '320px'}});
  const ink = (i) => colour(bench.curves[i].ink);
  const height = 340;
  const margin = {left: 56, right: 14, top: 14, bottom: 42};

  function draw(width) {
    const inner = width - margin.left - margin.right;
    const down = height - margin.top - margin.bottom;
    const most = Math.max(1, ...all.map((one) => one.budget_bytes)) * 1.03;
    const across = (value) => margin.left + value / most * inner;
    const up = (value) => margin.top + down * (1 - value / top);
    const clip = `pareto-clip-${index}`;
    const picture = g('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Overhead of a step against the budget of device bytes, a curve for each policy; the numbers are in the table below.'},
        g('clipPath', {id: clip}, g('rect', {x: margin.left, y: margin.top - 6, width: inner + 8, height: down + 12})));
    for (const value of ticks(top, 5, false)) {
      picture.append(g('line', {class: 'grid', x1: margin.left, x2: width - margin.right, y1: up(value), y2: up(value)}),
                     g('text', {class: 'faint', x: margin.left - 8, y: up(value) + 4, 'text-anchor': 'end'}, neat(percent(value))));
    }
    for (const value of ticks(most, Math.max(2, Math.floor(inner / 90)), true)) {
      picture.append(g('line', {class: 'grid', x1: across(value), x2: across(value), y1: margin.top, y2: margin.top + down}),
                     g('text', {class: 'faint', x: across(value), y: height - 24, 'text-anchor': 'middle'}, neat(bytes(value))));
    }
    picture.append(g('text', {class: 'faint', x: margin.left + inner / 2, y: height - 6, 'text-anchor': 'middle'}, 'budget of device bytes → time over unlimited memory ↑'));
    const order = bench.curves.map((_, i) => i).filter((i) => shown[i]).sort((a, b) => (a === auto) - (b === auto));
    const curves = g('g', {'clip-path': `url(#${clip})`});
    for (const i of order) {
      const path = points[i].map((one, at) => `${at ? 'L' : 'M'}${across(one.budget_bytes).toFixed(1)} ${up(one.overhead).toFixed(1)}`).join('');
      curves.append(g('path', {d: path, class: `series ${bench.curves[i].kind === 'peer' ? 'dash' : ''}`, style: {stroke: ink(i), strokeWidth: i === auto ? 3.5 : 1.8}}));
      for (const one of points[i]) {
        curves.append(g('circle', {cx: across(one.budget_bytes), cy: up(one.overhead), r: i === auto ? 4 : 2.8, style: {stroke: ink(i)}}));
      }
    }
    picture.append(curves);
    const ring = g('circle', {r: 8, class: 'ring', visibility: 'hidden'});
    picture.append(ring);
    const seek = (event) => {
      const box = picture.getBoundingClientRect();
      const x = event.clientX - box.left;
      const y = event.clientY - box.top;
      let best = null;
      for (const i of order) {
        for (const one of points[i]) {
          const far = Math.hypot(across(one.budget_bytes) - x, up(one.overhead) - y);
          if (one.overhead <= top && (!best || far < best.far)) best = {far, i, one};
        }
      }
      if (!best || best.far > 60) { tip.hide(); ring.setAttribute('visibility', 'hidden'); return; }
      const one = best.one;
      ring.setAttribute('cx', across(one.budget_bytes));
      ring.setAttribute('cy', up(one.overhead));
      ring.setAttribute('visibility', 'visible');
      tip.show(event.clientX, event.clientY, bench.curves[best.i].name, [['', bench.curves[best.i].words || ''], ['', 'budget', bytes(one.budget_bytes)], ['', 'peak', bytes(one.peak_bytes)],
          ['', 'step', time(one.step_us)], ['', 'overhead', percent(one.overhead)], [colour('rebuild'), 'recompute', time(one.recompute_us)], [colour('wait'), 'waiting', time(one.waiting_us)],
          [colour('ferry'), 'ferried out', bytes(one.offloaded_bytes)]].concat(one.knob ? [['', 'with', one.knob]] : []));
    };
    picture.addEventListener('pointermove', seek);
    picture.addEventListener('pointerdown', seek);
    picture.addEventListener('pointerleave', () => { tip.hide(); ring.setAttribute('visibility', 'hidden'); });
    host.replaceChildren(picture);
  }
  const redraw = responsive(host, draw);

  const toggles = h('div', {class: 'toggles', role: 'group', 'aria-label': 'Curves'}, bench.curves.map((curve, i) => h('button', {type: 'button', 'aria-pressed': 'true', title: curve.words, onclick: (event) => {
    shown[i] = !shown[i];
    event.currentTarget.setAttribute('aria-pressed', String(shown[i]));
    redraw();
  }}, h('span', {class: `swatch ${curve.kind === 'peer' ? 'dash' : ''}`, style: {background: ink(i), borderColor: ink(i)}}), curve.name)));
  const wide = largest > close * 1.01 ? h('button', {type: 'button', 'aria-pressed': 'false', onclick: (event) => {
    const everything = event.currentTarget.getAttribute('aria-pressed') === 'false';
    event.currentTarget.setAttribute('aria-pressed', String(everything));
    top = (everything ? largest : close) * 1.05;
    redraw();
  }}, 'Show the highest too') : null;

  const budgets = [...new Set(bench.curves.flatMap((curve) => curve.points.map((one) => one.budget_bytes)).filter(known))].sort((a, b) => a - b);
  const rows = bench.curves.map((curve) => [curve.name, ...budgets.map((budget) => {
    const one = curve.points.find((point) => point.budget_bytes === budget);
    return !one ? '' : one.fits ? percent(one.overhead) : h('span', {class: 'faint', title: one.failure}, 'does not fit');
  })]);
  const lines = bench.recommended.map((one) => `export ${one.variable}=${one.value}`).join('\n');
  const copy = h('button', {type: 'button', class: 'copy', onclick: () => {
    const done = () => { copy.textContent = 'Copied'; setTimeout(() => { copy.textContent = 'Copy'; }, 1500); };
    if (navigator.clipboard) navigator.clipboard.writeText(lines).then(done, () => {});
  }}, 'Copy');
  const device = bench.hardware || bench.device;
  const place = [bench.profile, bench.profile.endsWith(` on ${device}`) ? '' : device, known(bench.unlimited_us) ? `${time(bench.unlimited_us)} a step with unlimited memory` : '', known(bench.keep_all_bytes) ? `keeping all needs ${bytes(bench.keep_all_bytes)}` : ''].filter(Boolean).join('; ');
  return section(`pareto-${index}`, 'Time against memory', `${place}. Lower and further left is better.`, h('div', {class: 'bar'}, toggles, wide), host,
      bench.dominated.length ? h('div', {class: 'notes'}, bench.dominated.map((one) => h('p', {}, `At ${bytes(one.budget_bytes)}, auto ${known(one.ratio) ? `takes ${percent(one.ratio - 1)} longer than` : 'does not fit, other than'} ${one.by}.`))) : null,
      h('details', {}, h('summary', {}, 'As a table'), table([{name: 'Policy'}, ...budgets.map((budget) => ({name: bytes(budget), right: true}))], rows, {label: 'Overhead by budget'})),
      bench.recommended.length ? h('div', {class: 'recommended'}, h('h3', {}, 'Recommended here'), h('div', {class: 'code'}, h('pre', {}, lines), copy),
        h('ul', {}, bench.recommended.map((one) => h('li', {}, h('code', {}, one.variable), ` ${one.why || ''}`))))  : null);
}
