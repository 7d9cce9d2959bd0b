"""Settings of the kernel that a cluster (its kubelets, mostly) changes for the whole machine.

It keeps the old values, and restores them when the last cluster is removed.
"""

import json
import pathlib

from .layout import CLAIMS, write_whole

WATCHED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "net/ipv4/ip_forward",
)
RAISED = {"fs/inotify/max_user_instances": 1024}  # each kubelet and containerd takes a few dozen
MEMORY = CLAIMS / "sysctls.json"


def remember_and_raise():
    if not MEMORY.exists():
        values = {name: _path(name).read_text().strip() for name in WATCHED if _path(name).exists()}
        write_whole(MEMORY, json.dumps(values, indent=2))
    for name, least in RAISED.items():
        if _path(name).exists() and int(_path(name).read_text()) < least:
            _path(name).write_text(str(least))


def restore():
    if not MEMORY.exists():
        return
    for name, value in json.loads(MEMORY.read_text()).items():
        if _path(name).read_text().strip() != value:
            _path(name).write_text(value)
    MEMORY.unlink()


def _path(name):
    return pathlib.Path("/proc/sys") / name
