"""What tests of a GPU read from other programs' output. These need no GPU and no fake."""

import pytest
import test_sanitizer_gpu as sanitizer
import test_throughput_gpu as throughput

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


def test_the_last_total_of_a_program_is_its_speed():
    assert throughput.speed("10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.3\ntotal images/sec: 308.27\n") == 308.27
    with pytest.raises(AssertionError, match="out of memory"):
        throughput.speed("out of memory")


def test_speeds_are_compared_by_their_medians():
    line = throughput.summary("resnet50", "GPU 0: NVIDIA H200 (UUID: GPU-1)", [4600.0, 9e9, 4500.0], [2300.0, 1.0, 1e9])
    assert "4,600 images/s, PyTorch (channels_last, AMP) 2,300, ratio 2.00; 100% of the aim, 4,600" in line


def test_a_peer_that_is_not_installed_is_said():
    line = throughput.summary("resnet50", "GPU 0: NVIDIA A100", [100.0], [])
    assert "PyTorch skipped: it is not installed (tests/e2e/torch.sh installs it)" in line and "aim" not in line
