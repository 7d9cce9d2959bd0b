"""The command blocks of the pages that need no cluster, typed in their order; long commands in a short form.

LOCKSTEP_README=whole types them as printed, which takes hours (`make soak` does)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
from command_table import LEFT_OUT, LONG, RECIPE, WHOLE_PAGES  # noqa: E402
from pages import blocks, changed, command_blocks, commands_of, run, types_blocks, yaml_blocks  # noqa: E402
from suites import runs_in_a_suite  # noqa: E402

WHOLE = os.environ.get("LOCKSTEP_README") == "whole"
PATH = f"{e2e.BUILD}/bin:{os.environ['PATH']}"
TRACE = "a\tcommand\t-n\t1\t1000\t{arrival}\t4\n"  # model, command, two flags, steps, arrival, GPUs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the pages take as given: a built checkout, a job, photographs, CIFAR-10, a text, a trace of gavel."""
    made = tmp_path_factory.mktemp("typed")
    for name in ("examples", "tests"):
        (made / name).symlink_to(e2e.ROOT / name)
    (made / "build").mkdir()
    (made / "build/release").symlink_to(e2e.BUILD)
    (made / "job.yaml").write_text(yaml_blocks("README.md")[0])
    images = 12000 if WHOLE else 200  # of which 2,000 are held out, as in CIFAR-10's share
    cifar = f"--images {images} --test-percent 17 --size 32 --classes 10"
    run("lockstep data synth photos --images 24 --size 64 --classes 2 --files; "
        f"lockstep data synth cifar10 {cifar}", 600, cwd=made, PATH=PATH)
    (made / "DATA").symlink_to("cifar10")
    licences = pathlib.Path("/usr/share/common-licenses")
    (made / "TEXT").write_bytes(b"".join(path.read_bytes() for path in sorted(licences.iterdir())))
    (made / "traces").mkdir()
    (made / "traces/made.trace").write_text("".join(TRACE.format(arrival=60 * n) for n in range(100)))
    return made


@pytest.fixture(scope="module")
def typed_before():
    """Some pages have the same command; it is typed once."""
    return set()


def type_recipe(command):
    """What make would do: each program of tests/bench takes its words (behind --help none of them does anything)."""
    for line in run(changed(command, {"make ": "make -n "}), 60).splitlines():
        program = re.search(r"tests/bench/\S+\.py|\S+/tests/bin/\w+_bench", line)
        if program and (e2e.ROOT / program[0]).exists():
            run(f"{line} --help", 60)


def type_one(command, folder):
    where = e2e.ROOT if re.match(r"(make|git|tests/kind/\S+|CCACHE_DISABLE=1 bash) ", command) else folder
    short = LONG.get(command, "")
    if WHOLE or not short:
        return run(command, 7200 if WHOLE else 300, cwd=where, PATH=PATH)
    if short is RECIPE:
        return type_recipe(command)
    words = changed(command, short) if isinstance(short, dict) else command + short
    return run(words, 300, cwd=where, PATH=PATH)


def in_history(commit):
    look = ["git", "cat-file", "-e", commit]
    return subprocess.run(look, cwd=e2e.ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", WHOLE_PAGES)
def test_the_commands_of_a_page_run(page, folder, typed_before):
    before = {path: path.read_bytes() for path in (e2e.ROOT / "docs").glob("*.svg")}
    try:
        for block in command_blocks(page):
            for command in commands_of(block.text):
                if command in LEFT_OUT.get(page, {}) or command in typed_before or runs_in_a_suite(command):
                    continue
                typed_before.add(command)
                if block.text.startswith("$ "):  # a command with its output
                    if in_history(re.search(r"\b[0-9a-f]{7}\b", command)[0]):  # a shallow clone does not have it
                        assert block.text == f"$ {command}\n{type_one(command, folder).strip()}"
                else:
                    said = type_one(command, folder)
                    if command == "tests/kind/run.sh reason" and said.strip():
                        pytest.skip(said.strip())
    finally:
        for picture, content in before.items():
            if picture.read_bytes() != content:  # `make capture` and `make dashboard` write one each
                picture.write_bytes(content)


@types_blocks("docs/benchmark-history.md", "Benchmarks over time")
def test_what_a_benchmark_prints_comes_into_the_history(tmp_path):
    """In a repository of its own: a record names the commit."""
    for name in ("scripts/bench_history.py", "docs/benchmarks/history.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(e2e.ROOT / name, tmp_path / name)
    (tmp_path / "out").mkdir()
    author = "-c user.name=a -c user.email=a@example.com"
    run(f"git init -q && git {author} commit -q --allow-empty -m first", 30, cwd=tmp_path)
    bench, add = commands_of(blocks("docs/benchmark-history.md")["Benchmarks over time"][0])
    program = f"{e2e.BUILD}/tests/bin/packing_bench --quick"
    said = run(f"{changed(bench, {'make bench-placement': program})}\n{add}", 120, cwd=tmp_path)
    ratio = re.search(r"^racks of gangs, mean over the seeds: ([\d.]+)$", said, re.M)[1]
    commit = run("git rev-parse --short=7 HEAD", 30, cwd=tmp_path).strip()
    page = (tmp_path / "docs/benchmark-history.md").read_text()
    assert re.search(rf"^\| racks of gangs, mean over the seeds \|.*\| {commit} \| {ratio} \|", page, re.M), page
    assert f">{ratio}</text>" in (tmp_path / "docs/benchmarks/history.svg").read_text()
