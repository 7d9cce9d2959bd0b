"""The diagram of a job's states in docs/design.md has the transitions of tests/operator/job/job_states.h."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def in_code(text):
    """The pairs of kTransitions; "" is the beginning."""
    return set(re.findall(r'\{"(\w*)", "(\w+)"\}', re.search(r"kTransitions\[\] = \{(.*?)\};", text, re.S)[1]))


def diagram_of(page):
    return re.search(r"^```mermaid\nstateDiagram-v2\n(.*?)^```", page, re.M | re.S)[1]


def in_diagram(text):
    """The same pairs. An arrow from a composite state begins at each state inside, one to it ends at its first."""
    inside = {}  # composite state -> [arrows]
    composite, arrows = None, []
    for line in text.splitlines():
        opened = re.fullmatch(r"\s*state (\w+) \{", line)
        arrow = re.fullmatch(r"\s*(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: .+)?", line)
        if opened:
            composite = opened[1]
            inside[composite] = []
        elif line.strip() == "}":
            composite = None
        elif arrow:
            (inside[composite] if composite else arrows).append(arrow.groups())
        else:
            raise AssertionError(f"the line is no arrow: {line}")
    states = {name: {state for pair in pairs for state in pair} - {"[*]"} for name, pairs in inside.items()}
    first = {name: [to for begin, to in pairs if begin == "[*]"] for name, pairs in inside.items()}
    found = {pair for pairs in inside.values() for pair in pairs if "[*]" not in pair}
    for begin, end in arrows:
        if end != "[*]":
            found |= {("" if one == "[*]" else one, other)
                      for one in states.get(begin, [begin]) for other in first.get(end, [end])}
    return found


class JobStates(unittest.TestCase):
    def setUp(self):
        self.code = in_code((ROOT / "tests/operator/job/job_states.h").read_text())
        self.diagram = diagram_of((ROOT / "docs/design.md").read_text())

    def test_the_diagram_has_the_transitions_of_the_table(self):
        self.assertGreater(len(self.code), 20)
        self.assertEqual(in_diagram(self.diagram), self.code)

    def test_the_diagram_has_the_states_of_the_code(self):
        code = (ROOT / "operator/job/job_status.cpp").read_text()
        word = re.search(r"^std::string state_word\(.*?^\}", code, re.M | re.S)[0]
        self.assertEqual({state for pair in self.code for state in pair} - {""},
                         set(re.findall(r'"(\w+)"', word)) - {"Placed"})

    def test_each_arrow_that_is_missing_is_found(self):
        lines = self.diagram.splitlines()
        arrows = [number for number, line in enumerate(lines) if "-->" in line and not line.endswith("--> [*]")]
        self.assertGreater(len(arrows), 10)
        for number in arrows:
            rest = "\n".join(lines[:number] + lines[number + 1:])
            self.assertNotEqual(in_diagram(rest), self.code, lines[number])


if __name__ == "__main__":
    unittest.main()
