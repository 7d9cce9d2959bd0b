"""The quick part of `make lint`, which finds nothing in the tree, and what is planted; and the columns of Python."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from prose import sources  # noqa: E402

COLUMNS = 120


def lint(*files):
    return subprocess.run([ROOT / "scripts/lint.sh", "--quick", *files], text=True, capture_output=True, timeout=120)


def test_every_file_is_formatted_and_every_script_clean():
    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "files are formatted" in done.stdout and "scripts are clean" in done.stdout


def test_a_file_that_is_not_formatted_is_found(tmp_path):
    (tmp_path / ".clang-format").symlink_to(ROOT / ".clang-format")
    file = tmp_path / "file.cpp"
    file.write_text("int  main() {}\n")
    done = lint(file)
    assert done.returncode == 1 and "files above differ" in done.stdout, done.stdout
    file.write_text("int main() {}\n")
    assert lint(file).returncode == 0


def test_a_script_with_a_trap_is_found(tmp_path):
    file = tmp_path / "script"
    file.write_text("#!/usr/bin/env bash\nrm $1\n")
    done = lint(file)
    assert done.returncode == 1 and "SC2086" in done.stdout, done.stdout


def long_lines(text):
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS]


def test_no_line_of_python_has_more_than_120_columns():
    found = [f"{path.relative_to(ROOT)}:{number}" for path in sources("*.py")
             for number in long_lines(path.read_text())]
    assert found == []
    assert long_lines(f"{'a' * COLUMNS}\n{'a' * (COLUMNS + 1)}\n") == [2]
