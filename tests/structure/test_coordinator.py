"""The files and classes of the rendezvous room are short enough for one reader."""

import pathlib
import re
import unittest

ROOM = pathlib.Path(__file__).resolve().parents[2] / "operator" / "rendezvous"
MOST_LINES = 450
MOST_FIELDS = 20


def classes(text):
    """Each class and struct of a header with the lines of its own body, without those of the types inside."""
    text = re.sub(r"//.*", "", text)
    for match in re.finditer(r"^( *)(?:class|struct) (\w+)[^;{]*\{\n(.*?)^\1\}", text, re.M | re.S):
        indent = match[1] + "  "
        yield match[2], re.findall(rf"^{indent}(\S.*)$", match[3], re.M)


def fields(lines):
    """The names that the lines declare as data."""
    found = []
    for line in lines:
        if line.startswith(("using ", "friend ", "template", "static ", "enum ", "struct ", "class ", "}", "return")):
            continue
        plain = re.sub(r"<[^;]*>|\{[^;{}]*\}", " ", line).strip()
        if re.search(r"[()]", re.sub(r"=[^,;]*", "", plain)) or not plain.endswith(";"):
            continue
        found += re.findall(r"(\w+)\s*(?:=[^,;]*)?(?=[,;])", plain)
    return found


class Parts(unittest.TestCase):
    def test_no_file_of_the_room_is_longer_than_a_sitting(self):
        for path in sorted(ROOM.iterdir()):
            lines = len(path.read_text().splitlines())
            self.assertLessEqual(lines, MOST_LINES, path.name)

    def test_no_class_of_the_room_has_more_than_twenty_fields(self):
        seen = {}
        for header in sorted(ROOM.glob("*.h")):
            for name, lines in classes(header.read_text()):
                seen[name] = fields(lines)
                self.assertLessEqual(len(seen[name]), MOST_FIELDS, f"{name}: {seen[name]}")
        counts = {name: len(found) for name, found in seen.items()}
        self.assertEqual((counts["Reach"], counts["Told"], counts["Ending"]), (5, 5, 6), "all fields are seen")


if __name__ == "__main__":
    unittest.main()
