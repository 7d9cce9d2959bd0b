"""A job of lockstep-trainer under `lockstep run`: its processes, their commits, and kills of them."""

import json
import os
import pathlib
import signal
import subprocess

import yaml

from followed import Followed, ends_with_us, kill, parent

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release"))

# Hidden layers and their width for about this many MiB of float32 parameters.
MODELS = {16: (5, 1018), 64: (5, 2044), 1: (3, 340)}

# The distribution of ranks over pods, and the transport of their bytes.
FORMS = {"tcp": "a pod each, TCP", "memory": "a pod each, shared memory", "processes": "one pod, shared memory"}


def job(name, ranks, mebibytes, form, ledger, elastic, steps=1_000_000_000):
    """`form`: of FORMS."""
    layers, width = MODELS[mebibytes]
    pods = form != "processes"
    spec = {
        "image": "lockstep/trainer",
        "command": ["lockstep-trainer", "--model=mlp", f"--layers={layers}", f"--width={width}", "--optimizer=adamw",
                    f"--steps={steps}", "--warmup-steps=10", "--learning-rate=1e-4", f"--batch-size={2 * ranks}",
                    "--micro-batch-size=2", "--threads=1", "--seed=7", "--log-every=1000000", f"--ledger={ledger}",
                    f"--transport={'tcp' if form == 'tcp' else 'auto'}"],
        "nodes": ranks if pods else 1,
        "procsPerNode": 1 if pods else ranks,
        # Any number of failures, and no pause before a restart: the figures show Lockstep's own time.
        "restart": {"maxRestarts": 10000, "backoff": {"initialSeconds": 0, "maxSeconds": 0}},
    }
    if elastic and pods:
        spec["elastic"] = {"minNodes": ranks - 1, "stabilizationSeconds": 1}
    return {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def all_reduce_ms(ranks, form, size):
    """Measures one all-reduce of this many bytes on as many ranks and the same transport."""
    done = subprocess.run([BUILD / "tests/bin/all_reduce_bench", f"--ranks={ranks}",
                           f"--transport={'tcp' if form == 'tcp' else 'shm'}", f"--bytes={size // 4 * 4}"], check=True,
                          capture_output=True, timeout=300)
    return json.loads(done.stdout)["allReduceMs"]


class Gang(Followed):
    """`lockstep run` of one job. A context: none of its processes outlives the block."""

    def __init__(self, folder, ranks, mebibytes, form, elastic=True, steps=1_000_000_000):
        super().__init__(folder, ranks)
        document = job("recovery", ranks, mebibytes, form, self.folder / "ledger", elastic, steps)
        (self.folder / "job.yaml").write_text(yaml.safe_dump(document))
        self._process = None

    def __enter__(self):
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        with (self.folder / "output").open("wb") as out:
            self._process = subprocess.Popen([BUILD / "bin/lockstep", "run", "job.yaml", "--output", "run"],
                                             cwd=self.folder, stdout=out, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
                                             preexec_fn=ends_with_us(signal.SIGTERM))
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the job as Ctrl-C does, which writes job.json; its attempts."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()  # the guard; the session under it then ends all
                self._process.wait()
        try:
            return json.loads((self.folder / "run/job.json").read_text())["status"].get("attempts", [])
        except (OSError, ValueError, KeyError):
            return []

    def wait(self, deadline):
        return self._process.wait(deadline)

    def ended(self):
        status = self._process.poll()
        return None if status is None else f"`lockstep run` ended with {status}"

    def kill(self, pid, whole_pod=False):
        """SIGKILL to a process, or to the agent above it: PID 1 of a pod, with which all of the pod ends. The time
        right after."""
        return kill(parent(pid) if whole_pod else pid)
