"""The files that a contributor meets: forms that GitHub accepts, and one version everywhere."""

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
