"""Each command in a block of a page is typed by a test, or left out for a reason that is on record."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/e2e/readme"), str(ROOT / "tests/release")]
import pages  # noqa: E402
from command_table import LEFT_OUT, LONG, STAND_INS, WHOLE_PAGES  # noqa: E402
from suites import runs_in_a_suite  # noqa: E402

TESTS = ("test_install", "test_pages", "test_readme", "test_release_files")


def typed_blocks():
    """(page, heading) -> the test that types the blocks there."""
    modules = [importlib.import_module(name) for name in TESTS]
    return {place: f"{module.__name__}.{name}" for module in modules for name, test in vars(module).items()
            for place in getattr(test, "typed", [])}


def printed(page):
    """(heading, command) of each command of a page."""
    return [(block.heading, command) for block in pages.command_blocks(page)
            for command in pages.commands_of(block.text)]


def not_typed(page, typed):
    """The commands of a page that no test types and no reason leaves out."""
    return [f"{page}, {heading}: {command}" for heading, command in printed(page)
            if page not in WHOLE_PAGES and (page, heading) not in typed and command not in LEFT_OUT.get(page, {})]


class CommandBlocks(unittest.TestCase):
    def test_each_command_of_a_page_is_typed_or_left_out_for_a_reason(self):
        typed = typed_blocks()
        self.assertGreater(len(typed), 10)
        left = [line for page in pages.pages() for line in not_typed(page, typed)]
        self.assertFalse(left, "no test types:\n" + "\n".join(left))

    def test_a_command_that_no_test_types_is_found(self):
        self.assertEqual(not_typed("docs/install.md", {("docs/install.md", "4. Run a job"): "a test"})[-1],
                         "docs/install.md, Uninstall: kubectl delete namespace lockstep-system")

    def test_the_tables_have_no_command_that_no_page_prints(self):
        on_page = {page: {command for _, command in printed(page)} for page in pages.pages()}
        gone = [(page, command) for page, commands in LEFT_OUT.items() for command in commands
                if command not in on_page[page]]
        gone += [command for command in LONG if not any(command in commands for commands in on_page.values())]
        gone += [place for place in typed_blocks() if place[1] not in pages.blocks(place[0])]
        self.assertEqual(gone, [])
        self.assertEqual([page for page in WHOLE_PAGES if not on_page[page]], [])

    def test_each_program_that_a_stand_in_replaces_is_on_record(self):
        files = [path for path in (ROOT / "tests/e2e/readme").iterdir() if path.is_file()]
        there = {path.name for path in files if os.access(path, os.X_OK)}
        self.assertEqual(there, set(STAND_INS))
        for program, reason in STAND_INS.items():
            named = re.findall(r"tests/[\w./]+\.(?:py|sh)", reason)
            self.assertTrue(named and all((ROOT / name).is_file() for name in named), program)

    def test_make_types_no_target_as_printed(self):
        """test_pages.py types what is in neither table as it is; on these pages a target of make takes minutes."""
        as_printed = [f"{page}: {command}" for page in WHOLE_PAGES for _, command in printed(page)
                      if command.startswith("make ") and command not in {**LONG, **LEFT_OUT.get(page, {})}]
        self.assertEqual(as_printed, [])

    def test_each_block_of_commands_parses(self):
        for page in pages.pages():
            for block in pages.command_blocks(page):
                script = "\n".join(pages.commands_of(block.text))
                done = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{page}, {block.heading}: {done.stderr}")

    def test_output_and_commands_are_told_apart(self):
        text = "# A\n\n    make it   # now\n    a \\\n      b\n\n" \
               "1. item\n    of two lines\n\n```\nlockstep run x\n```\n```yaml\nkubectl: x\n```\n" \
               "## B\n\n    NAME  STATE\n\n    KEY=1 OTHER=2\n    tests/x.py --y\n"
        found = [(heading, kind, block) for heading, kind, block in pages.raw_blocks(text)]
        self.assertEqual([(heading, kind) for heading, kind, _ in found],
                         [("A", "indented"), ("A", "plain"), ("A", "yaml"), ("B", "indented")])
        self.assertEqual(pages.commands_of(found[0][2]), ["make it", "a b"])
        self.assertEqual(pages.commands_of("$ git log\nout\n$ make"), ["git log", "make"])
        for line, command in (("make it", True), ("NAME=1 kubectl get", True), ("build/release/bin/x -y", True),
                              ("A=1 B=2", True), ("killed rank 2", False), ("cells/CELL.json  a file", False),
                              ("accepted = max(3 * a)", False), ("bytes -> event", False), ("don't", False)):
            self.assertEqual(pages.is_command(line), command, line)

    def test_no_block_with_a_command_escapes(self):
        for block in ("```sh\ncat x\n```", "```bash title=a\nsed y\n```", "```shell\n$ ls\nout\n```",
                      "~~~console\nls\n~~~", "````Bash\nls\n````", "```\n# first\nmake it\n```",
                      "```text\nout\nmake it\n```", "```yaml\na: b\nmake it\n```", "\n    # first\n    make it\n",
                      "\n    out\n    $ make it\n",
                      "\n\tmake it\n", "1. item\n\n   ```sh\n   ls\n   ```", "```\nA=1 \\\n  make it\n```",
                      "```\n./scripts/x.py\n```", "```sh\nls"):
            found = pages.commands_on(f"# A\n{block}\n")
            self.assertEqual(len(found), 1, block)
            self.assertTrue(pages.commands_of(found[0][1]), block)

    def test_output_and_data_are_no_commands(self):
        for block in ("```\nkilled rank 2\n```", "```yaml\nkubectl: make\n- make it\n```", "\n    NAME  STATE\n",
                      "```text\nlockstep (guard)   adopts orphans\n```", "text\n    make it\n",
                      "```mermaid\ngo->>make: it\n```"):
            self.assertEqual(pages.commands_on(f"# A\n{block}\n"), [], block)

    def test_the_pages_of_hidden_folders_are_read(self):
        self.assertIn(".github/PULL_REQUEST_TEMPLATE.md", pages.pages())

    def test_a_fresh_root_is_told_the_blocks_of_the_pages(self):
        command = [ROOT / "tests/clean_root/follow_pages.sh", "--dry-run"]
        done = subprocess.run([*command, "laptop", "cluster"], capture_output=True, text=True, check=True)
        blocks = ["make demo", *(command for page, heading in (
            ("docs/laptop.md", "On this machine: `lockstep run`"), ("README.md", "On a cluster"))
            for command in pages.commands_of(pages.blocks(page)[heading][0]))]
        self.assertEqual(pages.commands_of(done.stdout), blocks)
        done = subprocess.run([*command, "elsewhere"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_commands_of_suites_are_known(self):
        run = "/usr/bin/python3 -m pytest -q -s tests/e2e/cluster/"
        self.assertTrue(runs_in_a_suite(run + "test_faults.py"))
        self.assertTrue(runs_in_a_suite("LOCKSTEP_AWAY_SECONDS=60 LOCKSTEP_FAULT_LEASE=15 " + run + "test_faults.py"))
        self.assertFalse(runs_in_a_suite("LOCKSTEP_AWAY_SECONDS=61 LOCKSTEP_FAULT_LEASE=15 " + run + "test_faults.py"))
        self.assertFalse(runs_in_a_suite(run + "test_nothing.py"))
        self.assertFalse(runs_in_a_suite("make test"))


if __name__ == "__main__":
    unittest.main()
