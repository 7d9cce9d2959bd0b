#!/usr/bin/env python3
"""The history of the benchmarks' ratios: docs/benchmarks/history.jsonl, its plot, and docs/benchmark-history.md.

  make bench-placement | tee /tmp/out; scripts/bench_history.py add /tmp/out    appends the ratios that it printed
  scripts/bench_history.py draw                                                 writes the plot and the page
  scripts/bench_history.py check                                                fails if they do not show the records

A record is a line: commit, date, machine, benchmark, what it is measured against, ratio. A ratio is of one run, so the
load of the machine is on both of its sides; times are not recorded.
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import re
import subprocess
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs/benchmarks/history.jsonl"
PLOT = ROOT / "docs/benchmarks/history.svg"
PAGE = ROOT / "docs/benchmark-history.md"
FIELDS = ("commit", "date", "machine", "benchmark", "against", "ratio")

Series = collections.namedtuple("Series", "benchmark against command better")
LOWER, HIGHER = "lower", "higher"

# The series in the order of the page. Words in braces are those that the benchmark prints.
SERIES = (
    Series("CPU time of a step of {network}, theirs / ours", "PyTorch", "make bench-trainer", HIGHER),
    Series("CPU time of a step of {network}, ours / theirs", "its convolutions alone", "make bench-trainer", LOWER),
    Series("CPU time of a step of {network}, ours / its products", "its matrix products alone", "make bench-trainer",
           LOWER),
    Series("memory of a step of {network}, ours / theirs", "PyTorch", "make bench-trainer", LOWER),
    Series("step with --deterministic, {ranks}", "a step without", "make bench", LOWER),
    Series("ring all-reduce, {ranks}, {transport}, {size} KiB", "a plain copy", "make bench", LOWER),
    Series("racks of gangs, mean over the seeds", "the best peer of them", "make bench-placement", LOWER),
    Series("racks of gangs, more work in large gangs (--tail 0.6)", "the best peer of them", "make bench-placement",
           LOWER),
    Series("wait of gangs, mean over the seeds", "the best peer of them", "make bench-placement", LOWER),
    Series("ring edges between racks", "the least possible", "make bench-placement", LOWER),
    Series("all pods of a job bound", "a raw client", "make bench-placement", LOWER),
    Series("standstill of a fault", "the better of torchrun and torchft", "make bench-peers", LOWER),
    Series("CPU of a sleeping worker, {most} beside {least} of them", "one of the small gang",
           "make bench-control-plane", LOWER),
)


class Wrong(Exception):
    """A sentence on what is wrong with a file or a record."""


def series_of(benchmark):
    """The series whose words the name of a benchmark has."""
    for place, series in enumerate(SERIES):
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(series.benchmark))
        if re.fullmatch(pattern, benchmark):
            return place, series
    raise Wrong(f"no series has the benchmark {benchmark!r}")


def ratios_of(text):
    """(benchmark, against, ratio) of each ratio that the benchmarks print."""
    def found(benchmark, ratio):
        return benchmark, series_of(benchmark)[1].against, float(ratio)

    network, alone = None, ""
    for line in text.splitlines():
        times = r" +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)"
        if row := re.fullmatch(rf"(\S+){times} +\d+ +\d+ +([\d.]+)  (?:eager|compiled)", line):
            yield found(f"CPU time of a step of {row[1]}, theirs / ours", row[2])
            yield found(f"memory of a step of {row[1]}, ours / theirs", row[3])
        elif row := re.match(r"(\S+), \d+ samples, .*, against its (convolutions|matrix products) alone", line):
            network, alone = row[1], "theirs" if row[2] == "convolutions" else "its products"
        elif network and (row := re.fullmatch(r"  all +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)", line)):
            yield found(f"CPU time of a step of {network}, ours / {alone}", row[1])
        elif row := re.match(r"transformer, (\d) ranks? *: a deterministic step takes ([\d.]+) times as long", line):
            yield found(f"step with --deterministic, {row[1]} rank{'' if row[1] == '1' else 's'}", row[2])
        elif row := re.fullmatch(r" +(\d+)  (\S.*?) +(\d+) +[\d.]+ +[\d.]+ +([\d.]+)", line):
            yield found(f"ring all-reduce, {row[1]} ranks, {row[2]}, {row[3]} KiB", row[4])
        elif row := re.match(r"racks / least: lockstep is .*\(by seed ([\d.]+) ", line):
            yield found("racks of gangs, mean over the seeds", row[1])
        elif row := re.match(r"wait s: lockstep is .*\(by seed ([\d.]+) ", line):
            yield found("wait of gangs, mean over the seeds", row[1])
        elif row := re.fullmatch(r"order of ranks +\d+ +([\d.]+) +\d+ +[\d.]+", line):
            yield found("ring edges between racks", row[1])
        elif row := re.match(r"lockstep to raw: ([\d.]+), the bound is", line):
            yield found("all pods of a job bound", row[1])
        elif row := re.match(r"ours to the better of the others: ([\d.]+) of its standstill", line):
            yield found("standstill of a fault", row[1])
        elif row := re.match(r"a worker of (\d+) costs ([\d.]+) times the CPU of a worker of (\d+)", line):
            yield found(f"CPU of a sleeping worker, {row[1]} beside {row[3]} of them", row[2])


def records(path=RECORDS):
    """All records, in the order of the file."""
    result = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            if tuple(record) != FIELDS:
                raise Wrong(f"the fields are {', '.join(record)}; they have to be {', '.join(FIELDS)}")
            datetime.date.fromisoformat(record["date"])
            if not (isinstance(record["ratio"], (int, float)) and 0 < record["ratio"] < math.inf):
                raise Wrong(f"{record['ratio']!r} is no ratio")
            if series_of(record["benchmark"])[1].against != record["against"]:
                raise Wrong(f"{record['benchmark']} is not measured against {record['against']!r}")
        except (ValueError, TypeError, Wrong) as error:
            raise Wrong(f"{path.name}:{number}: {error}") from None
        result.append(record)
    return result


def of_this_machine():
    """Cores and the widest vectors of the CPU, which is what ratios of computing depend on."""
    flags = " ".join(re.findall(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[:1]).split()
    widest = [name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags]
    return ", ".join([f"{os.cpu_count()} cores", *widest[:1]])


def add(text, machine, commit, date):
    new = [dict(zip(FIELDS, (commit, date, machine, *found))) for found in ratios_of(text)]
    if not new:
        raise Wrong("no ratio was found in what the benchmark printed")
    with RECORDS.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in new)
    return new


def grouped(found):
    """benchmark -> its records by date, in the order of SERIES."""
    groups = {}
    for record in sorted(found, key=lambda r: (series_of(r["benchmark"])[0], r["benchmark"], r["date"])):
        groups.setdefault(record["benchmark"], []).append(record)
    return groups


WIDTH, HEIGHT, COLUMNS, INK, OURS, GRID = 420, 170, 2, "#24292f", "#1f6feb", "#d0d7de"


def panel(benchmark, rows):
    """One benchmark: its records from left to right, each with its ratio, over a line at 1."""
    series = series_of(benchmark)[1]
    low, high = min(0.5, *(row["ratio"] for row in rows)), max(1.5, *(row["ratio"] for row in rows))

    def y(ratio):
        return 122 - 66 * math.log(ratio / low) / math.log(high / low)

    parts = [f'<text x="0" y="14" class="title">{escape(benchmark)}</text>',
             f'<text x="0" y="30" class="note">against {escape(series.against)}; {series.better} is better</text>',
             f'<line x1="24" y1="{y(1):.1f}" x2="{WIDTH - 30}" y2="{y(1):.1f}" stroke="{GRID}" stroke-width="2"/>',
             f'<text x="8" y="{y(1) + 4:.1f}" class="note">1</text>']
    step = (WIDTH - 110) / max(len(rows) - 1, 1)
    points = [(50 + n * step, y(row["ratio"]), row) for n, row in enumerate(rows)]
    line = " ".join(f"{x:.1f},{at:.1f}" for x, at, _ in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{OURS}"/>')
    for x, at, row in points:
        parts.append(f'<circle cx="{x:.1f}" cy="{at:.1f}" r="4" fill="{OURS}"/>')
        parts.append(f'<text x="{x + 7:.1f}" y="{at - 6:.1f}" class="note">{row["ratio"]:g}</text>')
        parts.append(f'<text x="{x - 20:.1f}" y="138" class="note">{row["date"]}</text>')
        parts.append(f'<text x="{x - 20:.1f}" y="152" class="note">{row["commit"]}</text>')
    return parts


def plot(found):
    groups = grouped(found)
    width, height = 20 + COLUMNS * (WIDTH + 20), 10 + HEIGHT * math.ceil(len(groups) / COLUMNS)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}">',
             f"<style>text{{font:12px sans-serif;fill:{INK}}}.title{{font-weight:bold}}.note{{font-size:11px}}</style>",
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for n, (benchmark, rows) in enumerate(groups.items()):
        x, y = 20 + n % COLUMNS * (WIDTH + 20), 10 + n // COLUMNS * HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *panel(benchmark, rows), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


HEAD = """\
# Benchmarks over time

Each figure is a ratio to a peer or a bound of the same run. So a busy machine slows down both
sides. `tests/bench/README.md` says what each benchmark measures. [results.md](results.md) and
[placement-benchmarks.md](placement-benchmarks.md) have the tables of single runs.

![The ratio of each benchmark over time](benchmarks/history.svg)

`scripts/bench_history.py` appends what a benchmark printed to `docs/benchmarks/history.jsonl`, and
writes this page and the plot:

    make bench-placement | tee out/bench.txt
    scripts/bench_history.py add out/bench.txt
"""
COLUMN_NAMES = ("benchmark", "against", "better", "date", "commit", "ratio", "machine")


def page(found):
    tables = {}
    for benchmark, rows in grouped(found).items():
        series = series_of(benchmark)[1]
        for row in rows:
            cells = (benchmark, series.against, series.better, row["date"], row["commit"], f"{row['ratio']:g}",
                     row["machine"])
            tables.setdefault(series.command, []).append(cells)
    lines = [HEAD]
    for command, table in tables.items():
        lines += [f"## `{command}`", "", "| " + " | ".join(COLUMN_NAMES) + " |", "|---" * len(COLUMN_NAMES) + "|",
                  *("| " + " | ".join(cells) + " |" for cells in table), ""]
    return "\n".join(lines)


def files(found):
    return {PLOT: plot(found), PAGE: page(found)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    adds = commands.add_parser("add", help="append the ratios that a benchmark printed, and draw")
    adds.add_argument("output", type=pathlib.Path, help="what the benchmark printed")
    adds.add_argument("--machine", default=of_this_machine(), help="where it ran (default: %(default)s)")
    adds.add_argument("--commit", help="what was measured (default: HEAD)")
    commands.add_parser("draw", help="write the plot and the page")
    commands.add_parser("check", help="fail if the plot or the page does not show the records")
    words = parser.parse_args()
    try:
        if words.command == "add":
            commit = subprocess.run(["git", "rev-parse", "--short=7", words.commit or "HEAD"], cwd=ROOT, check=True,
                                    text=True, capture_output=True).stdout.strip()
            for record in add(words.output.read_text(), words.machine, commit, datetime.date.today().isoformat()):
                print(f"{record['benchmark']}: {record['ratio']:g}")
        for path, text in files(records()).items():
            if words.command != "check":
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                raise Wrong(f"{path.relative_to(ROOT)} does not show the records; run: scripts/bench_history.py draw")
    except Wrong as error:
        sys.exit(f"bench_history: {error}")


if __name__ == "__main__":
    main()
