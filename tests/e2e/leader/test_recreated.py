"""A job that is created under the name of one that was deleted a moment ago gets its pods at once. 35 s."""

import json
import time

import lockstep_cluster.api
import lockstep_cluster.layout
import pytest

import e2e
import jobs
import watch

TIMES = 20
WITHIN = 10  # seconds; from the creation of the new job until it has a pod
JOB = jobs.training_job("again", image="nobody", command=["true"], nodes=2)


class Again:
    """A job that one client deletes and creates again without a pause."""

    def __init__(self, cluster, namespace, pods):
        self._cluster, self._namespace, self._pods = cluster, namespace, pods
        self._api = lockstep_cluster.api.Api(lockstep_cluster.layout.Cluster(cluster.name))
        self.service = f"/api/v1/namespaces/{namespace}/services/again"
        self._jobs = f"/apis/lockstep.dev/v1alpha1/namespaces/{namespace}/trainingjobs"
        self.create()

    def create(self):
        """Returns the uid of the new job; waits while the old one is on its way out."""
        def post():
            try:
                return self._api.call("POST", self._jobs, JOB)["metadata"]["uid"]
            except lockstep_cluster.api.Refused as error:
                if error.status != 409:
                    raise
                return None

        return e2e.wait_for("the name is free", post, 60, every=0.02)

    def delete(self, propagation="Background"):
        self._api.call("DELETE", f"{self._jobs}/again?propagationPolicy={propagation}")

    def recreate(self, propagation="Background"):
        """Seconds until the new job has a pod."""
        self.delete(propagation)
        uid, begun = self.create(), time.monotonic()
        self.wait_for_pod(uid)
        return time.monotonic() - begun

    def wait_for_pod(self, uid):
        def look(events):
            return any(pod["metadata"]["labels"]["lockstep.dev/job-uid"] == uid for _, pod in events)

        try:
            self._pods.wait("the new job has a pod", self._namespace, look, 90)
        except AssertionError as error:
            status = self._cluster.job("again", self._namespace).get("status")
            raise AssertionError(f"{error}; its status: {json.dumps(status)}") from None

    def hold_service(self):
        """A Service that is deleted from now on stays, terminating."""
        self._finalize(["example.com/held"])

    def delete_service(self):
        self._api.call("DELETE", self.service)

    def release_service(self):
        self._finalize([])

    def _finalize(self, finalizers):
        self._api.call("PATCH", self.service, {"metadata": {"finalizers": finalizers}}, "application/merge-patch+json")

    def close(self):
        self._api.close()


@pytest.fixture
def again(cluster, namespace, pods_are_admitted, start):
    start().wait_until_ready()
    pods = watch.Watch(cluster, f"/api/v1/namespaces/{namespace}/pods")
    found = Again(cluster, namespace, pods)
    yield found
    found.close()
    pods.stop()
    cluster.kubectl("delete", "trainingjobs", "--all", "-n", namespace, "--wait=false")


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
def test_a_recreated_job_has_its_pods_at_once(again, propagation):
    took = [again.recreate(propagation) for _ in range(TIMES)]
    print(f"\n{propagation}: until the new job has a pod, longest of {TIMES}: {max(took):.2f} s")
    assert max(took) < WITHIN, took


def test_a_recreated_job_has_its_pods_once_the_old_service_is_gone(cluster, namespace, again):
    e2e.wait_for("the Service is there", lambda: cluster.read(again.service), 10)
    again.hold_service()
    again.delete()
    again.delete_service()
    uid = again.create()
    e2e.wait_for("the operator says what is in its way",
                 lambda: "Service" in str(cluster.job("again", namespace).get("status")), 10)
    again.release_service()
    begun = time.monotonic()
    again.wait_for_pod(uid)
    print(f"\nfrom the end of the old Service until the new job has a pod: {time.monotonic() - begun:.2f} s")
    assert time.monotonic() - begun < WITHIN
