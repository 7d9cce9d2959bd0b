"""scripts/release-files.sh: its files install, start, and match their checksums."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("e2e", "e2e/readme")]
import e2e  # noqa: E402
import pages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release"))
VERSION = "1.2.3"
IMAGE = "registry.example.com/lockstep/operator"  # as in the command


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], text=True, capture_output=True, check=True, timeout=300, **options
    ).stdout


@pages.types_blocks("RELEASE.md", "Make a release")
def type_the_command(folder):
    """The page's first command, with a folder and a version of this test."""
    command, _ = pages.commands_of(pages.blocks("RELEASE.md")["Make a release"][0])
    pages.run(pages.changed(command, {"build/release": str(BUILD), "out/release": str(folder), "0.1.0": VERSION}), 900)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    type_the_command(folder)
    return folder


def package(release):
    return next(release.glob("lockstep_*.deb"))


def test_the_package_holds_programs_that_start(release, tmp_path):
    run("dpkg-deb", "--extract", package(release), tmp_path)
    programs = {path.name for path in (tmp_path / "usr/bin").iterdir()}
    assert {"lockstep", "lockstep-agent", "lockstep-data", "lockstep-operator", "lockstep-trainer"} <= programs
    assert "lockstep" in run(tmp_path / "usr/bin/lockstep", "--help")


def test_the_package_depends_on_every_library_that_it_loads(release, tmp_path):
    run("dpkg-deb", "--extract", package(release), tmp_path)
    depends = set(re.findall(r"(\S+) \(>=", run("dpkg-deb", "--field", package(release), "Depends")))
    for program in (tmp_path / "usr/bin").iterdir():
        loaded = subprocess.run(["ldd", program], text=True, capture_output=True, timeout=60).stdout
        for library in re.findall(r"=> (/\S+)", loaded):
            file = pathlib.Path(library).resolve().name
            owners = {line.split(":")[0] for line in run("dpkg-query", "-S", f"*/{file}").splitlines()}
            assert owners & depends, f"{program.name} loads {library}"


def test_the_agent_of_a_release_is_static(release):
    agent = next(release.glob("lockstep-agent-linux-*"))
    assert subprocess.run(["ldd", agent], capture_output=True, timeout=60).returncode != 0


def test_the_chart_names_the_version(release):
    with tarfile.open(release / f"lockstep-{VERSION}.tgz") as chart:
        text = chart.extractfile("lockstep/Chart.yaml").read().decode()
    assert f"version: {VERSION}" in text and re.search(rf'appVersion: "?{re.escape(VERSION)}"?$', text, re.M)


def test_the_chart_names_the_image_of_the_release(release):
    chart = release / f"lockstep-{VERSION}.tgz"
    text = run(e2e.program("helm"), "template", "lockstep", chart, "--kube-version", "1.30.0")
    assert re.findall(r"^ *image: (.*)$", text, re.M) == [f"{IMAGE}:{VERSION}"]


def test_the_sbom_lists_the_package_and_its_dependencies(release):
    sbom = json.loads((release / f"lockstep-{VERSION}.spdx.json").read_text())
    depends = set(re.findall(r"(\S+) \(>=", run("dpkg-deb", "--field", package(release), "Depends")))
    assert {entry["name"] for entry in sbom["packages"]} == {"lockstep"} | depends
    identifiers = [entry["SPDXID"] for entry in sbom["packages"]]
    assert [name for name in identifiers if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name)] == []
    assert len(set(identifiers)) == len(identifiers)


def test_every_file_of_a_release_has_a_checksum_that_fits(release):
    assert "FAILED" not in run("sha256sum", "--check", "SHA256SUMS", cwd=release)
    listed = {line.split("  ")[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in release.iterdir()} - {"SHA256SUMS"}
