"""Two ranks on one GPU over the real NCCL: the bits, and what becomes of a rank whose peer is killed, in each phase.
README.md says how."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import gpu
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402

TRAINER = e2e.BUILD / "bin/lockstep-trainer"
MODEL = ["--model=mlp", "--width=64", "--layers=2", "--batch-size=24", "--micro-batch-size=2", "--seed=7",
         "--deterministic", "--log-every=1"]
PEER_WENT_AWAY = 80
# Processes without an agent have 60 s to find each other and 20 s to link; later a rank that is gone is seen at once,
# and an abort has 2 s.
WITHIN = {"linking": 100, "first steps": 15, "training": 15}


pytestmark = [gpu.needed, gpu.cudart, gpu.nccl]


def libraries():
    if gpu.FAKE:
        return [f"--{name}-library={e2e.BUILD / 'tests/bin/libfakenccl.so'}" for name in ("nccl", "cudart")]
    given = {"nccl": os.environ.get("LOCKSTEP_NCCL_LIBRARY"), "cudart": os.environ.get("LOCKSTEP_CUDART_LIBRARY")}
    return [f"--{name}-library={path}" for name, path in given.items() if path]


class Rank:
    """A process that is one rank of two, with a host of its own in NCCL's eyes."""

    def __init__(self, folder, number, port, *flags):
        self.out = folder / f"rank-{number}.out"
        variables = {"RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"host-of-rank-{number}",
                     "NCCL_SOCKET_IFNAME": "lo", "NCCL_MAX_CTAS": "4", "NCCL_RAS_ENABLE": "0",
                     "CUDA_MODULE_LOADING": "EAGER"}
        with self.out.open("wb") as out:
            self.process = subprocess.Popen([TRAINER, *MODEL, "--transport=nccl", *libraries(), *flags],
                                            env={**os.environ, **variables}, stdout=out, stderr=subprocess.STDOUT)
        e2e.ends_with_us(self.process)

    def text(self):
        return self.out.read_text(errors="replace")

    def wait(self, deadline):
        return self.process.wait(timeout=deadline)


@pytest.fixture
def pair(tmp_path):
    """Starts the two ranks; whatever becomes of the test, neither runs after it."""
    ranks = []

    def start(*flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks.extend(Rank(tmp_path, number, port, *flags) for number in range(2))
        return ranks

    yield start
    for rank in ranks:
        rank.process.kill()
        rank.process.wait()


def test_two_ranks_over_nccl_have_the_bits_of_one_process(pair):
    ranks = pair("--steps=20")
    assert [rank.wait(180) for rank in ranks] == [0, 0], [rank.text() for rank in ranks]
    alone = subprocess.run([TRAINER, *MODEL, "--steps=20"], check=True, stdout=subprocess.PIPE, text=True,
                           timeout=120).stdout
    assert "NCCL to rank 1" in ranks[0].text()
    assert e2e.trainer_result(ranks[0].text())["digest"] == e2e.trainer_result(alone)["digest"]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("phase", list(WITHIN))
def test_a_rank_whose_peer_is_killed_ends_and_says_who_is_gone(pair, phase, victim):
    ranks = pair("--steps=100000", "--min-step-seconds=0.01")
    if phase == "linking":
        time.sleep(0.3)  # somewhere between two processes that have just begun and two that are linked
    else:
        said = "step 1/" if phase == "first steps" else "step 50/"
        e2e.wait_for(said, lambda: said in ranks[0].text(), deadline=120)
    ranks[victim].process.send_signal(signal.SIGKILL)
    survivor = ranks[1 - victim]
    begun = time.monotonic()
    assert survivor.wait(WITHIN[phase] + 30) == PEER_WENT_AWAY, survivor.text()
    assert time.monotonic() - begun < WITHIN[phase], survivor.text()
    if phase != "linking":
        assert f"lost rank {victim}" in survivor.text(), survivor.text()
