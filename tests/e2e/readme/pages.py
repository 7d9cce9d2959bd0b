"""The command blocks of the pages, and a shell that runs them word for word.

A test that types blocks is marked with `types_blocks(PAGE, HEADING, ...)`. It fails if a command of these blocks has
not come into a shell. tests/structure/test_command_blocks.py looks for commands that no test types.
"""

import collections
import functools
import os
import re
import shlex
import signal
import subprocess
import textwrap

import e2e
from command_table import LEFT_OUT

PROGRAMS = ("apt-get", "bash", "cd", "cmake", "ctest", "curl", "docker", "eval", "export", "git", "go", "helm", "kind",
            "kubectl", "lockstep", "lockstep-agent", "lockstep-data", "lockstep-operator", "lockstep-trainer", "make",
            "mkdir", "pip", "podman", "python3", "sh", "sudo", "torchrun", "/usr/bin/python3")
FOLDERS = (".ci", ".devcontainer", ".github", "charts", "cmake", "containers", "docs", "examples", "manifests",
           "operator", "scripts", "tests", "trainer")
SHELLS = ("sh", "bash", "console", "shell")  # the languages of fenced blocks that are commands in any case
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([\w-]*)")
Block = collections.namedtuple("Block", "page heading text")


def is_command(line):
    """Whether a line begins with a program, one of this repository's files to run, or an assignment."""
    if re.match(r"[\w-]+ +\(", line):  # no shell takes that
        return False
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return False
    rest = [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]
    ours = bool(rest) and re.fullmatch(r"(\./)?(build|scripts|tests)/[\w./-]+", rest[0]) is not None
    return bool(words) and (not rest or rest[0] in PROGRAMS or ours)


def raw_blocks(text):
    """(heading, kind, text) of each block of a page: fenced, its kind the word behind the fence, or indented behind an
    empty line."""
    heading, block, kind, before, fence = "", [], None, "", ""
    for line in text.expandtabs(4).splitlines() + ["# end"]:
        if kind not in (None, "indented"):
            if re.fullmatch(rf"{fence[0]}{{{len(fence)},}}", line.strip()):
                yield heading, kind, textwrap.dedent("\n".join(block))
                block, kind = [], None
            else:
                block.append(line)
        elif line.startswith("    ") and (kind or not before.strip() or before.startswith("#")):
            kind = "indented"
            block.append(line)
        elif kind and not line.strip():
            block.append("")
        else:
            if kind:
                yield heading, kind, textwrap.dedent("\n".join(block)).strip()
                block, kind = [], None
            if opening := FENCE.match(line):
                fence, kind = opening[1], opening[2].lower() or "plain"
            elif line.startswith("#"):
                heading = line.lstrip("# ")
        before = line
    if kind:  # a fence that nothing closes
        yield heading, kind, textwrap.dedent("\n".join(block[:-1]))


def commands_of(text):
    """The commands of a block, without comments. A line that ends in a backslash goes on. Where lines begin with `$ `,
    the others are output."""
    lines = text.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    lines = (re.sub(r"\s+#.*", "", line) if not line.startswith("#") else "" for line in lines)
    return [" ".join(line.split()) for line in lines if line.strip()]


def commands_on(text):
    """(heading, text) of the blocks of commands: those of a shell, and any other with a line that is a command."""
    return [(heading, block) for heading, kind, block in raw_blocks(text)
            if kind in SHELLS or any(is_command(line.removeprefix("$ "))
                                     for line in block.replace("\\\n", " ").splitlines())]


def command_blocks(page):
    """The blocks of commands of a page."""
    return [Block(page, *block) for block in commands_on((e2e.ROOT / page).read_text())]


def blocks(page="README.md"):
    """The texts of the command blocks of a page, by the heading above them."""
    found = {}
    for block in command_blocks(page):
        found.setdefault(block.heading, []).append(block.text)
    return found


def yaml_blocks(page):
    """The fenced YAML blocks of a page, in their order."""
    return re.findall(r"```yaml\n(.*?)```", (e2e.ROOT / page).read_text(), re.S)


def pages():
    """All pages: those of the root and of each room."""
    found = [*e2e.ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (e2e.ROOT / folder).rglob("*.md"))]
    return sorted(str(path.relative_to(e2e.ROOT)) for path in found)


_typed = set()  # the commands that shells were given since a test began
_printed_as = {}  # a changed command -> the command as the page prints it


def changed(command, changes):
    """A command of a page with some of its words replaced, for instance by fewer steps; it has to have them."""
    printed = result = " ".join(command.split())
    for old, new in changes.items():
        assert old in result, f"{command!r} has no {old!r}"
        result = result.replace(old, new)
    _printed_as[result] = printed
    return result


def types_blocks(page, *headings):
    """Marks a test that types all blocks of a page below these headings, and holds it to that."""
    def mark(test):
        @functools.wraps(test)
        def held(*arguments, **named):
            if not hasattr(test, "typed"):  # the innermost of several marks
                _typed.clear()
            result = test(*arguments, **named)
            assert set(headings) <= set(blocks(page)), f"{page} has no block below one of {headings}"
            texts = [text for heading in headings for text in blocks(page)[heading]]
            commands = [command for text in texts for command in commands_of(text)]
            left = [command for command in commands if command not in _typed | LEFT_OUT.get(page, {}).keys()]
            assert left == [], f"{page}: not typed: {left}"
            return result

        held.typed = [*getattr(test, "typed", []), *((page, heading) for heading in headings)]
        return held
    return mark


def run(script, deadline, cwd=e2e.ROOT, **environment):
    """What a shell prints for the commands; each has to succeed, and all of them in time. No process of them outlives
    the call."""
    left_out = ("KUBECONFIG", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, stdin=subprocess.DEVNULL, text=True,
                               start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**inherited, **environment})
    e2e.ends_with_us(process, "group")
    try:
        out, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        raise AssertionError(f"no end after {deadline} s:\n{script}\n--- it printed\n{out[-6000:]}") from None
    last = "".join(out.strip().splitlines()[-1:])  # on the first line, which is all that the end of `make test` has
    assert process.returncode == 0, f"exit {process.returncode}: {last}\n{script}\n--- it printed\n{out[-6000:]}"
    typed = commands_of(script)
    _typed.update(typed, (_printed_as[command] for command in typed if command in _printed_as))
    return out
