"""Volumes that pods of all nodes write at once: folders below one folder of the host that every node sees."""

import re

from .host import Problem, wait_until

IN_NODES = "/var/lib/lockstep-shared"  # where node/enter.sh binds the cluster's shared folder


def make(cluster, api, namespace, name, size, with_claim=True):
    """Makes the folder, a PersistentVolume for it and a bound claim <name>; returns the folder's path on the host.

    Without the claim, the volume waits for a claim of that name.
    """
    for word in (namespace, name):
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", word):
            raise Problem(f"'{word}' is no name of a namespace or claim: use lower-case letters, digits and '-'.")
    if api.get("Namespace", namespace) is None:
        raise Problem(f"There is no namespace '{namespace}'; make it with: kubectl create namespace {namespace}")
    folder = f"{namespace}-{name}"
    (cluster.shared / folder).mkdir(parents=True, exist_ok=True)
    (cluster.shared / folder).chmod(0o777)  # a pod of any user writes there; hostPath knows no fsGroup
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": folder},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"{IN_NODES}/{folder}", "type": "Directory"},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            },
        }
    )
    if not with_claim:
        return cluster.shared / folder
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": folder,
                "resources": {"requests": {"storage": size}},
            },
        }
    )
    wait_until(
        f"the claim {name} was bound",
        lambda: api.get("PersistentVolumeClaim", name, namespace).get("status", {}).get("phase") == "Bound",
        60,
        interval=0.1,
    )
    return cluster.shared / folder
