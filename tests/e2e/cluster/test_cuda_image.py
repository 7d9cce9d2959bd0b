"""The CUDA variant of the trainer's image on a cluster: stand-ins for NVIDIA's libraries, a fake GPU in each pod."""

import os
import signal

import pytest

import e2e
import jobs

IMAGE = "docker.io/lockstep/trainer:fakes-cuda"
STEPS = 120
MODEL = ["--model=mlp", f"--steps={STEPS}", "--width=32", "--layers=2", "--batch-size=16", "--micro-batch-size=4",
         "--seed=7", "--log-every=5", "--deterministic", "--backend=cuda"]


@pytest.fixture(scope="module")
def digest():
    """Of the same training in one process."""
    libraries = [f"--{name}-library={e2e.BUILD}/tests/bin/libfake{fake}.so"
                 for name, fake in (("cudart", "cuda"), ("cublaslt", "cublaslt"), ("cudnn", "cudnn"))]
    done = e2e.run(e2e.BUILD / "tests/bin/lockstep-trainer-cuda", *MODEL, *libraries, deadline=120)
    return e2e.trainer_result(done.stdout)["digest"]


# The fake of NCCL reaches the processes of one pod alone.
@pytest.mark.parametrize("transport, nodes, procs", [("ring", 2, 1), ("nccl", 1, 2)])
def test_the_cuda_image_on_stand_ins_loses_no_bit_to_a_killed_process(cluster, job, digest, transport, nodes, procs):
    name = f"cuda-{transport}"
    flags = ["--transport=nccl"] if transport == "nccl" else []
    job(jobs.trainer(name, *MODEL, *flags, jobs.pace(0.1), nodes=nodes, procs=procs, image=IMAGE))
    cluster.wait_for(name, "steps are committed", lambda: cluster.logged_step(name) >= 10, deadline=120, every=0.3)
    pod = cluster.by_slot(name)[nodes - 1]["metadata"]["name"]
    (victim,) = e2e.processes("lockstep-trainer", LOCKSTEP_POD_NAME=pod, LOCAL_RANK=str(procs - 1))
    os.kill(victim, signal.SIGKILL)
    found = cluster.wait_condition(name, "Succeeded", deadline=120)
    assert [attempt["cause"] for attempt in found["status"]["attempts"]] == ["ProcessSignal", "Completed"]
    log = cluster.kubectl("logs", cluster.rank_0(name), "-c", "trainer").stdout
    assert "cuda/float32/a fake of a GPU/" in log and "regrouped into generation 2 at step" in log, log
    assert cluster.trainer_result(name)["digest"] == digest
