#!/usr/bin/env python3
"""Draws one step of a trace (FERRY_TRACE) as an SVG picture.

    FERRY_TRACE=trace.json ferry simulate ...
    scripts/trace_svg.py trace.json --step 7 -o step.svg

A lane for each compute stream, one for each direction of the link and one for the host's waits; below them the bytes of
each tier over time. Transfers that were given up are hatched, rebuilt items and waits have colours of their own. Where a
transfer was weighed against a recipe, a number marks the moment and the words of the trace stand below. A trace whose
session has not ended yet is read as far as it goes. Needs nothing but Python 3.
"""

import argparse
import json
import sys
from xml.sax.saxutils import escape, quoteattr

WIDTH = 1120
LEFT = 96  # names of the lanes
RIGHT = 16
LANE = 34
GAP = 8
TOP = 58
CURVES = 92
LINE = 17
MOST_WORDS = 12

COLOURS = {
    "forward": "#9db8d9",
    "backward": "#b7cfae",
    "rebuild": "#e8963c",
    "wait": "#d9534f",
    "short": "#d9534f",
    "offload": "#7d9cc6",
    "fetch": "#8fb37f",
    "run_ahead": "#dddddd",
}
LEGEND = [
    ("forward", "forward"),
    ("backward", "backward"),
    ("rebuild", "rebuilt by its recipe"),
    ("wait", "standing still"),
    ("offload", "on its way out"),
    ("fetch", "on its way in"),
]
TIERS = {"device bytes": "#444444", "pinned bytes": "#9467bd"}


class Refusal(Exception):
    """What the user should hear, in a line."""


def read_trace(path):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise Refusal(f"'{path}': {getattr(problem, 'strerror', None) or 'it is no text'}") from problem
    for ending in ("", "]", "\n]"):
        try:
            events = json.loads(text.rstrip().rstrip(",") + ending)
        except json.JSONDecodeError:
            continue
        if isinstance(events, list) and all(isinstance(e, dict) and "ph" in e for e in events):
            return events
        break
    raise Refusal(f"'{path}': it is no trace; give a file that FERRY_TRACE has written")


def steps_of(events):
    return sorted({e["args"]["step"] for e in events if e.get("cat") in ("forward", "backward")})


def span_of(events, step):
    """From the step's first computation to its last, in microseconds."""
    own = [e for e in events if e.get("cat") in ("forward", "backward") and e["args"]["step"] == step]
    return min(e["ts"] for e in own), max(e["ts"] + e["dur"] for e in own)


def lanes_of(events):
    """Names and order by lane, as the trace has them."""
    names, order = {}, {}
    for e in events:
        if e["ph"] == "M" and e["name"] == "thread_name":
            names[e["tid"]] = e["args"]["name"]
        if e["ph"] == "M" and e["name"] == "thread_sort_index":
            order[e["tid"]] = e["args"]["sort_index"]
    return [(tid, names[tid]) for tid in sorted(names, key=lambda tid: order.get(tid, tid))]


def milliseconds(us):
    return f"{us / 1000:.2f} ms"


def mebibytes(count):
    return f"{count / 2**20:.1f} MiB"


class Picture:
    def __init__(self, events, step):
        self.events = events
        self.step = step
        self.from_us, self.to_us = span_of(events, step)
        self.parts = []

    def x(self, us):
        us = min(max(us, self.from_us), self.to_us)
        share = (us - self.from_us) / max(self.to_us - self.from_us, 1e-9)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def text(self, x, y, words, size=12, anchor="start", colour="#222222", more=""):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{more}>'
            f"{escape(words)}</text>"
        )

    def slices(self, tid):
        inside = []
        for e in self.events:
            if e["ph"] != "X" or e["tid"] != tid or e.get("cat") == "step" or e["dur"] <= 0:
                continue
            if e["ts"] < self.to_us and e["ts"] + e["dur"] > self.from_us:
                inside.append(e)
        return sorted(inside, key=lambda e: -e["dur"])  # those inside others are drawn over them

    def slice(self, e, y):
        left, right = self.x(e["ts"]), self.x(e["ts"] + e["dur"])
        wide = max(right - left, 0.8)
        category, given = e.get("cat", ""), e.get("args", {})
        outcome = given.get("outcome", "completed")
        inner = category in ("rebuild", "wait", "short") and e["tid"] != self.host
        top, high = (y + 9, LANE - 9) if inner else (y, LANE)
        colour = COLOURS.get(category, "#cccccc")
        told = [given.get("item", e["name"]), f"{e['name']}, {milliseconds(e['dur'])}"]
        if outcome != "completed":
            told.append(f"{outcome} after {mebibytes(given.get('arrived_bytes', 0))}")
        self.parts.append(f'<g class={quoteattr(f"{category} {outcome}")}><title>{escape("; ".join(told))}</title>')
        shape = f'x="{left:.2f}" y="{top}" width="{wide:.2f}" height="{high}"'
        if outcome == "completed":
            self.parts.append(f'<rect {shape} fill="{colour}" stroke="white" stroke-width="0.6"/>')
        else:
            self.parts.append(
                f'<rect {shape} fill="url(#given-up)" stroke="#b3261e" stroke-width="1.2" stroke-dasharray="3 2"/>'
            )
        words = self.label(e, category)
        if wide > 6.2 * len(words) + 4:
            self.text((left + right) / 2, top + high / 2 + 4, words, 11, "middle")
        self.parts.append("</g>")

    @staticmethod
    def label(e, category):
        if category in ("forward", "backward"):
            return f"{category[0].upper()}{e['args']['segment']}"
        item = e.get("args", {}).get("item", "")
        if category in ("offload", "fetch", "rebuild") and "(segment " in item:
            return f"{item.split(' ')[0]}{item.split('(segment ')[1].split(',')[0]}"
        return e["name"] if category in ("wait", "short") else ""

    def weighed(self):
        found = []
        for e in self.events:
            if e.get("cat") != "decision" or not self.from_us <= e["ts"] <= self.to_us:
                continue
            if e["args"].get("transfer_us", 0) > 0 and e["args"].get("recipe_us", 0) > 0:
                found.append(e)
        dearest = sorted(found, key=lambda e: -e["args"]["transfer_us"])[:MOST_WORDS]
        return sorted(dearest, key=lambda e: e["ts"])

    def curves(self, y):
        values = {name: self.bytes_over_time(name) for name in TIERS}
        most = max((count for line in values.values() for _, count in line), default=0) or 1
        self.parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{CURVES}" fill="#f6f6f6"/>')
        self.text(LEFT - 8, y + 12, mebibytes(most), 11, "end", "#666666")
        self.text(LEFT - 8, y + CURVES, "0", 11, "end", "#666666")
        for row, (name, colour) in enumerate(TIERS.items()):
            line = values[name]
            if not line:
                continue
            path, before = [], None
            for us, count in line:
                high = y + CURVES - (CURVES - 4) * count / most
                if before is not None:
                    path.append(f"{self.x(us):.1f},{before:.1f}")
                path.append(f"{self.x(us):.1f},{high:.1f}")
                before = high
            path.append(f"{self.x(self.to_us):.1f},{before:.1f}")
            self.parts.append(
                f'<polyline class="bytes" fill="none" stroke="{colour}" stroke-width="1.6" points="{" ".join(path)}"/>'
            )
            peak = max(count for _, count in line)
            self.text(WIDTH - RIGHT - 6, y + 16 + 15 * row, f"{name}, at most {mebibytes(peak)}", 11, "end", colour)

    def bytes_over_time(self, name):
        line, before = [], 0
        for e in sorted((e for e in self.events if e["ph"] == "C" and e["name"] == name), key=lambda e: e["ts"]):
            if e["ts"] < self.from_us:
                before = e["args"]["bytes"]
            elif e["ts"] < self.to_us:
                line.append((e["ts"], e["args"]["bytes"]))
        return [(self.from_us, before), *line] if line or before else []

    def axis(self, y):
        for share in (0, 0.25, 0.5, 0.75, 1):
            us = share * (self.to_us - self.from_us)
            anchor = "start" if share == 0 else "end" if share == 1 else "middle"
            self.text(self.x(self.from_us + us), y, milliseconds(us), 11, anchor, "#666666")

    def legend(self, y):
        x = LEFT
        for category, words in LEGEND:
            self.parts.append(f'<rect x="{x}" y="{y - 10}" width="14" height="11" fill="{COLOURS[category]}"/>')
            self.text(x + 19, y, words, 12)
            x += 34 + 7 * len(words)
        self.parts.append(
            f'<rect x="{x}" y="{y - 10}" width="14" height="11" fill="url(#given-up)" stroke="#b3261e" '
            'stroke-dasharray="3 2"/>'
        )
        self.text(x + 19, y, "given up", 12)

    def draw(self, title):
        lanes = [(tid, name, self.slices(tid)) for tid, name in lanes_of(self.events)]
        lanes = [one for one in lanes if one[2] or not one[1].startswith("host")]
        self.host = next((tid for tid, name in lanes_of(self.events) if name.startswith("host")), None)
        self.text(LEFT, 22, title, 15, more=' font-weight="600"')
        self.legend(44)
        y = TOP
        for tid, name, slices in lanes:
            self.text(LEFT - 8, y + LANE / 2 + 4, name.split(":")[0], 12, "end")
            self.parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}" fill="#f6f6f6"/>')
            for e in slices:
                if e.get("cat") != "run_ahead":
                    self.slice(e, y)
            y += LANE + GAP
        marks = self.weighed()
        for number, e in enumerate(marks, 1):
            x = self.x(e["ts"])
            self.parts.append(
                f'<line class="decision" x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{y}" stroke="#222222" '
                'stroke-width="0.7" stroke-dasharray="2 3"/>'
            )
            self.text(x, y + 10, str(number), 11, "middle", more=' font-weight="600"')
        y += 16 if marks else 0
        self.curves(y)
        y += CURVES + 16
        self.axis(y)
        for number, e in enumerate(marks, 1):
            y += LINE if number > 1 else LINE + 8
            at = milliseconds(e["ts"] - self.from_us)
            self.text(LEFT, y, f"{number}  {at}  {e['args']['item']}: {e['args']['words']}")
        return self.whole(y + 14)

    def whole(self, height):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="system-ui, sans-serif">\n'
            '<defs><pattern id="given-up" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fbe3e1"/>'
            '<rect width="2" height="6" fill="#d9534f"/></pattern></defs>\n'
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description="Draws one step of a trace (FERRY_TRACE) as an SVG picture.")
    parser.add_argument("trace", help="the file that FERRY_TRACE has written")
    parser.add_argument("--step", type=int, help="which step, counted from 1; the last one if left out")
    parser.add_argument("--title", help="what stands above it; the step's number and time if left out")
    parser.add_argument("-o", "--output", help="the SVG file; standard output if left out")
    given = parser.parse_args()
    events = read_trace(given.trace)
    steps = steps_of(events)
    if not steps:
        raise Refusal(f"'{given.trace}': no step in it was measured to its end")
    step = steps[-1] if given.step is None else given.step
    if step not in steps:
        raise Refusal(f"--step={step}: the trace has steps {steps[0]} to {steps[-1]}")
    picture = Picture(events, step)
    text = picture.draw(given.title or f"step {step}: {milliseconds(picture.to_us - picture.from_us)}")
    if given.output is None:
        sys.stdout.write(text)
        return
    try:
        with open(given.output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise Refusal(f"'{given.output}': {problem.strerror}") from problem


if __name__ == "__main__":
    try:
        main()
    except Refusal as refusal:
        sys.exit(f"trace_svg.py: {refusal}")
