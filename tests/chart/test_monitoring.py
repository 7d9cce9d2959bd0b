"""Alerts and dashboard: valid PromQL over metrics and labels that the operator has; a page explains each alert."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402
from test_chart import CHART, of_kind, render  # noqa: E402

ALERTS = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
SCRAPED = {"pod", "namespace", "job", "instance"}  # labels that Prometheus adds


@pytest.fixture(scope="module")
def promql():
    folder = e2e.run(e2e.ROOT / "tests/chart/promql.sh", deadline=300).stdout.strip()
    sys.path.insert(0, folder)
    try:
        import promql_parser
        yield promql_parser
    finally:
        sys.path.remove(folder)


def expressions():
    """Pairs of a place and an expression, with Grafana's variable replaced as Grafana does."""
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"].replace("$__rate_interval", "2m")


def metrics_of_the_reference():
    """name -> (type, labels) of docs/reference.md, which another test compares with the code."""
    known = {}
    for line in (e2e.ROOT / "docs/reference.md").read_text().split("\n## Metrics\n")[1].split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`(\w+)`", cells[0]) if len(cells) == 4 else ():
            known[name] = (cells[1], set(cells[2].replace(" ", "").split(",")) - {""})
    return known


def misuse(expression, known):
    """What is wrong with the metrics and labels of an expression: a list of sentences."""
    wrong = []
    for name, matchers in re.findall(r"\b(\w+)(?:\{([^}]*)\})?(?=[\[ )]|$)", expression):
        base = name.removesuffix("_bucket")
        if not name.startswith(("lockstep_", "workqueue_", "rest_client_", "leader_election_")):
            continue
        if base not in known or (base != name) != (known[base][0] == "histogram"):
            wrong.append(f"there is no metric {name}")
            continue
        wrong += [f"{name} has no label {label}" for label in re.findall(r"(\w+)\s*[=!]", matchers)
                  if label not in known[base][1]]
        if known[base][0] != "gauge" and not re.search(r"(rate|increase)\(", expression):
            wrong.append(f"{name} is a counter and needs a rate")
    labels = set().union(*(known[name][1] for name in known if re.search(rf"\b{name}(_bucket)?\b", expression)), {"le"})
    for by in re.findall(r"by \(([^)]*)\)", expression):
        wrong += [f"no metric has the label {label}" for label in by.replace(" ", "").split(",")
                  if label not in labels | SCRAPED]
    return wrong


@pytest.mark.parametrize("place, expression", expressions())
def test_an_expression_is_promql_over_what_the_operator_serves(promql, place, expression):
    promql.parse(expression)
    assert misuse(expression, metrics_of_the_reference()) == []


@pytest.mark.parametrize("expression, sentence", [
    ("max(lockstep_placement_gang)", "there is no metric lockstep_placement_gang"),
    ("rate(lockstep_placement_seconds[5m])", "there is no metric lockstep_placement_seconds"),
    ('sum(rate(lockstep_attempts_total{reason="x"}[5m]))', "lockstep_attempts_total has no label reason"),
    ("sum by (phase) (rate(lockstep_attempts_total[5m]))", "no metric has the label phase"),
    ("max(lockstep_pods_created_total)", "lockstep_pods_created_total is a counter and needs a rate"),
])
def test_a_wrong_expression_is_found(expression, sentence):
    assert misuse(expression, metrics_of_the_reference()) == [sentence]


def test_a_text_that_is_no_promql_is_found(promql):
    with pytest.raises(Exception):
        promql.parse("sum(rate(lockstep_attempts_total[5m])")


def test_the_page_explains_each_alert():
    page = (e2e.ROOT / "docs/monitoring.md").read_text()
    explained = dict(re.findall(r"^\| `(Lockstep\w+)` \| (\w+) \|", page, re.M))
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    assert explained == {rule["alert"]: rule["labels"]["severity"] for rule in rules}


def test_the_page_says_that_an_absent_metric_may_mean_no_scrape():
    rows = (e2e.ROOT / "docs/monitoring.md").read_text().splitlines()
    absent = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"] if "absent(" in rule["expr"]]
    assert absent == ["LockstepHasNoLeader"]
    for alert in absent:
        row, = [line for line in rows if line.startswith(f"| `{alert}` |")]
        assert "scrape" in row and "`monitoring.serviceMonitor`" in row


def test_an_alert_names_labels_that_its_expression_keeps():
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
            named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
            assert named <= kept, rule["alert"]
            # A scrape by annotations may set neither pod nor namespace.
            assert not named & {"pod", "namespace"}, rule["alert"]
            assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_the_dashboard_is_what_its_script_writes():
    done = subprocess.run([e2e.ROOT / "scripts/dashboard.py", "--check"], text=True, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_no_panel_of_the_dashboard_covers_another():
    taken = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        columns, rows = range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not cells & taken and grid["x"] + grid["w"] <= 24, panel["title"]
        taken |= cells


def test_nothing_of_it_is_installed_by_default():
    assert of_kind(render(), "ServiceMonitor", "PrometheusRule", "ConfigMap") == []


def test_the_monitor_finds_the_metrics_port_by_its_service():
    documents = render("monitoring.serviceMonitor.enabled=true", "monitoring.serviceMonitor.labels.release=prometheus")
    monitor, = of_kind(documents, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    ports = {port["name"] for service in of_kind(documents, "Service")
             if wanted <= service["metadata"]["labels"].items() for port in service["spec"]["ports"]}
    assert monitor["spec"]["endpoints"][0]["port"] in ports
    assert monitor["spec"]["endpoints"][0]["interval"] == "30s"


def test_the_rules_are_those_of_the_file():
    rule, = of_kind(render("monitoring.rules.enabled=true", "monitoring.rules.labels.role=alerts"), "PrometheusRule")
    assert rule["spec"]["groups"] == ALERTS["groups"]
    assert rule["metadata"]["labels"]["role"] == "alerts"


def test_the_dashboard_is_found_by_the_sidecar():
    found, = of_kind(render("monitoring.dashboard.enabled=true"), "ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["lockstep.json"]) == DASHBOARD


def test_the_dashboard_may_have_another_label():
    found, = of_kind(render("monitoring.dashboard.enabled=true", "monitoring.dashboard.labels.grafana_dashboard=yes"),
                     "ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "yes"


@pytest.mark.parametrize("wrong", ["monitoring.rules.enable=true", "monitoring.serviceMonitor.intervalSeconds=0",
                                   "monitoring.dashboard.labels.x=1"])
def test_a_wrong_value_is_refused(wrong):
    words = [e2e.program("helm"), "template", "lockstep", CHART, "--kube-version", "1.30.0", "--set", wrong]
    done = e2e.run(*words, check=False)
    assert done.returncode != 0 and wrong.split("=")[0].split(".")[-1] in done.stderr, done.stderr
