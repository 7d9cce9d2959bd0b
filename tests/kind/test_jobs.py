"""Jobs with mock GPUs on kind: upgrade and removal of the chart; faults of ranks, GPUs and nodes. In this order."""

import re
import time

import pytest

from kind_cluster import CACHE, GPU, PATIENCE, e2e

import jobs
from gang import FLAGS, reference

FOREVER = 1000000
RACK = "example.com/rack"
LEDGER = "/var/lib/lockstep-ledger"  # of each worker
STEPS = 6000  # of a job whose ledger is compared: ten minutes at its pace, of which the test needs a part


def trainer(name, **spec):
    """A job of the trainer that runs until it is deleted, in steps of 0.1 s."""
    job = jobs.trainer(name, *jobs.mlp(FOREVER), jobs.pace(0.1), restart={"forceDeleteAfterSeconds": 1}, **spec)
    job["spec"]["resources"] = {"requests": {"cpu": "50m"}}
    return job


def spread(name, **spec):
    """The same for a chart without placement. No node takes two of its pods."""
    alone = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"lockstep.dev/job": name}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    return trainer(name, podTemplate=jobs.pod_template(affinity=alone), **spec)


def helm(cluster, *words):
    return e2e.run(e2e.program("helm"), *words, env=cluster.env, deadline=PATIENCE + 20)


def install(cluster, chart, tag, *more):
    flags = f"--create-namespace --set image.tag={tag} --set image.pullPolicy=Never --wait --timeout {PATIENCE}s"
    helm(cluster, "upgrade", "--install", "lockstep", chart, "-n", e2e.NAMESPACE, *flags.split(), *more)


def install_new(cluster):
    """The chart of this tree, with racks as its topology."""
    topology = f"topology[0].name=rack,topology[0].label={RACK}"
    install(cluster, e2e.ROOT / "charts/lockstep", "dev", "--set", topology)


def state_of(pods):
    """The fields of a pod that change when it is restarted, deleted or replaced."""
    return {
        pod["metadata"]["uid"]: (
            "deletionTimestamp" in pod["metadata"],
            pod["status"]["phase"],
            [
                (status["name"], status["restartCount"], status["containerID"])
                for status in pod["status"]["containerStatuses"]
            ],
        )
        for pod in pods
    }


def wait_for(cluster, name, what, look):
    return cluster.wait_for(name, what, look, PATIENCE, 0.3)


def newest_step(cluster, name):
    """That a pod which is to stay has logged: after one was replaced, rank 0 is not always in slot 0."""
    logs = [cluster.kubectl("logs", pod["metadata"]["name"], "-c", "trainer", "--tail=50", check=False).stdout
            for pod in cluster.by_slot(name).values()]
    return max((int(step) for log in logs for step in re.findall(r"step (\d+)/", log)), default=0)


def goes_on(cluster, name, step):
    wait_for(cluster, name, f"a step after {step} is logged", lambda: newest_step(cluster, name) > step)


def trains(cluster, name, world):
    """Waits until a job trains with this many processes and rank 0 has logged a step."""
    wait_for(
        cluster,
        name,
        f"{world} processes train",
        lambda: (cluster.job(name).get("status") or {}).get("worldSize") == world,
    )
    goes_on(cluster, name, 0)


def makes_progress(cluster, name):
    """Waits until rank 0 has logged a step that is newer than the last."""
    goes_on(cluster, name, newest_step(cluster, name))


def environments(pod):
    """The environment of each process of the trainer in a pod, by its local rank."""
    found = {}
    for number in e2e.processes("lockstep-trainer", LOCKSTEP_POD_NAME=pod["metadata"]["name"]):
        with open(f"/proc/{number}/environ", encoding="utf-8") as stream:
            values = dict(line.split("=", 1) for line in stream.read().split("\0") if "=" in line)
        found[int(values["LOCAL_RANK"])] = {**values, "process": number}
    return found


def health(pod):
    """The health of each of a pod's GPUs by its UUID, as the kubelet reports it."""
    return {
        gpu["resourceID"]: gpu["health"]
        for status in pod["status"].get("containerStatuses", [])
        for resource in status.get("allocatedResourcesStatus", [])
        if resource["name"] == GPU
        for gpu in resource["resources"]
    }


@pytest.fixture(scope="session")
def objects_before(cluster):
    return cluster.objects()


@pytest.mark.skipif(
    not (CACHE / "baseline-chart").is_dir(),
    reason="the baseline's commit is not in this clone: git fetch --unshallow",
)
def test_an_upgrade_from_the_baseline_touches_no_pod(cluster, objects_before):
    install(cluster, CACHE / "baseline-chart", "baseline")
    cluster.apply(spread("old-trainer", nodes=2))
    # Its program is `sleep`, so that the job is there for as long as the test; nothing waits for it.
    cluster.apply(jobs.shell("old-program", "sleep 100000", nodes=2))
    trains(cluster, "old-trainer", 2)
    cluster.wait_condition("old-program", "Running", deadline=PATIENCE)
    before = state_of(cluster.pods("old-trainer") + cluster.pods("old-program"))
    assert len(before) == 4

    install_new(cluster)

    def new_leader():
        # A leader that ends leaves the Lease without a holder, and its pod is soon deleted.
        name = cluster.leader()[1]
        pod = name and cluster.read(f"/api/v1/namespaces/{e2e.NAMESPACE}/pods/{name}")
        return pod and pod["spec"]["containers"][0]["image"].endswith(":dev")

    e2e.wait_for("an operator of the new chart leads", new_leader, PATIENCE, 0.5)
    step = cluster.logged_step("old-trainer")
    wait_for(
        cluster,
        "old-trainer",
        "the new operator reports a later step",
        lambda: (cluster.job("old-trainer")["status"].get("progress") or {}).get("step", 0) > step,
    )
    assert state_of(cluster.pods("old-trainer") + cluster.pods("old-program")) == before
    for name in ("old-trainer", "old-program"):
        assert not cluster.job(name)["status"].get("attempts"), cluster.known(name)
        cluster.delete_job(name)


@pytest.fixture(scope="session")
def racks(cluster, objects_before):
    """The rack of each worker: two in one, the third in another. The chart of this tree is installed."""
    found = dict(zip(cluster.workers(), ("a", "b", "a")))
    for node, rack in found.items():
        cluster.kubectl("label", "node", node, f"{RACK}={rack}", "--overwrite")
    install_new(cluster)
    return found


def nodes_by_rank(cluster, name):
    pods = cluster.by_slot(name)
    return [pods[slot]["spec"]["nodeName"] for slot in cluster.slots_by_rank(name)]


def test_two_gangs_are_placed_inside_two_racks(cluster, racks):
    cluster.apply(trainer("pair", nodes=2, gpusPerNode=8, placement={"required": "rack"}))
    trains(cluster, "pair", 2)
    cluster.apply(trainer("single", nodes=1, gpusPerNode=8))
    trains(cluster, "single", 1)
    assert [racks[node] for node in nodes_by_rank(cluster, "pair")] == ["a", "a"]
    assert [racks[node] for node in nodes_by_rank(cluster, "single")] == ["b"]
    for name in ("pair", "single"):
        assert cluster.job(name)["status"]["placement"]["levelSpanned"] in ("rack", "node")
        cluster.delete_job(name)


def test_a_gang_over_two_racks_has_its_ranks_in_their_order(cluster, racks):
    cluster.apply(trainer("across", nodes=3, gpusPerNode=8))
    trains(cluster, "across", 3)
    placed = [racks[node] for node in nodes_by_rank(cluster, "across")]
    assert placed in (["a", "a", "b"], ["b", "a", "a"])
    cluster.delete_job("across")


def with_ledger(cluster, name, **spec):
    """A job of STEPS steps of 0.1 s whose processes write ledgers into a folder of their node.

    It outlives a pod that is deleted."""
    for node in cluster.workers():
        cluster.on(node, "install", "-d", "-m", "0777", LEDGER)  # the trainer is not root
    job = trainer(
        name,
        volumes=[{"name": "ledger", "hostPath": {"path": LEDGER, "type": "Directory"}}],
        volumeMounts=[{"name": "ledger", "mountPath": "/ledger"}],
        **spec,
    )
    job["spec"]["command"] = ["lockstep-trainer", *FLAGS, f"--steps={STEPS}", jobs.pace(0.1), "--ledger=/ledger"]
    return job


def collect_ledgers(cluster, folder):
    """Copies the ledgers of all workers into one folder."""
    folder.mkdir()
    for node in cluster.workers():
        for file in cluster.on(node, "ls", LEDGER).stdout.split():
            (folder / f"{node}-{file}").write_text(cluster.on(node, "cat", f"{LEDGER}/{file}").stdout)
    return folder


def last_steps(folder, generation):
    """The last step that each process of the generation committed in it."""
    commits = [[line["step"] for line in lines if line["generation"] == generation]
               for lines in e2e.Ledgers(folder).read().commits()]
    return [steps[-1] for steps in commits if steps]


def test_a_member_leaves_its_unhealthy_gpu_and_its_spare_takes_over(cluster, racks, tmp_path):
    name = "leaves"
    cluster.apply(with_ledger(cluster, name, nodes=2, procs=1, spares={"nodes": 1}, gpusPerNode=4))
    goes_on(cluster, name, 0)
    wait_for(cluster, name, "the spare is there", lambda: cluster.job(name)["status"]["nodes"].get("spare") == 1)
    gang = cluster.gang(name)
    (spare,) = set(cluster.by_slot(name)) - set(gang)
    pod = cluster.by_slot(name)[gang[0]]
    node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    wait_for(cluster, name, "the kubelet reports its GPUs", lambda: health(cluster.by_slot(name)[gang[0]]))
    device = sorted(health(cluster.by_slot(name)[gang[0]]))[0]
    generation = cluster.job(name)["status"]["membershipGeneration"]

    def attempt():
        status = cluster.job(name)["status"]
        return (status.get("attempts") or [None])[-1]

    def successor():
        now = cluster.by_slot(name).get(gang[0])
        return now if now and now["metadata"]["uid"] != uid and now["status"]["phase"] == "Running" else None

    def after(what, look):
        """Waits, and prints the milliseconds since the Xid."""
        seen = wait_for(cluster, name, what, look)
        print(f"{1000 * (time.monotonic() - since):.0f} ms after the Xid: {what}")
        return seen

    with cluster.following(pod["metadata"]["name"]) as said:
        since = time.monotonic()
        cluster.happen(node, f"xid {cluster.listed_gpus(node).index(device)} 79")
        found = after("the attempt is recorded", attempt)
        after("the spare is in the gang", lambda: spare in cluster.gang(name))
    print(found)
    assert (found["cause"], found["counted"], found["pod"]) == ("Unhealthy", False, pod["metadata"]["name"])
    assert found["message"].endswith(f"{GPU} {device} is Unhealthy")
    assert cluster.gang(name) == sorted([gang[1], spare])
    assert after("its successor runs", successor)["spec"]["nodeName"] != node
    goes_on(cluster, name, newest_step(cluster, name))
    status = cluster.job(name)["status"]
    assert [one["cause"] for one in status["attempts"]] == ["Unhealthy"]
    assert status["restarts"].get("charged", 0) == 0
    cluster.delete_job(name)

    # The member left at a step boundary: all ranks of its generation committed the same last step, and none was redone.
    left_after = int(re.search(r"left after step (\d+) of", said.text)[1])
    ledgers = collect_ledgers(cluster, tmp_path / "ledgers")
    assert last_steps(ledgers, generation) == [left_after, left_after]
    # A ledger against that of an undisturbed run compares the bits of the weights after every step.
    reference(tmp_path / "alone", *FLAGS, f"--steps={STEPS}")
    result = e2e.ledger_verdict(ledgers, tmp_path / "alone", finished=False)
    assert result.violations == []
    assert result.superseded == 0 and max(result.effective) > left_after
    # The plugin never calls a GPU healthy again by itself.
    cluster.restart_plugin(node)
    cluster.wait_for_gpus(node, 8)


@pytest.fixture(scope="session")
def gpu_job(cluster, racks):
    """Two nodes with four processes and four GPUs each, under the chart of this tree.

    It trains by the CUDA variant of the image, on fakes of NVIDIA's libraries."""
    image = CACHE / "images/trainer-cuda.tar"
    assert image.exists(), f"there is no {image}: build lockstep-trainer-cuda and the fakes in build/release first"
    job = trainer("gpus", nodes=2, procs=4, gpusPerNode=4, placement={"exclusive": True})
    job["spec"]["image"] = "docker.io/lockstep/trainer:fakes-cuda"
    job["spec"]["command"] += ["--backend=cuda", "--width=16", "--layers=1"]
    cluster.apply(job)
    trains(cluster, "gpus", 8)
    return "gpus"


def test_each_process_has_a_gpu_of_its_own(cluster, gpu_job):
    taken = []
    for pod in cluster.pods(gpu_job):
        found = environments(pod)
        assert sorted(found) == [0, 1, 2, 3]
        own = [values["NVIDIA_VISIBLE_DEVICES"] for values in found.values()]
        assert set(own) <= set(cluster.listed_gpus(pod["spec"]["nodeName"]))

        def healthy(name=pod["metadata"]["name"], expected=dict.fromkeys(own, "Healthy")):
            return any(health(one) == expected for one in cluster.pods(gpu_job) if one["metadata"]["name"] == name)

        wait_for(cluster, gpu_job, "the kubelet reports that the pod's GPUs are Healthy", healthy)
        taken += own
    assert len(set(taken)) == 8


def test_a_killed_rank_restarts_and_no_pod_is_touched(cluster, gpu_job):
    def attempts():
        return cluster.job(gpu_job)["status"].get("attempts") or []

    before = state_of(cluster.pods(gpu_job))
    earlier = len(attempts())
    victim = environments(cluster.by_slot(gpu_job)[1])[2]
    e2e.run("kill", "-9", victim["process"])
    wait_for(cluster, gpu_job, "the attempt is recorded", lambda: len(attempts()) > earlier)
    attempt = attempts()[-1]
    assert (attempt["cause"], attempt["firstFailingRank"], attempt["strategy"]) == (
        "ProcessSignal",
        int(victim["RANK"]),
        "InPlace",
    )
    trains(cluster, gpu_job, 8)
    makes_progress(cluster, gpu_job)
    assert state_of(cluster.pods(gpu_job)) == before
    restarted = environments(cluster.by_slot(gpu_job)[1])[2]
    assert restarted["process"] != victim["process"]
    assert restarted["NVIDIA_VISIBLE_DEVICES"] == victim["NVIDIA_VISIBLE_DEVICES"]


def test_an_xid_turns_the_gpu_of_the_pod_unhealthy(cluster, gpu_job):
    pod = cluster.by_slot(gpu_job)[0]
    node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    taken = {one["spec"]["nodeName"] for one in cluster.pods(gpu_job)}
    device = sorted(health(pod))[0]
    cluster.happen(node, f"xid {cluster.listed_gpus(node).index(device)} 79")

    def unhealthy():
        found = [health(one) for one in cluster.pods(gpu_job) if one["metadata"]["uid"] == uid]
        return found[0] if found and found[0].get(device) == "Unhealthy" else None

    found = wait_for(cluster, gpu_job, f"the pod's {device} is Unhealthy", unhealthy)
    assert sorted(found.values()) == ["Healthy"] * 3 + ["Unhealthy"]
    cluster.wait_for_gpus(node, 7)

    def successor():
        now = cluster.by_slot(gpu_job).get(0)
        return now if now and now["metadata"]["uid"] != uid and now["status"]["phase"] == "Running" else None

    # The job has no spare, but the third worker is free for a successor; so the pod leaves.
    assert wait_for(cluster, gpu_job, "its successor runs", successor)["spec"]["nodeName"] not in taken
    trains(cluster, gpu_job, 8)
    makes_progress(cluster, gpu_job)
    # The plugin never calls a GPU healthy again by itself.
    cluster.restart_plugin(node)
    cluster.wait_for_gpus(node, 8)


def test_a_stopped_node_loses_its_pod_and_no_other(cluster, gpu_job):
    pods = cluster.by_slot(gpu_job)
    nodes = {slot: pod["spec"]["nodeName"] for slot, pod in pods.items()}
    leader = cluster.read(f"/api/v1/namespaces/{e2e.NAMESPACE}/pods/{cluster.leader()[1]}")["spec"]["nodeName"]
    # The loss of the leader's node is a test of its own, in tests/e2e/cluster.
    lost = next(slot for slot, node in nodes.items() if node != leader)
    kept = 1 - lost
    cluster.power_off(nodes[lost])

    def replaced():
        pod = cluster.by_slot(gpu_job).get(lost)
        return (
            pod is not None
            and pod["metadata"]["uid"] != pods[lost]["metadata"]["uid"]
            and pod["status"]["phase"] == "Running"
        )

    wait_for(cluster, gpu_job, "the lost pod runs elsewhere", replaced)
    trains(cluster, gpu_job, 8)
    makes_progress(cluster, gpu_job)
    now = cluster.by_slot(gpu_job)
    assert now[lost]["spec"]["nodeName"] not in nodes.values()
    assert now[kept]["metadata"]["uid"] == pods[kept]["metadata"]["uid"]
    cluster.kubectl("delete", "node", nodes[lost])


def test_an_uninstall_leaves_nothing(cluster, gpu_job, objects_before):
    cluster.delete_job(gpu_job)
    helm(cluster, "uninstall", "lockstep", "-n", e2e.NAMESPACE, "--wait")
    cluster.kubectl("delete", "namespace", e2e.NAMESPACE)

    def left():
        return {
            row
            for row in cluster.objects() - objects_before
            if not row[2].startswith("kube-") and row[2] != "gpu-mock"
        }

    # The chart keeps the CRD; the API server keeps an APIService for its group as long as the CRD exists.
    kept = {
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "<none>", "trainingjobs.lockstep.dev"),
        ("apiregistration.k8s.io/v1", "APIService", "<none>", "v1alpha1.lockstep.dev"),
    }
    e2e.wait_for("the CRD alone is left", lambda: left() == kept, PATIENCE, 1)
    cluster.kubectl("delete", "crd", "trainingjobs.lockstep.dev")

    def nothing_is_left():
        try:
            return not left()
        except e2e.CommandFailed:
            return False  # a kind that was listed a moment ago was removed

    e2e.wait_for("nothing is left", nothing_is_left, PATIENCE, 1)
