"""What scripts/setup.sh says of the system that it runs on."""

import pathlib
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("release", "said"), [
    ("ID=debian\nVERSION_ID=\"12\"\n", ""),
    ("ID=debian\nVERSION_ID=\"13\"\n", "this is debian 13."),
    ("ID=ubuntu\nVERSION_ID=\"24.04\"\n", "this is ubuntu 24.04."),
    ("ID=arch\n", "this is arch."),
    (None, "this is an unknown system."),
])
def test_a_system_that_is_not_debian_12_is_told(tmp_path, release, said):
    text = tmp_path / "os-release"
    if release is not None:
        text.write_text(release)
    # No package manager in PATH, so that the script installs nothing.
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dpkg-query").write_text("#!/bin/sh\n")
    (programs / "dpkg-query").chmod(0o755)
    for name in ("sed", "bash", "env"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    run = subprocess.run(["/usr/bin/bash", ROOT / "scripts/setup.sh", "build"], text=True, capture_output=True,
                         env={"PATH": str(programs), "LOCKSTEP_OS_RELEASE": str(text)}, check=False, timeout=20)
    assert run.returncode == 1 and "no apt-get" in run.stderr
    assert (said in run.stderr) if said else ("Debian 12 alone" not in run.stderr), run.stderr


def test_a_hook_before_a_commit_runs_what_setup_installs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    setup = (ROOT / "scripts/setup.sh").read_text()
    packages = {"/usr/bin/python3": "python3-pytest"}
    for hook in hooks:
        program = hook["entry"].split()[0]
        assert packages.get(program, program) in setup, hook["id"]
        for path in (word for word in hook["entry"].split() if word.startswith("tests/")):
            assert (ROOT / path).exists(), path
