"""The command blocks of a page, and a shell that runs them word for word."""

import os
import re
import signal
import subprocess

import e2e


def blocks(page="README.md"):
    """The indented blocks of commands of a page, by the heading above them."""
    found, heading, block, fenced = {}, "", [], False
    for line in (e2e.ROOT / page).read_text().splitlines() + ["# end"]:
        fenced ^= line.startswith("```")
        if line.startswith("    ") and not fenced:
            block.append(line[4:])
            continue
        if block and line.strip():
            found.setdefault(heading, []).append("\n".join(block).strip())
            block = []
        if line.startswith("#") and not fenced:
            heading = line.lstrip("# ")
    return found


def yaml_blocks(page):
    """The fenced YAML blocks of a page, in their order."""
    return re.findall(r"```yaml\n(.*?)```", (e2e.ROOT / page).read_text(), re.S)


def run(script, deadline, cwd=e2e.ROOT, **environment):
    """What a shell prints for the commands; each has to succeed, and all of them in time. No process of them outlives
    the call."""
    left_out = ("KUBECONFIG", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, stdin=subprocess.DEVNULL, text=True,
                               start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**inherited, **environment})
    try:
        out, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        raise AssertionError(f"no end after {deadline} s:\n{script}\n--- it printed\n{out[-6000:]}") from None
    assert process.returncode == 0, f"exit {process.returncode} of:\n{script}\n--- it printed\n{out[-6000:]}"
    return out
