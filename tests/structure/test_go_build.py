"""tests/cluster/go_build.sh: the pinned Go toolchain, where the machine's own Go is older."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "cluster/go_build.sh"
OLD_GO = """#!/bin/sh
case "$1" in
  env) echo go1.19.8 ;;
  mod) printf '{\\n\\t"Dir": "%s"\\n}\\n' "$FETCHED" ;;
esac
"""


class Toolchain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("old/go", OLD_GO), ("fetched/bin/go", ""), ("fetched/pkg/tool/vet", "")):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        (self.folder / "old/go").chmod(0o755)

    def find_go(self):
        path = f"{self.folder}/old:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "FETCHED": f"{self.folder}/fetched"}
        script = f"set -euo pipefail; cache={self.folder}/cache; . {SCRIPT}; go=$(find_go); echo $go"
        done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, timeout=30, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(done.stdout.strip())

    def test_a_fetch_that_was_killed_is_repeated(self):
        root = self.find_go().parents[1]
        (root / "bin/go").rename(self.folder / "go")
        (root.parent / f"{root.name}.part").mkdir()
        self.assertTrue(os.access(self.find_go(), os.X_OK))
        self.assertEqual(sorted(path.name for path in root.iterdir()), ["bin", "pkg"])
        self.assertFalse((root.parent / f"{root.name}.part").exists())


if __name__ == "__main__":
    unittest.main()
