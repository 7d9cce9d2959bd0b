"""Writes a container image as a docker archive, without a daemon, the same bytes for the same input.

`docker load`, `podman load`, `skopeo` and `ctr images import` take such an archive. It is a tar of one tar per layer,
a JSON file, and a manifest.json that binds both to a name. The JSON file names the layers by their SHA-256 and says how
to start the image.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import stat
import sys
import tarfile
import tempfile

from .host import Problem

EXAMPLES = """examples:
  image --name docker.io/lockstep/agent:test --file build/agent:/agent:0755 --entrypoint /agent \\
        --user 65532:65532 --out agent.tar
  image --name docker.io/lockstep/busybox:test --file /bin/busybox:/bin/busybox --link busybox:/bin/sh \\
        --dir /tmp:1777 --cmd /bin/sh --env PATH=/bin --out busybox.tar
"""


class Layer:
    """The entries of one layer, by their path in the image (without a leading slash)."""

    def __init__(self):
        self._entries = {}

    def add_file(self, host, path, mode=None):
        """A file of the host (links are followed); without a mode 0755 if the owner may run it, else 0644."""
        host = pathlib.Path(host)
        if not host.is_file():
            raise Problem(f"{host} is not a file; it cannot go into an image.")
        if mode is None:
            mode = 0o755 if os.access(host, os.X_OK) else 0o644
        self._put(path, tarfile.REGTYPE, mode, host=host)

    def add_bytes(self, content, path, mode=0o644):
        self._put(path, tarfile.REGTYPE, mode, content=content)

    def add_directory(self, path, mode=0o755):
        self._put(path, tarfile.DIRTYPE, mode)

    def add_link(self, target, path):
        self._put(path, tarfile.SYMTYPE, 0o777, target=target)

    def add_tree(self, host, path="/"):
        """A whole folder of the host: files, folders and links; other entries are left out."""
        host = pathlib.Path(host)
        if not host.is_dir():
            raise Problem(f"{host} is not a folder; it cannot go into an image.")
        for entry in sorted(host.rglob("*")):
            where = f"{path}/{entry.relative_to(host)}"
            mode = stat.S_IMODE(entry.lstat().st_mode)
            if entry.is_symlink():
                self.add_link(os.readlink(entry), where)
            elif entry.is_dir():
                self.add_directory(where, mode)
            elif entry.is_file():
                self._put(where, tarfile.REGTYPE, mode, host=entry)

    def _put(self, path, kind, mode, **content):
        parts = pathlib.PurePosixPath("/" + path).parts[1:]
        if not parts or ".." in parts:
            raise Problem(f"'{path}' is no path inside an image.")
        for depth in range(1, len(parts)):
            self._entries.setdefault("/".join(parts[:depth]), (tarfile.DIRTYPE, 0o755, {}))
        self._entries["/".join(parts)] = (kind, mode, content)

    def write(self, file):
        """Writes the layer's tar: sorted, owned by root, without times."""
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, (kind, mode, content) in sorted(self._entries.items()):
                entry = tarfile.TarInfo(path)
                entry.type, entry.mode = kind, mode
                if kind == tarfile.SYMTYPE:
                    entry.linkname = content["target"]
                if kind != tarfile.REGTYPE:
                    tar.addfile(entry)
                elif "content" in content:
                    entry.size = len(content["content"])
                    tar.addfile(entry, io.BytesIO(content["content"]))
                else:
                    with open(content["host"], "rb") as source:
                        entry.size = os.fstat(source.fileno()).st_size
                        tar.addfile(entry, source)


def write_image(out, name, layers, entrypoint=(), cmd=(), env=(), user="", workdir=""):
    """Writes the archive to the path `out`, whole or not at all. The name needs a tag, and no `latest`."""
    if ":" not in name.rsplit("/", 1)[-1] or name.endswith(":latest"):
        raise Problem(f"The image name '{name}' needs a tag other than 'latest', as in docker.io/lockstep/agent:test.")
    out = pathlib.Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + f".part{os.getpid()}")
    config = {"Entrypoint": list(entrypoint), "Cmd": list(cmd), "Env": list(env), "User": user, "WorkingDir": workdir}
    try:
        with tarfile.open(part, mode="w", format=tarfile.PAX_FORMAT) as archive:
            digests = []
            for layer in layers:
                with tempfile.TemporaryFile(dir=out.parent) as file:
                    layer.write(file)
                    digests.append(_digest(file))
                    _add(archive, f"{digests[-1]}/layer.tar", file)
            description = _json(
                {
                    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
                    "os": "linux",
                    "created": "1970-01-01T00:00:00Z",
                    "config": {key: value for key, value in config.items() if value},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
                    "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "lockstep image"} for _ in digests],
                }
            )
            config_name = f"{_digest(description)}.json"
            _add(archive, config_name, description)
            _add(
                archive,
                "manifest.json",
                _json(
                    [
                        {
                            "Config": config_name,
                            "RepoTags": [name],
                            "Layers": [f"{digest}/layer.tar" for digest in digests],
                        }
                    ]
                ),
            )
        os.rename(part, out)
    finally:
        part.unlink(missing_ok=True)


def _json(value):
    return io.BytesIO(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _digest(file):
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def _add(archive, name, file):
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    file.seek(0, os.SEEK_END)
    entry.size = file.tell()
    file.seek(0)
    archive.addfile(entry, file)


def names_in(archive):
    """The image names of a docker archive."""
    try:
        with tarfile.open(archive) as tar:
            entries = json.load(tar.extractfile("manifest.json"))
            names = [name for entry in entries for name in entry.get("RepoTags") or []]
    except (OSError, KeyError, tarfile.TarError, json.JSONDecodeError) as error:
        raise Problem(f"{archive} is not an image archive: {error}.") from None
    if not names:
        raise Problem(f"{archive} holds no image with a name.")
    return names


def needs_libraries(program):
    """True for a program that needs a dynamic loader, which an image FROM scratch lacks."""
    with open(program, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return False
        offset, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
        file.seek(offset)
        table = file.read(size * count)
    return any(int.from_bytes(table[i * size : i * size + 4], "little") == 3 for i in range(count))


def _split(word, parts, what):
    found = word.split(":")
    if not 1 <= len(found) <= parts or not all(found):
        raise Problem(f"'{word}' is not of the form {what}.")
    return found + [None] * (parts - len(found))


def main(words):
    parser = argparse.ArgumentParser(
        prog="image",
        description="Writes a container image as an archive, without a daemon.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--name", required=True, help="name with a tag, as docker.io/lockstep/agent:test")
    parser.add_argument("--out", required=True, help="the archive to write")
    parser.add_argument("--file", action="append", default=[], metavar="HOST:PATH[:MODE]", help="a file to take in")
    parser.add_argument(
        "--tree", action="append", default=[], metavar="HOST[:PATH]", help="a folder to take in, with all below it"
    )
    parser.add_argument("--link", action="append", default=[], metavar="TARGET:PATH", help="a symbolic link to make")
    parser.add_argument("--dir", action="append", default=[], metavar="PATH[:MODE]", help="an empty folder to make")
    parser.add_argument(
        "--entrypoint", action="append", default=[], metavar="WORD", help="program to start; once per word"
    )
    parser.add_argument("--cmd", action="append", default=[], metavar="WORD", help="default arguments; once per word")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--user", default="", metavar="UID[:GID]", help="who runs it (default: root)")
    parser.add_argument("--workdir", default="", metavar="PATH")
    asked = parser.parse_args(words)
    try:
        layer = Layer()
        for word in asked.tree:
            host, path = _split(word, 2, "HOST[:PATH]")
            layer.add_tree(host, path or "/")
        for word in asked.dir:
            path, mode = _split(word, 2, "PATH[:MODE]")
            layer.add_directory(path, int(mode or "755", 8))
        for word in asked.file:
            host, path, mode = _split(word, 3, "HOST:PATH[:MODE]")
            layer.add_file(host, path or "/" + pathlib.Path(host).name, int(mode, 8) if mode else None)
        for word in asked.link:
            target, path = _split(word, 2, "TARGET:PATH")
            layer.add_link(target, path)
        write_image(asked.out, asked.name, [layer], asked.entrypoint, asked.cmd, asked.env, asked.user, asked.workdir)
    except (Problem, ValueError, OSError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0
