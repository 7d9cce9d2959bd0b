#!/usr/bin/env python3
"""Holds sentences of pages, comments, --help and messages against the rules of CONTRIBUTING.md: words, and columns.

  scripts/prose.py --seed 7 --count 40     prints 40 sentences that the seed picks, each with its verdict
  scripts/prose.py --all                   prints each sentence that breaks a rule

Ends with 1 if a printed sentence breaks a rule. The texts of --help and of messages are the literals of the programs.
"""

import argparse
import collections
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_WORDS = 25
PAGE_COLUMNS, COMMENT_COLUMNS = 100, 120
FEWEST_WORDS = 8  # of a sentence that a seed picks: shorter ones are mostly labels
SHARES = {"page": 0.4, "comment": 0.4, "help": 0.2}  # of the sentences that a seed picks
# The left side is the home-made word, the right side the field's.
BANNED = {
    r"(?i:\bwhoever\b)": "the actor's name",
    r"\bWho\b(?!.*\?)": "the actor's name",
    r"(?i:\banew\b)": "again, recreated, reconnects",
    r"(?i:\b(gets?|got|gotten|getting) on\b)": "makes progress",
    r"(?i:\bhear(s|d|ing)? of\b)": "heartbeat received",
    r"(?i:\blook(s|ed|ing)? at at\b)": "concurrent",
    r"(?i:\bdone without\b)": "evicted",
    r"(?i:\b(same|equal|identical|other) bits\b)": "bitwise identical, or what differs",
    r"(?i:\bany ?more\b)": "no longer, or what is the case",
    r"(?i:\bat first\b)": "the present, without history",
    r"(?i:\bbef(alls?|alling|allen|ell)\b)": "happens to",
    r"(?i:\b(blazing(ly)?|seamless(ly)?|simply|world-class|cutting-edge)\b)": "a fact",
}
ITEM = re.compile(r"^\s*([*-]|\d+\.) ")
LABEL = re.compile(r"\s*((?:[^\s:]+ ){0,3}\S+):\s+")  # at most four words before a colon
# Of C++: literals, so that no // inside of them counts, and comments.
TOKENS = re.compile(r'R"(?P<d>[^ ()\\]{0,16})\((?P<raw>.*?)\)(?P=d)"|"(?P<string>(?:[^"\\\n]|\\.)*)"|'
                    r"(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'|//(?P<comment>[^\n]*)|/\*.*?\*/", re.S)

Sentence = collections.namedtuple("Sentence", "kind path first last text")  # of the lines `first` to `last` of the file


def pages():
    skipped = ("build", "out", "lockstep-runs")
    return [path for path in sorted(ROOT.rglob("*.md"))
            if not any(part in skipped or part.startswith(".") for part in path.relative_to(ROOT).parts)]


def lines_of_prose(text):
    """(number, line) of each line outside fenced blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def too_long(text):
    """Lines beyond the limit that are no table row, no indented block, and hold no link that makes them so."""
    return [number for number, line in lines_of_prose(text)
            if len(line) > PAGE_COLUMNS and not line.startswith(("|", "    ")) and "](" not in line]


class Passages:
    """Joins lines to passages: (first line, last line, text)."""

    def __init__(self):
        self.found, self._lines = [], []

    def add(self, number, text):
        if ITEM.match(text):
            self.end()
        self._lines.append((number, ITEM.sub("", text).strip()))

    def end(self):
        if self._lines:
            self.found.append((self._lines[0][0], self._lines[-1][0], " ".join(line for _, line in self._lines)))
            self._lines = []


def passages(text):
    """Of each paragraph, list item and table cell of a page; blocks of code and headings are none."""
    made = Passages()
    for number, line in [*lines_of_prose(text), (0, "")]:
        if line.startswith("|"):
            made.end()
            made.found += [(number, number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        elif line.startswith(("#", "    ")) or not line.strip():
            made.end()
        else:
            made.add(number, line)
    return made.found


class Comment(Passages):
    """Passages of the lines of comments. Indented lines are the rows of a table, unless they continue an item."""

    def __init__(self):
        super().__init__()
        self._item = False

    def line(self, number, said):
        row = said.startswith("  ") and not ITEM.match(said) and not (self._lines and self._item)
        if not said.strip() or row or re.match(r"NOLINT|clang-format|shellcheck|noqa", said):
            self.end()
            self.found += [(number, number, cell) for cell in re.split(" {2,}", said.strip()) if row and cell]
        else:
            self._item = bool(ITEM.match(said)) or bool(self._lines and self._item)
            self.add(number, said)


def comments(text):
    """Passages of the comments of C and C++."""
    made = Comment()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    before = (0, 0)  # line and column of the last comment
    number = 0
    for token in TOKENS.finditer(text):
        if token["comment"] is None:
            continue
        while number < len(starts) and starts[number] <= token.start():
            number += 1
        column = token.start() - starts[number - 1]
        alone = not text[starts[number - 1]:token.start()].strip()
        if not alone or before != (number - 1, column):
            made.end()
        before = (number, column)
        made.line(number, token["comment"].removeprefix(" "))
    made.end()
    return made.found


def hash_comments(text):
    """Passages of comments that begin with # and have a line of their own."""
    made = Comment()
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*#(?!!) ?(.*)", line)
        if found:
            made.line(number, found[1])
        else:
            made.end()
    made.end()
    return made.found


def python_comments(text):
    """Passages of comments and docstrings."""
    made = Comment()
    for found in re.finditer(r'^( *)"""(.*?)"""', text, re.M | re.S):
        first = text.count("\n", 0, found.start()) + 1
        for number, line in enumerate(found[2].split("\n"), first):
            made.line(number, line.removeprefix(found[1]))
        made.end()
    return hash_comments(text) + made.found


def unescaped(literal):
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], literal)


def help_texts(text):
    """Passages of the string literals of C++; adjacent ones are one text, and indented lines are examples."""
    made = Passages()
    joined, end = [], 0  # [(line, text)] of adjacent literals

    def finish():
        numbered = [(number, part) for number, literal in joined for part in re.findall(r"[^\n]*\n|[^\n]+", literal)]
        line, first = "", 0
        for number, part in [*numbered, (0, "\n")]:
            line, first = line + part, first or number
            if not line.endswith("\n"):
                continue
            if not line.strip() or line.startswith("  "):
                made.end()
            elif first:
                made.add(first, line)
            line, first = "", 0
        made.end()
        joined.clear()

    for token in TOKENS.finditer(text):
        if token["raw"] is None and token["string"] is None:
            continue
        if text[end:token.start()].strip():
            finish()
        number = text.count("\n", 0, token.start()) + 1
        if token["raw"] is not None:
            joined += [(number + offset, line + "\n") for offset, line in enumerate(token["raw"].split("\n"))]
        else:
            joined.append((number, unescaped(token["string"])))
        end = token.end()
    finish()
    return made.found


def yaml_texts(text):
    """Passages of the values of description, message, summary and solution in YAML, on one line or folded."""
    made, lines = Passages(), text.splitlines()
    key = re.compile(r"( *(?:- )?)(?:description|message|summary|solution): (.*)")
    for number, line in enumerate(lines, 1):
        found = key.match(line)
        if not found:
            continue
        made.add(number, found[2].strip("'\"|>-"))
        for more in lines[number:]:
            if len(more) - len(more.lstrip()) <= len(found[1]) or not more.strip():
                break
            made.add(number, more)
        made.end()
    return made.found


def json_texts(text):
    """Passages of the values of description in JSON that has one key a line."""
    return [(number, number, unescaped(found[1])) for number, line in enumerate(text.splitlines(), 1)
            if (found := re.match(r' *"description": "(.*)",?$', line))]


def plain_texts(text):
    """Passages of a text with blocks of commands and template actions, which are none."""
    made = Passages()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        said = re.sub(r"\{\{.*?\}\}", "value", line)
        if not said.strip() or said.startswith("  "):
            made.end()
        else:
            made.add(number, said)
    return made.found


def split(passage):
    """A semicolon ends a sentence, and a colon after a label; code and a link count as one word."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", passage)).replace("**", "")
    found = []
    for one in re.split(r"(?<=[.!?])\s+(?=[A-Za-z*(]|\d+: |--\w)|;\s", plain):
        while label := LABEL.match(one):
            found.append(label[1])
            one = one[label.end():]
        found.append(one)
    return [one for one in found if one.strip()]


def wrong_words(text):
    """What is wrong with the words of a sentence: a list of remarks."""
    count = len(text.split())
    remarks = [f"{count} words"] if count > MOST_WORDS else []
    return remarks + [f'"{word[0]}"; say: {instead}' for pattern, instead in BANNED.items()
                      if (word := re.search(pattern, text))]


def sources(*endings):
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", *endings]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def programs():
    """The sources whose literals users read: --help, errors, events, lines of logs."""
    return sources("operator/*.cpp", "operator/*.h", "trainer/*.cpp", "trainer/*.h")


def scripts():
    """Files whose comments begin with #, but for Python. Those of tests/bad_input are answers of the API server."""
    return [path for path in sources("*.sh", "*.yaml", "*.yml", "*.cmake", "*CMakeLists.txt", "Makefile")
            if path.parent.name != "bad_input"]


def described():
    """Files of YAML whose descriptions and messages users read."""
    return sources("manifests/crd.yaml", "charts/lockstep/Chart.yaml", "charts/lockstep/files/alerts.yaml",
                   "examples/*.yaml", ".github/ISSUE_TEMPLATE/*.yaml")


def sentences():
    for kind, paths, of in (("page", pages(), passages),
                            ("comment", sources("*.h", "*.c", "*.cpp", "*.cu"), comments),
                            ("comment", sources("*.py"), python_comments),
                            ("comment", scripts(), hash_comments),
                            ("help", programs(), help_texts),
                            ("text", described(), yaml_texts),
                            ("text", sources("charts/lockstep/files/*.json"), json_texts),
                            ("text", sources("charts/lockstep/templates/NOTES.txt"), plain_texts)):
        for path in paths:
            if path.name != "api.md":  # which is the CRD's
                for first, last, passage in of(path.read_text()):
                    yield from (Sentence(kind, path, first, last, one) for one in split(passage))


def remarks(sentence, lines):
    """What is wrong with a sentence; `lines` are those of its file."""
    found = wrong_words(sentence.text)
    if sentence.kind == "text":  # of YAML and templates, which others wrap
        return found
    if sentence.kind == "page":
        long = set(too_long("\n".join(lines))) & set(range(sentence.first, sentence.last + 1))
        most = PAGE_COLUMNS
    else:
        most = COMMENT_COLUMNS
        long = [number for number in range(sentence.first, sentence.last + 1)
                if len(lines[number - 1]) > most and not re.search(r"\S {2,}\S", lines[number - 1].lstrip())]
    return found + ([f"a line of more than {most} columns"] if long else [])


def with_lines(chosen):
    """(sentence, lines of its file) of each."""
    lines = {}
    for sentence in chosen:
        if sentence.path not in lines:
            lines[sentence.path] = sentence.path.read_text().splitlines()
        yield sentence, lines[sentence.path]


def judged(chosen):
    """(sentence, remarks) of each."""
    return ((sentence, remarks(sentence, lines)) for sentence, lines in with_lines(chosen))


def is_whole(sentence, lines):
    """Not a label, a fragment, a cell of a table or a format string; `lines` are those of its file."""
    cell = re.match(r"\||\s*(//|#)  +(?![*-] )", lines[sentence.first - 1])
    return (len(sentence.text.split()) >= FEWEST_WORDS and sentence.text.endswith((".", "!", "?"))
            and "{" not in sentence.text and cell is None)


def picked(seed, count):
    """So many whole sentences, in shares of each kind."""
    dice = random.Random(seed)
    found = [one for one, lines in with_lines(sentences()) if is_whole(one, lines)]
    for kind, share in SHARES.items():
        of_kind = [one for one in found if one.kind == kind]
        yield from dice.sample(of_kind, min(len(of_kind), round(share * count)))


def violations():
    return [f"{one.kind} {one.path.relative_to(ROOT)}:{one.first}: {', '.join(found)}: {one.text}"
            for one, found in judged(sentences()) if found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--all", action="store_true", help="print each sentence that breaks a rule")
    arguments = parser.parse_args()
    if arguments.all:
        broken = violations()
        print("\n".join([*broken, f"{len(broken)} sentences break a rule"]))
        return 1 if broken else 0
    broken, chosen = 0, list(picked(arguments.seed, arguments.count))
    for one, found in judged(chosen):
        broken += bool(found)
        print(f"{', '.join(found) or 'ok'} | {one.kind} | {one.path.relative_to(ROOT)}:{one.first} | {one.text}")
    print(f"seed {arguments.seed}: {broken} of {len(chosen)} sentences break a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
