"""The cgroups of a cluster, on version 1 (each controller its own tree), hybrid, and version 2.

A cluster owns one folder in every tree: <cluster>/control and, for each node, <cluster>/n1 (the kubelet's root) with
<cluster>/n1/system for the node's own daemons. One tree is the register: every process that `up` starts enters it
before it becomes another program. So tear-down also finds those that a killed `up` had no time to record.
"""

import os
import pathlib
import time

from .host import Problem

NEEDED = ("cpu", "memory", "pids", "cpuset")


def trees():
    """Mount point to its controllers; a version 2 tree has the key word 'unified' among them."""
    found = {}
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup":
            found.setdefault(pathlib.Path(where), set(options.split(",")))
        elif kind == "cgroup2":
            found.setdefault(pathlib.Path(where), {"unified"})
    return found


def is_unified():
    """True on a machine where version 2 holds the controllers."""
    for where, what in trees().items():
        if "unified" in what and "memory" in (where / "cgroup.controllers").read_text().split():
            return True
    return False


def missing_controllers():
    there = set()
    for where, what in trees().items():
        there |= set((where / "cgroup.controllers").read_text().split()) if "unified" in what else what
    return [name for name in NEEDED if name not in there]


def _register_tree():
    all_trees = trees()
    wanted = ["unified"] if is_unified() else ["pids", "freezer", "devices"]
    for controller in wanted:
        for where, what in all_trees.items():
            if controller in what:
                return where
    raise Problem("No cgroup tree is mounted under /sys/fs/cgroup; the test cluster needs one.")


def _make(tree, path, is_v2):
    """Creates tree/path; every folder on the way delegates its controllers."""
    folder = tree
    for part in pathlib.PurePath(path).parts:
        if is_v2:
            for controller in NEEDED + ("io", "hugetlb"):
                try:
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
                except OSError:
                    pass  # a controller that this machine lacks; missing_controllers() judged the needed ones
        parent, folder = folder, folder / part
        folder.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 starts them empty, and then no process may enter
            if not is_v2 and (folder / name).exists() and not (folder / name).read_text().strip():
                (folder / name).write_text((parent / name).read_text())
    return folder


def make_control(cluster):
    return _make(_register_tree(), f"{cluster.cgroup}/control", is_unified())


def make_node(cluster, node):
    """Makes the kubelet's root in every tree; returns the folder that the node's daemons enter."""
    for tree, what in trees().items():
        _make(tree, f"{cluster.cgroup}/{node}", "unified" in what)
        if "unified" in what:
            for controller in NEEDED + ("io", "hugetlb"):
                try:
                    (tree / cluster.cgroup / node / "cgroup.subtree_control").write_text(f"+{controller}")
                except OSError:
                    pass
    return _make(_register_tree(), f"{cluster.cgroup}/{node}/system", is_unified())


def members(cluster, below=""):
    """Process numbers in the cluster's part of the register."""
    top = _register_tree() / cluster.cgroup / below
    found = set()
    for folder, _, files in os.walk(top):
        if "cgroup.procs" in files:
            try:
                found |= {int(word) for word in pathlib.Path(folder, "cgroup.procs").read_text().split()}
            except OSError:
                continue  # the folder was removed in between
    return found - {0}


def existing(cluster, below=""):
    """Every folder of the cluster in every tree, children before parents."""
    found = []
    for tree in trees():
        found += [pathlib.Path(folder) for folder, _, _ in os.walk(tree / cluster.cgroup / below, topdown=False)]
    return found


def of_slot(slot):
    """The top folders of clusters of that slot in every tree, also those of clusters in other root folders."""
    return [folder for tree in trees() for folder in tree.glob(f"lockstep-*-{slot}")]


def remove_folders(tops):
    """Removes these folders with all below them, as far as no process is in one."""
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass


def are_empty(folders):
    """Whether no process is in these folders or below, in whatever PID namespace; a counter says so."""
    counters = [folder / "pids.current" for folder in folders]
    return all(int(counter.read_text()) == 0 for counter in counters if counter.exists())


def remove(cluster, below="", seconds=10):
    """Removes the folders; the kernel refuses while a dying process still holds one, so this waits for that."""
    end = time.monotonic() + seconds
    while True:
        for folder in existing(cluster, below):
            try:
                folder.rmdir()
            except OSError:
                pass
        if not existing(cluster, below) or time.monotonic() > end:
            return
        time.sleep(0.02)
