"""Follows the ledgers that lockstep-trainer writes with --ledger=DIR: one file per process, one JSON object per
line."""

import json
import pathlib

from figures import Commit


class Ledgers:
    """All ledgers of a folder, read as they grow. A line that is still being written is read the next time."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._offsets = {}
        self._pids = {}
        self.commits = {}  # by pid, in the order of the file

    def read(self):
        """Reads the lines written since the last call."""
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            if path.suffix != ".jsonl":
                continue
            with path.open("rb") as stream:
                stream.seek(self._offsets.get(path, 0))
                data = stream.read()
            whole = data.rfind(b"\n") + 1
            self._offsets[path] = self._offsets.get(path, 0) + whole
            for line in data[:whole].splitlines():
                self._take(path, json.loads(line))

    def _take(self, path, entry):
        if entry["kind"] == "process":
            self._pids[path] = entry["pid"]
            self.commits.setdefault(entry["pid"], [])
        elif entry["kind"] == "step":
            commit = Commit(entry["step"], entry["generation"], entry["rank"], entry["world"], entry["ns"])
            self.commits[self._pids[path]].append(commit)

    def newest_generation(self):
        return max((commits[-1].generation for commits in self.commits.values() if commits), default=0)

    def whole(self, world, steps, alive):
        """Ranks of the newest generation by pid, if it has `world` ranks that live and have made `steps` steps in it;
        else None."""
        generation = self.newest_generation()
        ranks = {}
        for pid, commits in self.commits.items():
            if not commits or commits[-1].generation != generation or not alive(pid):
                continue
            if len(commits) < steps or commits[-steps].generation != generation or commits[-1].world != world:
                return None
            ranks[pid] = commits[-1].rank
        return ranks if generation > 0 and sorted(ranks.values()) == list(range(world)) else None
