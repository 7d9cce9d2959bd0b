"""run.sh leaves nothing on the machine when it is killed while its nodes run. This test runs outside of the sandbox."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "e2e"))
import e2e  # noqa: E402
from test_sandbox import cgroups  # noqa: E402

PATIENCE = 300


def inside():
    """Processes in the cgroups of the sandbox: the nodes, and all that runs in them."""
    found = set()
    for top in cgroups():
        for folder, _, _ in os.walk(top):  # it passes over groups that are removed meanwhile, which rglob does not
            try:
                found |= set(pathlib.Path(folder, "cgroup.procs").read_text().split())
            except OSError:
                continue
    return found


def nodes_run():
    """Whether systemd of a node has started containerd."""
    names = set()
    for process in inside():
        try:
            names.add((pathlib.Path("/proc") / process / "comm").read_text().strip())
        except OSError:
            continue
    return {"systemd", "containerd"} <= names


def links():
    return {line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]}


def test_a_killed_runner_leaves_nothing(sandbox):
    before = links()
    (e2e.ROOT / "out").mkdir(exist_ok=True)
    with open(e2e.ROOT / "out/kind-killed.log", "w", encoding="utf-8") as log:
        runner = subprocess.Popen(
            [HERE / "run.sh"], stdout=log, stderr=log, env={**os.environ, "LOCKSTEP_KIND_PREPARED": "1"}
        )
    try:
        e2e.wait_for("the nodes of kind run", lambda: nodes_run() or runner.poll() is not None, PATIENCE, 0.2)
        assert runner.poll() is None, (e2e.ROOT / "out/kind-killed.log").read_text()
    finally:
        runner.kill()
        runner.wait()
    e2e.wait_for("no process is left", lambda: not inside(), PATIENCE, 0.2)
    e2e.wait_for("no cgroup is left", lambda: not cgroups(), PATIENCE, 0.2)
    assert [name for name in links() - before if name.startswith("podman")] == []
    assert [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if "lockstep-kind" in line] == []
    listing = "podman ps --all --external --quiet; podman volume ls --quiet; podman network ls --quiet"
    done = subprocess.run([sandbox, "sh", "-c", listing], text=True, capture_output=True, timeout=PATIENCE, check=True)
    # One network: podman's default, which every sandbox has.
    assert done.stdout.split() == ["podman"], "the next sandbox finds something of the killed one"
