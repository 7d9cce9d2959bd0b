"""torchrun and torchft under the benchmark, with the settings that make them recover fastest here."""

import os
import pathlib
import signal
import subprocess
import sys

from followed import Followed, alive, ends_with_us, kill

HERE = pathlib.Path(__file__).resolve().parent


def environment(**more):
    # One thread each: the ranks share the machine's cores, as ours do.
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **more}


def end(process, patience=20):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Torchrun(Followed):
    """One torchrun, which restarts all ranks when one dies; they continue from the newest checkpoint, written every ten
    steps.

    Out of the box a restart over gloo fails (pytorch#135712); TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 mends that. The
    default is also to poll the processes every 100 ms.
    """

    name, restarts_all = "torchrun", True

    def __init__(self, folder, ranks, layers, width, python):
        super().__init__(folder, ranks)
        self._command = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
                         "--max-restarts=100000", "--monitor-interval=0.1", HERE / "torchrun_peer.py",
                         self.folder / "ledger", self.folder / "checkpoint", str(layers), str(width)]
        self._process = None

    def __enter__(self):
        with (self.folder / "output").open("wb") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL,
                                             env=environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
                                             start_new_session=True, preexec_fn=ends_with_us(signal.SIGTERM))
        return self

    def __exit__(self, *_):
        end(self._process)
        for pid in self.ledgers.commits:  # processes that torchrun did not end
            if alive(pid):
                kill(pid)

    def ended(self):
        status = self._process.poll()
        return None if status is None else f"torchrun ended with {status}"

    def kill(self, pid):
        return kill(pid)


class Torchft(Followed):
    """A lighthouse and a replica group of one process per rank; a dead one is restarted at once, as a launcher would.

    By default the lighthouse calls a replica dead after 5 s without a heartbeat and waits up to 60 s for stragglers.
    """

    name, restarts_all = "torchft", False

    def __init__(self, folder, ranks, layers, width, python, heartbeat_ms=1000, join_ms=2000):
        super().__init__(folder, ranks)
        self._python, self._arguments = python, [str(layers), str(width)]
        self._lighthouse_command = [python, HERE / "torchft_lighthouse.py", str(heartbeat_ms), str(join_ms)]
        self._lighthouse, self._address, self._replicas = None, "", {}

    def __enter__(self):
        with (self.folder / "output").open("ab") as out:
            self._lighthouse = subprocess.Popen(self._lighthouse_command, stdout=subprocess.PIPE, stderr=out,
                                                stdin=subprocess.DEVNULL, env=environment(), text=True,
                                                preexec_fn=ends_with_us(signal.SIGKILL))
        self._address = self._lighthouse.stdout.readline().strip()
        for number in range(self.ranks):
            self._start(number)
        return self

    def _start(self, number):
        with (self.folder / "output").open("ab") as out:
            self._replicas[number] = subprocess.Popen(
                [self._python, HERE / "torchft_peer.py", self.folder / "ledger", str(number), *self._arguments],
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=environment(TORCHFT_LIGHTHOUSE=self._address), preexec_fn=ends_with_us(signal.SIGKILL))

    def __exit__(self, *_):
        for process in [*self._replicas.values(), self._lighthouse]:
            process.kill()
            process.wait()

    def look_after(self):
        for number, process in self._replicas.items():
            if process.poll() is not None:
                self._start(number)

    def ended(self):
        return None if self._lighthouse.poll() is None else "the lighthouse ended"

    def kill(self, pid):
        return kill(pid)


def python_with(script):
    """The Python that a script prints, which installs it if it is missing."""
    print(f"{script.name} ...", file=sys.stderr, flush=True)
    return subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True, timeout=2400).stdout.strip()
