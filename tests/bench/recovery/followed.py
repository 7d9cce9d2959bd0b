"""Shared by the systems under the benchmark: processes that it follows by their ledgers, and kills by pid."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import time

from ledgers import Ledgers

LOOK_EVERY = 0.02  # interval of reading the ledgers, in seconds; no figure depends on it
PR_SET_PDEATHSIG = 1


class GangFailed(Exception):
    pass


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def ends_with_us(number):
    """For preexec_fn: the child gets this signal when the benchmark is killed."""
    return lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def parent(pid):
    return int(re.search(r"^PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def kill(pid):
    """SIGKILL; the time right after."""
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return now_ns()
    finally:
        os.close(pidfd)


class Followed:
    """A gang of `ranks` in a folder of its own. A subclass starts and stops it, and returns its output."""

    def __init__(self, folder, ranks):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.ranks = ranks
        self.ledgers = Ledgers(self.folder / "ledger")

    def ended(self):
        """Why the gang makes no further progress; None while it runs."""
        raise NotImplementedError

    def look_after(self):
        """The part of a user or another system meanwhile."""

    def said(self):
        return (self.folder / "output").read_text(errors="replace")[-3000:]

    def until(self, what, look, deadline):
        """Reads the ledgers until `look` returns something true, and returns it; None after `deadline` seconds."""
        end = time.monotonic() + deadline
        while True:
            self.look_after()
            self.ledgers.read()
            found = look()
            if found:
                return found
            why = self.ended()
            if why:
                raise GangFailed(f"{why} while waiting for {what}:\n{self.said()}")
            if time.monotonic() > end:
                return None
            time.sleep(LOOK_EVERY)  # the condition is in other processes' files, which send no event

    def whole(self, steps, deadline=60):
        """Ranks by pid once the gang has all of them and each has made `steps` steps in the newest generation."""
        ranks = self.until("the whole gang", lambda: self.ledgers.whole(self.ranks, steps, alive), deadline)
        if ranks is None:
            raise GangFailed(f"the gang was not whole within {deadline} s:\n{self.said()}")
        return ranks
