"""Removes everything of a cluster, in any state, and proves it.

It does not trust that `up` completed. It searches the machine for each kind of object by the cluster's slot or name,
removes it, and searches again.
"""

import os
import pathlib
import select
import shutil
import sys
import time
import types

from . import cgroups, network, processes, sysctls
from .host import Problem, succeeds
from .layout import CLAIMS, SLOTS, claims
from .node_config import HERE


def take_down(cluster):
    """Returns a sentence for each removed object; a Problem names those that remain."""
    for name in processes.names(cluster):
        processes.kill(cluster, name)
    if cluster.slot:
        processes.kill_members(cluster)
        network.remove(cluster)
        cgroups.remove(cluster)
    for where in mounts(cluster):
        if not succeeds("umount", where):
            succeeds("umount", "--lazy", where)  # a shell of a user may be inside it
    left = leftovers(cluster)
    if left:
        raise Problem(
            f"Cluster '{cluster.name}' could not be removed whole; left are: {'; '.join(left)}. "
            f"End what holds them, then run 'cluster down --name {cluster.name}' again."
        )
    shutil.rmtree(cluster.folder, ignore_errors=True)
    if cluster.folder.exists():
        raise Problem(f"The folder {cluster.folder} could not be removed.")
    cluster.release()
    if not claims():
        sysctls.restore()
        try:
            CLAIMS.rmdir()
        except OSError:
            pass
    try:
        cluster.folder.parent.rmdir()
    except OSError:
        pass


def remove_abandoned():
    """Removes links and cgroups of clusters that were killed with their root folder, and thus have lost their claims.

    Otherwise each would hold its slot until the machine restarts."""

    def abandoned():
        claimed = claims()
        return {
            slot
            for slot in SLOTS
            if slot not in claimed
            and pathlib.Path(f"/sys/class/net/ls{slot}br").exists()
            and cgroups.of_slot(slot)
            and cgroups.are_empty(cgroups.of_slot(slot))
        }

    found = abandoned()
    if found:
        time.sleep(1)  # an `up` in another root folder may have made its cgroups, and is about to start etcd
    for slot in found & abandoned():
        network.remove(types.SimpleNamespace(slot=slot, bridge=f"ls{slot}br"))
        cgroups.remove_folders(cgroups.of_slot(slot))


def identity(owner):
    """The process as "PID:START_TIME", which no later process has."""
    begun = processes.start_time(owner)
    if begun is None:
        raise Problem(f"--owner {owner}: there is no such process.")
    return f"{owner}:{begun}"


def start_guard(cluster, owner):
    """Starts a process that takes the cluster down when the process "PID:START_TIME" has ended, however it ended."""
    # Outside of the cluster's cgroups, or it would end itself half-way.
    processes.spawn(
        cluster,
        "guard",
        [sys.executable, HERE / "cluster", "down", "--name", cluster.name, "--when-gone", owner],
        None,
        cluster.folder / "guard.log",
    )


def wait_until_gone(owner):
    """Returns when the process "<number>:<start time>" has ended."""
    try:
        pid, begun = (int(word) for word in owner.split(":"))
    except ValueError:
        raise Problem(f"--when-gone {owner}: this is not of the form PID:START_TIME.") from None
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(handle) as _:
        if processes.start_time(pid) == begun:
            select.select([handle], [], [])


def mounts(cluster):
    """Mount points of this machine below the cluster's folder, innermost first."""
    inside = str(cluster.folder) + "/"
    found = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    return [where for where in reversed(found) if where.startswith(inside)]


def leftovers(cluster, seconds=5):
    """The objects of the cluster that remain on this machine; polls, because the kernel frees some late."""
    end = time.monotonic() + seconds
    while True:
        found = _look(cluster)
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


def _look(cluster):
    found = [f"mount {where}" for where in mounts(cluster)]
    found += [f"process {name}" for name in processes.names(cluster) if processes.recorded(cluster, name)]
    if cluster.slot:
        living = [pid for pid in sorted(cgroups.members(cluster)) if processes.start_time(pid) is not None]
        found += [f"process {pid} ({_command(pid)})" for pid in living]
        found += [f"cgroup {folder}" for folder in cgroups.existing(cluster)]
        found += [f"interface {link}" for link in network.links(cluster)]
        if network.has_accept_rule(cluster):
            found.append(f"the iptables rule for {cluster.bridge}")
    return found


def _command(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return "ending"
