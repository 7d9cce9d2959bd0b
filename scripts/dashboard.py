#!/usr/bin/env python3
"""Writes charts/lockstep/files/dashboard.json, the Grafana dashboard of the operator.

  scripts/dashboard.py            writes it
  scripts/dashboard.py --check    only says whether it is up to date (exit 1 if not)
"""

import json
import pathlib
import sys

DASHBOARD = pathlib.Path(__file__).resolve().parents[1] / "charts/lockstep/files/dashboard.json"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3  # of a panel; Grafana's grid has 24 columns


def rate(metric, by=""):
    return f"sum{f' by ({by})' if by else ''} (rate({metric}[$__rate_interval]))"


def quantile(share, metric, by=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def quantiles(metric):
    return [(quantile(share, metric), f"p{share * 100:.0f}") for share in (0.5, 0.99)]


# A row: its title, and the panels: title, unit, what to read from it, and pairs of expression and legend.
ROWS = [
    ("Jobs", [
        ("Attempts that ended, by cause", "short", "Per hour. docs/reference.md explains each cause.",
         [("sum by (cause) (increase(lockstep_attempts_total[1h])) > 0", "{{cause}}")]),
        ("Recovery, median of each phase", "s", "docs/elastic.md explains the phases.",
         [("histogram_quantile(0.5, sum by (le, phase) (rate(lockstep_recovery_phase_seconds_bucket[1h])))",
           "{{phase}}")]),
        ("Pods created and deleted", "ops", "Pods that the operator writes, per second.",
         [(rate("lockstep_pods_created_total"), "created"), (rate("lockstep_pods_deleted_total"), "deleted")]),
    ]),
    ("Placement", [
        ("Gangs, nodes and pods", "short", "What placement knows.",
         [("max(lockstep_placement_gangs)", "gangs"), ("max(lockstep_placement_nodes)", "nodes"),
          ("max(lockstep_placement_pods)", "pods")]),
        ("A decision on all gangs that wait", "s", "", quantiles("lockstep_placement_seconds")),
        ("Bulk writes", "short", "Writes in flight, and how many the API server lets be in flight.",
         [("max(lockstep_bulk_writes_under_way)", "in flight"), ("max(lockstep_bulk_writes_limit)", "limit"),
          (rate("lockstep_bulk_write_failures_total", "code"), "failures per second: {{code}}")]),
    ]),
    ("Controller", [
        ("Leader", "short", "1: the operator of that pod leads.",
         [('sum by (pod) (leader_election_master_status{name="lockstep-operator"})', "{{pod}}")]),
        ("Reconciles", "ops", "By result.", [(rate("lockstep_operator_reconcile_total", "result"), "{{result}}")]),
        ("A reconcile", "s", "", quantiles("lockstep_operator_reconcile_duration_seconds")),
        ("Keys that wait for a worker", "short", "", [("max by (pod) (workqueue_depth)", "{{pod}}")]),
        ("Wait for a worker", "s", "", quantiles("workqueue_queue_duration_seconds")),
        ("Events that were not delivered", "ops", "By reason.",
         [(rate("lockstep_events_dropped_total", "reason"), "{{reason}}")]),
    ]),
    ("API server", [
        ("Requests", "ops", "By status; a word is a connection that failed.",
         [(rate("rest_client_requests_total", "code"), "{{code}}")]),
        ("Objects in the cache", "short", "", [("max by (resource) (lockstep_cache_objects)", "{{resource}}")]),
        ("Watches that were restarted", "ops", "By resource and reason.",
         [(rate("lockstep_watch_restarts_total", "resource, reason"), "{{resource}}: {{reason}}")]),
    ]),
]


def panel(number, x, y, title, unit, description, targets):
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend}
                    for place, (expression, legend) in enumerate(targets)],
    }


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": WIDTH * COLUMNS, "h": 1}})
        y += 1
        for place, words in enumerate(row):
            panels.append(panel(len(panels) + 1, place % COLUMNS * WIDTH, y + place // COLUMNS * HEIGHT, *words))
        y += -(-len(row) // COLUMNS) * HEIGHT
    return {
        "uid": "lockstep",
        "title": "Lockstep",
        "tags": ["lockstep"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}]},
        "panels": panels,
    }


def main(arguments):
    text = json.dumps(dashboard(), indent=1) + "\n"
    if arguments == ["--check"]:
        if not DASHBOARD.exists() or DASHBOARD.read_text() != text:
            print(f"{DASHBOARD.name} is not what this script writes: run scripts/dashboard.py", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    DASHBOARD.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
