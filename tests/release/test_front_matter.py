"""The files that a contributor meets: forms that GitHub accepts, and one version everywhere."""

import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/structure")]
import badges  # noqa: E402
from prose import pages  # noqa: E402
from test_docs import table  # noqa: E402

FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yaml"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_requires(path):
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in form["body"])
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_version_is_the_same_everywhere():
    chart = yaml.safe_load((ROOT / "charts/lockstep/Chart.yaml").read_text())
    project = re.search(r"project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert chart["version"] == chart["appVersion"] == project


def test_the_badges_of_the_readme_are_true():
    """scripts/badges.py reads the facts from the tree."""
    line = (ROOT / "README.md").read_text().splitlines()[2]
    told = {name: alt for alt, name in re.findall(r"!\[([^\]]+)\]\(docs/badges/(\w+)\.svg\)", line)}
    assert told == {name: f"{label}: {value}" for name, (label, value) in badges.facts().items()}
    done = subprocess.run([ROOT / "scripts/badges.py", "--check"], text=True, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_a_changed_fact_changes_its_badge():
    for name, (label, value) in badges.facts().items():
        assert (ROOT / f"docs/badges/{name}.svg").read_text() != badges.drawn(label, value + "x")


def test_the_install_page_names_the_versions_of_the_tests():
    rows = dict(re.findall(r"^\| (\w+) \| \S+ \| (\S+) \|$", (ROOT / "docs/install.md").read_text(), re.M))
    modules = {"Kubernetes": ("kubernetes", "k8s.io/kubernetes"), "Helm": ("helm", "helm.sh/helm/v3")}
    for name, (folder, module) in modules.items():
        pinned = (ROOT / f"tests/cluster/modules/{folder}/go.mod").read_text()
        assert f"\t{module} v{rows[name]}" in pinned, name


def test_the_changelog_begins_with_what_is_unreleased():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


def without_a_release(text):
    """Whether a page says that Lockstep has no release or published image."""
    return re.search(r"(?i)\bno (\w+ )?(release|public image)\b", text) is not None


def test_the_release_page_lists_the_sentences_that_a_release_makes_false():
    """Before the first release they are on their pages; after it neither they nor their table are left."""
    text = (ROOT / "RELEASE.md").read_text()
    heading = "Sentences that the first release makes false"
    released = len(re.findall(r"^## ", (ROOT / "CHANGELOG.md").read_text(), re.M)) > 1
    rows = [] if released else table(text, heading)
    assert [row for row in rows if row[1] not in " ".join((ROOT / row[0]).read_text().split())] == []
    told = {str(path.relative_to(ROOT)) for path in pages()
            if path.name != "RELEASE.md" and without_a_release(path.read_text())}
    assert told <= {row[0] for row in rows}
    assert released == (heading not in text)
