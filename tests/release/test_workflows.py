"""The workflows of .github: actionlint finds nothing, and every action and node image is pinned by its hash."""

import pathlib
import re
import subprocess

import pytest
import yaml

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


def test_the_released_chart_names_the_image_that_is_pushed():
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    assert list(workflow["env"]) == ["IMAGES"]
    steps = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in workflow["jobs"].items()}
    chart = re.search(r'^scripts/release-files\.sh .* "(\S+)"$', steps["files"], re.M)[1]
    pushed = re.search(r"^name=(\S+):\S+\n(?:.*\n)*docker push \"\$name\"$", steps["images"], re.M)[1]
    images = workflow["jobs"]["images"]
    assert images["env"] == {"IMAGE": "${{ matrix.image }}"}
    assert chart in [re.sub(r"\$IMAGE\b", image, pushed) for image in images["strategy"]["matrix"]["image"]]


def test_the_kind_job_covers_three_minor_versions():
    minors = re.findall(r"kindest/node:v1\.(\d+)\.\d+@", (ROOT / ".github/workflows/ci.yaml").read_text())
    assert len(minors) == len(set(minors)) == 3


CI = (ROOT / ".github/workflows/ci.yaml").read_text()


def suites_of_ci():
    """The suites that the steps of ci.yaml run."""
    suites = set()
    for job in yaml.safe_load(CI)["jobs"].values():
        for step in job["steps"]:
            command = step.get("run", "")
            found = re.search(r"scripts/run_tests\.py ([^\n]+)", command)
            if found:
                matrix = job.get("strategy", {}).get("matrix", {}).get("suite", [])
                suites |= set(found[1].replace("${{ matrix.suite }}", " ".join(matrix)).split())
            if "tests/kind/run.sh" in command:
                suites.add("kind")
    return suites


def test_the_workflow_names_the_suites_that_it_runs():
    named = re.search(r"^# Suites of scripts/run_tests\.py: ([^.]+)\.", CI, re.M)
    assert named and set(named[1].split(", ")) == suites_of_ci()


@pytest.mark.parametrize("name", ["Makefile", ".ci/run", "scripts/run_tests.py"])
def test_no_file_says_that_ci_runs_every_suite(name):
    """.github/workflows/ci.yaml runs some."""
    assert re.findall(r".*(?i:what CI runs|\bCI sets it).*", (ROOT / name).read_text()) == []


def test_ci_builds_the_site():
    steps = [step.get("run") for job in yaml.safe_load(CI)["jobs"].values() for step in job["steps"]]
    assert "scripts/site.py" in steps
