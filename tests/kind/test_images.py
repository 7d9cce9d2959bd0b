"""The images of the Dockerfiles hold the files of the images that containers/build-images.sh builds."""

import json
import pathlib
import tarfile

import pytest

from kind_cluster import CACHE, OUT, PATIENCE, e2e

# The PATH that buildah sets if a Dockerfile FROM scratch sets none; Docker sets none.
BUILDAHS_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def archive(path):
    """The files of an image archive (path -> mode, or the target of a link), and its start configuration."""
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))[0]
        config = json.load(tar.extractfile(manifest["Config"]))["config"]
        files = {}
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(name)) as layer:
                for entry in layer:
                    if not entry.isdir():
                        files["/" + entry.name.lstrip("./")] = (
                            entry.linkname if entry.issym() else oct(entry.mode & 0o7777)
                        )
    env = [entry for entry in config.get("Env") or [] if entry != BUILDAHS_PATH]
    return files, {"Entrypoint": config.get("Entrypoint"), "User": config.get("User"), "Env": env}


@pytest.fixture(scope="session")
def made_without_a_daemon():
    folder = OUT / "images"
    folder.mkdir(parents=True, exist_ok=True)
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=PATIENCE)
    return folder


@pytest.mark.skipif(
    'VERSION_ID="12"' not in pathlib.Path("/etc/os-release").read_text(),
    reason="the host's libraries are not Debian 12's",
)
@pytest.mark.parametrize("name", ["operator", "trainer"])
def test_a_dockerfile_gives_the_files_of_the_archive_script(cluster, made_without_a_daemon, name):
    ours, how = archive(made_without_a_daemon / f"{name}.tar")
    theirs, also = archive(CACHE / "images" / f"{name}-dev.tar")
    assert ours == theirs
    assert how == also
    print(f"{name}: {len(ours)} files, {(CACHE / 'images' / f'{name}-dev.tar').stat().st_size >> 20} MiB")
