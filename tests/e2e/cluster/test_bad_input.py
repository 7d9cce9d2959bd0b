"""Bad input on a real server and a real kubelet: a sentence at apply, or a condition within the deadline."""

import pathlib
import re

import pytest

import e2e
import jobs

BAD = sorted((e2e.ROOT / "tests/bad_input").glob("*.yaml"))


def expectation(path):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("# expect-apply:"):
            return line.split(":", 1)[1].strip()
    return None


REFUSED = [path for path in BAD if expectation(path)]


@pytest.fixture(scope="module")
def refusals(cluster):
    """What kubectl says of each bad file, by its name; one call for all, because most of a call is kubectl's start."""
    files = [word for path in REFUSED for word in ("-f", path.relative_to(e2e.ROOT))]
    done = cluster.kubectl("apply", "--dry-run=server", *files, check=False)
    assert done.returncode != 0 and done.stdout == "", f"something was accepted: {done.stdout}"
    said = re.split(r"tests/bad_input/(\w+)\.yaml", done.stderr)  # text, name, what follows it, name, ...
    return dict(zip(said[1::2], said[2::2]))


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_apply_refuses_it_with_a_sentence_that_names_the_field(cluster, refusals, path):
    # Of a file with nothing in it kubectl speaks only when there is no other.
    said = refusals.get(path.stem) or cluster.kubectl("apply", "--dry-run=server", "-f", path, check=False).stderr
    assert expectation(path) in said, said


def failing_condition(cluster, name, word, deadline):
    """Waits until some condition of the job carries `word` in reason or message."""
    def look():
        found = cluster.job(name) or {}
        for condition in found.get("status", {}).get("conditions", []):
            if word in condition.get("reason", "") or word in condition.get("message", ""):
                return condition
        return None

    return cluster.wait_for(name, f"a condition that says {word}", look, deadline, every=0.3)


CASES = {
    # name: (change of the spec, word in reason or message, within seconds)
    "no-such-image": (dict(image="docker.io/lockstep/no-such-image:1", deadlines={"startupSeconds": 90}), "Image", 120),
    "no-such-command": (dict(command=["/no/such/program"]), "/no/such/program", 60),
    "dies-at-once": (
        dict(command=["/bin/sh", "-c", "echo broken on purpose >&2; exit 3"], restart={"maxRestarts": 1}),
        "broken on purpose",
        90,
    ),
    "bad-template": (
        dict(podTemplate={"spec": {"containers": [{"name": "trainer", "imagePolicy": "Never"}]}}),
        "imagePolicy",
        60,
    ),
    "no-such-class": (
        dict(scheduling={"priorityClassName": "no-such-class"}),
        'PriorityClass "no-such-class", which the cluster does not have',
        15,
    ),
    "never-fits": (
        dict(resources={"requests": {"cpu": "1000"}}, deadlines={"startupSeconds": 15}),
        "insufficient cpu",
        60,
    ),
}


@pytest.fixture(scope="module")
def submitted(cluster):
    """All of CASES at once, because most of what follows is waiting."""
    for name, (change, _, _) in CASES.items():
        document = jobs.shell(name, "exit 0")
        document["spec"].update(change)
        cluster.apply(document)
    yield
    for name in CASES:
        cluster.kubectl("delete", "trainingjob", name, "--wait=false")
    for name in CASES:
        cluster.delete_job(name)


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_ends_as_a_condition_and_never_as_a_silent_wait(cluster, submitted, name):
    _, word, deadline = CASES[name]
    condition = failing_condition(cluster, name, word, deadline)
    print(f"\n{name}: {condition['type']}={condition['status']} {condition['reason']}: {condition['message'][:200]}")


def test_a_full_quota_becomes_a_condition(cluster):
    cluster.kubectl("create", "namespace", "tight")
    try:
        cluster.kubectl("create", "quota", "none", "--hard=pods=0", "-n", "tight")
        document = jobs.shell("over-quota", "exit 0", deadlines={"startupSeconds": 15})
        document["metadata"]["namespace"] = "tight"
        cluster.apply(document, namespace="tight")

        def look():
            found = cluster.job("over-quota", "tight") or {}
            return [c for c in found.get("status", {}).get("conditions", []) if "quota" in c.get("message", "")]

        found = e2e.wait_for("a condition that names the quota", look, deadline=60, every=0.3)
        print(f"\nover-quota: {found[0]['message'][:200]}")
    finally:
        cluster.kubectl("delete", "namespace", "tight", "--timeout=90s", deadline=100)
