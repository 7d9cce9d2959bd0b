"""The cluster's own two images (pause and busybox), and the import of image archives into its nodes."""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from . import image, nodes
from .host import Problem, run, wait_until
from .layout import cache_folder
from .node_config import HERE, PAUSE_IMAGE

BUSYBOX_IMAGE = "docker.io/lockstep/busybox:test"


def prepare(cluster):
    """Puts the cluster's own images where every node finds them when it boots."""
    cluster.images.mkdir(parents=True, exist_ok=True)
    for archive in (_pause(), _busybox()):
        shutil.copy(archive, cluster.images / archive.name)


def _cached(name, *inputs):
    digest = hashlib.sha256(b"".join(pathlib.Path(file).read_bytes() for file in inputs)).hexdigest()[:12]
    return cache_folder() / "cluster" / "images" / f"{name}-{digest}.tar"


def _pause():
    source = HERE / "images" / "pause.c"
    out = _cached("pause", source, image.__file__)
    if not out.exists():
        with tempfile.TemporaryDirectory() as work:
            run("gcc", "-static", "-Os", "-s", "-o", f"{work}/pause", source)
            layer = image.Layer()
            layer.add_file(f"{work}/pause", "/pause")
            image.write_image(out, PAUSE_IMAGE, [layer], entrypoint=["/pause"], user="65535:65535")
    return out


def _busybox():
    program = shutil.which("busybox")
    if program is None or image.needs_libraries(program):
        raise Problem("A static busybox is missing; run 'make setup', or: apt-get install busybox-static")
    out = _cached("busybox", program, image.__file__, __file__)
    if not out.exists():
        layer = image.Layer()
        layer.add_file(program, "/bin/busybox")
        for applet in run(program, "--list").split():
            if applet != "busybox":
                layer.add_link("busybox", f"/bin/{applet}")
        layer.add_directory("/tmp", 0o1777)
        layer.add_bytes(b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", "/etc/passwd")
        image.write_image(out, BUSYBOX_IMAGE, [layer], cmd=["/bin/sh"], env=["PATH=/bin"])
    return out


def load(cluster, archive):
    """Imports the archive into every node that is on, and keeps it for those that boot later; returns the image names.

    A second load of the same name replaces the image in every node; running containers keep the old one.
    """
    archive = pathlib.Path(archive)
    wanted = image.names_in(archive)
    with open(archive, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    first = wanted[0].replace("/", "_").replace(":", "_")
    kept = cluster.images / f"{first}@{digest}.tar"
    if not kept.exists():
        part = kept.with_name(kept.name + ".part")
        shutil.copy(archive, part)
        os.rename(part, kept)
        for old in cluster.images.glob(
            f"{first}@*.tar"
        ):  # else a node that boots later might end up with the older one
            if old != kept:
                old.unlink()
    running = [node for node in cluster.nodes() if nodes.is_on(cluster, node)]
    imports = []
    for node in running:
        words = nodes.enter(cluster, node) + ["/bin/bash", "-c", _IMPORT, "import", kept.name]
        imports.append(
            (
                node,
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                ),
            )
        )
    for node, process in imports:
        said = process.communicate(timeout=300)[0]
        if process.returncode != 0:
            raise Problem(f"Node {node} could not import {archive}: {said.strip()[-300:]}")
    for node in running:
        for name in wanted:
            wait_until(
                f"the runtime of {node} knew the image {name}", functools.partial(_is_known, cluster, node, name), 60
            )
    return wanted


_IMPORT = """set -e
ctr -n k8s.io images import --all-platforms "/lockstep/images/$1"
touch "/var/lib/lockstep-images/$1" """


def _is_known(cluster, node, name):
    """containerd's Kubernetes part takes a new image in a moment after the import, and then labels it."""
    listed = run(*nodes.enter(cluster, node), "ctr", "-n", "k8s.io", "images", "list", f"name=={_full(name)}")
    return "io.cri-containerd.image=managed" in listed


def _full(name):
    """The name as containerd stores it: with a registry and, for a bare name, the folder 'library'."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"
