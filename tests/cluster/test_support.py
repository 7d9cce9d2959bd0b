"""Shared by the checks of test_cluster.py: run the command and kubectl, create pods, find remains."""

import functools
import json
import os
import pathlib
import re
import subprocess
import time

from lockstep_cluster.api import Api, Refused
from lockstep_cluster.layout import Cluster

HERE = pathlib.Path(__file__).resolve().parent
MAIN, SECOND, KILLED = "selftest", "selftestb", "selfkill"
NAMES = (MAIN, SECOND, KILLED)
BUSYBOX = "docker.io/lockstep/busybox:test"


class Failed(Exception):
    pass


def expect(condition, sentence):
    if not condition:
        raise Failed(sentence)


def cluster(*words, name=MAIN, fails=False, timeout=200):
    """Runs the cluster command; returns its standard output, or with `fails` its standard error."""
    words = [str(word) for word in words]
    done = subprocess.run(
        [HERE / "cluster", words[0], *(["--name", name] if name else []), *words[1:]],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    expect(
        (done.returncode != 0) == fails,
        f"cluster {' '.join(words)} ended with {done.returncode}: {done.stderr[-1500:]}",
    )
    return done.stderr if fails else done.stdout


def state(name=MAIN):
    return json.loads(cluster("status", "--json", name=name))[0]


def kubectl(*words, name=MAIN, stdin=None, status=0):
    environment = dict(os.environ, KUBECONFIG=str(cache() / "run" / name / "kubeconfig"))
    done = subprocess.run(
        [programs() / "kubectl", *words], input=stdin, capture_output=True, text=True, timeout=60, env=environment
    )
    expect(
        status is None or done.returncode == status,
        f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}",
    )
    return done.stdout


def get(kind, thing, name=MAIN):
    """A pod or node, or None; without kubectl, because the tests poll it many times a second."""
    where = {"pod": "namespaces/default/pods", "node": "nodes"}[kind]
    try:
        return Api(Cluster(name)).call("GET", f"/api/v1/{where}/{thing}")
    except Refused as error:
        expect(error.status == 404, str(error))
        return None


@functools.cache
def programs():
    """The folder with kubectl and the others."""
    built = subprocess.run([HERE / "binaries.sh"], stdout=subprocess.PIPE, text=True)
    expect(built.returncode == 0, "the programs of the test cluster could not be built; see the error above")
    return pathlib.Path(built.stdout.strip().splitlines()[-1])


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep"


def until(what, condition, seconds=60):
    """Polls; returns the seconds that it took."""
    begun = time.monotonic()
    while not condition():
        expect(time.monotonic() - begun < seconds, f"not within {seconds} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - begun


def pod(name, node, script, image=BUSYBOX, where=MAIN, gpus=0, claim=None, **more):
    """Makes a restricted pod on that node that runs the shell script."""
    container = {
        "name": "c",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"limits": {"memory": "128Mi", **({"nvidia.com/gpu": gpus} if gpus else {})}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "nodeName": node,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        **more,
    }
    if claim:
        container["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
        spec["volumes"] = [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]
    kubectl(
        "apply",
        "-f",
        "-",
        name=where,
        stdin=json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
        ),
    )


def phase(name, where=MAIN):
    thing = get("pod", name, where)
    return thing["status"]["phase"] if thing else "gone"


def finished(name, where=MAIN):
    until(f"pod {name} ended", lambda: phase(name, where) in ("Succeeded", "Failed"))
    return get("pod", name, where)["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]


def service(name, headless, where=MAIN, port=9000):
    kubectl(
        "apply",
        "-f",
        "-",
        name=where,
        stdin=json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name},
                "spec": {
                    "selector": {"app": "server"},
                    "ports": [{"port": port}],
                    **({"clusterIP": "None"} if headless else {}),
                },
            }
        ),
    )


def server_runs():
    """Makes sure that the pod that answers "hello" as server.gang and behind the Service `front` is there."""
    if phase("server") != "Running":
        service("gang", headless=True)
        service("front", headless=False)
        pod(
            "server",
            "n1",
            "while true; do echo hello from $HOSTNAME | nc -l -p 9000; done",
            subdomain="gang",
            hostname="server",
            gpus=8,
        )
        until("the server ran", lambda: phase("server") == "Running")


def node_ready(node, name=MAIN):
    thing = get("node", node, name)
    return (
        bool(thing) and {c["type"]: c["status"] for c in thing["status"].get("conditions", [])}.get("Ready") == "True"
    )


def stands_still(count):
    before = count()
    time.sleep(0.5)
    return count() == before


def remains(name):
    """Every object on this machine that carries the name of the cluster."""
    folder = str(cache() / "run" / name)
    found = [
        f"mount {line.split()[1]}"
        for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
        if folder + "/" in line or f"lockstep-{name} " in line
    ]
    for tree, _, _ in os.walk("/sys/fs/cgroup"):
        if re.fullmatch(rf"lockstep-{name}-[0-9]+", os.path.basename(tree)):
            found.append(f"cgroup {tree}")
    for claim in pathlib.Path("/run/lockstep-cluster").glob("[0-9]*"):
        try:
            if f'"{name}"' in claim.read_text():
                found.append(f"claim {claim}")
        except FileNotFoundError:
            continue
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (
                f"/lockstep-{name}-" in (process / "cgroup").read_text()
                or folder.encode() + b"/" in (process / "cmdline").read_bytes()
            ):
                found.append(f"process {process.name}")
        except OSError:
            continue
    return found + ([f"folder {folder}"] if pathlib.Path(folder).exists() else [])


def _rules():
    """The lines of nft's ruleset without the tables of tests (tests/e2e/leader/way.py), which run beside these."""
    tables = re.split(r"^(?=table )", "\n".join(_said("nft", "list", "ruleset")), flags=re.M)
    kept = [table for table in tables if " lockstep-way-" not in table.split("{")[0]]
    return [line.strip() for table in kept for line in table.splitlines()]


def new_since(before):
    """What is new on this machine. The kernel's settings count if no other cluster had changed them before."""
    settings_known = any(line.startswith("/proc/sys/") for line in before)
    new = [line for line in machine() if line not in before]
    return [line for line in new if settings_known or not line.startswith("/proc/sys/")]


def machine():
    """The objects of clusters on this machine, as lines, without those of other clusters (which hold a claim)."""
    others = tuple(f"ls{path.name}" for path in pathlib.Path("/run/lockstep-cluster").glob("[0-9]*"))
    lines = [
        f"link {line.split(':')[1].strip()}"
        for line in _said("ip", "-o", "link")
        if not line.split(":")[1].strip().startswith(others or ("-",))
    ]
    lines += [f"netns {line}" for line in _said("ip", "netns")] + [f"nft {line}" for line in _rules()]
    lines += [f"iptables {line}" for line in _said("iptables", "-S")]
    lines += [f"route {line}" for line in _said("ip", "route") if not any(f"dev {other}" in line for other in others)]
    lines += [
        f"mount {line.split()[1]}"
        for line in pathlib.Path("/proc/mounts").read_text().splitlines()
        if "/lockstep/run/" not in line and "/pytest-of-" not in line
    ]
    if not others:
        lines += [
            f"{path} {path.read_text().strip()}"
            for path in map(
                pathlib.Path,
                (
                    "/proc/sys/vm/overcommit_memory",
                    "/proc/sys/kernel/panic",
                    "/proc/sys/net/ipv4/ip_forward",
                    "/proc/sys/fs/inotify/max_user_instances",
                ),
            )
        ]
    return lines


def _said(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout.splitlines()
