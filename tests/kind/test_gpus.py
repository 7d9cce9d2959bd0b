"""The GPUs of a node as NVIDIA's device plugin and the kubelet see them, over a mock of NVML.

The mock is right, or wrong on purpose."""

import pytest

from kind_cluster import PATIENCE, e2e


@pytest.fixture
def spare(cluster):
    """A worker whose mock a test may break; it has 8 healthy GPUs afterwards."""
    node = cluster.workers()[-1]
    yield node
    cluster.control(node, "")
    cluster.restart_plugin(node)
    cluster.wait_for_gpus(node, 8)


def verdict(cluster, node):
    """The diagnosis of a node's GPUs, from the list of NVML, the offer of the kubelet and the log of the plugin."""
    listed, offered = cluster.listed_gpus(node), cluster.gpus(node)
    if isinstance(listed, str):
        return f"NVML fails ({listed}), {offered} GPUs offered"
    if len(set(listed)) < len(listed):
        return f"{len(listed) - len(set(listed))} UUID listed twice, {offered} of {len(listed)} GPUs offered"
    if len(listed) != 8:
        return f"NVML lists {len(listed)} GPUs, {offered} offered"
    if "Skipping event" in cluster.plugin_says(node):
        return f"the plugin ignored an event, {offered} GPUs offered"
    return "nothing" if offered == 8 else f"{8 - offered} GPUs unhealthy"


def test_allocatable_gpus_come_from_the_plugin(cluster):
    for node in cluster.workers():
        assert cluster.gpus(node) == 8
        assert verdict(cluster, node) == "nothing"
        assert "Registered device plugin" in cluster.plugin_says(node)
    assert cluster.gpus("lockstep-control-plane") is None, "no plugin runs there"


@pytest.mark.parametrize(
    "control, offered, seen",
    [
        ("gpus 7\n", 7, "NVML lists 7 GPUs, 7 offered"),
        ("uuid 3 GPU-twice\nuuid 5 GPU-twice\n", 7, "1 UUID listed twice, 7 of 8 GPUs offered"),
        ("init 9\n", 0, "NVML fails (list_gpus: NVML: Driver Not Loaded), 0 GPUs offered"),
    ],
    ids=["seven_gpus", "a_uuid_twice", "nvml_that_does_not_start"],
)
def test_a_broken_mock_is_diagnosed(cluster, spare, control, offered, seen):
    cluster.control(spare, control)
    cluster.restart_plugin(spare)
    cluster.wait_for_gpus(spare, offered)
    assert verdict(cluster, spare) == seen
    if offered == 0:
        e2e.wait_for("the plugin says why", lambda: "Driver Not Loaded" in cluster.plugin_says(spare), PATIENCE, 0.5)


def test_an_xid_that_the_plugin_ignores_is_diagnosed(cluster, spare):
    cluster.control(spare, "")
    cluster.restart_plugin(spare)
    e2e.wait_for(
        "the plugin waits for events",
        lambda: "Ignoring the following XIDs" in cluster.plugin_says(spare),
        PATIENCE,
        0.5,
    )
    cluster.happen(spare, "xid 2 31")
    e2e.wait_for("the plugin has seen it", lambda: "Skipping event" in cluster.plugin_says(spare), PATIENCE, 0.5)
    assert verdict(cluster, spare) == "the plugin ignored an event, 8 GPUs offered"
