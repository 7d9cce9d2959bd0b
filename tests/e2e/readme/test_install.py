"""docs/install.md on a real cluster, as an admin types it: install, a job, upgrade, rollback, uninstall.

The images are archives under the page's names, loaded to the nodes: there is no registry, so `docker push` has nowhere
to go."""

import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
from pages import blocks, run, yaml_blocks  # noqa: E402

PAGE = "docs/install.md"
WATCH = "kubectl get trainingjobs -w"  # which a person ends with Ctrl-C


def registry_and_tag():
    """The two values that the first block sets."""
    return re.search(r"^REGISTRY=(\S+) TAG=(\S+)$", blocks(PAGE)["1. Build and push the images"][0], re.M).groups()


def under_the_registrys_name(archive, registry):
    """Rewrites the name of the image in an archive of build-images.sh."""
    renamed = archive.with_suffix(".renamed.tar")
    with tarfile.open(archive) as old, tarfile.open(renamed, "w") as new:
        for member in old:
            content = old.extractfile(member).read() if member.isfile() else b""
            if member.name == "manifest.json":
                content = content.replace(b"docker.io/lockstep/", registry.encode() + b"/")
                member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return renamed


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    registry, tag = registry_and_tag()
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, tag, deadline=300)
    return [under_the_registrys_name(folder / name, registry) for name in ("operator.tar", "trainer.tar")]


@pytest.fixture
def cluster(images):
    made = e2e.Cluster("install")
    try:
        for archive in images:
            made.command("load", archive)
        yield made
    finally:
        made.down()


def what_is_left(cluster):
    """Objects of Lockstep and of the job; the pods of a deleted job go with the garbage collector."""
    kinds = "pods,services,configmaps,secrets,crd,clusterroles,clusterrolebindings,namespaces"
    names = cluster.kubectl("get", kinds, "-A", "-o", "name").stdout.splitlines()
    of_the_cluster = "lockstep-coredns"  # the test cluster's own
    return [name for name in names if re.search("lockstep|minimal", name) and not name.endswith(of_the_cluster)]


def test_the_page_installs_runs_upgrades_and_uninstalls(cluster, tmp_path):
    registry, tag = registry_and_tag()
    for name in ("charts", "examples"):
        (tmp_path / name).symlink_to(e2e.ROOT / name)
    (tmp_path / "values.yaml").write_text(yaml_blocks(PAGE)[0])
    commands = blocks(PAGE)
    environment = {**cluster.env, "PATH": f"{e2e.program('kubectl').parent}:{e2e.BUILD}/bin:{os.environ['PATH']}"}

    def type_in(script, deadline):
        return run(script, deadline, cwd=tmp_path, **environment)

    said = type_in(commands["3. Install"][0], 240)
    assert len(re.findall(r"^pod/lockstep-operator-\S+ +1/1 +Running", said, re.M)) == 2, said
    assert re.search(r"^lease\.coordination\.k8s\.io/lockstep-operator +\S+", said, re.M), said

    # "after you have set its image": of a copy, the original stays as it is.
    apply, watch, logs = commands["4. Run a job"][0].splitlines()
    assert watch == WATCH
    job = (e2e.ROOT / "examples/minimal.yaml").read_text()
    (tmp_path / "minimal.yaml").write_text(re.sub(r"image: \S+", f"image: {registry}/trainer:{tag}", job))
    type_in(apply.replace("examples/minimal.yaml", "minimal.yaml"), 60)
    cluster.wait_condition("minimal", "Succeeded", deadline=120)
    assert "minimal" in type_in(f"timeout 5 {watch} || [ $? = 124 ]", 30)
    assert len(set(re.findall(r"^\[pod/(minimal-\S+)/trainer\]", type_in(logs, 60), re.M))) == 2

    type_in(commands["Upgrade"][0], 240)
    rollback, = re.findall(r"`(helm rollback [^`]*)`", (e2e.ROOT / PAGE).read_text().replace("\n", " "))
    type_in(rollback + " --wait", 240)

    type_in(commands["Uninstall"][0], 240)
    try:
        e2e.wait_for("nothing of Lockstep and of the job is left", lambda: what_is_left(cluster) == [], 60)
    except AssertionError as error:
        raise AssertionError(f"{error}, but {what_is_left(cluster)}") from None


def test_the_page_builds_from_files_that_exist():
    build = blocks(PAGE)["1. Build and push the images"][0]
    files = re.findall(r"^docker build -f (\S+) -t \$REGISTRY/(\w+):\$TAG \.$", build, re.M)
    assert files == [("containers/operator.Dockerfile", "operator"), ("containers/trainer.Dockerfile", "trainer")]
    assert all((e2e.ROOT / file).exists() for file, _ in files)
    values = yaml_blocks(PAGE)[0]
    registry, tag = registry_and_tag()
    assert f"repository: {registry}/operator" in values and f'tag: "{tag}"' in values


def test_every_command_block_of_the_page_is_run():
    assert list(blocks(PAGE)) == ["1. Build and push the images", "3. Install", "4. Run a job", "Upgrade", "Uninstall"]
    assert subprocess.run(["bash", "-n", "-c", "\n".join(sum(blocks(PAGE).values(), []))], check=False).returncode == 0
