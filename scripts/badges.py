#!/usr/bin/env python3
"""Draws the badges of README.md, docs/badges/*.svg, from what is true of this tree.

  scripts/badges.py            writes them
  scripts/badges.py --check    only says whether they are up to date (exit 1 if not)
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/badges"
HEIGHT, PAD, LETTER = 20, 6, 6.6  # px: of a badge, beside a text, and of a letter, about


def found(pattern, name):
    """What the group of a pattern matches in a file."""
    return re.search(pattern, (ROOT / name).read_text(), re.M)[1]


def facts():
    """name of a badge -> (label, value)."""
    needs = found(r'^kubeVersion: ">=(\d+\.\d+)\.0-0"$', "charts/lockstep/Chart.yaml")
    tested = found(r"^\tk8s\.io/kubernetes v(\S+)", "tests/cluster/modules/kubernetes/go.mod")
    return {
        "licence": ("licence", "Apache-" + found(r"\A\s+Apache License\s+Version (\S+),", "LICENSE")),
        "kubernetes": ("Kubernetes", f"needs {needs}, tested with {tested}"),
        "debian": ("builds on", "Debian " + found(r'"\$system" != "debian (\d+)"', "scripts/setup.sh")),
    }


def drawn(label, value):
    """A badge as an SVG."""
    left, right = (round(len(text) * LETTER + 2 * PAD) for text in (label, value))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img">
<title>{label}: {value}</title>
<clipPath id="c"><rect width="{left + right}" height="{HEIGHT}" rx="3"/></clipPath>
<g clip-path="url(#c)" font-family="system-ui, DejaVu Sans, sans-serif" font-size="11" text-anchor="middle" fill="#fff">
<rect width="{left}" height="{HEIGHT}" fill="#4a4f57"/>
<rect x="{left}" width="{right}" height="{HEIGHT}" fill="#1f6feb"/>
<text x="{left / 2:g}" y="14" textLength="{left - 2 * PAD}">{label}</text>
<text x="{left + right / 2:g}" y="14" textLength="{right - 2 * PAD}">{value}</text>
</g>
</svg>
"""


def main(words):
    if words not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name, fact in facts().items():
        path = FOLDER / f"{name}.svg"
        if words and (not path.exists() or path.read_text() != drawn(*fact)):
            stale.append(str(path.relative_to(ROOT)))
        elif not words:
            path.write_text(drawn(*fact))
    if stale:
        print(f"not up to date: {', '.join(stale)}; run scripts/badges.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
