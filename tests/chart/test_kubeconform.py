"""What the chart renders, the manifests and the examples have fields that Kubernetes and the CRDs know, and no others.

kubeconform checks them without a cluster. CEL rules are left to the tests on real clusters. The schemas are those of
the test cluster's version of Kubernetes.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402
import schemas  # noqa: E402
from test_chart import CHART, rendered  # noqa: E402

EVERYTHING = pathlib.Path(__file__).with_name("everything.yaml")
FILES = sorted([*(e2e.ROOT / "manifests").glob("*.yaml"), *(e2e.ROOT / "examples").rglob("*.yaml")])


def built(script, *words):
    return subprocess.run([e2e.ROOT / "tests/chart" / script, *words], text=True, capture_output=True, timeout=900,
                          check=True).stdout


@pytest.fixture(scope="module")
def conform(tmp_path_factory):
    sources = [pathlib.Path(line) for line in built("schema_sources.sh").split()]
    location = schemas.write(tmp_path_factory.mktemp("schemas"), sources, CHART / "files/crd.yaml")
    program = built("go_tool.sh", "kubeconform").strip()

    def of(text):
        """What is wrong with these documents, and how many kubeconform has checked."""
        done = subprocess.run([program, "-strict", "-output", "json", "-summary", "-schema-location", location, "-"],
                              input=text, text=True, capture_output=True, timeout=60, check=False)
        assert done.stdout, done.stderr
        said = json.loads(done.stdout)
        assert said["summary"]["skipped"] == 0
        return [f"{found['kind']}: {found['msg']}" for found in said["resources"]], sum(said["summary"].values())

    return of


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="module")
def everything():
    return rendered("--values", EVERYTHING)


def test_the_chart_with_its_defaults_conforms(conform):
    text = rendered()
    assert conform(text) == ([], len(documents(text)))


def test_the_chart_with_everything_turned_on_conforms(conform, everything):
    found = documents(everything)
    assert conform(everything) == ([], len(found))
    assert {"ServiceMonitor", "PrometheusRule", "ConfigMap"} <= {document["kind"] for document in found}


def test_everything_is_turned_on():
    def off(values, chosen, path):
        for key, value in values.items():
            if isinstance(value, dict) and value:
                yield from off(value, chosen.get(key, {}), f"{path}{key}.")
            elif value in (False, "", [], {}) and not chosen.get(key):
                yield f"{path}{key}"

    chosen = yaml.safe_load(EVERYTHING.read_text())
    assert list(off(yaml.safe_load((CHART / "values.yaml").read_text()), chosen, "")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(e2e.ROOT)))
def test_a_file_conforms(conform, path):
    text = path.read_text()
    assert conform(text) == ([], len(documents(text)))


def test_an_unknown_field_of_a_template_is_found(conform, tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "lockstep")
    template = chart / "templates/deployment.yaml"
    text, changed = re.subn(r"^( +)securityContext:", r"\1securityContexts: {}\n\g<0>", template.read_text(), count=1,
                            flags=re.M)
    assert changed == 1
    template.write_text(text)
    wrong, = conform(rendered(chart=chart))[0]
    assert wrong.startswith("Deployment: ") and "'securityContexts' not allowed" in wrong


def spec(document):
    return document["spec"]


@pytest.mark.parametrize("kind, place", [
    ("ServiceMonitor", lambda found: found["spec"]["endpoints"][0]),
    ("PrometheusRule", lambda found: found["spec"]["groups"][0]["rules"][0]),
    ("CustomResourceDefinition", spec),
    ("PodDisruptionBudget", lambda found: found["metadata"]),
])
def test_an_unknown_field_of_a_rendered_kind_is_found(conform, everything, kind, place):
    changed = next(document for document in documents(everything) if document["kind"] == kind)
    place(changed)["surprise"] = 1
    wrong, = conform(yaml.safe_dump(changed))[0]
    assert wrong.startswith(f"{kind}: ") and "'surprise' not allowed" in wrong


@pytest.mark.parametrize("place", [
    spec,
    lambda found: found["metadata"],
    lambda found: found["spec"]["podTemplate"],
    lambda found: found["spec"]["podTemplate"]["spec"]["topologySpreadConstraints"][0],
    lambda found: found["spec"].setdefault("volumes", [{"name": "data"}])[0],
])
def test_an_unknown_field_of_a_job_is_found(conform, place):
    changed = yaml.safe_load((e2e.ROOT / "examples/pod-template.yaml").read_text())
    place(changed)["surprise"] = 1
    wrong, = conform(yaml.safe_dump(changed))[0]
    assert wrong.startswith("TrainingJob: ") and "'surprise' not allowed" in wrong


@pytest.mark.parametrize("before, after, words", [
    ("nodes: 2", "nodes: two", "want integer"),
    ("nodes: 2", "nodes: 2\n  nodes: 3", 'key "nodes" already set'),
    ("kind: TrainingJob", "kind: TrainingJobs", "could not find schema"),
])
def test_another_mistake_in_a_job_is_found(conform, before, after, words):
    text = (e2e.ROOT / "examples/pod-template.yaml").read_text()
    assert before in text
    wrong, = conform(text.replace(before, after))[0]
    assert words in wrong
