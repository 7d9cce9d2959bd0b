"""Starting, knowing and ending the processes of a cluster.

A record has a process's number and its start time, so a number that the kernel gave to another process is never
signalled.
"""

import os
import pathlib
import signal
import subprocess
import time

from . import cgroups
from .host import Fatal
from .layout import write_whole

# Nearly all of what runs is written in Go; it collects garbage less often here, because these clusters live for minutes
# and share few cores.
ENVIRONMENT = {"GOGC": "400", **os.environ}


def start_time(pid):
    """The kernel's start time of a living process, None if it has ended or is a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def lives(identity):
    """Whether the process "PID:START_TIME" runs."""
    pid, begun = identity.split(":")
    return str(start_time(int(pid))) == begun


def spawn(cluster, name, argv, cgroup, log, urgent=False):
    """Starts a daemon that outlives this process, in the cgroup (None: the same), its output appended to the log;
    returns its pid."""

    def enter():
        if cgroup:
            (cgroup / "cgroup.procs").write_text("0")
        if urgent:  # lost heartbeats on a machine that also compiles would look like dead nodes
            try:
                os.setpriority(os.PRIO_PROCESS, 0, -5)
            except OSError:
                pass

    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        started = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            preexec_fn=enter,
            env=ENVIRONMENT,
        )
    cluster.processes.mkdir(exist_ok=True)
    write_whole(cluster.processes / name, f"{started.pid} {start_time(started.pid)}\n")
    started.returncode = 0  # another process reaps it
    return started.pid


def recorded(cluster, name):
    """The number of the named process if it lives, else None."""
    try:
        pid, begun = (cluster.processes / name).read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if str(start_time(int(pid))) == begun else None


def names(cluster):
    return sorted(entry.name for entry in cluster.processes.iterdir()) if cluster.processes.is_dir() else []


def forget(cluster, name):
    (cluster.processes / name).unlink(missing_ok=True)


def end(cluster, name):
    """Ends the named process with SIGKILL, if it lives and is not this one. Its record stays, as that of a dead one."""
    pid = recorded(cluster, name)
    if pid and pid != os.getpid():
        _signal(pid)


def kill(cluster, name):
    """Ends the named process with SIGKILL, if it lives and is not this one, and removes its record."""
    end(cluster, name)
    forget(cluster, name)


def kill_members(cluster, below="", seconds=20):
    """Ends every process in that part of the cluster's cgroups and returns when all have ended, or after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        _reap()
        living = {pid for pid in cgroups.members(cluster, below) if start_time(pid) is not None}
        if not living or time.monotonic() > end:
            return living
        for pid in living:
            _signal(pid)
        time.sleep(0.02)


def _signal(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _reap():
    """Reaps children that have ended, so that they do not stay as zombies."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def require_alive_or_fatal(cluster, name):
    """For conditions of wait_until: when the process ended by itself, waiting ends with the end of its log."""
    if recorded(cluster, name) is None:
        raise Fatal(f"{name} ended by itself. The end of its log:\n{tail(log_of(cluster, name))}")


def log_of(cluster, name):
    """Where the component's output is: 'etcd', or 'n1/kubelet' for a daemon of a node."""
    if "/" in name:
        node, component = name.split("/", 1)
        return cluster.node_folder(node) / "var" / "log" / f"{component}.log"
    return cluster.logs / f"{name}.log"


def tail(path, lines=12):
    try:
        return "\n".join("    " + line for line in path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "    (no log)"
