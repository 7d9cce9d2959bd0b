#!/usr/bin/env python3
"""From the post of a job until all its pods are bound, on a fleet of nodes in three levels that KWOK plays.

    make bench-placement                                              # its last part: 1,000 nodes, 256 pods
    tests/bench/placement/end_to_end.py --nodes 100 --pods 32 --rounds 1

  raw       a client that knows the nodes: it creates each pod with a gate and its node in an annotation, then sends
            the patch that adds the node affinity and removes the gate
  lockstep  a job with backend Lockstep: the operator chooses the nodes, and sends the same requests
  ungated   a job with backend None: the operator creates pods without a gate, and kube-scheduler chooses their nodes
  contested the same as lockstep, while an adversary's plain pods take whole nodes and give them back, ten a second

kube-scheduler binds the pods of all. One observer's watch and clock serve all of them, and the sides take turns."""

import argparse
import contextlib
import copy
import itertools
import json
import os
import pathlib
import statistics
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench/control_plane"))
import controllers  # noqa: E402
import fleet as fleets  # noqa: E402
import lockstep_cluster.api  # noqa: E402

LEVELS = {"zone": 400, "block": 80, "rack": 16}  # nodes of a domain, outermost first
LABEL = "example.com/"
SIDES = ("raw", "lockstep", "ungated", "contested")
CONNECTIONS = (8, 16, 32)
GATE, NODE = "lockstep.dev/placement", "lockstep.dev/node"
BOUND = 1.25  # of the raw client's time
BATCHES = itertools.count(1)


def label_nodes(fleet):
    for number in range(fleet.size):
        labels = {f"{LABEL}{level}": f"{level}-{number // size}" for level, size in LEVELS.items()}
        fleet.api.call(
            "PATCH",
            f"/api/v1/nodes/kwok-{number + 1}",
            {"metadata": {"labels": labels}},
            "application/merge-patch+json",
        )


def training_job(name, pods, backend):
    """Whole nodes of 8 GPUs."""
    job = fleets.training_job(name, pods)
    job["spec"].update(gpusPerNode=8, procsPerNode=1, scheduling={"backend": backend})
    return job


def raw_pods(template, pods):
    """What the raw client sends: a gated pod and its patch, for each of the first nodes of the fleet."""
    found = []
    for number in range(pods):
        node = f"kwok-{number + 1}"
        body = copy.deepcopy(template[0]["body"])
        body["metadata"]["name"] = f"raw-{number}"
        body["metadata"].setdefault("annotations", {})[NODE] = node
        body["spec"]["schedulingGates"] = [{"name": GATE}]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
        patch = [{"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
                 {"op": "add", "path": "/spec/affinity", "value": affinity},
                 {"op": "remove", "path": "/spec/schedulingGates/0"}]
        found.append({"path": template[0]["path"], "body": body, "patch": patch})
    return found


@contextlib.contextmanager
def adversary(fleet, most=50):
    """Takes up to `most` nodes meanwhile, each with a pod in namespace default, and gives the oldest back."""
    over, made = threading.Event(), []
    pod = {
        "spec": {
            **fleets.ON_FLEET,
            "containers": [{**fleets.CONTAINER, "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        }
    }
    path = "/api/v1/namespaces/default/pods"

    def run():
        api = lockstep_cluster.api.Api(fleet.layout)
        while not over.wait(0.1):
            made.append(f"taker-{next(BATCHES)}")
            api.call("POST", path, {"metadata": {"name": made[-1]}, **pod})
            if len(made) > most:
                api.call("DELETE", f"{path}/{made.pop(0)}?gracePeriodSeconds=0")
        api.call("DELETE", f"{path}?gracePeriodSeconds=0")
        api.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        fleet.until("the adversary's pods are gone", lambda: not fleet.api.call("GET", f"{path}?limit=1")["items"])


def measure(fleet, side, pods, template, connections):
    """Seconds from the first post until the last pod is bound."""
    if side == "contested":
        with adversary(fleet):
            return measure(fleet, "lockstep", pods, template, connections)
    if side == "raw":
        said = fleet.probe(raw_pods(template, pods), pods, connections=connections, bound=True)
    else:
        backend = "Lockstep" if side == "lockstep" else "None"
        body = training_job(f"{side}-{next(BATCHES)}", pods, backend)
        said = fleet.probe([{"path": fleets.COLLECTIONS["lockstep"], "body": body}], pods, bound=True)
    if said["refused"]:
        raise SystemExit(f"bench: {side}: {said['refused']} requests were refused: {said['sentence']}")
    fleet.clear()
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of the fleet (default: 1000)")
    parser.add_argument("--pods", type=int, default=256, help="pods of the job, one a node (default: 256)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side (default: 3)")
    given = parser.parse_args()
    if given.pods > given.nodes:
        parser.error("--pods: each needs a node of its own")
    rows = []
    with fleets.Fleet(given.pods, nodes=given.nodes) as fleet:
        label_nodes(fleet)
        machine = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(f"\n{given.pods} pods on {given.nodes} nodes; {machine}; {given.rounds} rounds", flush=True)
        # The operator also runs while the raw client is measured: it costs that client what its watches cost.
        with controllers.Lockstep(fleet, flags=[f"--topology-level={level}={LABEL}{level}" for level in LEVELS]):
            template = fleet.template_of(training_job("shape", 1, "None"))
            took = {number: measure(fleet, "raw", given.pods, template, number)["last"] for number in CONNECTIONS}
            connections = min(took, key=took.get)
            for number in range(given.rounds):
                for side in SIDES[number % len(SIDES):] + SIDES[:number % len(SIDES)]:
                    rows.append(
                        {"side": side, "round": number, **measure(fleet, side, given.pods, template, connections)}
                    )
    of = {(row["round"], row["side"]): row["last"] for row in rows}

    def ratio(side, base):
        return statistics.median(of[number, side] / of[number, base] for number in range(given.rounds))

    print(f"raw client over {connections} connections")
    print(f"{'':10}{'half bound':>12}{'all bound':>12}{'to raw':>9}{'to ungated':>12}")
    for side in SIDES:
        half, last = (
            statistics.median(row[field] for row in rows if row["side"] == side) for field in ("median", "last")
        )
        print(f"{side:10}{half:>10.2f} s{last:>10.2f} s{ratio(side, 'raw'):>9.2f}{ratio(side, 'ungated'):>12.2f}")
    print(f"lockstep to raw: {ratio('lockstep', 'raw'):.2f}, the bound is {BOUND}")
    out = ROOT / "out/bench/placement_end_to_end.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
