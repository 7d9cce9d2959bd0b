"""Commands in the pages, in blocks and in code spans: each target, subcommand, flag and file exists."""

import functools
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
from pages import FOLDERS, blocks, pages  # noqa: E402

PROGRAMS = ("lockstep", "lockstep-trainer", "lockstep-operator", "lockstep-agent")


def commands(page):
    """Each command of a page: the lines of its blocks, and its code spans. A line that ends in a backslash goes on."""
    for found in blocks(page).values():
        for block in found:
            yield from block.replace("\\\n", " ").splitlines()
    text = re.sub(r"^( {4}.*|```.*?^```)$", "", (e2e.ROOT / page).read_text(), flags=re.M | re.S)
    yield from re.findall(r"`([^`]+)`", text)


@functools.cache
def help_of(*words):
    command = [e2e.BUILD / "bin" / words[0], *words[1:], "--help"]
    return subprocess.run(command, text=True, capture_output=True, timeout=30).stdout


@functools.cache
def targets():
    return frozenset(re.findall(r"^([a-z][a-z-]*):", (e2e.ROOT / "Makefile").read_text(), re.M))


def flags_missing(words, text):
    """Flags of a command that its help does not have."""
    used = {word.partition("=")[0] for word in words if re.fullmatch(r"-(-[a-z][a-z-]*|[a-z])(=.*)?", word)}
    return sorted(flag for flag in used if not re.search(rf"(^|[\s,]){flag}\b(?!-)", text, re.M))


def wrong_with(command):
    """Sentences on what of a command does not exist."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return []  # no command: a text with one apostrophe
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        del words[0]
    words = words[:words.index("|")] if "|" in words else words
    if not words:
        return []
    wrong = []
    program = words[0]
    if program == "make":
        wrong += [f"make has no target {word}" for word in words[1:]
                  if re.fullmatch(r"[a-z][a-z-]*", word) and word not in targets()]
    elif program in PROGRAMS:
        path, rest = [program], words[1:]
        while rest and re.search(rf"^  {re.escape(rest[0])}  ", help_of(*path).partition("Subcommands:")[2], re.M):
            path.append(rest.pop(0))
        if rest and path == ["lockstep"] and re.fullmatch(r"[a-z]+", rest[0]):
            wrong.append(f"lockstep has no command {rest[0]}")
        for_the_trainer = rest[rest.index("--") + 1:] if "--" in rest else []
        rest = rest[:rest.index("--")] if "--" in rest else rest
        wrong += [f"{' '.join(path)} has no {flag}" for flag in flags_missing(rest, help_of(*path))]
        missing = flags_missing(for_the_trainer, help_of("lockstep-trainer"))
        wrong += [f"lockstep-trainer has no {flag}" for flag in missing]
    elif "/" not in program and program not in ("kubectl", "helm", "docker", "podman", "bash", "sh"):
        return []
    in_a_folder = rf"({'|'.join(map(re.escape, FOLDERS))})/[\w./-]+"
    wrong += [f"there is no {word}" for word in words
              if re.fullmatch(in_a_folder, word) and not (e2e.ROOT / word).exists()]
    return wrong


@pytest.mark.parametrize("page", pages())
def test_the_commands_of_a_page_exist(page):
    assert [(command, wrong) for command in commands(page) for wrong in wrong_with(command)] == []


@pytest.mark.parametrize("command, sentence", [
    ("make demmo", "make has no target demmo"),
    ("PODS=3 make bench-controlplane | tee out", "make has no target bench-controlplane"),
    ("lockstep runn job.yaml", "lockstep has no command runn"),
    ("lockstep run job.yaml --kill-workers 2@1   # a comment --with-flag", "lockstep run has no --kill-workers"),
    ("lockstep run job.yaml --workers 2 -- --step=5", "lockstep-trainer has no --step"),
    ("lockstep data synth x --image 3", "lockstep data synth has no --image"),
    ("lockstep run examples/minimum.yaml", "there is no examples/minimum.yaml"),
    ("kubectl apply -f examples/storage/x.yaml", "there is no examples/storage/x.yaml"),
    ("scripts/relase.sh out", "there is no scripts/relase.sh"),
])
def test_a_wrong_command_is_found(command, sentence):
    assert wrong_with(command) == [sentence]
