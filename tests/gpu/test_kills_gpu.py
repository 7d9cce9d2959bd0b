"""Two ranks on one GPU, of which one is killed within a phase of a step. No sample and no bit is lost, and the other
rank goes on within a second.

kill_in_phase.cpp has the phases. The survivor does not wait for the restart: the job may shrink to one rank.
"""

import math
import re
import subprocess
import sys

import gpu
import pytest
import yaml

sys.path[:0] = [str(gpu.e2e.ROOT / folder) for folder in ("tests/e2e/local", "tests/bench/recovery", "tests/ledger")]
import check_ledger  # noqa: E402
import command  # noqa: E402
import figures  # noqa: E402
import jobs  # noqa: E402
from ledgers import Ledgers  # noqa: E402

pytestmark = [gpu.needed, gpu.cudart, gpu.cublaslt, gpu.cudnn, gpu.nccl]

BOUND_MS = 1000  # of a recovery on a GPU; the fakes compute on the CPU that the tests share
STEPS = 40
MODEL = ["--model=mlp", "--width=64", "--layers=2", "--batch-size=24", "--micro-batch-size=2", f"--steps={STEPS}",
         "--seed=7", "--deterministic", "--log-every=1", "--backend=cuda"]
# Which rank dies, and when it comes to the phase for which time: in the first third of the steps.
PHASES = {"backward": (1, 66), "all-reduce": (1, 9), "optimizer": (1, 45), "checkpoint": (0, 2)}
# Both ranks need room on the GPU for the kernels of NCCL, which wait for each other.
ON_ONE_GPU = "export NCCL_MAX_CTAS=4 CUDA_MODULE_LOADING=EAGER"


def job(name, victim, kill, mark, *flags):
    """The first process of rank `victim`, which makes the folder `mark`, is killed."""
    script = (f'{ON_ONE_GPU}; [ "$RANK" != {victim} ] || ! mkdir {mark} 2>&- || export LOCKSTEP_KILL_IN={kill}; '
              'exec "$0" "$@"')
    return jobs.on_this_machine(
        name, "/bin/sh", "-c", script, gpu.program("lockstep-trainer-killed"), *MODEL,
        *gpu.flags("cudart", "cublaslt", "cudnn", "nccl"), "--transport=nccl", "--min-step-seconds=0.1",
        "--checkpoint-every-steps=4", *flags, nodes=2, elastic={"minNodes": 1, "stabilizationSeconds": 20},
        restart={"backoff": {"initialSeconds": 0, "maxSeconds": 0}}, checkpoint={"path": "/checkpoints"})


def recovery(log, folder):
    """Of the kill that the log tells, from the ledgers: figures.Recovery."""
    pid, killed_ns = map(int, re.search(r"kill_in_phase: process (\d+) ends in \S+ at (\d+) ns", log).groups())
    ledgers = Ledgers(folder)
    ledgers.read()
    generation = max(commit.generation for commit in ledgers.commits[pid])
    survivors = [commits for other, commits in ledgers.commits.items()
                 if other != pid and any(commit.generation == generation for commit in commits)]
    return figures.recovery(killed_ns, generation, survivors)


@pytest.fixture
def run(tmp_path):
    """`lockstep run` of a job; whatever becomes of the test, nothing runs after it."""
    started = []

    def start(document):
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        started.append(command.Command(tmp_path, "run", path, "--output", "run"))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The ledger and the digest of the same training in one process."""
    ledger = tmp_path_factory.mktemp("undisturbed") / "ledger"
    words = [gpu.program("lockstep-trainer-killed"), *MODEL, *gpu.flags("cudart", "cublaslt", "cudnn"),
             f"--ledger={ledger}"]
    ended = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return ledger, gpu.e2e.trainer_result(ended.stdout)["digest"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_rank_that_is_killed_on_the_gpu_costs_no_sample_and_no_bit(run, tmp_path, undisturbed, phase):
    victim, time = PHASES[phase]
    reference, digest = undisturbed
    ledger = tmp_path / "ledger"
    ended = run(job(phase, victim, f"{phase}:{time}", tmp_path / "started", f"--ledger={ledger}"))
    assert ended.wait(300) == 0, ended
    ended.nothing_is_left()
    logs = [path.read_text(errors="replace") for path in sorted((tmp_path / "run/logs").glob("rank-*.log"))]
    killed = [log for log in logs if "kill_in_phase: " in log]
    assert len(killed) == 1 and killed[0].count("kill_in_phase: ") == 1, ended
    result = check_ledger.check(ledger, reference)
    assert result.violations == []
    assert {found["digest"] for found in map(gpu.e2e.trainer_result, logs) if found} == {digest}
    measured = recovery(killed[0], ledger)
    print(f"{phase}: {measured.milliseconds:.0f} ms to the survivor's next step (bound on a GPU: {BOUND_MS} ms), "
          f"{measured.steps_lost} steps lost; {result.summary()}")
    assert measured.milliseconds < (math.inf if gpu.FAKE else BOUND_MS) and measured.steps_lost == 0
