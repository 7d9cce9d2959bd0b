"""A scheduler that knows nothing of racks: it binds each pod to the node of its slot."""

import json
import threading


class Binder:
    """Binds pods that name its scheduler. `nodes`: by slot, and may change. The job has backend None: Lockstep would
    choose other nodes."""

    NAME = "by-slot"

    def __init__(self, cluster, nodes):
        self.cluster, self.nodes = cluster, dict(enumerate(nodes))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._bind_all)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _bind_all(self):
        while not self._over.wait(0.1):
            pods = (self.cluster.read("/api/v1/namespaces/default/pods") or {}).get("items", [])
            for pod in pods:
                if (
                    pod["spec"].get("nodeName")
                    or pod["spec"]["schedulerName"] != self.NAME
                    or "deletionTimestamp" in pod["metadata"]
                ):
                    continue
                name, node = pod["metadata"]["name"], self.nodes[int(pod["metadata"]["labels"]["lockstep.dev/slot"])]
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                           "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
                self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-",
                                     stdin=json.dumps(binding), check=False)
