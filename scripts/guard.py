#!/usr/bin/python3
"""Ends processes with SIGKILL when its standard input closes, and thus when the process that holds the pipe ends.

Each line of the input is `process PID` or `group PID`, the leader of a process group. It holds them by pidfd, so it
never signals another process to which the kernel has given the number.
"""

import os
import select
import signal
import sys


def lives(handle):
    return not select.select([handle], [], [], 0)[0]


def main():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    held = {}
    for line in sys.stdin:
        for ended in [handle for handle in held if not lives(handle)]:
            del held[ended]
            os.close(ended)
        kind, pid = line.split()
        try:
            held[os.pidfd_open(int(pid))] = (kind, int(pid))
        except OSError:
            continue  # it has ended, or this machine has no pidfd
    for handle, (kind, pid) in held.items():
        if lives(handle):
            (os.killpg if kind == "group" else os.kill)(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
