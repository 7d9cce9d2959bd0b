"""The table of modes in operator/rendezvous/README.md says what kMayFollow in the code says."""

import pathlib
import re
import unittest

ROOM = pathlib.Path(__file__).resolve().parents[2] / "operator" / "rendezvous"


def in_code(text):
    """The modes that may follow each mode, by kMayFollow."""
    table = re.search(r"kMayFollow = \{(.*?)\n\};", text, re.S)[1]
    return {name.lower(): sorted(re.findall(r"Mode::k(\w+)", modes.lower().replace("mode::k", "Mode::k")))
            for name, modes in re.findall(r"/\* k(\w+) \*/\s*modes_of\(\{(.*?)\}\)", table, re.S)}


def in_readme(text):
    """The same by the table whose head is `mode`, `owns`, `next`."""
    rows = re.search(r"^\| mode \| owns \| next \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)[1]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    return {mode: sorted(next_.split(", ")) for mode, _, next_ in cells}


class Modes(unittest.TestCase):
    def setUp(self):
        self.header = (ROOM / "coordinator_modes.h").read_text()

    def test_the_readme_lists_the_transitions_of_the_code(self):
        code = in_code(self.header)
        self.assertEqual(len(code), 10)
        self.assertEqual(in_readme((ROOM / "README.md").read_text()), code)

    def test_the_table_has_the_modes_in_the_order_of_the_enum(self):
        enum = re.search(r"enum class Mode \{(.*?)\};", self.header, re.S)[1]
        self.assertEqual([name.lower() for name in re.findall(r"^\s*k(\w+),", enum, re.M)], list(in_code(self.header)))


if __name__ == "__main__":
    unittest.main()
