"""One cluster of kind for all tests of this folder that need one. Prints the seconds of each part at the end."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kind_cluster  # noqa: E402

PARTS = kind_cluster.Parts()


def pytest_collection_modifyitems(items):
    """Skips tests of the cluster outside of run.sh, or if run.sh found that kind cannot run."""
    why = os.environ.get("LOCKSTEP_KIND_SKIP")
    if why is None and os.environ.get("LOCKSTEP_KIND_INSIDE") != "1":
        why = "it needs what tests/kind/run.sh prepares: start that instead of pytest"
    for item in items:
        if why and "cluster" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Keeps kind's logs of every node if a test fails."""
    report = (yield).get_result()
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster is not None:
        try:
            cluster.export_logs()
            report.sections.append(("kind", f"the logs of every node are in {kind_cluster.OUT / 'logs'}"))
        except AssertionError as error:
            report.sections.append(("kind", f"kind export logs failed: {error}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    with PARTS.timed(item.name):
        yield


def pytest_terminal_summary(terminalreporter):
    for name, seconds in PARTS.rows:
        terminalreporter.write_line(f"{seconds:6.1f} s  {name}")


@pytest.fixture(scope="session")
def sandbox():
    """The script that starts a sandbox; skips if run.sh finds that none can run."""
    command = [kind_cluster.HERE / "run.sh", "reason"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=kind_cluster.PATIENCE, check=True)
    why = done.stdout.strip()
    if why:
        pytest.skip(why)
    return kind_cluster.HERE / "sandbox.sh"


@pytest.fixture(scope="session")
def cluster():
    """Nodes of kind with mock GPUs and every image in them, without Lockstep."""
    shutil.rmtree(kind_cluster.OUT / "logs", ignore_errors=True)
    kind = kind_cluster.KindCluster(PARTS)
    try:
        kind.up()
        with PARTS.timed("images into the nodes"):
            for archive in sorted((kind_cluster.CACHE / "images").glob("*.tar")):
                kind.load(archive)
        with PARTS.timed("device plugin on every worker"):
            kind.kubectl("apply", "-f", kind_cluster.HERE / "mock_nvml/daemonset.yaml")
            for node in kind.workers():
                kind.wait_for_gpus(node, 8)
        yield kind
    except BaseException:
        kind.export_logs()
        raise
    finally:
        with PARTS.timed("kind delete cluster"):
            kind.down()
