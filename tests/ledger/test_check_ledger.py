"""The checker accepts a right ledger, and prints one sentence for each violation of a wrong one.

A trainer with bugs (trainer/core/mutation.h) in gangs that lose workers shows that it can turn red; edited ledgers show
it for violations that no such bug causes."""

import fcntl
import json
import os
import subprocess

import pytest
import yaml

import check_ledger
import e2e
from command import Command

TRAINER = e2e.BUILD / "bin/lockstep-trainer"
MUTATED = e2e.BUILD / "tests/bin/lockstep-trainer-mutated"
MLP = ["--model=mlp", "--seed=5", "--deterministic", "--width=16", "--batch-size=24", "--micro-batch-size=4"]
STEPS = 200
GANG = ["--model=mlp", "--seed=5", "--deterministic", "--width=96", "--layers=3", f"--steps={STEPS}", "--batch-size=48",
        "--micro-batch-size=4"]


def train(folder, *flags):
    """A world of one; returns the folder of its ledger."""
    folder.mkdir()
    subprocess.run([TRAINER, f"--ledger={folder}", *flags], check=True, stdout=subprocess.DEVNULL, timeout=60)
    return folder


@pytest.mark.parametrize("backend", ["cpu", "ref"])
@pytest.mark.parametrize("model",
                         [["mlp", "--batch-size=6", "--micro-batch-size=2"],
                          ["linear-regression", "--batch-size=3000"]], ids=["mlp", "linear-regression"])
def test_a_run_on_generated_data_is_exact(tmp_path, model, backend):
    # 12,000 points of 10,000: the second epoch has another order.
    result = check_ledger.check(train(tmp_path / "ledger", f"--model={model[0]}", *model[1:], f"--backend={backend}",
                                      "--steps=4", "--seed=12345678901234567890"))
    assert result.violations == []
    assert result.seen == 4 * result._batches.per_step and result.unseen == 0


def test_a_run_on_text_is_exact_over_several_epochs_and_files(tmp_path):
    for name, times in (("b", 7), ("a", 9)):
        (tmp_path / name).write_text("".join(f"{name}{i * i} " for i in range(60 * times)))
    ledger = train(tmp_path / "ledger", "--model=char-transformer", f"--data={tmp_path}/b,{tmp_path}/a", "--steps=60",
                   "--layers=1", "--width=16", "--context=24", "--batch-size=12", "--micro-batch-size=3")
    result = check_ledger.check(ledger)
    assert result.violations == []
    assert result._batches._source.count * 2 < 60 * 12, "one epoch only"


# --- bugs in the code ---


class Gate:
    """Holds a gang back until the test has acted, however fast the machine. Rank 0 writes a line for each step into a
    pipe that has room for some thirty."""

    def __init__(self, path):
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, 4096)
        self._seen = b""

    def let_pass(self):
        """Empties the pipe; returns the last step that rank 0 has reported."""
        try:
            while data := os.read(self._pipe, 4096):
                self._seen = (self._seen + data)[-4096:]
        except BlockingIOError:
            pass
        told = self._seen.rpartition(b"\n")[0].rpartition(b"\n")[2]
        return json.loads(told)["step"] if told else 0

    def close(self):
        os.close(self._pipe)


def disturb(folder, mutation):
    """A gang of the mutated trainer under `lockstep run`, two workers of which are killed; returns its ledgers."""
    ledger = folder / "ledger"
    gate = Gate(folder / "steps")
    job = {
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mutated"},
        "spec": {
            "image": "none",
            "command": [str(MUTATED), *GANG, f"--ledger={ledger}", f"--metrics-file={folder}/steps"],
            "env": [{"name": "TRAINER_MUTATION", "value": mutation}],
            "nodes": 3,
        },
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    command = Command(folder, "run", "job.yaml", "--output", "run", "--kill-worker", "1@20", "--kill-worker", "2@120")
    try:
        for rank, step in ((1, 20), (2, 120)):
            e2e.wait_for(f"step {step}", lambda step=step: gate.let_pass() >= step, every=0.01)
            command.until(f"killed rank {rank} ")
        e2e.wait_for("the end", lambda: gate.let_pass() == STEPS, every=0.01)
        assert command.wait() == 0, command
    finally:
        command.end()
        gate.close()
    return ledger


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """The ledger of such a gang, by the name of the mutation; each is run once."""
    made = {}

    def run(mutation):
        if mutation not in made:
            made[mutation] = disturb(tmp_path_factory.mktemp(mutation), mutation)
        return made[mutation]

    return run


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The same training by the shipped trainer, alone."""
    return train(tmp_path_factory.mktemp("reference") / "ledger", *GANG)


def test_a_gang_that_lost_two_workers_is_exact_and_equals_a_run_of_one(disturbed, reference):
    result = check_ledger.check(disturbed("none"), reference)
    assert result.violations == []
    print("\n" + result.summary())
    assert len(result._generations) >= 3
    assert result.seen + result.unseen == STEPS * 12


@pytest.mark.parametrize("mutation, sentence", [
    ("kDropSample", "micro-batch 0 of step 7, applied by rank 0 of generation 1, was not made of its samples"),
    ("kForgetStep", "rank 0 of generation 1, applied step 6 twice"),
    ("kStageTwice", "the state is not that of the reference"),
    ("kTearTransfer", "did not start from the same state"),
])
def test_a_bug_in_the_trainer_is_noticed(disturbed, reference, mutation, sentence):
    result = check_ledger.check(disturbed(mutation), reference)
    assert any(sentence in violation for violation in result.violations), result.violations[:5]


@pytest.mark.parametrize("mutation", ["kStageTwice", "kTearTransfer"])
def test_bugs_of_recovery_do_nothing_without_a_death(tmp_path, mutation, reference):
    ledger = tmp_path / "ledger"
    subprocess.run([MUTATED, *GANG, f"--ledger={ledger}"], check=True, stdout=subprocess.DEVNULL, timeout=60,
                   env={"TRAINER_MUTATION": mutation})
    assert check_ledger.check(ledger, reference).violations == []


# --- ledgers that were edited ---


def lines_of(ledger):
    """By file, its lines as objects."""
    return {path: [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(ledger.glob("*.jsonl"))}


def write(files):
    for path, lines in files.items():
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def synthetic(folder):
    """Two ranks, ten steps: generation 1 commits 1 to 4 (rank 1 dies before it says so of step 4), generation 2 the
    rest."""
    folder.mkdir()
    alone = next(iter(lines_of(train(folder.with_name("alone"), *MLP, "--steps=10")).values()))
    steps = {line["step"]: line for line in alone if line["kind"] == "step"}

    def enter(generation, rank, start, committed_in):
        digest = steps[start]["digest"] if start else alone[1]["digest"]
        return {"kind": "enter", "generation": generation, "rank": rank, "world": 2, "ns": 0, "from_step": start,
                "committed_in": committed_in, "digest": digest}

    def commits(generation, rank, first, last):
        return [{**steps[step], "generation": generation, "rank": rank, "world": 2,
                 "batches": [batch for batch in steps[step]["batches"] if batch[0] % 2 == rank]}
                for step in range(first, last + 1)]

    write({
        folder / "a.jsonl": [alone[0], enter(1, 0, 0, 0), *commits(1, 0, 1, 4), enter(2, 0, 4, 1),
                             *commits(2, 0, 5, 10)],
        folder / "b.jsonl": [alone[0], enter(1, 1, 0, 0), *commits(1, 1, 1, 3)],
        folder / "c.jsonl": [alone[0], enter(2, 1, 4, 1), *commits(2, 1, 5, 10)],
    })
    return folder


def test_skipped_records_are_counted_once_for_all_ranks_and_no_violation(tmp_path):
    files = lines_of(synthetic(tmp_path / "ledger"))
    for lines in files.values():
        lines.insert(2,
                     {"kind": "skipped", "ns": 0, "file": "train-0", "offset": 7,
                      "why": "data 'train-0' at offset 7: damaged"})
    write(files)
    result = check_ledger.check(tmp_path / "ledger")
    assert result.violations == []
    assert "; 1 damaged record skipped; exact" in result.summary()


def test_a_missing_line_of_a_killed_rank_is_counted_and_no_violation(tmp_path):
    result = check_ledger.check(synthetic(tmp_path / "ledger"))
    assert (result.violations, result.seen, result.unseen) == ([], 57, 3)
    assert result.effective == {step: 1 if step <= 4 else 2 for step in range(1, 11)}


def drop(kind, **where):
    def edit(lines):
        lines[:] = [line for line in lines
                    if line["kind"] != kind
                    or any(line[key] != value for key, value in where.items())]
    return edit


def change(kind, values, **where):
    def edit(lines):
        for line in lines:
            if line["kind"] == kind and all(line[key] == value for key, value in where.items()):
                line.update(values)
    return edit


def repeat(step):
    def edit(lines):
        at = next(i for i, line in enumerate(lines) if line["kind"] == "step" and line["step"] == step)
        lines.insert(at, lines[at])
    return edit


def go_back(lines):
    """Rank 1 of generation 2 was there before, and held step 4 of generation 1."""
    lines[1:1] = [{**lines[1], "generation": 1, "from_step": 5, "committed_in": 1}]


@pytest.mark.parametrize("name, edit, sentence", [
    ("c", drop("step", step=7), "c.jsonl, rank 1 of generation 2, skipped from step 6 to step 8"),
    ("c", drop("step", step=7),
     "step 7 was committed by generation 2 without rank [1], and yet the generation continued"),
    ("a", repeat(6), "a.jsonl, rank 0 of generation 2, applied step 6 twice: its state was that after step 6"),
    ("a", change("step", {"batches": []}, step=6),
     "micro-batches 0, 2, 4 of step 6 was applied by no rank of generation 2"),
    ("a", change("step", {"batches": [[1, "00000000"]]}, step=6),
     "micro-batch 1 of step 6 was applied twice by generation 2, by ranks 0 and 1"),
    ("a", change("step", {"batches": [[0, "00000000"]]}, step=4),
     "micro-batch 0 of step 4, applied by rank 0 of generation 1, was not made of its samples"),
    ("a", change("step", {"batches": [[6, "00000000"]]}, step=4),
     "micro-batch 6 of step 4, which rank 0 of generation 1 applied, does not exist"),
    ("a", change("step", {"digest": "0" * 16}, step=6), "after step 6 of generation 2 the ranks held different states"),
    ("c", change("enter", {"digest": "0" * 16}, generation=2),
     "the ranks of generation 2 did not start from the same state"),
    ("a", change("enter", {"from_step": 3}, generation=2),
     "went back to step 3 of generation 1, though it held step 4 of generation 1"),
    ("c", go_back, "went back to step 4 of generation 1, though it held step 5 of generation 1"),
    ("b", change("enter", {"rank": 0}, generation=1), "two processes were rank 0 of generation 1"),
    ("c", change("step", {"generation": 1}, step=9),
     "committed step 9, but it had not entered that generation as that rank"),
    ("a", drop("step", step=10), "without rank"),
])
def test_an_edited_ledger_is_refused_with_a_sentence(tmp_path, name, edit, sentence):
    ledger = synthetic(tmp_path / "ledger")
    files = lines_of(ledger)
    edit(files[ledger / f"{name}.jsonl"])
    write(files)
    result = check_ledger.check(ledger)
    # The last step of a generation may lack a rank, and is then not wholly accounted for.
    if sentence == "without rank":
        assert result.violations == [] and result.unseen == 6
        return
    assert any(sentence in violation for violation in result.violations), result.violations


def test_no_generation_may_continue_from_a_repeated_step(tmp_path):
    ledger = synthetic(tmp_path / "ledger")
    files = lines_of(ledger)
    paths = [ledger / f"{name}.jsonl" for name in "abc"]
    # Generation 3 takes up step 4 of generation 1; generation 2 had continued from step 3 and repeated step 4.
    four = next(line for line in files[paths[0]] if line.get("step") == 4)
    for path, rank in ((paths[0], 0), (paths[2], 1)):
        start = next(i for i, line in enumerate(files[path]) if line["kind"] == "enter" and line["generation"] == 2)
        early = [{**files[path][start], "from_step": 3,
                  "digest": next(line["digest"] for line in files[paths[0]] if line.get("step") == 3)},
                 {**four, "generation": 2, "rank": rank, "batches": []}]
        late = [{**line, "generation": 3} for line in files[path][start:]]
        files[ledger / f"early-{rank}.jsonl"] = [files[path][0], *early]
        files[path][start:] = late
    write(files)
    result = check_ledger.check(ledger)
    assert ("generation 3 continued from step 4 of generation 1, but generation 2 had committed that step again"
            in result.violations)


def test_a_job_that_ended_early_is_incomplete_without_unfinished(tmp_path):
    ledger = train(tmp_path / "ledger", *MLP, "--steps=6")
    files = lines_of(ledger)
    for lines in files.values():
        lines.pop()
    write(files)
    assert check_ledger.check(ledger).violations == ["step 6 was committed by no rank"]
    assert check_ledger.check(ledger, finished=False).violations == []


def test_a_reference_of_another_job_is_refused(tmp_path):
    ledger, other = train(tmp_path / "ledger", *MLP, "--steps=6"), train(tmp_path / "other", *MLP[:-2], "--steps=6",
                                                                         "--batch-size=12")
    assert check_ledger.check(ledger,
                              other).violations == ["the reference is of another job: batch_size is 12 there and 24 "
                                                    "here"]


def test_the_command_ends_with_0_if_exact_1_if_violated_2_without_ledger(tmp_path, capsys):
    ledger = train(tmp_path / "ledger", *MLP, "--steps=6")
    assert check_ledger.main([str(ledger)]) == 0
    assert capsys.readouterr().out == ("6 of 6 steps in 1 generation: 36 micro-batches accounted for, 0 computed by "
                                       "ranks that were gone before they could "
                                       "say so, 0 steps done again; exact\n")
    path = next(ledger.glob("*.jsonl"))
    whole = path.read_text()
    path.write_text(whole.replace('"step":3,', '"step":2,'))
    assert check_ledger.main([str(ledger), "--reference", str(ledger)]) == 1
    assert "applied step 2 twice" in capsys.readouterr().out
    path.write_text(whole[:-5])
    assert check_ledger.main([str(ledger)]) == 2
    assert "its last line is cut off" in capsys.readouterr().err
    assert check_ledger.main([str(tmp_path)]) == 2
