"""The CUDA variant of the trainer's image by its Dockerfile, with NVIDIA's libraries. `tests/kind/run.sh cuda` makes
it."""

import contextlib
import os
import pathlib
import subprocess

import pytest

from kind_cluster import CACHE, ENGINE, PATIENCE, e2e
from test_images import archive

IMAGE = "docker.io/lockstep/trainer:dev-cuda"
LIBRARIES = "usr/lib/x86_64-linux-gnu"

pytestmark = pytest.mark.skipif(
    os.environ.get("LOCKSTEP_KIND_INSIDE") != "1",
    reason=os.environ.get("LOCKSTEP_KIND_SKIP") or "it needs the image that tests/kind/run.sh cuda builds",
)


@pytest.fixture(scope="module")
def root():
    """The files of the image."""
    where = pathlib.Path(e2e.run(ENGINE, "image", "mount", IMAGE, deadline=PATIENCE).stdout.strip())
    yield where
    with contextlib.suppress(e2e.CommandFailed):
        e2e.run(ENGINE, "image", "unmount", IMAGE, deadline=PATIENCE)


def files(folder):
    """Path -> bytes of each file, in an image's root."""
    return {"/" + str(path.relative_to(folder)): path for path in folder.rglob("*") if not path.is_dir()}


def start(*flags):
    command = [ENGINE, "run", "--rm", "--network=none", IMAGE, "--model=linear-regression", "--steps=1", *flags]
    return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE)


def test_the_cuda_image_has_the_files_of_the_archive_script(root):
    ours, how = archive(CACHE / "cuda/trainer-cuda.tar")
    theirs = files(root)
    assert set(ours) == set(theirs)
    config = e2e.run(ENGINE, "image", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", IMAGE).stdout
    assert set(how["Env"]) == set(config.split())
    size = sum(path.lstat().st_size for path in theirs.values())
    print(f"\n{IMAGE}: {len(theirs)} files, {size >> 20} MiB")


def test_without_a_driver_auto_says_what_it_computes_on_and_why():
    done = start("--backend=auto")
    assert done.returncode == 0, done.stderr
    said = "--backend=auto computes on the CPU: this machine has no NVIDIA driver, or the container does not show it"
    assert said in done.stdout.splitlines(), done.stdout


def test_without_a_driver_cuda_ends_with_one_sentence_and_its_exit_code():
    done = start("--backend=cuda")
    assert done.returncode == 69, done.stdout
    assert "this machine has no NVIDIA driver" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_cudnn_plans_every_convolution_with_the_image_alone(root):
    program = e2e.BUILD / "tests/bin/cuda_plans"
    planned = e2e.run(program, root / LIBRARIES, deadline=PATIENCE).stdout
    assert planned == (e2e.ROOT / "tests/trainer/backend/cuda/plans/table.txt").read_text()
