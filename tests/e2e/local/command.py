"""The `lockstep` command as a user types it, and all processes that it starts."""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import uuid

import e2e

LOCKSTEP = e2e.BUILD / "bin" / "lockstep"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # from linux/prctl.h: the signal to a process whose parent has ended, as tests do that are killed


def listening(pids):
    """Ports that these processes listen on."""
    inodes = set()
    for pid in pids:
        try:
            inodes |= {os.readlink(fd.path) for fd in os.scandir(f"/proc/{pid}/fd")}
        except OSError:
            continue  # it ended meanwhile
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def anybody_listens(port):
    return any(line.split()[3] == "0A" and int(line.split()[1].rsplit(":", 1)[1], 16) == port
               for table in ("/proc/net/tcp", "/proc/net/tcp6")
               for line in pathlib.Path(table).read_text().splitlines()[1:])


def marked(word):
    """Pids of the processes that have this word in their environment and are not zombies."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended meanwhile
    return found


class Command:
    """A running `lockstep`. A word in its environment finds every process of it, also those that lost their parents."""

    def __init__(self, folder, *words, env=None, stdin=None, program=LOCKSTEP):
        self.folder = folder
        self.words = [str(word) for word in words]
        self.mark = f"E2E_RUN={uuid.uuid4().hex}"
        variables = {name: value
                     for name, value in os.environ.items() if name not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")}
        name, value = self.mark.split("=")
        variables.update({"HOME": str(folder), name: value, **(env or {})})
        self._out, self._err = folder / "stdout", folder / "stderr"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen([str(program), *self.words], cwd=folder, env=variables, stdout=out,
                                            stderr=err, stdin=stdin or subprocess.DEVNULL, start_new_session=True,
                                            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    def wait(self, deadline=60):
        """The exit status (negative: a signal)."""
        try:
            return self.process.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self}: no end after {deadline} s") from None

    def until(self, text, deadline=60):
        """Waits until something was printed; a command that ended without it has failed."""
        def look():
            ended = self.process.poll() is not None  # before the look, so that its last words count
            return text in self.out or (ended and "ended")

        if e2e.wait_for(f"{text!r} from {self}", look, deadline, every=0.02) == "ended":
            raise AssertionError(f"{self} ended with {self.process.returncode} and never printed {text!r}")

    def processes(self):
        """Pids that carry the word and are not zombies; `lockstep` itself is among them while it runs."""
        return marked(self.mark)

    def rank(self, number):
        """Pids of the processes that are this rank: the worker, and what it started."""
        return [pid for pid in self.processes() if f"RANK={number}".encode() in environment(pid)]

    def worker(self, number):
        """The process that the agent started for this rank."""
        ranks = self.rank(number)
        return next((pid for pid in ranks if parent(pid) not in ranks), None)

    def nothing_is_left(self, ports=(), deadline=5):
        e2e.wait_for(f"no process of {self}", lambda: not self.processes(), deadline, every=0.02)
        held = [port for port in ports if anybody_listens(port)]
        assert not held, f"somebody still listens on {held}"

    def end(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def __repr__(self):
        return f"lockstep {' '.join(self.words)}\n--- stdout\n{self.out[-6000:]}\n--- stderr\n{self.err[-3000:]}\n---\n"


def environment(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def parent(pid):
    try:
        return int(re.search(r"^PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])
    except OSError:
        return None
