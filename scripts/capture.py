#!/usr/bin/env python3
"""Runs a command and draws what it printed, at its own pace, as an animated SVG.

  scripts/capture.py docs/demo.svg --prompt 'make demo' -- scripts/demo.sh build/release
"""
import argparse
import subprocess
import sys
import time
from xml.sax.saxutils import escape

COLUMNS, ROWS = 112, 18
WIDTH, HEIGHT = 7.2, 17  # of a character, in px, at font-size 12
MARGIN = 12
FASTER = 8  # than the real run
LONGEST_GAP = 0.8  # seconds of the animation between two lines
HOLD = 6.0  # seconds of the animation after the last line
EMPHASISED = ("killed ", "Restarting")


def record(command):
    """[(seconds since the start, line)] of standard output and error; fails with the command's exit code."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        lines = [(time.monotonic() - started, line.rstrip("\n")) for line in process.stdout]
    if process.returncode != 0:
        last = lines[-1][1] if lines else ""
        sys.exit(f"capture: {command[0]} ended with {process.returncode}; its last line: {last}")
    return lines


def paced(lines):
    """The same lines at the times of the animation."""
    shown, before, at = [], 0.0, 0.0
    for when, line in lines:
        at += min((when - before) / FASTER, LONGEST_GAP)
        before = when
        shown.append((at, line))
    return shown


def draw(lines, prompt):
    """The SVG. The text scrolls when it is longer than ROWS; without animation, a viewer shows its end."""
    lines = [(0.0, "$ " + prompt)] + [(0.6 + at, line) for at, line in paced(lines)]
    total = lines[-1][0] + HOLD
    hidden = max(0, len(lines) - ROWS)
    width, height = COLUMNS * WIDTH + 2 * MARGIN, ROWS * HEIGHT + 2 * MARGIN
    style, rows, scroll = [], [], ["0% {transform: translateY(0)}"]
    for number, (at, line) in enumerate(lines):
        percent = 100 * at / total
        style.append(f"@keyframes l{number} {{0% {{opacity: 0}} {percent:.3f}% {{opacity: 1}} 100% {{opacity: 1}}}}")
        style.append(f".l{number} {{animation: l{number} {total:.2f}s step-end infinite}}")
        if number >= ROWS:
            scroll.append(f"{percent:.3f}% {{transform: translateY(-{(number - ROWS + 1) * HEIGHT}px)}}")
        kind = " e" if line.startswith(EMPHASISED) else ""
        rows.append(f'<text class="l{number}{kind}" x="{MARGIN}" y="{MARGIN + (number + 1) * HEIGHT - 5}">'
                    f"{escape(line[:COLUMNS])}</text>")
    style.append(f"@keyframes scroll {{{' '.join(scroll)}}}")
    style.append(f".s {{transform: translateY(-{hidden * HEIGHT}px);"
                 f" animation: scroll {total:.2f}s step-end infinite}}")
    style.append("@media (prefers-reduced-motion) {* {animation: none !important}}")
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'role="img" aria-label="{escape(prompt)}, recorded">')
    text = ["text {font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre}",
            ".e {fill: #ebcb8b}"]
    clip = (f'<clipPath id="c"><rect x="0" y="{MARGIN}" width="{width:.0f}" height="{ROWS * HEIGHT}"/></clipPath>'
            f'<rect width="100%" height="100%" rx="6" fill="#2e3440"/>')
    return "\n".join([head, "<style>", *text, *style, "</style>", clip, '<g clip-path="url(#c)"><g class="s">', *rows,
                      "</g></g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", help="the file to write")
    parser.add_argument("--prompt", required=True, help="the command line to show")
    parser.add_argument("command", nargs="+", help="the command to run, after --")
    arguments = parser.parse_args()
    text = draw(record(arguments.command), arguments.prompt)
    with open(arguments.svg, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{arguments.svg}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
