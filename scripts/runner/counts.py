"""How many tests passed, failed and were skipped, from the reports of the runners."""

import json
import re
import xml.etree.ElementTree as ElementTree


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.names = []  # of failed and skipped tests, with the reason

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_gtest(folder):
    counts = Counts()
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text()).get("testsuites", []):
            for test in group.get("testsuite", []):
                name = f"{group['name']}.{test['name']}"
                if test.get("failures"):
                    counts.failed += 1
                    counts.names.append(f"FAILED  {name}: {test['failures'][0]['failure'].splitlines()[0]}")
                elif test.get("result") == "SKIPPED":
                    counts.skipped += 1
                    counts.names.append(f"skipped {name}")
                elif test.get("status") == "RUN":
                    counts.passed += 1
    return counts


def count_junit(path):
    counts = Counts()
    if not path.is_file():
        counts.failed = 1
        counts.names.append(f"FAILED  no report at {path.name}: the runner did not finish")
        return counts
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            counts.failed += 1
            counts.names.append(f"FAILED  {name}: {(problem.get('message') or '').splitlines()[:1]}")
        elif case.find("skipped") is not None:
            counts.skipped += 1
            counts.names.append(f"skipped {name}: {case.find('skipped').get('message')}")
        else:
            counts.passed += 1
    return counts


def count_lines(log, command, status):
    """Of a program whose last line is `N passed, N failed, N skipped`; a line `FAIL  name` is a failed test."""
    lines = log.read_text(errors="replace").splitlines()
    counts = Counts()
    found = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1].strip()) if lines else None
    if found:
        counts.passed, counts.failed, counts.skipped = (int(word) for word in found.groups())
    counts.names = [line for line in lines if line.startswith("FAIL ")]
    if not found or (status != 0 and not counts.failed and not counts.skipped):
        counts.failed += 1
        counts.names.append(f"FAILED  {command[0]} ended with {status}")
    return counts
