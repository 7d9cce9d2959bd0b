"""How pages, comments and --help speak: scripts/prose.py finds no sentence that breaks a rule, but planted ones."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/prose.py"
sys.path.insert(0, str(ROOT / "scripts"))
import prose  # noqa: E402

MOST_NAME = 70  # characters of a test's name
LONG = "word " * (prose.MOST_WORDS + 1)


def names_of_tests(text):
    """Those of C++ and of Python."""
    return re.findall(r"TEST(?:_[FP])?\(\s*\w+,\s*(\w+)\)|^ *def (?=test_)(\w+)\(", text, re.M)


def wrong_names(text):
    """Names of tests that are too long or have a home-made word, as sentences that begin with a capital."""
    names = [cpp or python for cpp, python in names_of_tests(text)]
    said = {name: name.removeprefix("test_").replace("_", " ") for name in names}
    return [name for name in names
            if len(name) > MOST_NAME or prose.wrong_words(said[name][:1].upper() + said[name][1:])]


def wrong(found):
    """The first lines of the passages with a sentence that breaks a rule."""
    return [first for first, _, passage in found for one in prose.split(passage) if prose.wrong_words(one)]


class Prose(unittest.TestCase):
    def test_names_of_tests_have_at_most_70_characters_and_no_banned_word(self):
        found = [f"{path.relative_to(ROOT)}: {name}" for path in prose.sources("tests/*.cpp", "tests/*.py")
                 for name in wrong_names(path.read_text())]
        self.assertEqual(found, [])

    def test_a_long_name_and_a_banned_word_are_found(self):
        long = "a" * (MOST_NAME + 1)
        self.assertEqual(wrong_names(f"TEST_F(Fixture,\n       {long}) {{}} TEST(A, {long[1:]})"), [long])
        self.assertEqual(wrong_names(f"def test_{long[5:]}(x):\n    def test_{long[6:]}(self):"), [f"test_{long[5:]}"])
        self.assertEqual(wrong_names("TEST(A, it_starts_" "anew) TEST(A, it_restarts)"), ["it_starts_" "anew"])
        self.assertEqual(wrong_names("TEST(A, who_" "is_late) TEST(A, the_one_who_is_late)"), ["who_" "is_late"])

    def test_no_sentence_breaks_a_rule(self):
        broken = prose.violations()
        self.assertFalse(broken, "\n" + "\n".join(broken))

    def test_each_kind_of_text_is_read(self):
        found = [(one.kind, str(one.path.relative_to(ROOT))) for one in prose.sentences()]
        for kind, path in (("page", "README.md"), ("page", "docs/health.md"), ("comment", "operator/job/decide.h"),
                           ("comment", "trainer/backend/cuda/kernels/max_pool.cu"), ("comment", "scripts/run_tests.py"),
                           ("comment", "scripts/build.sh"), ("comment", "charts/lockstep/values.yaml"),
                           ("help", "operator/options.cpp"), ("help", "operator/cli/cli.cpp"),
                           ("help", "trainer/flags.cpp"), ("help", "trainer/agent/main.cpp"),
                           ("help", "trainer/pack/data_cli.cpp"), ("help", "operator/job/pod_policy.cpp"),
                           ("text", "manifests/crd.yaml"), ("text", "charts/lockstep/files/alerts.yaml"),
                           ("text", "charts/lockstep/files/dashboard.json"),
                           ("text", "charts/lockstep/templates/NOTES.txt")):
            self.assertGreater(found.count((kind, path)), 3, path)

    def test_a_colon_ends_a_label_and_no_other_part_of_a_sentence(self):
        self.assertEqual(prose.split("Default: four; one more: it is long. The last word of all: yes"),
                         ["Default", "four", "one more", "it is long.", "The last word of all: yes"])

    def test_a_long_sentence_of_a_page_is_found(self):
        text = (f"# Head\n{LONG}\nends.\n\n* **Bold.** {'item ' * 25}ends: {'here ' * 9}\n\n"
                f"| a | {LONG}|\n\n    {LONG}\n")
        self.assertEqual(wrong(prose.passages(text)), [2, 5, 7])

    def test_a_long_sentence_of_a_comment_is_found(self):
        half = "word " * (prose.MOST_WORDS // 2 + 1)
        text = (f'// {half}\n// {half}\nauto a = "// {LONG}";  // {half}\n                 // new {half}\n'
                f"int b;  // {half}\n        // {half}\n//   row    {half}\n//   row    {half}\n"
                f"//\n// * {half}\n//   {half}\n")
        self.assertEqual(wrong(prose.comments(text)), [1, 5, 10])

    def test_a_long_sentence_of_a_script_is_found(self):
        self.assertEqual(wrong(prose.hash_comments(f"#!/bin/bash\n# {LONG}\necho '{LONG}'\n")), [2])
        self.assertEqual(wrong(prose.python_comments(f'"""Head.\n\n{LONG}"""\nx = "{LONG}"\n  # {LONG}\n')), [5, 3])

    def test_a_long_sentence_of_help_is_found(self):
        half = "word " * (prose.MOST_WORDS // 2 + 1)
        text = (f'app.footer("Examples:\\n  {LONG}\\n\\n{half}\\n"\n           "{half}");  // {LONG}\n'
                f'app.add("--x", x, "{half}", "{half}");\nconstexpr auto kText = R"(\nHead.\n{half}\n{half}\n)";\n')
        self.assertEqual(wrong(prose.help_texts(text)), [1, 5])

    def test_a_long_sentence_of_a_description_is_found(self):
        text = (f"a:\n  description: {LONG}\n  image: {LONG}\n- message: '{LONG}'\n  b:\n    description: >-\n"
                f"      word\n      {LONG}\n    c: {LONG}\n")
        self.assertEqual(wrong(prose.yaml_texts(text)), [2, 4, 6])
        text = f' "description": "a",\n "description": "{LONG}",\n "b": "{LONG}"'
        self.assertEqual(wrong(prose.json_texts(text)), [2])
        self.assertEqual(wrong(prose.plain_texts(f"{{{{ {LONG} }}}}\n{LONG}\n\n  {LONG}\n")), [1])

    def test_a_banned_word_is_found(self):
        for text in ("Whoever is late.", "It gets on.", "They do not get on.", "It got on.", "Who is left goes on.",
                     "It is gone any more.", "They start anew.", "It is empty at first.", "What befalls it.",
                     "What has befallen it.", "Simply run it.", "Who leads", "It hears of nobody.",
                     "It is not anymore.", "Jobs looked at at the same time.", "A member is done without.",
                     "All hold the same bits."):
            self.assertEqual(len(prose.wrong_words(text)), 1, text)
        for text in ("A member that is late makes progress.", "The one who is late waits.", "Anyone may say more.",
                     "Who is left? It lacks 3 bits.", "It is looked at once."):
            self.assertEqual(prose.wrong_words(text), [])

    def test_a_line_that_is_too_long_is_found(self):
        long = "a" * prose.COMMENT_COLUMNS
        for line, count in ((f"// {long}", 1), (f"// {long[4:]}", 0), (f"//   row    {long}", 0)):
            (sentence,) = [prose.Sentence("comment", None, 1, 1, line)]
            self.assertEqual(len(prose.remarks(sentence, [line])), count, line)
        self.assertEqual(prose.too_long(f"{'a' * 101}\n| {'a' * 101} |\n```\n{'a' * 101}\n```\n"), [1])

    def test_a_seed_picks_whole_sentences(self):
        lines = ["text", "| cell |", "//   row    cell", "// * item"]
        for text, first, whole in (("One two three four five six seven eight.", 1, True),
                                   ("One two three four five six seven.", 1, False),
                                   ("One two three four five six seven eight", 1, False),
                                   ("One two three four five six {} eight.", 1, False),
                                   ("One two three four five six {:.0f} eight.", 1, False),
                                   ("One two three four five six seven eight.", 2, False),
                                   ("One two three four five six seven eight.", 3, False),
                                   ("One two three four five six seven eight.", 4, True)):
            self.assertEqual(prose.is_whole(prose.Sentence("page", None, first, first, text), lines), whole, text)

    def test_a_seed_picks_the_same_40_sentences_of_each_kind(self):
        first, second = (subprocess.run([SCRIPT, "--seed", "7", "--count", "40"], text=True, capture_output=True,
                                        timeout=60, check=True).stdout.splitlines() for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(first[-1], "seed 7: 0 of 40 sentences break a rule")
        kinds = [line.split(" | ")[1] for line in first[:-1]]
        self.assertEqual([kinds.count(kind) for kind in ("page", "comment", "help")], [16, 16, 8])


if __name__ == "__main__":
    unittest.main()
