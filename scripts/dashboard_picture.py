#!/usr/bin/env python3
"""Draws the dashboard of the chart as an SVG, from the metrics that a Prometheus has.

  scripts/dashboard_picture.py docs/dashboard.svg --prometheus http://127.0.0.1:9090 --minutes 10 --scrape 5

Prometheus evaluates the expressions of charts/lockstep/files/dashboard.json. Panels, units and legends are those of
that file. It is not a screenshot of Grafana. `make dashboard` makes the metrics for it.
"""

import argparse
import json
import math
import pathlib
import re
import time
import urllib.parse
import urllib.request
from xml.sax.saxutils import escape

DASHBOARD = pathlib.Path(__file__).resolve().parents[1] / "charts/lockstep/files/dashboard.json"
COLUMN, LINE, GAP = 46, 26, 8  # px: a cell of the grid, and the space between panels
LEFT, RIGHT, TOP, LEGEND = 50, 12, 30, 15  # px: of a panel around its plot, and a line of its legend
LETTER = 5.9  # px: a letter of the legend, about
COLOURS = ("#3274d9", "#e0752d", "#2f9e6e", "#a352cc", "#d64550", "#8a7a1f", "#1b9db5", "#6b6f76", "#f2a900", "#8c4a2f",
           "#7fb800", "#e377b8")
STYLE = """text {font: 10.5px system-ui, "DejaVu Sans", sans-serif; fill: #52545c}
.t {font-size: 12.5px; font-weight: 600; fill: #24292e}
.r {font-size: 13px; font-weight: 600; fill: #24292e}
.p {fill: #fff; stroke: #dcdfe3}
.g {stroke: #eceef0}
.l {fill: none; stroke-width: 1.5; stroke-linejoin: round}
.e {text-anchor: end}
.m {text-anchor: middle}"""


def query(prometheus, expression, times):
    """[(labels, {time: value})] of an expression at these times."""
    words = urllib.parse.urlencode({"query": expression, "start": times[0], "end": times[-1],
                                    "step": times[1] - times[0]})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query_range?{words}", timeout=30) as answer:
        found = json.load(answer)["data"]["result"]
    return [(series["metric"], {round(float(at)): float(value) for at, value in series["values"]})
            for series in sorted(found, key=lambda series: sorted(series["metric"].items()))]


def legend(form, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def read(panels, prometheus, times, rate_interval):
    """id of a panel -> [(legend, {time: value})]."""
    return {panel["id"]: [(legend(target["legendFormat"], labels), values) for target in panel["targets"]
                          for labels, values in query(prometheus,
                                                      target["expr"].replace("$__rate_interval", rate_interval), times)]
            for panel in panels if panel["type"] != "row"}


def tick(value, unit):
    """A value on the axis, in the units that Grafana's `short`, `s` and `ops` mean."""
    scale, name = 1, {"s": " s", "ops": "/s"}.get(unit, "")
    if unit == "s" and value:
        scale, name = next(pair for pair in ((1, " s"), (1e-3, " ms"), (1e-6, " µs"))
                           if value >= pair[0] or pair[0] < 1e-5)
    return f"{value / scale:.10g}{name}"


def ticks(highest):
    """Round numbers from 0 to at least the highest value, at most six."""
    if highest <= 0:
        return [0, 1]
    power = 10 ** math.floor(math.log10(highest / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if highest / (factor * power) <= 5)
    return [float(f"{number * step:.10g}") for number in range(math.ceil(highest / step - 1e-9) + 1)]


def path(points, apart):
    """The lines through the points; a gap of more than `apart` breaks them, and equal values are one line."""
    text, before = [], None
    for number, (x, y) in enumerate(points):
        if before is None or x - before > apart:
            text.append(f"M{x:.1f} {y:.1f}h1")
            text.append(f"M{x:.1f} {y:.1f}")
        elif not (0 < number < len(points) - 1 and points[number - 1][1] == y == points[number + 1][1]
                  and points[number + 1][0] - x <= apart):
            text.append(f"L{x:.1f} {y:.1f}")
        before = x
    return "".join(text)


def rows_of_legend(names, width):
    """The names, in as many lines as they need: [[(index, x)]]."""
    lines, x = [[]], 0
    for index, name in enumerate(names):
        needs = 18 + LETTER * len(name) + 10
        if lines[-1] and x + needs > width:
            lines.append([])
            x = 0
        lines[-1].append((index, x))
        x += needs
    return lines


def draw_panel(panel, series, times):
    grid = panel["gridPos"]
    x, y = grid["x"] * COLUMN + GAP, grid["y"] * LINE + GAP
    width, height = grid["w"] * COLUMN - GAP, grid["h"] * LINE - GAP
    unit = panel["fieldConfig"]["defaults"]["unit"]
    lines = [f'<g transform="translate({x} {y})">', f"<title>{escape(panel['title'])}</title>",
             f"<desc>{escape(chr(10).join(target['expr'] for target in panel['targets']))}</desc>",
             f'<rect class="p" width="{width}" height="{height}" rx="3"/>',
             f'<text class="t" x="12" y="19">{escape(panel["title"])}</text>']
    series = [(name, {at: value for at, value in values.items() if math.isfinite(value)}) for name, values in series]
    series = [(name, values) for name, values in series if values]
    legends = rows_of_legend([name for name, _ in series], width - 24)
    bottom = height - 24 - LEGEND * len(legends)
    highest = max((value for _, values in series for value in values.values()), default=0)
    marks = ticks(highest)

    def down(value):
        return bottom - (bottom - TOP) * value / marks[-1]

    def right(at):
        return LEFT + (width - LEFT - RIGHT) * (at - times[0]) / (times[-1] - times[0])

    for mark in marks:
        lines.append(f'<path class="g" d="M{LEFT} {down(mark):.1f}H{width - RIGHT}"/>')
        lines.append(f'<text class="e" x="{LEFT - 6}" y="{down(mark) + 4:.1f}">{tick(mark, unit)}</text>')
    whole = 120 if times[-1] - times[0] <= 900 else 300
    for at in range(-(-times[0] // whole) * whole, times[-1] + 1, whole):
        if LEFT + 10 <= right(at) <= width - RIGHT - 10:
            clock = time.strftime("%H:%M", time.gmtime(at))
            lines.append(f'<text class="m" x="{right(at):.1f}" y="{bottom + 15}">{clock}</text>')
    if not series:
        lines.append(f'<text class="m" x="{width / 2}" y="{(TOP + bottom) / 2:.0f}">No data</text>')
    apart = 1.5 * (right(times[1]) - right(times[0]))
    for index, (_, values) in enumerate(series):
        points = [(right(at), down(value)) for at, value in sorted(values.items())]
        lines.append(f'<path class="l" stroke="{COLOURS[index % len(COLOURS)]}" d="{path(points, apart)}"/>')
    for number, row in enumerate(legends):
        for index, shift in row:
            at = bottom + 33 + LEGEND * number
            lines.append(f'<path d="M{12 + shift:.0f} {at - 4}h12" stroke="{COLOURS[index % len(COLOURS)]}" '
                         'stroke-width="3"/>')
            lines.append(f'<text x="{30 + shift:.0f}" y="{at}">{escape(series[index][0])}</text>')
    return [*lines, "</g>"]


def draw(dashboard, read_of, times):
    """The SVG. `read_of` is what read() returns."""
    panels = dashboard["panels"]
    width = 24 * COLUMN + GAP
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * LINE + GAP
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             f'aria-label="The dashboard {escape(dashboard["title"])}, drawn from its metrics">',
             f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#f4f5f6"/>']
    for panel in panels:
        if panel["type"] == "row":
            at = panel["gridPos"]["y"] * LINE + GAP + 18
            lines.append(f'<text class="r" x="{GAP + 2}" y="{at}">{escape(panel["title"])}</text>')
        else:
            lines += draw_panel(panel, read_of[panel["id"]], times)
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", help="the file to write")
    parser.add_argument("--prometheus", required=True, help="the address of a Prometheus")
    parser.add_argument("--minutes", type=float, required=True, help="draw so many minutes before now")
    parser.add_argument("--scrape", type=int, required=True, help="seconds between two scrapes, and two points")
    arguments = parser.parse_args()
    dashboard = json.loads(DASHBOARD.read_text())
    end = int(time.time())
    times = list(range(end - round(arguments.minutes * 60), end + 1, arguments.scrape))
    # Grafana's rule for $__rate_interval.
    found = read(dashboard["panels"], arguments.prometheus, times, f"{4 * arguments.scrape}s")
    text = draw(dashboard, found, times)
    pathlib.Path(arguments.svg).write_text(text, encoding="utf-8")
    empty = [panel["title"] for panel in dashboard["panels"] if panel["id"] in found and not found[panel["id"]]]
    print(f"{arguments.svg}: {len(text) / 1000:.0f} kB; without data: {', '.join(empty) or 'none'}")


if __name__ == "__main__":
    main()
