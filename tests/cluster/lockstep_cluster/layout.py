"""Names, addresses and folders of one cluster: everything that differs between two clusters side by side.

A cluster has a name (given by the person) and a slot (1 to 15, claimed here). All addresses and interface names follow
from the slot, all folders and cgroups from the name. So tear-down finds everything that a killed `up` left.
"""

import ipaddress
import json
import os
import pathlib
import re

from .host import Problem, run

SLOTS = range(1, 16)
MAX_NODES = 15
CLAIMS = pathlib.Path("/run/lockstep-cluster")
NAME = re.compile(r"[a-z][a-z0-9]{0,11}")


def cache_folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep"


def write_whole(path, text, mode=0o644):
    """Writes a file so that a reader, or a kill, sees the old text or the new one, never a part."""
    part = path.with_name(path.name + ".part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
    os.rename(part, path)


class Cluster:
    """The plan of one cluster. Creates nothing but its slot and its folder, in claim()."""

    def __init__(self, name):
        if not NAME.fullmatch(name):
            raise Problem(f"'{name}' cannot name a cluster: use 1 to 12 lower-case letters and digits, a letter first.")
        self.name = name
        self.folder = cache_folder() / "run" / name
        self.slot = self._find_slot()

    # Folders. `folder` is on the disk and holds what tear-down needs; `data` below it is a tmpfs that dies with it.
    data = property(lambda self: self.folder / "data")
    pki = property(lambda self: self.data / "pki")
    logs = property(lambda self: self.data / "logs")
    shared = property(lambda self: self.data / "shared")
    images = property(lambda self: self.data / "images")
    processes = property(lambda self: self.folder / "processes")
    kubeconfig = property(lambda self: self.folder / "kubeconfig")
    audit_log = property(lambda self: self.data / "audit.log")

    def node_folder(self, node):
        return self.data / "nodes" / node

    # Addresses.
    network = property(lambda self: ipaddress.ip_network(f"10.251.{self.slot}.0/24"))
    bridge_address = property(lambda self: f"10.251.{self.slot}.1")
    private_address = property(lambda self: f"127.251.{self.slot}.1")  # for servers that only this machine may reach
    services = property(lambda self: f"10.96.{16 * self.slot}.0/20")
    service_address = property(lambda self: f"10.96.{16 * self.slot}.1")
    fleet_pods = property(lambda self: f"10.{224 + self.slot}.0.0/16")
    api_server = property(lambda self: f"https://{self.bridge_address}:6443")

    @staticmethod
    def index(node):
        return int(node[1:])

    def node_address(self, node):
        return f"10.251.{self.slot}.{10 + self.index(node)}"

    def pods_of(self, node):
        return f"10.244.{16 * self.slot + self.index(node)}.0/24"

    # Names of kernel objects. An interface name has at most 15 characters.
    bridge = property(lambda self: f"ls{self.slot}br")
    cgroup = property(lambda self: f"lockstep-{self.name}-{self.slot}")

    def cable(self, node):
        return f"ls{self.slot}{node}"

    # The options of `up`, kept for the other commands.
    def read_spec(self):
        try:
            return json.loads((self.folder / "cluster.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def write_spec(self, **spec):
        write_whole(self.folder / "cluster.json", json.dumps(spec, indent=2) + "\n")

    def nodes(self):
        spec = self.read_spec() or {}
        return [f"n{i}" for i in range(1, spec.get("nodes", 0) + 1)]

    def require_node(self, node):
        if node not in self.nodes():
            there = ", ".join(self.nodes()) or "none"
            raise Problem(f"Cluster '{self.name}' has no node '{node}'; its nodes are: {there}.")

    # The slot.
    def _find_slot(self):
        for slot, claim in claims().items():
            if claim == {"name": self.name, "folder": str(self.folder)}:
                return slot
        return 0

    def claim(self):
        """Takes a free slot. Two callers at once get different ones: the claim's file is created atomically."""
        CLAIMS.mkdir(exist_ok=True)
        mine = CLAIMS / f".{os.getpid()}"
        mine.write_text(json.dumps({"name": self.name, "folder": str(self.folder)}))
        try:
            for slot in SLOTS:
                if self._slot_in_use(slot):
                    continue
                try:
                    os.link(mine, CLAIMS / str(slot))
                except FileExistsError:
                    continue
                self.slot = slot
                return
        finally:
            mine.unlink()
        raise Problem(
            "No address range 10.251.1.0/24 to 10.251.15.0/24 is free here; end a cluster with 'cluster down'."
        )

    @staticmethod
    def _slot_in_use(slot):
        if pathlib.Path(f"/sys/class/net/ls{slot}br").exists():  # also of a cluster made in another root folder
            return True
        wanted = ipaddress.ip_network(f"10.251.{slot}.0/24")
        for route in json.loads(run("ip", "-json", "-4", "route") or "[]"):
            if route["dst"] != "default" and wanted.overlaps(ipaddress.ip_network(route["dst"], strict=False)):
                return True
        return False

    def release(self):
        if self.slot:
            (CLAIMS / str(self.slot)).unlink(missing_ok=True)
            self.slot = 0


def claims():
    """Slot number to the claim's content, for every slot that is taken on this machine."""
    found = {}
    for slot in SLOTS:
        try:
            found[slot] = json.loads((CLAIMS / str(slot)).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            continue
    return found


def known_clusters():
    """Names of the clusters of this cache folder, whole or not."""
    names = {
        claim["name"] for claim in claims().values() if claim["folder"] == str(cache_folder() / "run" / claim["name"])
    }
    folder = cache_folder() / "run"
    if folder.is_dir():
        names |= {entry.name for entry in folder.iterdir() if entry.is_dir() and NAME.fullmatch(entry.name)}
    return sorted(names)
