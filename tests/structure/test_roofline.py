"""docs/gpu.md shows the bounds of `make cuda-roofline`."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/trainer/backend/cuda/roofline/table.txt"
NAMES = {"resnet50": "ResNet-50", "mobilenet-v2": "MobileNet-V2", "resnet18": "ResNet-18", "vgg-a": "VGG-A",
         "char-transformer": "transformer"}
BOUND = re.compile(r"^(\S+) +(bf16|fp32) (\S+) +(\d+) +(\d+) +(\d+) %  ", re.M)
AIM = re.compile(r"^(\S+) +bf16 (\S+) +(\d+) +(\d+) %$", re.M)


def page_rows(table):
    """The rows of the page's two tables."""
    bounds = {}
    for model, precision, gpu, plain, fused, memory in BOUND.findall(table):
        cell = f"{int(plain):,}" + (f" ({int(fused):,})" if fused != plain else "")
        bounds.setdefault((NAMES[model], precision), {})[gpu] = cell, memory
    for (model, precision), of in bounds.items():
        cells = " | ".join(of[gpu][0] for gpu in ("A100", "H100", "H200"))
        yield f"| {model}, {precision} | {cells} | {of['H100'][1]} % |"
    for model, gpu, aim, share in AIM.findall(table):
        yield f"| {NAMES[model]}, {gpu} | {int(aim):,} | {share} % |"


class Roofline(unittest.TestCase):
    def test_the_page_shows_the_bounds(self):
        lines = (ROOT / "docs/gpu.md").read_text().splitlines()
        rows = list(page_rows(TABLE.read_text()))
        self.assertEqual(len(rows), 14)
        self.assertEqual([row for row in rows if row not in lines], [], "not in docs/gpu.md")


if __name__ == "__main__":
    unittest.main()
