"""Programs that know nothing of Lockstep: they read torchrun's variables, and survive the loss of a worker."""

import json
import os
import signal

import e2e
import jobs

PROGRAMS = e2e.ROOT / "tests/e2e/programs"


def program(name, *command, nodes):
    return jobs.on_this_machine(name, *command, nodes=nodes, rendezvous={"kind": "Torch"})


def rank_logs(command, ranks):
    return [(command.folder / f"run/logs/rank-{rank}.log").read_text() for rank in range(ranks)]


def test_a_program_written_for_torchrun_runs_unchanged_and_survives_a_kill(run, tmp_path):
    e2e.run("gcc", "-O2", "-o", tmp_path / "torchrun-style", PROGRAMS / "torchrun_style.c")
    command = run(program("c-program", tmp_path / "torchrun-style", 40, 25, nodes=3), "--kill-worker", "1@0")
    assert command.wait(60) == 0, command
    assert "c-program succeeded after" in command.out and "with 1 restart" in command.out, command
    attempts = json.loads((command.folder / "run/job.json").read_text())["status"]["attempts"]
    assert [(a["cause"], a.get("firstFailingRank"), a.get("exitCode")) for a in attempts][0] == ("ProcessSignal", 1,
                                                                                                 137)
    for rank, log in enumerate(rank_logs(command, 3)):
        assert log.count(f"rank {rank} of 3 gathered 40 steps\n") == 1, log
    command.nothing_is_left()


def test_pytorch_ddp_goes_on_from_its_own_checkpoint_when_a_worker_dies(run, tmp_path):
    python = e2e.run(e2e.ROOT / "tests/e2e/torch.sh", deadline=840).stdout.strip()
    steps, digests = 600, []
    for killed in (False, True):
        folder = tmp_path / f"checkpoints-{killed}"
        folder.mkdir()
        if killed:
            os.mkfifo(folder / "hold")  # no rank passes the first checkpoint before the kill
        command = run(program("ddp", python, PROGRAMS / "ddp_gloo.py", steps, folder, nodes=2))
        if killed:
            worker = e2e.wait_for("rank 1", lambda: command.worker(1), deadline=60, every=0.01)
            e2e.wait_for("a checkpoint", (folder / "newest.pt").exists, deadline=240, every=0.01)
            os.kill(worker, signal.SIGKILL)
        assert command.wait(240) == 0, command
        logs = rank_logs(command, 2)
        # Both ranks, once each: the program itself has compared the parameters of all ranks before it prints this.
        ends = [line.split()[-1] for log in logs
                for line in log.splitlines() if line.startswith(f"ends at step {steps}")]
        assert len(ends) == 2 and ends[0] == ends[1], logs
        digests.append(ends[0])
        if killed:
            begins = [int(line.split()[3]) for line in logs[0].splitlines() if line.startswith("begins at step")]
            assert len(begins) == 2 and begins[0] == 0 and 0 < begins[1] < steps, begins
            row = next(line for line in command.out.splitlines() if line.startswith("1  ") and "ProcessSignal" in line)
            assert row.split()[2:4] == ["1", "137"], row
            assert "ddp succeeded after" in command.out and "with 1 restart" in command.out, command
            print(f"\n{row}\nDDP went on from step {begins[1]}")
        command.nothing_is_left()
    assert digests[0] == digests[1], "the killed run ended with other parameters than the undisturbed one"


def test_without_a_network_the_maker_of_pytorch_says_so_in_one_sentence(tmp_path):
    nobody = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "NO_PROXY": "127.0.0.1",
              "no_proxy": "127.0.0.1"}
    done = e2e.run(e2e.ROOT / "tests/e2e/torch.sh", check=False, deadline=240,
                   env={"XDG_CACHE_HOME": str(tmp_path), **nobody})
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done
    assert done.stderr.startswith("torch.sh: PyTorch "), done.stderr
    assert "cannot be downloaded (the package index of pip does not answer: is there a network?)" in done.stderr, \
        done.stderr
    assert not list(tmp_path.glob("lockstep/*/complete")), "what is not whole is said to be"
