"""Command blocks of README.md, docs/laptop.md and tests/cluster/README.md, typed word for word, as by a newcomer.

LOCKSTEP_README=whole types the minutes of chaos as printed (`make soak` does)."""

import json
import os
import pathlib
import re
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import lockstep_cluster.layout  # noqa: E402
from command_table import LONG  # noqa: E402
from pages import blocks, changed, pages, run, types_blocks, yaml_blocks  # noqa: E402

WHOLE = os.environ.get("LOCKSTEP_README") == "whole"
PATH = f"{e2e.BUILD}/bin:{os.environ['PATH']}"
CLUSTER = "readme"  # beside a cluster that the developer has; the commands themselves know nothing of it


def write_job(folder):
    """Makes job.yaml as docs/laptop.md shows it; returns the folder."""
    (job,) = yaml_blocks("docs/laptop.md")
    (folder / "job.yaml").write_text(job)
    return folder


def take_down():
    """Removes the cluster if it is of this run."""
    spec = lockstep_cluster.layout.Cluster(CLUSTER).read_spec() or {}
    if (spec.get("owner") or "").startswith(f"{os.getpid()}:"):
        e2e.run(e2e.ROOT / "tests/cluster/cluster", "down", "--name", CLUSTER, deadline=180)


@pytest.fixture
def cluster_of_make():
    """The environment in which `make cluster` makes a cluster of its own; the cluster is gone after the test."""
    yield {"NAME": CLUSTER, "OWNER": str(os.getpid())}
    take_down()


def jobs_of(page):
    """The YAML blocks of a page that are whole jobs of Lockstep."""
    return [block for block in yaml_blocks(page) if "apiVersion: lockstep.dev/" in block]


@pytest.mark.parametrize("page", [page for page in pages() if jobs_of(page)])
def test_the_jobs_of_a_page_are_valid(page, tmp_path):
    for number, job in enumerate(jobs_of(page)):
        (tmp_path / f"{number}.yaml").write_text(job)
    run("lockstep validate *.yaml", 60, cwd=tmp_path, PATH=PATH)


def test_each_tool_is_translated_from_its_file_to_ours():
    text = (e2e.ROOT / "docs/migration.md").read_text()
    sections = dict(re.findall(r"^## From (?:an? )?(\w+).*\n((?:(?!## ).*\n)*)", text, re.M))
    assert list(sections) == ["torchrun", "PyTorchJob", "TrainJob", "JobSet"]
    for tool, section in sections.items():
        theirs, ours = re.findall(r"^```(?:yaml)?\n(.*?)^```", section, re.M | re.S)
        assert re.search(rf"^(kind: )?{tool}\b", theirs, re.M), tool
        assert yaml.safe_load(ours)["kind"] == "TrainingJob"
        if tool != "torchrun":
            assert yaml.safe_load(theirs)["kind"] == tool


@types_blocks("README.md", "Lockstep")
def test_the_first_block_trains_through_a_killed_worker():
    (block,) = blocks()["Lockstep"]
    demo, cluster = block.splitlines()
    assert cluster.startswith("make cluster ")  # as the next block does
    out = run(demo, 600)
    assert re.search(r"killed rank 2 .* at step \d+, as asked", out), out
    assert re.search(r"held-out loss \S+ at step 0, \S+ at step 600", out), out
    assert re.search(r"^2 +Completed", out, re.M), out


@types_blocks("README.md", "On a cluster")
def test_the_cluster_block_trains_to_the_end(cluster_of_make):
    """Waits that cannot end fail after 15 minutes by the block's own timeout."""
    (block,) = blocks()["On a cluster"]
    *commands, down = block.splitlines()
    assert "make cluster" in commands[0] and down.startswith("make cluster-down")
    status_of_the_job = "kubectl get trainingjob/language-model -o json | tr -d '\\n'; echo"
    out = run("\n".join([*commands, status_of_the_job, down]), 1100, **cluster_of_make)
    status = next(json.loads(line) for line in out.splitlines() if line.startswith("{"))["status"]
    assert status["state"] == "Succeeded" and status["nodes"]["summary"]
    assert re.search(r"^NAME +STATE +READY +STEP +SAMPLES/S +RESTARTS +LEVEL +AGE", out, re.M | re.I), out
    assert f"cluster {CLUSTER}:" not in e2e.run(e2e.ROOT / "tests/cluster/cluster", "status").stdout


@types_blocks("docs/laptop.md", "Chaos")
def test_the_chaos_block_makes_its_faults(tmp_path):
    (block,) = blocks("docs/laptop.md")["Chaos"]
    out = run(block if WHOLE else changed(block, LONG[block]), 900, cwd=write_job(tmp_path), PATH=PATH)
    assert "each step was committed once, whole, with bitwise identical weights on all ranks" in out, out


@types_blocks("docs/laptop.md", "On this machine: `lockstep run`")
def test_the_commands_on_this_machine_run(tmp_path):
    (block,) = blocks("docs/laptop.md")["On this machine: `lockstep run`"]
    build, path, *commands = block.splitlines()
    (tmp_path / "examples").symlink_to(e2e.ROOT / "examples")
    (tmp_path / "lockstep-runs/language-model-of-make-demo").mkdir(parents=True)  # README.md comes before this page
    out = run("\n".join([build, path, f"cd {tmp_path}", *commands]), 600)  # the runs leave folders where they begin
    assert re.search(r"killed rank 2 .* at step \d+, as asked", out), out
    assert re.search(r"^1 +ProcessSignal +2 ", out, re.M), out


@types_blocks("tests/cluster/README.md", "The test cluster")
def test_the_block_of_the_test_cluster_shows_its_nodes():
    (block,) = blocks("tests/cluster/README.md")["The test cluster"]
    up, get, down = (line.partition("#")[0].strip() for line in block.splitlines())
    try:  # under a name of its own: a developer may have a cluster of the name that the page takes
        own = f"cluster up --name {CLUSTER} --owner {os.getpid()}"
        out = run("\n".join([changed(up, {"cluster up": own}), get,
                             changed(down, {"down": f"down --name {CLUSTER}"})]), 300)
    finally:
        take_down()
    assert re.findall(r"^(n\d) +Ready\b", out, re.M) == ["n1", "n2", "n3"], out


def test_contributors_are_told_targets_that_help_lists():
    (block,) = blocks("CONTRIBUTING.md")["Commands"]
    targets = re.findall(r"^make (\S+)", block, re.M)
    assert len(targets) == len(block.splitlines())
    listed = run("make -s help", 60)
    for target in targets:
        assert f"make {target} " in listed, target
