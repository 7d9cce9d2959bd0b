"""plot.py draws every figure that packing_bench writes, as well-formed SVG."""

import pathlib
import sys
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import plot


def value(mean, half=0.1):
    return {"mean": mean, "half": half}


FIGURES = {
    "packing": {"lockstep": {"racks_over_least": value(1.5)}, "kueue": {"racks_over_least": value(1.8)},
                "to_best": {"peer": "kueue", "ratio": 0.83, "half": 0.01, "goal": 0.92}},
    "waiting": {"lockstep": {"wait": value(60)}, "kueue": {"wait": value(90)}},
    "replacement 0.92": {"lockstep": {"stayed": value(70)}, "kueue": {"stayed": value(15)}, "goal": 69},
    "rings": {"ranks": {"racks": 10}, "by_name": {"racks": 12}, "by_slot": {"racks": 40},
              "least": {"racks": 10}, "count": 3},
}


class Plot(unittest.TestCase):
    def test_every_policy_has_a_bar_with_its_value(self):
        root = ElementTree.fromstring(plot.draw(FIGURES))
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count("lockstep"), 4)
        self.assertEqual(texts.count("kueue"), 3)
        self.assertIn("1 min", texts)
        self.assertIn("70 %", texts)
        self.assertIn("goal: 69 %", texts)

    def test_no_figure_is_needed(self):
        ElementTree.fromstring(plot.draw({}))


if __name__ == "__main__":
    unittest.main()
