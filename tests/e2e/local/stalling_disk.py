"""A disk whose writes can be made to wait.

A process of its own mounts and freezes it. When the test ends, even by SIGKILL, that process thaws and unmounts it."""

import subprocess

import e2e

# A frozen file system blocks each writer, and no signal ends such a process.
GUARD = """
trap '' HUP INT PIPE TERM
mount -o loop "$1" "$2" || exit
echo ready
while read -r seconds; do
  fsfreeze --freeze "$2"
  sleep "$seconds"
  fsfreeze --unfreeze "$2"
  echo ready
done
umount --lazy "$2"
"""


class StallingDisk:
    """A file system of 256 MiB, mounted at `folder / "disk"`."""

    def __init__(self, folder):
        self.image, self.folder = folder / "disk.img", folder / "disk"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(256 << 20)
        e2e.run("mkfs.ext4", "-q", self.image)
        # In a session of its own, which no signal to the test's process group reaches.
        self._guard = subprocess.Popen(["sh", "-c", GUARD, "stalling_disk", self.image, self.folder], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._wait()

    def _wait(self):
        assert self._guard.stdout.readline() == "ready\n", "the disk cannot be mounted"

    def begin_stall(self, seconds):
        """From now on, each write waits until so many seconds have passed."""
        self._guard.stdin.write(f"{seconds}\n")
        self._guard.stdin.flush()

    def stall(self, seconds):
        """Returns when the disk answers again."""
        self.begin_stall(seconds)
        self._wait()

    def close(self):
        self._guard.stdin.close()
        self._guard.wait(30)
