"""scripts/capture.py: a recorded run is an SVG that shows every line once, in order, at the pace of the run."""

import pathlib
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import capture  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def shown(text):
    """[(percent of the animation at which it appears, line)] of an SVG."""
    root = xml.fromstring(text)
    percents = dict(re.findall(r"@keyframes (l\d+) \{0% \{opacity: 0\} ([\d.]+)%", root.find(f"{SVG}style").text))
    return [(float(percents[line.get("class").split()[0]]), line.text or "") for line in root.iter(f"{SVG}text")]


class Capture(unittest.TestCase):
    def test_every_line_appears_once_in_order(self):
        lines = [(0.5 * i, f"step {i}") for i in range(2 * capture.ROWS)]
        drawn = shown(capture.draw(lines, "make demo"))
        self.assertEqual([line for _, line in drawn], ["$ make demo"] + [line for _, line in lines])
        self.assertEqual(drawn, sorted(drawn, key=lambda row: row[0]))

    def test_a_pause_of_the_run_is_a_pause_of_the_picture_but_a_short_one(self):
        paced = capture.paced([(0, "a"), (4, "b"), (4000, "c")])
        self.assertEqual([at for at, _ in paced], [0, 4 / capture.FASTER, 4 / capture.FASTER + capture.LONGEST_GAP])

    def test_text_of_the_run_cannot_break_the_picture(self):
        self.assertEqual(shown(capture.draw([(0, '<b a="&">')], "a & b"))[1][1], '<b a="&">')

    def test_a_command_that_fails_is_no_picture(self):
        made = subprocess.run([ROOT / "scripts/capture.py", "/dev/null", "--prompt", "x", "--", "sh", "-c", "exit 3"],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("sh ended with 3", made.stderr)

    def test_the_picture_of_the_readme_is_of_a_recovery(self):
        lines = [line for _, line in shown((ROOT / "docs" / "demo.svg").read_text())]
        self.assertEqual(lines[0], "$ make demo")
        self.assertTrue(any("killed rank 2" in line for line in lines))
        self.assertTrue(any(re.search(r"ProcessSignal +2 +137", line) for line in lines))


if __name__ == "__main__":
    unittest.main()
