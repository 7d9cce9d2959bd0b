"""The sandbox leaves nothing on the machine, even when its caller is killed. These tests run outside of it."""

import pathlib
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "e2e"))
import e2e  # noqa: E402
from kind_cluster import CACHE  # noqa: E402


def cgroups():
    return [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(f"*/lockstep-kind-{CACHE.stat().st_ino}")]


def marked(word):
    """Process numbers of those that have this word as an argument."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told_to_end"])
def test_a_sandbox_that_ends_early_leaves_nothing(sandbox, number):
    seconds = str(100000 + time.monotonic_ns() % 100000)
    # A process of its own session, as containers have.
    script = f"ip link add inside type bridge && mount -t tmpfs none /mnt && setsid sleep {seconds} & wait"
    process = subprocess.Popen([sandbox, "bash", "-c", script], start_new_session=True)
    e2e.wait_for("the sandbox runs", lambda: marked(seconds), deadline=60)
    assert cgroups()
    half_packed = CACHE / "tmp/tmp.killed/debian"
    half_packed.mkdir(parents=True, exist_ok=True)
    process.send_signal(number)
    process.wait(timeout=30)
    e2e.wait_for("its processes are gone", lambda: not marked(seconds), deadline=20)
    e2e.wait_for("its cgroups are gone", lambda: not cgroups(), deadline=20)
    names = [line.split(":")[0] for line in pathlib.Path("/proc/net/dev").read_text().splitlines()]
    assert "inside" not in map(str.strip, names)
    assert [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if "lockstep-kind" in line] == []
    done = subprocess.run([sandbox, "true"], timeout=60)
    assert done.returncode == 0, "the next sandbox waits for nothing"
    assert not half_packed.exists()


def test_a_sandbox_ends_as_its_command_does(sandbox):
    assert subprocess.run([sandbox, "sh", "-c", "exit 7"], timeout=60).returncode == 7


def test_a_sandbox_has_the_name_servers_of_systemd_resolved(sandbox, tmp_path):
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    script = f"""
        mount --make-rprivate /
        mount -t overlay overlay -o lowerdir=/etc,upperdir={tmp_path}/upper,workdir={tmp_path}/work /etc
        mount -t tmpfs none /run
        mkdir /run/resolve && echo "nameserver 192.0.2.1" >/run/resolve/stub.conf
        rm /etc/resolv.conf && ln -s ../run/resolve/stub.conf /etc/resolv.conf
        exec {sandbox} cat /etc/resolv.conf"""
    done = subprocess.run(["unshare", "--mount", "sh", "-e", "-c", script], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "nameserver 192.0.2.1\n"), done.stderr
