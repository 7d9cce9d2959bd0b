"""Which commands of the pages scripts/run_tests.py runs as they are: pytest on a file of one of its suites."""

import re

import e2e

RUNNER = "".join((e2e.ROOT / "scripts" / name).read_text() for name in ("runner/soak.py", "run_tests.py"))


def runs_in_a_suite(command):
    """Whether a suite of `make test` has the file. With variables before it, a form of `make soak` has to have them."""
    pytest = re.fullmatch(r"((?:[A-Z_]+=\S+ )*)/usr/bin/python3 -m pytest -q -s (tests/\S+\.py)", command)
    if not pytest or not (e2e.ROOT / pytest[2]).is_file():
        return False
    variables = dict(word.split("=") for word in pytest[1].split())
    folder = pytest[2].rpartition("/")[0]
    in_a_suite = f'"{folder}"' in RUNNER[RUNNER.index("SUITES = {"):]
    form = re.search(rf'pytest_words\("{re.escape(pytest[2])}"\),\s*(\{{[^}}]*\}})', RUNNER)
    has_them = bool(form) and all(f'"{name}": "{value}"' in form[1] for name, value in variables.items())
    return in_a_suite and (has_them or not variables)
