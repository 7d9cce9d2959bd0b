"""The alerts that the chart renders: promtool accepts them, and each fires when it should (alerts_test.yaml)."""

import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402
from test_chart import of_kind, render  # noqa: E402

CASES = pathlib.Path(__file__).with_name("alerts_test.yaml")


@pytest.fixture(scope="module")
def promtool():
    programs = e2e.run(e2e.ROOT / "scripts/debian-programs.sh", "prometheus", deadline=300).stdout.strip()
    program = pathlib.Path(programs) / "promtool"

    def of(*words):
        """The exit status and the output of promtool."""
        done = subprocess.run([program, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=60, check=False)
        return done.returncode, done.stdout

    return of


@pytest.fixture
def rules(tmp_path):
    """The rendered rules as a file of Prometheus, beside their cases."""
    rule, = of_kind(render("monitoring.rules.enabled=true"), "PrometheusRule")
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    shutil.copy(CASES, tmp_path)
    return path


def alerts(rules):
    return {rule["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]}


def test_promtool_finds_nothing_wrong_in_the_rules(promtool, rules):
    status, said = promtool("check", "rules", "--lint=all", "--lint-fatal", rules)
    assert status == 0 and f"{len(alerts(rules))} rules found" in said, said


def test_alerts_fire_on_the_series_that_they_are_for(promtool, rules):
    status, said = promtool("test", "rules", rules.with_name(CASES.name))
    assert status == 0, said


def test_each_alert_has_a_case_that_fires_and_one_that_does_not(rules):
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == alerts(rules)
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == alerts(rules)


@pytest.mark.parametrize("before, after", [("> 30", "> 300"), ("for: 15m", "for: 1m"), ("code!~", "code=~")])
def test_a_rule_that_fires_at_another_time_is_found(promtool, rules, before, after):
    text = rules.read_text()
    assert before in text
    rules.write_text(text.replace(before, after))
    status, said = promtool("test", "rules", rules.with_name(CASES.name))
    assert status != 0 and "FAILED" in said, said


def test_a_rule_that_promtool_refuses_is_found(promtool, rules):
    rules.write_text(rules.read_text().replace("humanizeDuration", "humaniseDuration"))
    status, said = promtool("check", "rules", rules)
    assert status != 0 and "humaniseDuration" in said, said
