"""The files that a contributor meets: forms that GitHub accepts, and one version everywhere."""

import pathlib
import re
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/structure")]
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


def test_the_first_line_of_the_readme_is_true():
    line = (ROOT / "README.md").read_text().splitlines()[2]
    told = re.fullmatch(r"\[(\S+)\]\(LICENSE\).* · Kubernetes (1\.\d+) or newer · Debian (\d+)", line)
    licence, minor, debian = told.groups()
    assert licence == "Apache-2.0" and "Apache License\n" in (ROOT / "LICENSE").read_text()
    assert f"Version {licence.split('-')[1]}" in (ROOT / "LICENSE").read_text()
    chart = yaml.safe_load((ROOT / "charts/lockstep/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={minor}.0-0"
    assert f'"debian {debian}"' in (ROOT / "scripts/setup.sh").read_text()


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
