"""How the pages speak: sentences of at most 25 words, and none of the words that CONTRIBUTING.md's rules replace."""

import re
import unittest

from test_docs import ROOT, pages, prose

MOST_WORDS = 25
MOST_NAME = 70  # characters of a test's name
# The left side is the home-made word, the right side the field's.
BANNED = {
    r"whoever": "the actor's name",
    r"anew": "again, recreated, reconnects",
    r"gets? on": "makes progress",
    r"heard of": "heartbeat received",
    r"blazing|seamless(ly)?|simply|world-class|cutting-edge": "a fact",
}
ITEM = re.compile(r"^\s*([*-]|\d+\.) ")


def passages(text):
    """(number, text) of each paragraph, list item and table cell; blocks of code and headings are none."""
    found, current = [], []

    def end():
        if current:
            found.append((current[0][0], " ".join(line for _, line in current)))
            current.clear()

    for number, line in [*prose(text), (0, "")]:
        if line.startswith("|"):
            end()
            found += [(number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        elif line.startswith(("#", "    ")) or not line.strip():
            end()
        else:
            if ITEM.match(line):
                end()
            current.append((number, ITEM.sub("", line).strip()))
    return found


def sentences(passage):
    """A colon and a semicolon end a sentence here; code and a link count as one word."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", passage)).replace("**", "")
    return [one for one in re.split(r"(?<=[.!?])\s+(?=[A-Za-z*(])|[;:]\s", plain) if one]


def long_sentences(text):
    return [(number, one) for number, passage in passages(text) for one in sentences(passage)
            if len(one.split()) > MOST_WORDS]


def banned_words(text):
    return [(number, word[0], instead) for number, line in prose(text) for pattern, instead in BANNED.items()
            if (word := re.search(rf"\b({pattern})\b", line, re.I))]


def long_names(text):
    return [name for name in re.findall(r"TEST(?:_[FP])?\(\s*\w+,\s*(\w+)\)", text) if len(name) > MOST_NAME]


class Prose(unittest.TestCase):
    def test_names_of_tests_have_at_most_70_characters(self):
        wrong = [f"{path.relative_to(ROOT)}: {name}" for path in sorted((ROOT / "tests").rglob("*.cpp"))
                 for name in long_names(path.read_text())]
        self.assertEqual(wrong, [])

    def test_a_long_name_is_found(self):
        long = "a" * (MOST_NAME + 1)
        self.assertEqual(long_names(f"TEST_F(Fixture,\n       {long}) {{}} TEST(A, {long[1:]})"), [long])

    def test_sentences_have_at_most_25_words(self):
        wrong = [f"{path.relative_to(ROOT)}:{number}: {one}" for path in pages()
                 if path.name != "api.md" for number, one in long_sentences(path.read_text())]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_a_long_sentence_is_found(self):
        text = (f"# Head\n{'word ' * 26}\nends.\n\n* **Bold.** {'item ' * 25}ends: {'here ' * 9}\n\n"
                f"| a | {'cell ' * 26}|\n\n    {'code ' * 30}\n")
        self.assertEqual([number for number, _ in long_sentences(text)], [2, 5, 7])

    def test_pages_use_the_words_of_the_field(self):
        wrong = [f"{path.relative_to(ROOT)}:{number}: {word}; say: {instead}" for path in pages()
                 for number, word, instead in banned_words(path.read_text())]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))
        found = banned_words("Whoever\n```\nanew\n```\nIt gets on\n")
        self.assertEqual([word for _, word, _ in found], ["Whoever", "gets on"])


if __name__ == "__main__":
    unittest.main()
