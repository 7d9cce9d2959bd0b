"""The Debian mirror that images of the kind tests use is that of the machine's apt, in either form of its sources."""

import pathlib
import subprocess

import pytest

MIRROR = pathlib.Path(__file__).resolve().parents[2] / "tests/kind/mirror.sh"
DEB822 = "Types: deb\nURIs: http://one.example/debian\nSuites: bookworm\n"


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        ({"sources.list": "deb http://two.example/debian bookworm main\n"}, "http://two.example/debian"),
        ({"sources.list": "deb [arch=x] https://b.example/debian bookworm main\n"}, "https://b.example/debian"),
        ({"sources.list.d/debian.sources": DEB822}, "http://one.example/debian"),
        ({"sources.list.d/debian.sources": DEB822, "sources.list": "# see the other\n"}, "http://one.example/debian"),
        ({"sources.list.d/debian.sources": "Types: deb\n", "sources.list": "deb http://two.example/debian x main\n"},
         "http://two.example/debian"),
        ({"sources.list.d/debian.sources": "URIs: mirror+file:/etc/apt/mirrors\n"}, None),
        ({}, None),
        ({"sources.list": "deb cdrom:[Debian]/ bookworm main\n"}, None),
    ],
)
def test_the_mirror_is_found_in_either_form(tmp_path, files, mirror):
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said = subprocess.run([MIRROR, tmp_path], capture_output=True, text=True, check=False)
    if mirror:
        assert (said.returncode, said.stdout) == (0, mirror + "\n"), said
    else:
        assert said.returncode == 1 and f"add one to {tmp_path}/sources.list" in said.stderr, said
