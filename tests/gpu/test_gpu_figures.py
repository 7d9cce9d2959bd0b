"""What tests of a GPU read from other programs' output. These need no GPU and no fake."""

import pytest
import test_sanitizer_gpu as sanitizer

HEAD = "========= COMPUTE-SANITIZER\n"
NO_DRIVER = HEAD + "========= Error: Target application terminated before first instrumented API call\n"


@pytest.mark.parametrize("tool, last_line, count", [
    ("memcheck", "========= ERROR SUMMARY: 0 errors\n", 0),
    ("memcheck", "========= Invalid __global__ read of size 4 bytes\n========= ERROR SUMMARY: 1 error\n", 1),
    ("racecheck", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0),
    ("racecheck", "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n", 1),
])
def test_what_compute_sanitizer_counts_is_read(tool, last_line, count):
    assert sanitizer.findings(tool, HEAD + last_line) == count


def test_a_sanitizer_that_did_not_come_to_its_end_has_cleared_nothing():
    assert sanitizer.findings("memcheck", NO_DRIVER) is None
    assert sanitizer.findings("racecheck", HEAD + "========= ERROR SUMMARY: 0 errors\n") is None
