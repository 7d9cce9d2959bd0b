"""docs/dashboard.svg shows today's dashboard, and scripts/dashboard_picture.py draws what Prometheus answers."""

import json
import pathlib
import sys
import xml.etree.ElementTree as xml

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import dashboard_picture  # noqa: E402

PICTURE = ROOT / "docs/dashboard.svg"
DASHBOARD = json.loads((ROOT / "charts/lockstep/files/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SVG = "{http://www.w3.org/2000/svg}"
TIMES = list(range(1200, 1801, 5))


def shown(text):
    """title -> (place, frame, expressions) of each panel in a picture."""
    return {panel.find(f"{SVG}title").text: (panel.get("transform"), panel.find(f"{SVG}rect").attrib,
                                             panel.find(f"{SVG}desc").text)
            for panel in xml.fromstring(text).iter(f"{SVG}g")}


def words_of(text, kind=None):
    return [word.text for word in xml.fromstring(text).iter(f"{SVG}text") if word.get("class") == kind]


def test_the_picture_is_of_todays_dashboard():
    text = PICTURE.read_text()
    today = dashboard_picture.draw(DASHBOARD, {panel["id"]: [] for panel in PANELS}, TIMES)
    assert shown(text) == shown(today), "run `make dashboard`"
    assert words_of(text, "r") == words_of(today, "r") == [
        panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert list(shown(text)) == [panel["title"] for panel in PANELS]


def test_the_picture_is_of_a_run_with_faults():
    assert {"ProcessSignal", "MemberLost", "detect", "transfer", "created", "p99"} <= set(words_of(PICTURE.read_text()))
    assert PICTURE.stat().st_size < 100_000


@pytest.fixture
def answers(monkeypatch):
    """What Prometheus answers to each expression; the expressions that were asked."""
    asked = []

    def query(_, expression, times):
        asked.append(expression)
        if "attempts" in expression:
            return [({"cause": "<NodeLost>"}, {times[0]: 1.0, times[1]: 3.0}),
                    ({"cause": "Empty"}, {times[0]: float("nan")})]
        return []

    monkeypatch.setattr(dashboard_picture, "query", query)
    return asked


def test_a_panel_shows_its_series_by_their_labels(answers):
    found = dashboard_picture.read(DASHBOARD["panels"], "", TIMES, "20s")
    assert len(answers) == sum(len(panel["targets"]) for panel in PANELS)
    assert not any("$" in expression for expression in answers)
    drawn = dashboard_picture.draw(DASHBOARD, found, TIMES)
    assert words_of(drawn) == ["<NodeLost>"]
    assert words_of(drawn, "m").count("No data") == len(PANELS) - 1


@pytest.mark.parametrize("unit, highest, words", [
    ("short", 7, ["0", "2", "4", "6", "8"]),
    ("s", 0.04, ["0 s", "10 ms", "20 ms", "30 ms", "40 ms"]),
    ("s", 0.00003, ["0 s", "10 µs", "20 µs", "30 µs"]),
    ("ops", 0.5, ["0/s", "0.1/s", "0.2/s", "0.3/s", "0.4/s", "0.5/s"]),
    ("short", 0, ["0", "1"]),
])
def test_an_axis_has_round_numbers_in_the_unit(unit, highest, words):
    assert [dashboard_picture.tick(value, unit) for value in dashboard_picture.ticks(highest)] == words


def test_a_line_is_broken_where_metrics_are_missing():
    assert dashboard_picture.path([(0, 9), (5, 9), (10, 9), (15, 4), (40, 4)], 7.5) == \
        "M0.0 9.0h1M0.0 9.0L10.0 9.0L15.0 4.0M40.0 4.0h1M40.0 4.0"
