"""docs/install.md on a real cluster, as an admin types it: images, install, a job, upgrade, rollback, uninstall.

The blocks of docs/placement.md and docs/troubleshooting.md are typed on the same cluster. `docker` beside this file
stands in for Docker and a registry."""

import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
from pages import blocks, changed, commands_of, run, types_blocks, yaml_blocks  # noqa: E402

PAGE = "docs/install.md"
CLUSTER = "install"
WATCH = "kubectl get trainingjobs -w"  # which a person ends with Ctrl-C


def registry_and_tag():
    """The two values that the first block sets."""
    return re.search(r"^REGISTRY=(\S+) TAG=(\S+)$", blocks(PAGE)["1. Build and push the images"][0], re.M).groups()


@pytest.fixture
def cluster():
    made = e2e.Cluster(CLUSTER)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture
def checkout(tmp_path):
    """What the commands take of the repository, beside the page's values."""
    for name in ("charts", "containers", "examples"):
        (tmp_path / name).symlink_to(e2e.ROOT / name)
    (tmp_path / "values.yaml").write_text(yaml_blocks(PAGE)[0])
    return tmp_path


@pytest.fixture
def type_in(cluster, checkout, tmp_path_factory):
    """Types commands in the checkout, or in the repository itself."""
    archives = tmp_path_factory.mktemp("images")
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, archives, "made", deadline=300)
    here = pathlib.Path(__file__).resolve().parent
    path = f"{here}:{e2e.program('kubectl').parent}:{e2e.BUILD}/bin:{os.environ['PATH']}"
    docker = {"LOCKSTEP_DOCKER_ARCHIVES": str(archives), "LOCKSTEP_DOCKER_CLUSTER": CLUSTER}
    environment = {**cluster.env, **docker, "PATH": path}
    return lambda script, deadline, cwd=checkout: run(script, deadline, cwd=cwd, **environment)


def what_is_left(cluster):
    """Objects of Lockstep and of the job; the pods of a deleted job go with the garbage collector."""
    kinds = "pods,services,configmaps,secrets,crd,clusterroles,clusterrolebindings,namespaces"
    names = cluster.kubectl("get", kinds, "-A", "-o", "name").stdout.splitlines()
    of_the_cluster = "lockstep-coredns"  # the test cluster's own
    return [name for name in names if re.search("lockstep|minimal", name) and not name.endswith(of_the_cluster)]


def type_the_job(cluster, checkout, type_in):
    apply, watch, logs = blocks(PAGE)["4. Run a job"][0].splitlines()
    registry, tag = registry_and_tag()
    # "after you have set its image": of a copy, the original stays as it is.
    job = (e2e.ROOT / "examples/minimal.yaml").read_text()
    (checkout / "minimal.yaml").write_text(re.sub(r"image: \S+", f"image: {registry}/trainer:{tag}", job))
    type_in(changed(apply.partition("#")[0], {"examples/minimal.yaml": "minimal.yaml"}), 60)
    cluster.wait_condition("minimal", "Succeeded", deadline=120)
    assert "minimal" in type_in(changed(watch, {WATCH: f"timeout 5 {WATCH} || [ $? = 124 ]"}), 30)
    assert len(set(re.findall(r"^\[pod/(minimal-\S+)/trainer\]", type_in(logs, 60), re.M))) == 2


def type_what_admins_look_at(cluster, type_in):
    levels = re.findall(r"(\w+)=(topology\.example\.com/\w+)", blocks("docs/placement.md")["Check the labels"][0])
    assert [level for level, _ in levels] == ["block", "rack"]
    for node in ("n1", "n2", "n3"):
        cluster.kubectl("label", "node", node, *(f"{label}={level}-of-{node}" for level, label in levels))
    drawn = type_in(blocks("docs/placement.md")["Check the labels"][0], 60)
    assert len(re.findall(r"rack rack-of-n\d", drawn)) == 3, drawn

    for command in blocks("docs/troubleshooting.md")["Troubleshooting"][0].splitlines():
        said = type_in(changed(command.partition("#")[0], {"NAME": "minimal"}), 60)
        assert "Succeeded" in said or "Completed" in said, said


@types_blocks(PAGE, "1. Build and push the images", "3. Install", "4. Run a job", "Upgrade", "Roll back", "Uninstall")
@types_blocks("docs/placement.md", "Check the labels")
@types_blocks("docs/troubleshooting.md", "Troubleshooting")
def test_the_page_installs_runs_upgrades_and_uninstalls(cluster, checkout, type_in):
    commands = blocks(PAGE)
    type_in(commands["1. Build and push the images"][0], 240, cwd=e2e.ROOT)

    said = type_in(commands["3. Install"][0], 240)
    assert len(re.findall(r"^pod/lockstep-operator-\S+ +1/1 +Running", said, re.M)) == 2, said
    assert re.search(r"^lease\.coordination\.k8s\.io/lockstep-operator +\S+", said, re.M), said

    type_the_job(cluster, checkout, type_in)
    type_what_admins_look_at(cluster, type_in)

    type_in(commands["Upgrade"][0], 240)
    type_in(commands["Roll back"][0], 240)

    type_in(commands["Uninstall"][0], 240)
    try:
        e2e.wait_for("nothing of Lockstep and of the job is left", lambda: what_is_left(cluster) == [], 60)
    except AssertionError as error:
        raise AssertionError(f"{error}, but {what_is_left(cluster)}") from None


@types_blocks(PAGE, "The command")
def test_the_command_is_installed_and_starts(tmp_path):
    install, path, version = commands_of(blocks(PAGE)["The command"][0])
    to_here = {"$HOME/.local": str(tmp_path)}
    said = run("\n".join([changed(install, to_here), changed(path, to_here), version, "command -v lockstep"]), 900)
    *_, printed, program = said.splitlines()
    assert printed.startswith("lockstep ") and program == f"{tmp_path}/bin/lockstep"


def test_the_values_name_the_image_that_the_page_pushes():
    registry, tag = registry_and_tag()
    values = yaml_blocks(PAGE)[0]
    assert f"repository: {registry}/operator" in values and f'tag: "{tag}"' in values
