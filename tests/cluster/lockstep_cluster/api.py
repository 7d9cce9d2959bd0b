"""A small client of the Kubernetes API: JSON over HTTPS with the administrator's certificate."""

import http.client
import json
import ssl
import urllib.parse

from .host import Problem

# kind -> (path of its group and version, plural, has a namespace)
KINDS = {
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "MutatingAdmissionPolicy": ("apis/admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", False),
    "MutatingAdmissionPolicyBinding": (
        "apis/admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicybindings",
        False,
    ),
    "Namespace": ("api/v1", "namespaces", False),
    "Node": ("api/v1", "nodes", False),
    "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
    "ServiceAccount": ("api/v1", "serviceaccounts", True),
}


class Refused(Problem):
    """The server answered, with a status that is not success."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


def path_of(kind, name, namespace="default"):
    group, plural, namespaced = KINDS[kind]
    where = f"namespaces/{namespace}/" if namespaced else ""
    return f"/{group}/{where}{plural}/{name}"


class Api:
    """One connection; not to be shared by threads. Each call raises OSError when the server cannot be reached."""

    def __init__(self, cluster):
        self._host = cluster.bridge_address
        self._tls = ssl.create_default_context(cafile=cluster.pki / "ca.crt")
        self._tls.load_cert_chain(cluster.pki / "admin.crt", cluster.pki / "admin.key")
        self._connection = None

    def call(self, method, path, body=None, content="application/json", seconds=30):
        """Sends one request; returns the answer's JSON (or text), raises Refused when the status is 300 or above."""
        headers = {"Accept": "application/json", "User-Agent": "lockstep-test-cluster"}
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = content
        try:
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(self._host, 6443, context=self._tls)
            self._connection.timeout = seconds
            if self._connection.sock is not None:  # open since a call with another deadline
                self._connection.sock.settimeout(seconds)
            self._connection.request(method, path, body=data, headers=headers)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise OSError(f"{method} {path}: {error or type(error).__name__}") from None
        if answer.status >= 300:
            try:
                text = json.loads(text).get("message", text)
            except (json.JSONDecodeError, AttributeError):
                pass
            raise Refused(answer.status, f"{method} {path}: {answer.status} {text.strip()[:300]}")
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def get(self, kind, name, namespace="default"):
        """The object, or None when there is none."""
        try:
            return self.call("GET", path_of(kind, name, namespace))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def apply(self, thing):
        """Creates or changes the object to the given one, as `kubectl apply --server-side --force-conflicts` does."""
        meta = thing["metadata"]
        path = path_of(thing["kind"], urllib.parse.quote(meta["name"]), meta.get("namespace", "default"))
        return self.call(
            "PATCH", path + "?fieldManager=lockstep-test-cluster&force=true", thing, "application/apply-patch+yaml"
        )

    def delete(self, kind, name, namespace="default"):
        """Deletes the object; it may be missing."""
        try:
            self.call("DELETE", path_of(kind, name, namespace))
        except Refused as error:
            if error.status != 404:
                raise
