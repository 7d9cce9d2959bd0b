"""`--transport=nccl` over the fake NCCL and GPU of tests/trainer/comm/fake_nccl.h: a lost rank costs time alone."""

import json
import pathlib
import subprocess
import sys

import e2e
import jobs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ledger"))
import check_ledger  # noqa: E402

FAKE = e2e.BUILD / "tests/bin/libfakenccl.so"
OVER_FAKE = ["--transport=nccl", f"--nccl-library={FAKE}", f"--cudart-library={FAKE}"]
STEPS, KILL_AT = 150, 40
# The trainer with kernels that run on the host, on a GPU that is as fake.
ON_FAKE_GPU = e2e.BUILD / "tests/bin/lockstep-trainer-cuda"
GPU = ["--backend=cuda", f"--cublaslt-library={e2e.BUILD}/tests/bin/libfakecublaslt.so",
       f"--cudnn-library={e2e.BUILD}/tests/bin/libfakecudnn.so"]


def model(steps):
    return ["--model=mlp", "--width=64", "--layers=2", "--batch-size=24", "--micro-batch-size=2", f"--steps={steps}",
            "--seed=7", "--deterministic", "--log-every=50"]


def job(name, steps, *flags, step_seconds=0.03):
    return jobs.on_this_machine(name, "lockstep-trainer", *model(steps), jobs.pace(step_seconds), *OVER_FAKE, *flags,
                                nodes=3, checkpoint={"path": "/checkpoints"})


def undisturbed(folder, steps, trainer=e2e.BUILD / "bin/lockstep-trainer", flags=()):
    """The ledger and the digest of the same training in one process."""
    command = [trainer, *model(steps), *flags, f"--ledger={folder}"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout
    return e2e.trainer_result(out)["digest"]


def test_over_nccl_a_lost_rank_costs_no_step_and_no_bit(run, tmp_path):
    ledger = tmp_path / "ledger"
    command = run(job("nccl", STEPS, f"--ledger={ledger}"), "--kill-worker", f"1@{KILL_AT}")
    assert command.wait(180) == 0, command
    command.nothing_is_left()
    log = (command.folder / "run/logs/rank-0.log").read_text()
    assert "3 ranks, generation 1, NCCL to rank 1" in log, log
    assert "regrouped into generation 2 at step" in log, "rank 0 began anew"
    digest = undisturbed(tmp_path / "undisturbed", STEPS)
    result = check_ledger.check(ledger, tmp_path / "undisturbed")
    print(result.summary())
    assert result.violations == []
    assert e2e.trainer_result(log)["digest"] == digest


def test_gradients_summed_on_gpus_survive_a_lost_rank(run, tmp_path):
    """The survivors wait in a sum of the GPU's memory that the dead rank does not enter."""
    steps, kill_at, ledger = 40, 8, tmp_path / "ledger"
    given = job("gpus", steps, *GPU, f"--ledger={ledger}", step_seconds=0.1)
    given["spec"]["command"][0] = str(ON_FAKE_GPU)
    command = run(given, "--kill-worker", f"1@{kill_at}")
    assert command.wait(180) == 0, command
    command.nothing_is_left()
    log = (command.folder / "run/logs/rank-0.log").read_text()
    assert "regrouped into generation 2 at step" in log, "rank 0 began anew"
    digest = undisturbed(tmp_path / "undisturbed", steps, ON_FAKE_GPU, [*GPU, f"--cudart-library={FAKE}"])
    result = check_ledger.check(ledger, tmp_path / "undisturbed")
    print(result.summary())
    assert result.violations == []
    assert e2e.trainer_result(log)["digest"] == digest


def test_a_gang_over_nccl_under_chaos_keeps_its_promises(run, tmp_path):
    command = run(job("chaos", STEPS), "--chaos", "3:4", "--json")
    assert command.wait(240) == 0, command
    command.nothing_is_left()
    chaos = json.loads(command.out.splitlines()[-1])["result"]["chaos"]
    assert chaos["good"] and chaos["made"] == 4 and chaos["violations"] == []
    log = (command.folder / "run/logs/rank-0.log").read_text()
    assert e2e.trainer_result(log)["digest"] == undisturbed(tmp_path / "undisturbed", STEPS)


def test_an_abort_that_hangs_costs_the_process_and_nothing_else(run, tmp_path):
    """Every abort hangs: a survivor cannot keep its memory, so all ranks restart from the newest checkpoint."""
    given = job("hung", STEPS, "--checkpoint-every-steps=20")
    given["spec"]["env"] = [{"name": "FAKE_NCCL_HANG_ABORTS", "value": "1"}]
    command = run(given, "--kill-worker", f"1@{KILL_AT}")
    assert command.wait(240) == 0, command
    command.nothing_is_left()
    log = (command.folder / "run/logs/rank-0.log").read_text()
    assert "the communicator could not be ended" in log and "\nrestored step-" in log, log
    assert e2e.trainer_result(log)["digest"] == undisturbed(tmp_path / "undisturbed", STEPS)
