"""What the chart renders, and the manifests, on a real API server that stores nothing (`--dry-run=server`)."""

import pytest
import yaml

import e2e

CHART = e2e.ROOT / "charts/lockstep"
EVERYTHING = ["--values", e2e.ROOT / "tests/chart/everything.yaml"]
NAMESPACE = "team"  # which everything.yaml watches
HELMS = "is missing the kubectl.kubernetes.io/last-applied-configuration annotation"  # Helm installed the object


@pytest.fixture(scope="module")
def server(cluster):
    """The cluster, with what the chart needs when everything is turned on: a namespace, and the monitoring CRDs."""
    sources = e2e.run(e2e.ROOT / "tests/chart/schema_sources.sh", deadline=900).stdout.split()
    crds = [path for path in sources if path.endswith(("_servicemonitors.yaml", "_prometheusrules.yaml"))]
    assert len(crds) == 2
    files = [word for path in crds for word in ("-f", path)]
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", *files)
    try:
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
        e2e.wait_for("their kinds are served", lambda: cluster.read("/apis/monitoring.coreos.com/v1"), 30)
        yield cluster
    finally:
        cluster.kubectl("delete", "--timeout=30s", *files)
        cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s", deadline=70)


def rendered(cluster, *words):
    version = cluster.read("/version")["gitVersion"]
    return e2e.run(e2e.program("helm"), "template", "lockstep", CHART, "-n", e2e.NAMESPACE, "--kube-version", version,
                   *words).stdout


def dry_run(cluster, text):
    return cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text, check=False)


def check(cluster, text):
    """Asserts that the API server takes each document, and warns of none; returns the kinds."""
    done = dry_run(cluster, text)
    kinds = [document["kind"] for document in yaml.safe_load_all(text) if document]
    taken = [line for line in done.stdout.splitlines() if line.endswith("(server dry run)")]
    said = [line for line in done.stderr.splitlines() if HELMS not in line]
    assert (done.returncode, said, len(taken)) == (0, [], len(kinds)), done.stdout + done.stderr
    return set(kinds)


def test_the_server_takes_the_chart_with_its_defaults(server):
    assert "Deployment" in check(server, rendered(server))


def test_the_server_takes_the_chart_with_everything_turned_on(server):
    assert {"ServiceMonitor", "PrometheusRule", "ConfigMap"} <= check(server, rendered(server, *EVERYTHING))


def test_the_server_takes_the_manifests(server):
    assert "Namespace" in check(server, (e2e.ROOT / "manifests/install.yaml").read_text())


@pytest.mark.parametrize("before, after, words", [
    ("containerPort: ", "containerPort: 7", "must be between 1 and 65535"),
    ("securityContext:", "securityContexts:", 'unknown field "spec.template.spec'),
    ("x-kubernetes-validations:", "x-kubernetes-validation:", "x-kubernetes-validation"),
])
def test_a_mistake_in_what_is_rendered_is_refused(server, before, after, words):
    text = rendered(server)
    assert before in text
    done = dry_run(server, text.replace(before, after))
    assert done.returncode != 0 and words in done.stderr, done.stderr
