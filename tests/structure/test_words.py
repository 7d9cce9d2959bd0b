"""Causes and strategies are enums: their names stand in operator/api alone (operator/api/cause.h, strategy.h)."""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Words of Kubernetes, or of conditions, that happen to be spelled like ours.
OTHER_MEANINGS = {
    ("operator/job/suspend_policy.cpp", "Suspended"),  # condition type and reason
    ("operator/job/job_status.cpp", "Suspended"),      # condition type
    ("operator/job/placement_policy.cpp", "Suspended"),  # condition type
    ("operator/job/children.cpp", "None"),             # clusterIP of a headless Service
    ("operator/job/child_writes.cpp", "None"),         # the same
    ("operator/job/leader_duties.cpp", "None"),        # the same
    ("operator/rendezvous/coordinator_codec.cpp", "None"),  # spec.rendezvous.kind
    ("operator/local/pod_status.cpp", "Completed"),    # reason of a container's end, as a kubelet writes it
    ("operator/local/pod_status.cpp", "PodFailed"),    # reason of the condition Ready
}


def words(root):
    """The names of all causes and strategies, as the tables in operator/api say them."""
    causes = re.findall(r'\.name = "(\w+)"', (root / "operator/api/cause.cpp").read_text())
    table = re.search(r"kStrategyNames\[\] = \{([^}]*)\}", (root / "operator/api/strategy.cpp").read_text())[1]
    strategies = re.findall(r'"(\w+)"', table)
    return causes + strategies


def literals(root):
    """(path, line, word) of each string literal outside operator/api that is such a name; comments do not count."""
    literal = re.compile(r'"(%s)"' % "|".join(words(ROOT)))
    for side in ("operator", "trainer"):
        for path in sorted((root / side).rglob("*")):
            name = str(path.relative_to(root))
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh") or name.startswith("operator/api/"):
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                for match in literal.finditer(re.sub(r"(^|\s)//.*", "", line)):
                    yield name, number, match[1]


class Words(unittest.TestCase):
    def test_no_literal_names_a_cause_or_a_strategy(self):
        self.assertGreater(len(words(ROOT)), 20)
        wrong = [f"{name}:{number} \"{word}\"" for name, number, word in literals(ROOT)
                 if (name, word) not in OTHER_MEANINGS]
        self.assertFalse(wrong, "use api::Cause or api::Strategy:\n" + "\n".join(wrong))

    def test_every_exception_is_in_use(self):
        self.assertEqual(OTHER_MEANINGS - {(name, word) for name, _, word in literals(ROOT)}, set())

    def test_a_planted_literal_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in (("operator/job/a.cpp", 'x = 1;\nif (cause == "MemberLost") return "Shrink";\n'),
                               ("operator/api/b.cpp", 'name = "MemberLost";\n'),
                               ("trainer/agent/c.h", '// says "Hang"\nproblem = "Hangs";\n')):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            self.assertEqual(list(literals(root)), [("operator/job/a.cpp", 2, "MemberLost"),
                                                    ("operator/job/a.cpp", 2, "Shrink")])


if __name__ == "__main__":
    unittest.main()
