#!/usr/bin/env python3
"""Verifies that a job applied each sample of each step exactly once, whichever ranks died meanwhile.

    check_ledger.py FOLDER [--reference FOLDER] [--unfinished]

FOLDER has the ledgers of one job's processes (lockstep-trainer --ledger; trainer/report/ledger.h has the
format). The first line of a ledger alone determines the right samples: seed, model, data and batch sizes.
--reference is the ledger of an undisturbed run: the weights after every step must be bitwise identical to its own
(of a --deterministic job). --unfinished: the job may have ended before its last step.

Prints a sentence for each violation and one line of summary. Exit status: 0 exact, 1 not, 2 it cannot be read.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import samples  # noqa: E402

SAME = ("job", "model", "data", "backend", "seed", "deterministic", "steps", "batch_size", "micro_batch_size",
        "context")
MOST_SENTENCES = 50


class Unreadable(Exception):
    pass


@dataclasses.dataclass
class Process:
    """One ledger: the process's description of its run, and its lines in order."""
    name: str
    what: dict
    lines: list
    skipped: list  # damaged records of the data: (file, offset)


@dataclasses.dataclass
class Generation:
    number: int
    entered: dict = dataclasses.field(default_factory=dict)  # rank -> its line
    steps: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(dict))  # step -> rank -> line


def read(folder):
    """The ledgers of a folder."""
    processes = []
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        text = path.read_text()
        lines = text.splitlines()
        try:
            if not text.endswith("\n"):
                raise ValueError("its last line is cut off")
            objects = [json.loads(line) for line in lines]
            if objects[0]["kind"] != "process" or any(line["kind"] not in ("enter", "step", "skipped")
                                                      for line in objects[1:]):
                raise ValueError("its lines are not those of a ledger")
            skipped = [(line["file"], line["offset"]) for line in objects[1:] if line["kind"] == "skipped"]
            lines = [line for line in objects[1:] if line["kind"] != "skipped"]
            processes.append(Process(path.name, {key: objects[0][key] for key in SAME}, lines, skipped))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise Unreadable(f"{path} is no ledger: {error}") from None
    if not processes:
        raise Unreadable(f"there is no ledger in {folder}")
    for other in processes[1:]:
        for key in SAME:
            if other.what[key] != processes[0].what[key]:
                raise Unreadable(f"{folder} has ledgers of different jobs: {key} is {processes[0].what[key]!r} in "
                                 f"{processes[0].name} and {other.what[key]!r} in {other.name}")
    return processes


class Check:
    """The `violations` of a job's ledgers, and the counts of the check."""

    def __init__(self, processes, reference=None, finished=True):
        self.what = processes[0].what
        self.violations = []
        self.seen = self.unseen = self.superseded = 0
        self._batches = samples.batches(self.what)
        self._generations = {}
        self.skipped = {place for process in processes for place in process.skipped}
        for process in processes:
            self._follow(process)
        for number in sorted(self._generations):
            self._look_at(self._generations[number])
        self.effective = self._lineage()  # step -> generation
        self._complete(finished)
        if self.what["deterministic"]:
            self._same_bits_whenever_done_again()
        if reference is not None:
            self._compare(reference)

    def wrong(self, sentence):
        self.violations.append(sentence)

    # --- one process ---

    def _follow(self, process):
        """No step twice, none left out, and never back to an older state."""
        now = None  # the last "enter"
        held = (0, 0)  # the state that the process continues from: (generation that committed it, step)
        for line in process.lines:
            number, rank = line["generation"], line["rank"]
            who = f"{process.name}, rank {rank} of generation {number},"
            generation = self._generations.setdefault(number, Generation(number))
            if line["kind"] == "enter":
                start = (line["committed_in"], line["from_step"])
                if now is not None and number <= now["generation"]:
                    self.wrong(f"{who} entered it after generation {now['generation']}")
                if start < held:
                    self.wrong(f"{who} went back to step {start[1]} of generation {start[0]}, though it held step "
                               f"{held[1]} of generation {held[0]}")
                if rank in generation.entered:
                    self.wrong(f"two processes were rank {rank} of generation {number}")
                generation.entered[rank] = line
                now, held = line, start
                continue
            step = line["step"]
            if now is None or (number, rank, line["world"]) != (now["generation"], now["rank"], now["world"]):
                self.wrong(f"{who} committed step {step}, but it had not entered that generation as that rank")
            if step <= held[1]:
                self.wrong(f"{who} applied step {step} twice: its state was that after step {held[1]}")
            elif step != held[1] + 1:
                self.wrong(f"{who} skipped from step {held[1]} to step {step}")
            if rank in generation.steps[step]:
                self.wrong(f"step {step} was committed twice by rank {rank} of generation {number}")
            generation.steps[step][rank] = line
            held = (number, step)

    # --- one generation ---

    def _look_at(self, generation):
        """Its ranks start from the same state and commit the same; each micro-batch is one rank's, with the right
        bytes."""
        number = generation.number
        starts = collections.defaultdict(list)
        for rank, line in sorted(generation.entered.items()):
            starts[line["committed_in"], line["from_step"], line["digest"], line["world"]].append(rank)
        if len(starts) > 1:
            self.wrong(f"the ranks of generation {number} did not start from the same state: " + "; ".join(
                f"ranks {ranks} of {world} from step {step} of generation {committed_in} with digest {digest}"
                for (committed_in, step, digest, world), ranks in starts.items()))
        for step, ranks in sorted(generation.steps.items()):
            world = next(iter(ranks.values()))["world"]
            missing = sorted(set(range(world)) - set(ranks))
            if missing and step != max(generation.steps):
                self.wrong(f"step {step} was committed by generation {number} without rank {missing}, and yet the "
                           "generation continued")
            owner = {}
            for rank, line in sorted(ranks.items()):
                for index, crc32 in line["batches"]:
                    if index in owner:
                        self.wrong(f"micro-batch {index} of step {step} was applied twice by generation {number}, by "
                                   f"ranks {owner[index]} and {rank}")
                    owner[index] = rank
                    if not 0 <= index < self._batches.per_step:
                        self.wrong(f"micro-batch {index} of step {step}, which rank {rank} of generation {number} "
                                   "applied, does not exist")
                    elif crc32 != self._batches.crc32(step, index):
                        self.wrong(f"micro-batch {index} of step {step}, applied by rank {rank} of generation "
                                   f"{number}, was not made of its samples: "
                                   f"its CRC is {crc32}, that of the samples is {self._batches.crc32(step, index)}")
            lost = [index for index in range(self._batches.per_step) if index not in owner]
            if lost and not missing:
                self.wrong(f"micro-batch{'es' * (len(lost) > 1)} {', '.join(map(str, lost))} of step {step} was "
                           f"applied by no rank of generation {number}")
            digests = collections.defaultdict(list)
            for rank, line in sorted(ranks.items()):
                digests[line.get("digest")].append(rank)
            if len(digests) > 1:
                self.wrong(f"after step {step} of generation {number} the ranks held different states: " +
                           "; ".join(f"ranks {ranks_} {digest}" for digest, ranks_ in digests.items()))

    # --- from generation to generation ---

    def _digest(self, generation, step):
        ranks = self._generations[generation].steps.get(step, {}) if generation in self._generations else {}
        return next((line["digest"] for line in ranks.values() if "digest" in line), None)

    def _lineage(self):
        """Which generation's commit of each step counts. One that repeats a step replaces all that followed it."""
        effective = {}
        for number in sorted(self._generations):
            generation = self._generations[number]
            if not generation.entered:
                continue
            start = next(iter(generation.entered.values()))
            step, committed_in = start["from_step"], start["committed_in"]
            if step > 0 and effective.get(step) != committed_in:
                who = f"generation {number} continued from step {step} of generation {committed_in}"
                if step in effective:
                    self.wrong(f"{who}, but generation {effective[step]} had committed that step again")
                else:
                    self.wrong(f"{who}, which no rank had committed")
            elif step > 0 and self._digest(committed_in, step) not in (None, start["digest"]):
                self.wrong(f"generation {number} continued from another state than generation {committed_in} had after "
                           f"step {step}")
            if not generation.steps:
                continue
            first = min(generation.steps)
            for later in [known for known in effective if known >= first]:
                self.superseded += 1
                del effective[later]
            for committed in generation.steps:
                effective[committed] = number
        return effective

    def _complete(self, finished):
        last = self.what["steps"] if finished else max(self.effective, default=0)
        for step in range(1, last + 1):
            if step not in self.effective:
                self.wrong(f"step {step} was committed by no rank")
                continue
            ranks = self._generations[self.effective[step]].steps[step]
            seen = len({index for line in ranks.values() for index, _ in line["batches"]})
            self.seen += seen
            self.unseen += self._batches.per_step - seen
        for step in self.effective:
            if step > self.what["steps"]:
                self.wrong(f"step {step} was committed, but the job has only {self.what['steps']}")

    def digests(self):
        """After each step that counts, where it was written down."""
        return {step: self._digest(number, step) for step, number in sorted(self.effective.items())}

    def _same_bits_whenever_done_again(self):
        for number in sorted(self._generations):
            for step in sorted(self._generations[number].steps):
                if step in self.effective and self._digest(number, step) != self._digest(self.effective[step], step):
                    self.wrong(f"step {step} has another state in generation {number} than in generation "
                               f"{self.effective[step]}, which repeated it")

    def _compare(self, reference):
        for key in SAME:
            if key not in ("job", "data") and self.what[key] != reference.what[key]:
                self.wrong(f"the reference is of another job: {key} is {reference.what[key]!r} there and "
                           f"{self.what[key]!r} here")
                return
        if not self.what["deterministic"]:
            self.wrong("only a --deterministic job has the bits of a reference")
            return
        expected = reference.digests()
        if None in expected.values() or None in self.digests().values():
            self.wrong("there are steps without a digest, so the bits cannot be compared with the reference")
            return
        for step, digest in self.digests().items():
            if step not in expected:
                self.wrong(f"the reference ends before step {step}")
            elif digest != expected[step]:
                self.wrong(f"after step {step} the state is not that of the reference: {digest} here (generation "
                           f"{self.effective[step]}), {expected[step]} there")
            else:
                continue
            return  # all later ones differ as well

    def summary(self):
        last = max(self.effective, default=0)
        text = (f"{last} of {self.what['steps']} steps in {len(self._generations)} "
                f"generation{'s' * (len(self._generations) != 1)}: "
                f"{self.seen} micro-batches accounted for, {self.unseen} computed by ranks that were gone before they "
                f"could say so, {self.superseded} step{'s' * (self.superseded != 1)} done again; ")
        if self.skipped:
            text += f"{len(self.skipped)} damaged record{'s' * (len(self.skipped) != 1)} skipped; "
        return text + (f"{len(self.violations)} violation{'s' * (len(self.violations) != 1)}" if self.violations
                       else "exact")


def check(folder, reference=None, finished=True):
    """The Check of a folder of ledgers. Unreadable: it, or the reference, is none."""
    other = Check(read(reference)) if reference is not None else None
    result = Check(read(folder), other, finished)
    for violation in other.violations if other else []:
        result.wrong(f"the reference: {violation}")
    return result


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--reference", metavar="FOLDER")
    parser.add_argument("--unfinished", action="store_true")
    options = parser.parse_args(arguments)
    try:
        result = check(options.folder, options.reference, not options.unfinished)
    except (Unreadable, OSError) as error:
        print(f"check_ledger: {error}", file=sys.stderr)
        return 2
    for sentence in result.violations[:MOST_SENTENCES]:
        print(sentence)
    if len(result.violations) > MOST_SENTENCES:
        print(f"and {len(result.violations) - MOST_SENTENCES} more")
    print(result.summary())
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
