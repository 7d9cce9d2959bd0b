"""The workflows of .github: actionlint finds nothing, and every action and node image is pinned by its hash."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))


@pytest.fixture(scope="module")
def actionlint():
    built = subprocess.run(
        [ROOT / "tests/kind/binaries.sh", "actionlint"], text=True, capture_output=True, timeout=900, check=True
    )
    return pathlib.Path(built.stdout.split()[-1]) / "actionlint"


def lint(actionlint, path):
    return subprocess.run([actionlint, "-no-color", path], cwd=ROOT, text=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actionlint_finds_nothing(actionlint, path):
    done = lint(actionlint, path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_a_step_that_names_an_unknown_job(actionlint, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(WORKFLOWS[0].read_text().replace("\n  kind:\n", "\n  kind:\n    needs: nothing\n"))
    assert lint(actionlint, broken).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_and_node_image_is_pinned(path):
    text = path.read_text()
    assert re.findall(r"uses: (?!\S+@[0-9a-f]{40} # v)\S.*", text) == []
    assert re.findall(r"kindest/node:(?!v\S+@sha256:[0-9a-f]{64})\S*", text) == []


def test_a_release_builds_every_program_that_is_installed():
    lists = [path.read_text() for room in ("operator", "trainer") for path in (ROOT / room).rglob("CMakeLists.txt")]
    installed = {name for text in lists for name in re.findall(r"install\(TARGETS ([\w-]+)", text)}
    workflow = (ROOT / ".github/workflows/release.yaml").read_text()
    built = re.search(r"scripts/build.sh release [^\n]*\n\s+([a-z -]+)\n", workflow)
    assert installed and installed == set(built[1].split())


def test_the_kind_job_covers_three_minor_versions():
    minors = re.findall(r"kindest/node:v1\.(\d+)\.\d+@", (ROOT / ".github/workflows/ci.yaml").read_text())
    assert len(minors) == len(set(minors)) == 3
