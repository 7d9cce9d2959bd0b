"""kube-score has nothing to say of the rendered chart, but for what is so on purpose."""

import pathlib
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402

ON_PURPOSE = {
    "container-image-pull-policy": "a value; a release's tag does not move, so IfNotPresent spares a pull",
    "container-resources": "no CPU limit: throttling would delay recovery (values.yaml)",
    "container-ephemeral-storage-request-and-limit": "it writes its log alone, which the kubelet rotates",
    "pod-networkpolicy": "agents of every namespace call it, and where the API server is, the cluster knows alone",
}


@pytest.fixture(scope="module")
def score():
    built = subprocess.run([e2e.ROOT / "tests/chart/go_tool.sh", "kube-score"], text=True, capture_output=True,
                           timeout=900, check=True)

    def of(documents):
        """The findings: (object, test, text)."""
        words = ["score", "--output-format", "json", "--kubernetes-version", "v1.30"]
        words += [word for test in ON_PURPOSE for word in ("--ignore-test", test)]
        done = subprocess.run([built.stdout.strip(), *words, "-"], input=yaml.safe_dump_all(documents), text=True,
                              capture_output=True, timeout=60, check=False)
        assert done.stdout, done.stderr
        return [(found["object_name"], check["check"]["id"], comment["summary"])
                for found in yaml.safe_load(done.stdout) for check in found["checks"]
                for comment in check["comments"] or [] if check["grade"] < 10 and not check["skipped"]]

    return of


@pytest.fixture
def documents():
    words = ("template", "lockstep", e2e.ROOT / "charts/lockstep", "-n", "lockstep-system", "--kube-version", "1.30.0")
    return [document for document in yaml.safe_load_all(e2e.run(e2e.program("helm"), *words).stdout) if document]


def test_nothing_is_found(score, documents):
    assert score(documents) == []


def test_an_operator_without_a_probe_is_found(score, documents):
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    del deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert [check for _, check, _ in score(documents)] == ["pod-probes"]
