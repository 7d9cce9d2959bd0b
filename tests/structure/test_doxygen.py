"""The public headers as pages: Doxygen has nothing to warn of, and their plain comments describe what they stand at."""

import html
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTER = ROOT / "scripts/doxygen.awk"


def doxygen(to, source=None):
    """Runs it over all headers, or over one with this text, with the project's settings."""
    more = [f"OUTPUT_DIRECTORY={to}/doxygen"]
    if source is not None:
        (to / "header.h").write_text(source)
        more.append(f"INPUT={to}/header.h")
    settings = "\n".join([(ROOT / "Doxyfile").read_text(), *more])
    return subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, text=True, capture_output=True, timeout=300,
                          check=False)


def words_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.read_text())).split())


def filtered(tmp_path, text):
    (tmp_path / "header.h").write_text(text)
    command = ["awk", "-f", FILTER, tmp_path / "header.h"]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def test_all_headers_become_pages_without_a_warning(tmp_path):
    done = doxygen(tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    page = words_of(tmp_path / "doxygen/html/communicator_8h.html")
    assert "communicator.h File Reference Collectives between the ranks of one generation" in page
    page = words_of(tmp_path / "doxygen/html/structlockstep_1_1trainer_1_1comm_1_1AllReduce.html")
    assert "in and out, count elements, owned by the caller until wait() has returned" in page


def test_a_declaration_without_a_comment_is_no_warning(tmp_path):
    """As CONTRIBUTING.md says."""
    assert doxygen(tmp_path, "// A file.\n#pragma once\nvoid go(int far);\n").returncode == 0


def test_a_warning_is_a_failure(tmp_path):
    done = doxygen(tmp_path, "// A file.\n#pragma once\n/** \\nothing */\nvoid go();\n")
    assert done.returncode != 0 and "header.h:3" in done.stderr, done.stderr


@pytest.mark.parametrize("text, wanted", [
    ("// The file,\n// in two lines.\n\nint a;\n", "/// The file,\n/// in two lines. \\file\n\nint a;\n"),
    ("// F.\n\n  // On b.\n  int b;  // metres\n", "/// F. \\file\n\n  /// On b.\n  int b;  ///< metres\n"),
    ("// F.\n\nint b;  // metres,\n        // not feet\n\n// On c.\nint c;\n",
     "/// F. \\file\n\nint b;  ///< metres,\n        ///< not feet\n\n/// On c.\nint c;\n"),
    ("// F <b> @c \\d #e 50 %\n\n", "/// F \\<b\\> \\@c \\\\d \\#e 50 \\% \\file\n\n"),
    ("// F.\n\nurl = \"http://a\";\n}  // namespace a\n", "/// F. \\file\n\nurl = \"http://a\";\n}  // namespace a\n"),
])
def test_each_comment_keeps_its_line_and_its_words(tmp_path, text, wanted):
    assert filtered(tmp_path, text) == wanted
