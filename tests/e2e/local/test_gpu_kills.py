"""A rank with `--backend=cuda` that is killed within a phase of a step: no sample is lost, and no bit of the weights.

The fakes of NVIDIA's libraries end the process by SIGKILL in a named kernel or in a sum between GPUs. A library in
front of the C library does so before a checkpoint has its manifest. So each death is within its phase, whatever the
machine does.
"""

import pathlib
import subprocess
import sys

import e2e
import jobs
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ledger"))
import check_ledger  # noqa: E402

BIN = e2e.BUILD / "tests/bin"
TRAINER = BIN / "lockstep-trainer-cuda"
STEPS = 16
GPU = ["--model=mlp", "--width=64", "--layers=2", "--batch-size=24", "--micro-batch-size=2", f"--steps={STEPS}",
       "--seed=7", "--deterministic", "--log-every=1", "--backend=cuda", f"--cudart-library={BIN}/libfakenccl.so",
       f"--cublaslt-library={BIN}/libfakecublaslt.so", f"--cudnn-library={BIN}/libfakecudnn.so"]
NCCL = ["--transport=nccl", f"--nccl-library={BIN}/libfakenccl.so"]

# When the second checkpoint is complete but for its manifest.
NO_MANIFEST = f"LD_PRELOAD={BIN}/libhangingstorage.so LOCKSTEP_KILLS=manifest.json:2"
# The number of ranks, the rank that dies, what its environment has for it, and its last words.
PHASES = {
    "backward": (3, 1, "FAKE_CUDA_KILL=classifier_backward:30", "libfakecuda: killed in classifier_backward"),
    "all-reduce": (3, 1, "FAKE_NCCL_KILL=1000:9", "libfakecuda: killed in an all-reduce of "),
    "optimizer": (3, 1, "FAKE_CUDA_KILL=adamw_kernel:45", "libfakecuda: killed in adamw_kernel"),
    "checkpoint": (3, 0, NO_MANIFEST, "hanging_storage: killed before "),
    # Nobody else holds the state: its successor starts from the first checkpoint.
    "checkpoint-alone": (1, 0, NO_MANIFEST, "hanging_storage: killed before "),
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The ledger and the digest of the same training in one process."""
    ledger = tmp_path_factory.mktemp("undisturbed") / "ledger"
    ended = subprocess.run([TRAINER, *GPU, f"--ledger={ledger}"], check=True, stdout=subprocess.PIPE, text=True,
                           timeout=120)
    return ledger, e2e.trainer_result(ended.stdout)["digest"]


def job(name, ranks, victim, environment, mark, *flags):
    """The first process of rank `victim`, which makes the folder `mark`, has these variables as well."""
    script = f'[ "$RANK" != {victim} ] || ! mkdir {mark} 2>&- || export {environment}; exec "$0" "$@"'
    return jobs.on_this_machine(
        name, "/bin/sh", "-c", script, TRAINER, *GPU, *(NCCL if ranks > 1 else []), jobs.pace(0.05),
        "--checkpoint-every-steps=4", *flags, nodes=ranks, checkpoint={"path": "/checkpoints"})


@pytest.mark.parametrize("phase", PHASES)
def test_a_rank_that_is_killed_in_a_phase_costs_no_sample_and_no_bit(run, tmp_path, undisturbed, phase):
    ranks, victim, environment, last_words = PHASES[phase]
    reference, digest = undisturbed
    ledger = tmp_path / "ledger"
    command = run(job(phase, ranks, victim, environment, tmp_path / "started", f"--ledger={ledger}"))
    assert command.wait(180) == 0, command
    command.nothing_is_left()
    log = (command.folder / f"run/logs/rank-{victim}.log").read_text()
    assert log.count(last_words) == 1, log
    assert f"rank {victim} was ended by SIGKILL" in command.out, command
    leading = (command.folder / "run/logs/rank-0.log").read_text()
    result = check_ledger.check(ledger, reference)
    print(result.summary())
    assert result.violations == []
    assert e2e.trainer_result(leading)["digest"] == digest
