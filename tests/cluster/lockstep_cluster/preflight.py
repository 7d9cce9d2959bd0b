"""Checks that this machine can run a cluster. Each lack is one sentence that says what to do."""

import os
import pathlib
import shutil

from . import cgroups
from .host import Problem, run, succeeds
from .layout import cache_folder
from .node_config import CNI_FOLDERS

PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
    "gcc": "gcc",
    "busybox": "busybox-static",
    "iptables": "iptables",
}
PLUGINS = ("bridge", "host-local", "loopback", "portmap")

# Each is tried for real, in namespaces that die with the trial.
TRIALS = [
    ("network, mount, PID, UTS and IPC namespaces", "true"),
    ("network bridges (CONFIG_BRIDGE)", "ip link add name probe type bridge"),
    ("virtual cables (CONFIG_VETH)", "ip link add name probe type veth peer name eborp"),
    (
        "nftables (CONFIG_NF_TABLES, CONFIG_NFT_NAT)",
        "nft 'add table ip probe; add chain ip probe c { type nat hook prerouting priority 0; };"
        " add rule ip probe c ip daddr 192.0.2.1 dnat to 192.0.2.2'",
    ),
]


def require_root():
    if os.geteuid() != 0:
        raise Problem("The test cluster makes namespaces, mounts and cgroups, which needs root: run it through sudo.")


def check(node_count):
    """Raises a Problem with the first thing that is missing."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = path + ":/usr/local/sbin:/usr/sbin:/sbin"  # a user's PATH often lacks them
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if not any(all((pathlib.Path(folder) / plugin).exists() for plugin in PLUGINS) for folder in CNI_FOLDERS):
        missing.append("containernetworking-plugins")
    if missing:
        raise Problem(f"Programs are missing; run 'make setup', or: apt-get install {' '.join(missing)}")
    for what, command in TRIALS:
        try:
            run(
                "unshare",
                "--net",
                "--mount",
                "--propagation=unchanged",
                "--pid",
                "--uts",
                "--ipc",
                "--fork",
                "sh",
                "-c",
                command,
            )
        except Problem as error:
            raise Problem(
                f"This kernel, or the container that we are in, does not allow {what}; "
                f"use a machine, or a privileged virtual machine, that does. ({error})"
            ) from None
    if not _has_overlay():
        raise Problem(
            "This kernel has no overlay file system (CONFIG_OVERLAY_FS), which containers need; use one that has it."
        )
    if not _has_bridge_filter():
        raise Problem(
            "Frames on a bridge do not pass nftables here, so that Services would not work: modprobe br_netfilter"
        )
    lacking = cgroups.missing_controllers()
    if lacking:
        raise Problem(
            f"The cgroup controllers {', '.join(lacking)} are not mounted under /sys/fs/cgroup; the kubelet needs them."
        )
    _check_room(node_count)


def _has_overlay():
    def listed():
        return "\toverlay\n" in pathlib.Path("/proc/filesystems").read_text()

    return listed() or (succeeds("modprobe", "overlay") and listed())


def _has_bridge_filter():
    switch = pathlib.Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return switch.exists() or (succeeds("modprobe", "br_netfilter") and switch.exists())


def _check_room(node_count):
    memory = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    free = int(memory["MemAvailable"].split()[0]) // 1024
    needed = 800 + 300 * node_count
    if free < needed:
        raise Problem(
            f"{free} MiB of memory are free, a cluster of {node_count} nodes needs {needed} MiB:"
            " end other programs, or use fewer --nodes."
        )
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(folder).free >> 20
    if disk < 1024:
        raise Problem(
            f"{disk} MiB are free on the disk of {folder}, 1024 are needed:"
            " make room, or set XDG_CACHE_HOME to another disk."
        )
