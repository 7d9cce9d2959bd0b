"""The pages: links that lead somewhere, lines of at most 100 columns, and tables that say what the code says."""

import pathlib
import re
import subprocess
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import api_reference  # noqa: E402
import metrics_reference  # noqa: E402
from prose import lines_of_prose, pages, too_long  # noqa: E402

FOLDERS = ("charts", "containers", "docs", "examples", "manifests", "operator", "scripts", "tests", "trainer")
REFERENCE = ROOT / "docs" / "reference.md"


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    headings = [line.lstrip("#").strip() for _, line in lines_of_prose(text) if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path, text):
    """The relative links of a page whose file or heading does not exist."""
    for number, line in lines_of_prose(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (path.parent / name).resolve()
            if name and not there.exists() or anchor and anchor not in anchors(there.read_text() if name else text):
                yield f"{path.relative_to(ROOT)}:{number}: {target}"


def table(text, heading):
    """The rows of the first table below a heading, without its head, as lists of cells."""
    below = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    rows = re.search(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n?)+)", below, re.M)[1]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("|"))] for row in rows.strip().splitlines()]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


# Words of operator/job that look like a reason and are none.
NO_REASONS = {
    "types of conditions": "Placed Restarting Failed",
    "actions of events": "Finish Leave Recover Release Replace Restart Resume Scale Start Stay Suspend",
    "reasons of others, which Lockstep reads":
        "DeletionByPodGC DeletionByTaintManager ErrImagePull ImageInspectError PreemptionByScheduler "
        "RegistryUnavailable",
    "other words of Kubernetes":
        "ALL ConfigMap Exists FallbackToLogsOnError False IPv4 IPv6 In Never None Normal NotIn Pending Pod "
        "RuntimeDefault Secret Service TCP TrainingJob True Warning",
    "others": "Memory NaN",
}


def other_words():
    return {word for words in NO_REASONS.values() for word in words.split()}


def literals_of_the_policies():
    """Each string literal in operator/job that is a word with a capital; comments do not count."""
    found = set()
    for path in (ROOT / "operator/job").iterdir():
        if path.suffix in (".h", ".cpp"):
            for line in path.read_text().splitlines():
                found |= set(re.findall(r'"([A-Z]\w+)"', re.sub(r"(^|\s)//.*", "", line)))
    return found


def causes_in_code():
    code = (ROOT / "operator/api/cause.cpp").read_text()
    return {name: "infrastructure" in rest for name, rest in re.findall(r'\.name = "(\w+)"(.*)\}', code)}


def reasons_of(text):
    """The reasons that the reference lists: of conditions, failed jobs and events, and causes."""
    cells = [cell for row in table(text, "States and conditions") for cell in row[1:]]
    cells += [row[0] for heading in ("Why a job fails", "Causes", "Events") for row in table(text, heading)]
    told = [name for cell in cells for name in names(re.sub(r"a reason of `\w+`(?: or `\w+`)?", "", cell))]
    return {name for name in told if re.fullmatch(r"[A-Z]\w+", name)}


def unknown_keys(given, known, path=""):
    """Paths of `given` that `known` does not have; lists and empty maps of `known` take anything."""
    for key, value in given.items():
        if key not in known:
            yield path + key
        elif isinstance(value, dict) and known[key]:
            yield from unknown_keys(value, known[key], f"{path}{key}.")


# Row of the README's table of tools -> heading of the comparison, and column where each column has its own source.
COMPARED = {
    "restarts when a process dies": ("What restarts when a process dies", None),
    "the state comes from": ("Where the state comes from", None),
    "membership is agreed by": ("Where membership is agreed", None),
    "finds a hung rank": ("Hangs", None),
    "changes size while it trains": ("Size, spares, budgets", 1),
    "warm spare": ("Size, spares, budgets", 2),
    "restart budget with a time window": ("Size, spares, budgets", 3),
    "places by network topology": ("Placement and quotas", 1),
    "quotas between teams": ("Placement and quotas", 2),
}


def unsourced(readme, comparison):
    """The cells of the README's table of tools, as (row, tool), whose row in the comparison has no link."""
    tools, *rows = [[cell.strip() for cell in line.strip("|").split("|")]
                    for line in re.findall(r"^\|.*\|$", readme.partition("\n## Beside other tools\n")[2], re.M)
                    if not line.startswith("|--")][:len(COMPARED) + 2]
    for name, *cells in rows[1:]:
        heading, column = COMPARED[name]
        sources = {row[0]: " ".join(row[1:]) if column is None else row[column] for row in table(comparison, heading)}
        for tool, cell in zip(tools[1:], cells):
            for one in tool.split(" / "):
                if cell != "-" and "](" not in sources.get(one, ""):
                    yield name, one


def decisions_told(text):
    """The numbers of the ADRs that the table of decisions links to; "0005 to 0010" are six."""
    for _, cell in table(text, "Decisions"):
        for first, last in re.findall(r"\[(\d{4})\]\([^)]*\)(?: to \[(\d{4})\])?", cell):
            yield from range(int(first), int(last or first) + 1)


class Docs(unittest.TestCase):
    def test_links_lead_to_a_file_and_a_heading(self):
        broken = [link for path in pages() for link in broken_links(path, path.read_text())]
        self.assertFalse(broken, "\n" + "\n".join(broken))

    def test_a_broken_link_is_found(self):
        text = "# Here\n[a](README.md) [b](nowhere.md) [c](#here) [d](#there) `[e](x.md)` [f](https://example.com)\n"
        found = list(broken_links(ROOT / "README.md", text))
        self.assertEqual(found, ["README.md:2: nowhere.md", "README.md:2: #there"])

    def test_lines_have_at_most_100_columns(self):
        wrong = [f"{path.relative_to(ROOT)}:{number}" for path in pages() for number in too_long(path.read_text())]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))
        self.assertEqual(too_long(f"{'a' * 101}\n| {'a' * 101} |\n```\n{'a' * 101}\n```\n"), [1])

    def test_no_diagram_has_a_semicolon(self):
        """Mermaid ends a statement there, and GitHub then shows an error instead of the diagram."""
        blocks = {path.name: re.findall(r"^```mermaid\n(.*?)^```", path.read_text(), re.M | re.S) for path in pages()}
        self.assertEqual(len(blocks["design.md"]), 2)
        self.assertEqual([name for name, found in blocks.items() if any(";" in block for block in found)], [])

    def test_the_table_of_decisions_has_each_decision(self):
        told = set(decisions_told((ROOT / "docs/design.md").read_text()))
        there = {int(path.name[:4]): path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md")}
        self.assertEqual([name for number, name in there.items() if number not in told], [])

    def test_the_readme_has_at_most_80_lines(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 80)

    def test_files_that_a_page_names_exist(self):
        missing = []
        for path in pages():
            for number, line in lines_of_prose(path.read_text()):
                for name in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`", line):
                    if not (ROOT / name).exists():
                        missing.append(f"{path.relative_to(ROOT)}:{number}: {name}")
        self.assertFalse(missing, "\n" + "\n".join(missing))


    def test_the_laptop_page_makes_the_job_of_the_readme(self):
        jobs = [re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.S)
                for page in ("README.md", "docs/laptop.md")]
        self.assertEqual(jobs[0], jobs[1])

    def test_the_laptop_page_names_each_fault_as_the_output_does(self):
        chaos = (ROOT / "docs/laptop.md").read_text().partition("## Chaos")[2]
        printed = re.findall(r"^([a-z][a-z ]+?)  +\d+ +\d+ ", chaos, re.M)
        told = " ".join(re.search(r"The faults are: ([^.]*)\.", chaos)[1].split())
        self.assertEqual(told.split(", "), printed)
        code = (ROOT / "operator/cli/chaos_schedule.cpp").read_text()
        self.assertEqual([name for name in printed if f'"{name}"' not in code], [])

    def test_the_glossary_has_the_parts_and_the_states_of_nodes(self):
        terms = {name for row in table("\n## Names\n" + (ROOT / "docs/glossary.md").read_text(), "Names")
                 for name in row[0].split(", ")}
        wanted = {"operator", "coordinator", "agent", "worker", "sick", "dead", "level", "domain"}
        self.assertEqual(wanted - terms, set())

    def test_the_values_on_the_install_page_are_those_of_the_chart(self):
        known = yaml.safe_load((ROOT / "charts/lockstep/values.yaml").read_text())
        (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/install.md").read_text(), re.S)
        self.assertEqual(list(unknown_keys(yaml.safe_load(block), known)), [])
        self.assertEqual(list(unknown_keys({"image": {"tags": ""}, "x": 1}, known)), ["image.tags", "x"])


class Tables(unittest.TestCase):
    def setUp(self):
        self.text = REFERENCE.read_text()

    def test_the_api_reference_is_that_of_the_crd(self):
        command = [sys.executable, ROOT / "scripts/api_reference.py", "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_causes_are_those_of_the_code(self):
        causes = causes_in_code()
        told = {names(row[0])[0]: row[2] for row in table(self.text, "Causes")}
        self.assertEqual(list(told), list(causes))
        for name, infrastructure in causes.items():
            self.assertFalse(infrastructure and told[name] != "no", f"{name} is not charged")
            self.assertFalse(not infrastructure and told[name] == "no" and name not in ("Suspended", "Completed"), name)

    def test_the_reasons_are_those_of_the_code(self):
        literals = literals_of_the_policies()
        self.assertEqual(other_words() - literals, set())
        types = {names(row[0])[0] for row in table(self.text, "States and conditions")}
        self.assertEqual(reasons_of(self.text) - types, (literals - other_words() | set(causes_in_code())) - types)

    def test_each_reason_has_an_entry_in_troubleshooting(self):
        text = (ROOT / "docs/troubleshooting.md").read_text()
        entries = {name for line in text.splitlines() if line.startswith("| ")
                   for name in names(re.split(r"(?<!\\)\|", line)[1])}
        self.assertEqual(reasons_of(self.text) - entries, set())
        for line in text.splitlines():  # a row has a cause and a solution
            self.assertNotIn("", [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
                             if line.startswith("| `") else [], line)

    def test_the_exit_codes_are_those_of_the_code(self):
        code = (ROOT / "operator/rendezvous/worker_contract.h").read_text()
        constants = {int(number) for number in re.findall(r"\bkExit\w+ = (\d+);", code)}
        self.assertEqual({int(row[0]) for row in table(self.text, "Exit codes")}, constants | {0, 1})
        usage = (ROOT / "trainer/flags.cpp").read_text().partition("\nExit codes:\n")[2].partition(')"')[0]
        self.assertEqual({int(code) for code in re.findall(r"^  (\d+) ", usage, re.M)}, constants | {0, 1})

    def test_metrics_have_the_labels_and_the_meaning_of_the_code(self):
        command = [sys.executable, ROOT / "scripts/metrics_reference.py", "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(table(self.text, "Metrics")), 20)

    def test_a_changed_label_or_meaning_of_a_metric_changes_the_page(self):
        metrics = metrics_reference.metrics_in_code()
        self.assertEqual(metrics_reference.page(self.text, metrics), self.text)
        one = metrics["rest_client_requests_total"]
        self.assertEqual(one.labels, ("code", "method", "host"))
        for other in (one._replace(labels=("code",)), one._replace(help="Others."), one._replace(kind="gauge")):
            self.assertNotEqual(metrics_reference.page(self.text, {**metrics, one.name: other}), self.text)
        found = list(metrics_reference.metrics_of('m.gauge("a_nodes", "All.", {{"b", f(1)}}, {0.1}))'))
        self.assertEqual(found, [("a_nodes", "gauge", ("b",), "All.")])

    def test_no_two_metrics_have_the_same_meaning(self):
        told = [one.help for one in metrics_reference.metrics_in_code().values()]
        self.assertEqual([text for text in told if told.count(text) > 1], [])

    def test_each_policy_of_the_operator_has_a_row_and_tests(self):
        rows = table((ROOT / "operator/README.md").read_text(), "One direction")
        files = {path.stem for path in (ROOT / "operator/job").glob("*_policy.h")}
        self.assertEqual({names(row[0])[0] for row in rows}, files)
        for policy, _, tests in rows:
            for name in names(tests):
                self.assertTrue((ROOT / "tests/operator/job" / name).is_file(), f"{policy}: {name}")

    def test_each_tool_of_the_readme_has_its_sources_in_the_comparison(self):
        page = (ROOT / "docs/comparison.md").read_text()
        columns = re.search(r"^\| \| (Lockstep \|.*) \|$", (ROOT / "README.md").read_text(), re.M)[1]
        tools = re.split(r" \| | / ", columns)
        self.assertIn("KAI", tools)
        self.assertEqual([row[0] for row in table(page, "Size, spares, budgets")], tools)
        versions = re.findall(r"^\| ([\w ]+) \| .*$", page.partition("\n## ")[0], re.M)
        self.assertEqual(versions, ["tool", *tools])
        for heading in ("What restarts when a process dies", "Size, spares, budgets", "Placement and quotas"):
            for tool, *cells in table(page, heading):
                self.assertIn(tool, tools, heading)
                if heading.startswith("What"):
                    cells = cells[1:]
                unsourced = [cell for cell in cells if cell != "-" and "](" not in cell]
                self.assertEqual(unsourced, [], f"{heading}, {tool}")

    def test_each_cell_of_the_readme_has_its_source_in_the_comparison(self):
        readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/comparison.md"))
        self.assertEqual(list(unsourced(readme, page)), [])
        self.assertEqual(len(re.findall(r"^## (?!What the others|Measured)", page, re.M)),
                         len({heading for heading, _ in COMPARED.values()}))
        without = re.sub(r"^\| Volcano \| No field.*\n", "", page, flags=re.M)
        self.assertEqual(list(unsourced(readme, without)), [("finds a hung rank", "Volcano")])

    def test_the_bounds_of_silence_are_those_of_the_code(self):
        rendezvous = ROOT / "operator/rendezvous"
        timing = (rendezvous / "coordinator_timing.h").read_text()
        least = int(re.search(r"silent_least = std::chrono::milliseconds\((\d+)\)", timing)[1]) / 1000
        most = re.search(r"silent_after = std::chrono::seconds\((\d+)\)", timing)[1]
        every = int(re.search(r"kHeartbeatEvery = std::chrono::milliseconds\((\d+)\)",
                              (rendezvous / "protocol.h").read_text())[1]) / 1000
        page = (ROOT / "docs/elastic.md").read_text()
        self.assertIn(f"by silence: {least:g} s to {most} s on an open connection", page)
        self.assertIn(f"two heartbeats ({2 * every:g} s)", page)
        self.assertIn(f"The {most} s of silence", page)

    def test_the_conditions_are_those_of_the_code(self):
        code = (ROOT / "operator/job/job_status.cpp").read_text()
        kinds = re.findall(r'"(\w+)"', re.search(r"kTypes\[\] = \{(.*?)\}", code, re.S)[1])
        told = [names(row[0])[0] for row in table(self.text, "States and conditions")]
        self.assertEqual(told, [*kinds, "ReplicaDivergence"])


if __name__ == "__main__":
    unittest.main()
