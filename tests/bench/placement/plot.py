#!/usr/bin/env python3
"""Draws the figures of `packing_bench --json FILE` as an SVG: plot.py FILE OUT.svg"""

import argparse
import json
import pathlib
from xml.sax.saxutils import escape

PANEL_WIDTH, PANEL_HEIGHT, LEFT, BAR, GAP, TOP = 420, 300, 130, 18, 10, 56
OURS, PEER, INK, GRID = "#1f6feb", "#9aa4b2", "#24292f", "#d0d7de"


def panel(title, note, rows, unit="", goal=None, goal_text=""):
    """Horizontal bars with their confidence intervals. `rows`: (name, mean, half)."""
    most = max([mean + half for _, mean, half in rows] + [goal or 0]) or 1
    scale = (PANEL_WIDTH - LEFT - 70) / most
    parts = [f'<text x="0" y="18" class="title">{escape(title)}</text>',
             f'<text x="0" y="36" class="note">{escape(note)}</text>']
    for i, (name, mean, half) in enumerate(rows):
        y = TOP + i * (BAR + GAP)
        middle = y + BAR / 2
        color = OURS if name == "lockstep" else PEER
        parts.append(f'<text x="{LEFT - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{mean * scale:.1f}" height="{BAR}" fill="{color}"/>')
        low, high = LEFT + max(mean - half, 0) * scale, LEFT + (mean + half) * scale
        path = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
        parts.append(f'<path d="{path}" stroke="{INK}"/>')
        parts.append(f'<text x="{high + 6:.1f}" y="{middle + 4:.1f}">{mean:.3g}{unit}</text>')
    if goal is not None:
        x = LEFT + goal * scale
        bottom = TOP + len(rows) * (BAR + GAP)
        parts.append(f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{INK}" stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle" class="note">'
                     f"{escape(goal_text)}</text>")
    return parts


def rows_of(experiment, key):
    return [(policy, values[key]["mean"], values[key]["half"])
            for policy, values in experiment.items() if isinstance(values, dict) and key in values]


def ordered(rows):
    """Lockstep first, then by value."""
    return sorted(rows, key=lambda row: (row[0] != "lockstep", row[1]))


def panels(figures):
    found = []
    if "packing" in figures:
        rows = ordered(rows_of(figures["packing"], "racks_over_least"))
        best = min((mean for name, mean, _ in rows if name != "lockstep"), default=None)
        to_best = figures["packing"].get("to_best", {})
        goal = best * to_best["goal"] if best and "goal" in to_best else None
        found.append(panel("Racks used ÷ fewest possible", "gangs larger than a rack, load 0.95; less is better", rows,
                           goal=goal, goal_text=f"goal: {to_best.get('goal', 0):g} of the best peer"))
    if "waiting" in figures:
        rows = [(name, mean / 60, half / 60) for name, mean, half in ordered(rows_of(figures["waiting"], "wait"))]
        found.append(panel("Mean wait", "rack or block required, load 0.85; less is better", rows, unit=" min"))
    for name in sorted(figures, reverse=True):
        if name.startswith("replacement"):
            experiment = figures[name]
            rows = ordered(rows_of(experiment, "stayed"))
            found.append(panel("Replacements that stay in the block", f"load {name.split()[1]}; more is better", rows,
                               unit=" %", goal=experiment.get("goal"),
                               goal_text=f"goal: {experiment.get('goal', 0):g} %"))
    if "rings" in figures:
        rings = figures["rings"]
        least = max(rings["least"]["racks"], 1)
        rows = [(label, rings[key]["racks"] / least, 0)
                for label, key in (("lockstep", "ranks"), ("by node name", "by_name"), ("random", "by_slot"))]
        found.append(panel("Ring edges between racks ÷ least possible",
                           "order of ranks against other orders; less is better", rows,
                           goal=1, goal_text="least possible"))
    return found


def draw(figures):
    """The SVG as text."""
    found = panels(figures)
    columns = 2
    lines = -(-len(found) // columns)
    width, height = columns * PANEL_WIDTH + 20, lines * PANEL_HEIGHT + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}">',
             f"<style>text{{font:12px sans-serif;fill:{INK}}}"
             ".title{font-size:14px;font-weight:bold}.note{font-size:11px}</style>",
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, content in enumerate(found):
        x, y = 20 + (i % columns) * PANEL_WIDTH, 10 + (i // columns) * PANEL_HEIGHT
        parts.append(f'<g transform="translate({x},{y})">')
        parts.extend(content)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=pathlib.Path, help="the JSON of packing_bench")
    parser.add_argument("out", type=pathlib.Path, help="the SVG to write")
    arguments = parser.parse_args()
    arguments.out.write_text(draw(json.loads(arguments.figures.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
