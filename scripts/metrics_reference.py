#!/usr/bin/env python3
"""Writes the table of metrics in docs/reference.md from the calls in operator/ that register them.

  scripts/metrics_reference.py            writes it
  scripts/metrics_reference.py --check    only says whether it is up to date (exit 1 if not)
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"
HEAD = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
Metric = collections.namedtuple("Metric", "name kind labels help")

# counter("NAME", "HELP", {{"LABEL", ...
CALL = re.compile(r'\b(counter|gauge|histogram)\(\s*"(\w+)"\s*,\s*"([^"]*)"')


def arguments_behind(text, begin):
    """The text from `begin` to the parenthesis that closes the call around it."""
    depth, end = 1, begin
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[begin:end - 1]


def metrics_of(text):
    """The metrics that a source file registers."""
    for call in CALL.finditer(text):
        kind, name, told = call.groups()
        labels = tuple(re.findall(r'\{\s*"(\w+)",', arguments_behind(text, call.end())))
        yield Metric(name, kind, labels, told)


def metrics_in_code(root=ROOT):
    """The metrics of the operator by name. Two calls that disagree about one are a ValueError."""
    found = {}
    for path in sorted((root / "operator").rglob("*")):
        for metric in metrics_of(path.read_text()) if path.suffix in (".h", ".cpp") else ():
            if found.setdefault(metric.name, metric) != metric:
                raise ValueError(f"{path}: {metric} is registered elsewhere as {found[metric.name]}")
    return dict(sorted(found.items()))


def table(metrics):
    rows = ((f"`{one.name}`", one.kind, ", ".join(one.labels), one.help[0].lower() + one.help[1:].rstrip("."))
            for one in metrics.values())
    return HEAD + "".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in rows)


def page(text, metrics):
    """The page with the table of these metrics in place of its own."""
    head, _, below = text.partition("\n## Metrics\n")
    before, _, rest = below.partition(HEAD)
    after = rest[re.match(r"(\|.*\n)*", rest).end():]
    return f"{head}\n## Metrics\n{before}{table(metrics)}{after}"


def main():
    text = PAGE.read_text()
    written = page(text, metrics_in_code())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(written)
    elif text != written:
        print("docs/reference.md: the table of metrics differs from operator/; run scripts/metrics_reference.py",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
