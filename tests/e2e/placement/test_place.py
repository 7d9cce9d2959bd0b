"""Where jobs go on four real nodes in two racks: n1 and n3 in rack a, n2 and n4 in rack b, 8 GPUs each."""

import time

import e2e
import jobs
import placed


def nodes_of(cluster, name):
    """The nodes of a job's pods, by slot."""
    return [pod["spec"].get("nodeName") for _, pod in sorted(cluster.by_slot(name).items())]


def wait_placed(cluster, name, deadline=40):
    """The job, once all its pods are bound; nothing was charged for that."""
    cluster.wait_for(name, "condition Placed is True",
                     lambda: placed.condition(cluster.job(name), "Placed").get("status") == "True", deadline)
    found = cluster.job(name)
    assert placed.charged(found) == []
    return found


def wait_unplaced(cluster, name, reason, deadline=10):
    """The message of condition Placed, once it is False for this reason."""
    def look():
        found = placed.condition(cluster.job(name), "Placed")
        return found.get("status") == "False" and found.get("reason") == reason and found["message"]

    return cluster.wait_for(name, f"condition Placed is False for {reason}", look, deadline)


def pods_ever(watches, name):
    """Names of the pods of a job that ever existed."""
    return {pod["metadata"]["name"] for _, pod in watches["pods"].events("default") if placed.job_of(pod) == name}


def test_a_job_that_requires_a_rack_lands_in_one(cluster, operator, job):
    with placed.taken(cluster, ["n1"], gpus=4):
        name = job(placed.sleeper("required", 2, placement={"required": "rack"}))
        found = wait_placed(cluster, name)
        assert sorted(nodes_of(cluster, name)) == ["n2", "n4"]
    said = found["status"]["placement"]
    print(f"\n{said}")
    assert said["levelSpanned"] == "rack" and said["domains"] == ["real/b"]
    columns = cluster.kubectl("get", "tj", name).stdout.splitlines()
    assert columns[1][columns[0].index("LEVEL"):].split()[0] == "rack", columns


def test_four_lines_of_yaml_go_to_one_rack(cluster, operator, job):
    with placed.taken(cluster, ["n2"], gpus=1):
        name = job(jobs.training_job("four-lines", image="docker.io/lockstep/busybox:test", command=["sleep", "1000"],
                                     nodes=2, gpusPerNode=8))
        wait_placed(cluster, name)
        assert sorted(nodes_of(cluster, name)) == ["n1", "n3"]


def test_a_gang_that_does_not_fit_creates_no_pod_and_says_what_is_short(cluster, operator, watches, job):
    with placed.taken(cluster, ["n1", "n2"]) as free:
        name = job(placed.sleeper("waits", 2, placement={"required": "rack"}))
        said = wait_unplaced(cluster, name, "WaitingForRoom")
        print(f"\n{said}")
        assert "2 pods need room in one rack, where 1 fit" in said
        time.sleep(1)  # that no pod comes has no event
        assert pods_ever(watches, name) == set()
        free("n2")
        wait_placed(cluster, name)
        assert sorted(nodes_of(cluster, name)) == ["n2", "n4"]


def test_a_gang_waits_for_a_node_until_it_is_no_longer_sick(cluster, operator, watches, job):
    with placed.taken(cluster, ["n1"]), placed.sick(cluster, "n2") as heal:
        name = job(placed.sleeper("healthy", 2, placement={"required": "rack"}))
        said = wait_unplaced(cluster, name, "WaitingForRoom")
        print(f"\n{said}")
        assert "2 pods need room in one rack, where 1 fit" in said
        assert pods_ever(watches, name) == set()
        heal()
        wait_placed(cluster, name)
        assert sorted(nodes_of(cluster, name)) == ["n2", "n4"]


def test_a_gang_that_is_too_large_for_any_rack_says_so(cluster, operator, watches, job):
    name = job(placed.sleeper("too-large", 3, placement={"required": "rack"}))
    said = wait_unplaced(cluster, name, "GangTooLarge", deadline=5)
    assert "3 pods need room in one rack" in said
    assert pods_ever(watches, name) == set()


def test_a_preferred_rack_is_waited_for_until_its_deadline(cluster, operator, watches, job):
    wait = 4
    with placed.taken(cluster, ["n1", "n2"]):
        begun = time.monotonic()
        name = job(placed.sleeper("prefers", 2, placement={"preferred": "rack", "preferredWaitSeconds": wait}))
        wait_unplaced(cluster, name, "PreferredLevelUnavailable")
        assert pods_ever(watches, name) == set()
        found = wait_placed(cluster, name)
        took = time.monotonic() - begun
        assert sorted(nodes_of(cluster, name)) == ["n3", "n4"]
        print(f"\nplaced after {took:.1f} s")
        assert took >= wait
    assert found["status"]["placement"]["levelSpanned"] == "block"


def test_an_exclusive_job_has_one_pod_on_a_node(cluster, operator, job):
    name = job(placed.sleeper("exclusive", 2, gpus=1, placement={"exclusive": True}))
    wait_placed(cluster, name)
    first, second = nodes_of(cluster, name)
    assert first != second and placed.RACKS[first] == placed.RACKS[second]


def test_without_a_backend_kube_scheduler_places_the_pods(cluster, operator, watches, job):
    name = job(placed.sleeper("unplaced", 2, gpus=1, scheduling={"backend": "None"}))
    wait_placed(cluster, name)
    for _, pod in watches["pods"].events("default"):
        if placed.job_of(pod) == name:
            assert not placed.gated(pod) and not placed.reserved(pod)
    assert "placement" not in cluster.job(name)["status"]


def test_an_unknown_level_is_named_with_the_known_ones(cluster, operator, watches, job):
    name = job(placed.sleeper("unknown", 2, placement={"required": "rock"}))
    said = wait_unplaced(cluster, name, "PlacementRefused", deadline=5)
    print(f"\n{said}")
    assert 'spec.placement.required: unknown level "rock"' in said and "did you mean rack?" in said
    assert "block, rack and node" in said
    assert pods_ever(watches, name) == set()
    for change in ('{"suspend":true}', '{"placement":{"required":"rack"}}', '{"suspend":false}'):
        cluster.kubectl("patch", "tj", name, "--type=merge", "-p", f'{{"spec":{change}}}')
    wait_placed(cluster, name)


def test_a_required_level_inside_of_the_preferred_one_is_refused(cluster, operator, watches, job):
    name = job(placed.sleeper("inside-out", 2, placement={"required": "rack", "preferred": "block"}))
    said = wait_unplaced(cluster, name, "PlacementRefused", deadline=5)
    assert "spec.placement.required: level rack is inside of the preferred level block" in said, said
    assert pods_ever(watches, name) == set()


def test_a_job_starts_once_its_priority_class_is_created(cluster, operator, job):
    name = job(placed.sleeper("early", 2, gpus=1, scheduling={"priorityClassName": "late"}))
    said = wait_unplaced(cluster, name, "PlacementRefused", deadline=5)
    assert 'PriorityClass "late"' in said, said
    cluster.kubectl("create", "priorityclass", "late", "--value=7")
    try:
        wait_placed(cluster, name, deadline=30)
    finally:
        cluster.kubectl("delete", "priorityclass", "late", "--wait=false")


def test_an_operator_that_starts_again_takes_the_gang_as_it_is(cluster, operator, start, watches, job):
    name = job(placed.sleeper("stays", 2))
    wait_placed(cluster, name)
    before = {uid_of(pod): placed.node_of(pod) for pod in cluster.pods(name)}
    operator.process.kill()
    operator.process.wait()
    start().rest()
    assert {uid_of(pod): placed.node_of(pod) for pod in cluster.pods(name)} == before
    assert wait_placed(cluster, name)["status"]["incarnation"] == 1


def uid_of(pod):
    return pod["metadata"]["uid"]
