"""What `make soak` runs: the long forms of the tests."""

import time

from runner.processes import PYTHON, ROOT

BIN = ROOT / "build/release/tests/bin"


def pytest_words(*words):
    return [PYTHON, "-m", "pytest", "-q", "-s", *words]


def soak_forms(rounds):
    """(name, command, environment[, deadline]) of each, in their order."""
    again = [f"--gtest_repeat={rounds}"]
    return [
        ("the membership protocol", [BIN / "rendezvous_test", "--gtest_filter=*Membership*", *again], {}),
        (
            "every way the membership protocol can go",
            [BIN / "explorer_test"],
            {"LOCKSTEP_EXPLORER_DEEPER": "2", "LOCKSTEP_EXPLORER_WALKS": str(1000 * rounds)},
        ),
        (
            "the coordinator's machine of the last commit and of this tree",
            ["tests/operator/rendezvous/equal_machines/compare.sh", "HEAD", str(200_000 * rounds)],
            {},
        ),
        ("crashes of the controller", [BIN / "job_test", "--gtest_filter=Crash.*", *again], {}),
        (
            "job files",
            [BIN / "api_test", "--gtest_filter=JobFile.*"],
            {"LOCKSTEP_FUZZ_CHANGES": str(1000 * rounds), "LOCKSTEP_SEED": str(int(time.time()))},
        ),
        ("patches against kubectl", [BIN / "kubectl_patch_test", *again], {}),
        ("the communicator", [BIN / "comm_test", *again], {}),
        (
            "ranks that hang, 20 of each kind",
            pytest_words("tests/e2e/local/test_hangs.py", "-k", "named or replaced"),
            {"LOCKSTEP_HANG_ROUNDS": "20"},
        ),
        (
            "an hour without a false alarm",
            pytest_words("tests/e2e/local/test_hangs.py", "-k", "nobody"),
            {"LOCKSTEP_QUIET_SECONDS": "3600"},
        ),
        (
            "the operator killed after each write",
            pytest_words("tests/e2e/faults"),
            {"LOCKSTEP_FAULT_ROUNDS": "3", "LOCKSTEP_FAULT_LEASE": "15"},
        ),
        (
            "chaos",
            pytest_words("tests/e2e/local/test_chaos.py", "-k", "makes_each_step_once"),
            {
                "LOCKSTEP_CHAOS_FAULTS": str(25 * rounds),
                "LOCKSTEP_CHAOS_WORKERS": "6",
                "LOCKSTEP_SEED": str(int(time.time())),
            },
        ),
        (
            "the bits under twenty seeds of chaos",
            pytest_words("tests/e2e/local/test_chaos.py", "-k", "weights_are_bitwise_identical"),
            {"LOCKSTEP_CHAOS_SEEDS": "20", "LOCKSTEP_SEED": str(int(time.time()))},
        ),
        (
            "the bits on the fake of a GPU under twenty seeds of chaos",
            pytest_words("tests/e2e/local/test_chaos.py", "-k", "a_gpu_that_computes"),
            {
                "LOCKSTEP_CHAOS_GPU_SEEDS": "20",
                "LOCKSTEP_CHAOS_GPU_FAULTS": "5",
                "LOCKSTEP_SEED": str(int(time.time())),
            },
        ),
        (
            "the bits of a ResNet on the fake of a GPU under chaos, in either precision",
            pytest_words("tests/e2e/local/test_chaos.py", "-k", "a_gpu_that_computes"),
            {
                "LOCKSTEP_CHAOS_GPU_MODEL": "images",
                "LOCKSTEP_CHAOS_GPU_SEEDS": "2",
                "LOCKSTEP_CHAOS_WORKERS": "2",
                "LOCKSTEP_SEED": str(int(time.time())),
            },
        ),
        ("a job scaled fifty times", pytest_words("tests/e2e/cluster/test_scale.py"), {"LOCKSTEP_SCALINGS": "50"}),
        (
            "each fault on three nodes, the API server away for a minute",
            pytest_words("tests/e2e/cluster/test_faults.py"),
            {"LOCKSTEP_AWAY_SECONDS": "60", "LOCKSTEP_FAULT_LEASE": "15"},
        ),
        (
            "ten idle minutes beside a hundred jobs",
            pytest_words("tests/e2e/cluster/test_operator.py"),
            {"LOCKSTEP_IDLE_SECONDS": "600", "LOCKSTEP_IDLE_JOBS": "100"},
        ),
        ("the CUDA image with NVIDIA's libraries", ["tests/kind/run.sh", "cuda", "-s"], {}),
        (
            "ten pulled cables, ten nodes without power",
            pytest_words("tests/e2e/cluster/test_detection.py"),
            {"LOCKSTEP_DETECTIONS": "10", "LOCKSTEP_DETECT_SECONDS": "1.2"},
        ),
        (
            "an API server that vanishes for six minutes, neighbours of a crash loop",
            pytest_words("tests/e2e/leader/test_blackhole.py", "tests/e2e/leader/test_beside_a_crash_loop.py"),
            {"LOCKSTEP_AWAY_SECONDS": "360", "LOCKSTEP_NEIGHBOUR_ROUNDS": "20", "LOCKSTEP_NEIGHBOUR_FLOOR": "0.2"},
        ),
        (
            "two hundred gangs that contend, five operators killed",
            pytest_words("tests/e2e/placement/test_contention.py"),
            {"LOCKSTEP_GANGS": "200", "LOCKSTEP_KILLS": "5", "LOCKSTEP_SEED": str(int(time.time()))},
        ),
        (
            "the operator killed after each write of a gang's life",
            pytest_words("tests/e2e/placement/test_killed.py"),
            {"LOCKSTEP_FAULT_ROUNDS": "3"},
        ),
        (
            "leaders that end",
            pytest_words("tests/e2e/faults/test_failover.py"),
            {"LOCKSTEP_FAULT_ROUNDS": "10", "LOCKSTEP_FAULT_LEASE": "15"},
        ),
        (
            "the memory of an operator with 4,096 agents, 10,000 pods and 10,000 nodes, against the chart's limit",
            [BIN / "operator_size_bench", "--operator", ROOT / "build/release/bin/lockstep-operator", "--limit-of",
             ROOT / "charts/lockstep/values.yaml", "--margin", "1.5", "--storms", "0"],
            {},
        ),
        (
            "the command blocks of the pages, the long ones as printed",
            pytest_words("tests/e2e/readme"),
            {"LOCKSTEP_README": "whole"},
            10 * 3600,
        ),
    ]
