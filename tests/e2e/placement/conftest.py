"""One cluster for all tests of this folder: four real nodes in two racks, and a fleet of nodes that KWOK plays.

Operators are processes on the host. Each test has nodes of its own: the real ones, or a pool of the fleet."""

import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import host_operator  # noqa: E402
import contention  # noqa: E402
import lives  # noqa: E402
import placed  # noqa: E402
import watch  # noqa: E402

# pool -> nodes; test_contention.py has the first nodes of the fleet. The jobs of test_recovery.py are there at the same
# time: two of each round, each of two pods with one GPU. One node stays free for successors.
POOLS = {contention.POOL: contention.FLEET, "repair": 3, "pair": 2, "spare": 1,
         "recovery": math.ceil(4 * placed.RECOVERIES / placed.GPUS) + 1,
         **{pool: lives.NODES for pool in lives.POOLS}}


@pytest.fixture(scope="session")
def pools():
    """The nodes of each pool, by its name."""
    found, begun = {}, 1
    for pool, size in POOLS.items():
        found[pool] = [f"kwok-{number}" for number in range(begun, begun + size)]
        begun += size
    return found


@pytest.fixture(scope="session")
def cluster(pools):
    fleet = sum(POOLS.values())
    for found in host_operator.cluster_with_images("placed", nodes=len(placed.RACKS), kwok=fleet):
        placed.label_topology(found, fleet)
        placed.label(found, {node: {placed.POOL: pool} for pool, nodes in pools.items() for node in nodes})
        yield found


@pytest.fixture(scope="session")
def watches(cluster):
    found = {"pods": watch.Watch(cluster, "/api/v1/pods"),
             "jobs": watch.Watch(cluster, "/apis/lockstep.dev/v1alpha1/trainingjobs")}
    yield found
    for one in found.values():
        one.stop()


@pytest.fixture
def start(cluster, tmp_path):
    """Starts operators for namespace `default`, and ends them after the test."""
    operators = host_operator.Operators(cluster, "default", tmp_path, lease=3, flags=placed.FLAGS)
    yield operators
    operators.end()


@pytest.fixture
def operator(start):
    """One that leads."""
    found = start()
    found.wait_until_ready()
    return found


@pytest.fixture
def job(cluster, start):
    """Applies jobs, and has an operator remove them after the test."""
    with e2e.applied_jobs(cluster) as apply:
        yield apply
