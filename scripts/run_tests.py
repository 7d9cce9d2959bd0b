#!/usr/bin/env python3
"""Builds and runs Lockstep's test suites, prints the time of each, and ends with `N passed, N failed, N skipped`.

  scripts/run_tests.py unit            the unit tests of the release build
  scripts/run_tests.py all             everything that `make test` promises, some of it side by side
  scripts/run_tests.py SUITE...        named suites (see --list)

Every suite's output goes to out/tests/<suite>.log; of a suite that failed, the end is shown.
LOCKSTEP_REQUIRE_CLUSTER=1 counts a skipped cluster test as failed (.ci/run sets it). LOCKSTEP_SERIAL=1 runs no two
suites side by side. The runner makes some things at idle priority beside other suites. These are the programs of the
test clusters, what the suite kernels needs, and the sanitizers' builds. LOCKSTEP_MINUTES is the time for the whole
run. A sanitizer's suite for which too little of it is left counts as skipped.
"""

import os
import re
import subprocess
import sys
import threading
import time

from runner import processes
from runner.counts import Counts, count_gtest, count_junit, count_lines
from runner.processes import PYTHON, ROOT, STOPPING, log_of, out, run
from runner.soak import soak_forms


def jobs():
    return str(os.cpu_count() or 1)


def side_by_side():
    """Test programs at a time: some of them mostly wait."""
    return str((os.cpu_count() or 1) + 1)


BUILD_LOCK = threading.Lock()
BUILT = set()
IDLE_LOG = "idle"  # out/tests/idle.log
ONE_THREAD = "one_thread"  # a label of tests (cmake/rooms.cmake)
KERNELS = ROOT / "build/kernels"
PREPARED = {}  # what is made at idle priority (programs, kernels, a preset) -> the thread that makes it
CLUSTER_PROGRAMS = ["tests/cluster/binaries.sh"]
TESTED = set()  # presets of which the tests of one thread have passed, or one has failed


def build(suite, preset, targets=()):
    """Builds, the release build once per run: suites that run in parallel wait for one another here."""
    command = ["scripts/build.sh", preset, f"build/{preset}", jobs(), *targets]
    if preset != "release":
        prepared(preset)
        return run(suite, command, 4800)
    with BUILD_LOCK:
        status = 0 if targets in BUILT else run(suite, command, 4800)
        if status == 0:
            BUILT.add(targets)
        return status


def prepare_when_idle(name, make, after=()):
    """Starts a thread that calls make() when those that `after` names have ended; make() returns None, or what failed.

    The suites that need it wait for it (prepared()), and repeat a step that failed."""
    def work():
        for other in after:
            prepared(other)
        begun = time.monotonic()
        failed = make()
        print(f"           {name}: {failed or 'prepared'} beside the others in {time.monotonic() - begun:.0f} s",
              flush=True)

    PREPARED[name] = threading.Thread(target=work)
    PREPARED[name].start()


def prepared(name):
    if name in PREPARED:
        PREPARED[name].join()


def idle_run(command):
    status = run(IDLE_LOG, ["scripts/idle.sh", *command], 4800)
    return f"ended with {status}" if status else None


def start_programs():
    log_of(IDLE_LOG).unlink(missing_ok=True)
    prepare_when_idle("programs", lambda: idle_run(CLUSTER_PROGRAMS))


def start_when_idle():
    """Starts threads at idle priority: one prepares the suite kernels, others build the sanitizers' unit tests and
    run those of one thread. What a suite waits for comes first."""
    def kernels():
        failed = prepare_kernels(IDLE_LOG, "1", ["scripts/idle.sh"])
        return failed.names[0] if failed else None

    prepare_when_idle("kernels", kernels, after=["programs"])

    def build_preset(preset):
        command = ["scripts/idle.sh", "scripts/build.sh", preset, f"build/{preset}", jobs(), "unit_tests"]
        status = run(IDLE_LOG, command, 4800)
        if status == 0 and preset == "asan":
            clear_reports(preset)
            status = ctest_run(IDLE_LOG, preset, ["-L", "unit", "-L", ONE_THREAD], ["scripts/idle.sh"])
            # A failed test counts: the suite does not repeat it.
            if status == 0 or count_gtest(reports_of(preset)).failed:
                TESTED.add(preset)
        return f"ended with {status}" if status else None

    for preset in LAST:
        prepare_when_idle(preset, lambda preset=preset: build_preset(preset), after=list(PREPARED))


def ctest_run(log, preset, choice, prefix=()):
    """Runs the chosen tests of a preset that is built; their reports go to out/tests/<preset>.reports."""
    env = {"GTEST_OUTPUT": f"json:{reports_of(preset)}/"}
    if preset == "tsan":
        env["TSAN_OPTIONS"] = f"suppressions={ROOT}/tests/tsan.supp halt_on_error=1 second_deadlock_stack=1"
    command = [*prefix, "ctest", "--test-dir", f"build/{preset}", *choice, "--output-on-failure", "-j", side_by_side()]
    return run(log, command, 3000 if prefix else 1500, env)


def reports_of(preset):
    folder = out(f"{preset}.reports")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear_reports(preset):
    for old in reports_of(preset).glob("*"):
        old.unlink()


def ctest(suite, preset, label):
    """Builds a preset and runs its tests of a label; a crash without a report counts as one failure."""
    if build(suite, preset, () if preset == "release" else ("unit_tests",)) != 0:
        counts = Counts(failed=1)
        counts.names.append(f"FAILED  the {preset} build (see out/tests/{suite}.log)")
        return counts
    if preset not in TESTED:
        clear_reports(preset)
    status = ctest_run(suite, preset, ["-L", label, *(["-LE", ONE_THREAD] if preset in TESTED else [])])
    counts = count_gtest(reports_of(preset))
    if status != 0 and counts.failed == 0:
        counts.failed = 1
        counts.names.append(f"FAILED  a test program of {preset} ended without a report (see out/tests/{suite}.log)")
    return counts


def pytest(suite, paths, deadline, marker=None, env=None):
    if not paths:
        return Counts()
    report = out(f"{suite}.xml")
    report.unlink(missing_ok=True)
    command = [PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={report}", *paths]
    if marker:
        command += ["-m", marker]
    run(suite, command, deadline, env)
    return count_junit(report)


def suite_gpu(suite):
    """On the fake first, so that these tests work once the machine has a GPU."""
    tests = ["tests/gpu", "--ignore=tests/gpu/test_kernel_table.py"]  # of the suite kernels
    counts = pytest(suite, tests, 900, env={"LOCKSTEP_GPU_TESTS": "fake"})
    real = pytest(suite, tests, 5400)
    counts.add(real)
    counts.names += real.names
    return counts


def prepare_kernels(log, cores, prefix=()):
    """Installs nvcc and cuDNN into the cache and compiles the kernels alone; the counts of a failure, or None."""
    def install(option):
        return run(log, [*prefix, "scripts/cuda-toolkit.sh", option], 1800)

    def compile_kernels():
        where = ["scripts/cuda-toolkit.sh", "--test", "--where"]
        toolkit = subprocess.run(where, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        return run(log, [*prefix, "scripts/build.sh", "cuda", KERNELS, cores, "lockstep_cuda_kernels"], 2400,
                   {"LOCKSTEP_CUDA_TOOLKIT": toolkit})

    once = "takes it from PyPI, once"
    return need(log, (f"no nvcc: `scripts/cuda-toolkit.sh --test` {once} (120 MB)", lambda: install("--test")),
                (f"no cuDNN: `scripts/cuda-toolkit.sh --cudnn` {once} (920 MB)", lambda: install("--cudnn")),
                ("nvcc does not compile the kernels", compile_kernels))


def suite_kernels(suite):
    """The kernels by nvcc, against their table; plans of cuDNN itself. A test that is skipped here has failed."""
    if os.uname().machine != "x86_64":
        counts = Counts(skipped=1)
        counts.names.append("skipped kernels: NVIDIA's pinned packages are for x86-64")
        return counts
    prepared("kernels")
    targets = () if () in BUILT else ("cuda_plans_test",)
    failed = prepare_kernels(suite, jobs()) or need(suite, ("the build", lambda: build(suite, "release", targets)))
    if failed:
        return failed
    counts = pytest(suite, ["tests/gpu/test_kernel_table.py"], 300, env={"LOCKSTEP_BUILD": str(KERNELS)})
    clear_reports(suite)
    report = {"GTEST_OUTPUT": f"json:{reports_of(suite)}/"}
    status = run(suite, ["build/release/tests/bin/cuda_plans_test"], 300, report)
    plans = count_gtest(reports_of(suite))
    if status != 0 and not plans.failed:
        plans.failed = 1
        plans.names.append(f"FAILED  cuda_plans_test ended with {status} (see out/tests/{suite}.log)")
    counts.add(plans)
    counts.names += plans.names
    counts.failed, counts.skipped = counts.failed + counts.skipped, 0
    counts.names = [re.sub("^skipped ", "FAILED  skipped: ", line) for line in counts.names]
    return counts


def script(suite, command, deadline):
    """A test program of its own that ends with `N passed, N failed, N skipped`, one line `FAIL  name` each."""
    status = run(suite, command, deadline)
    return count_lines(log_of(suite), command, status)


def need(suite, *steps):
    """Runs preparing steps; the counts with the name of the first that fails, or None."""
    for name, step in steps:
        if step() != 0:
            counts = Counts(failed=1)
            counts.names.append(f"FAILED  {name} (see out/tests/{suite}.log)")
            return counts
    return None


def cluster_programs(suite):
    prepared("programs")
    return run(suite, CLUSTER_PROGRAMS, 4800)


def suite_cluster(suite, paths, deadline):
    failed = need(suite, ("the release build", lambda: build(suite, "release")),
                  ("the programs of the test cluster", lambda: cluster_programs(suite)))
    return failed or pytest(suite, paths, deadline)


def suite_compat(suite):
    failed = need(suite, ("the release build", lambda: build(suite, "release")))
    return failed or pytest(suite, ["tests/compat"], 1800)


def test_cluster(suite):
    failed = need(suite, ("the programs of the test cluster", lambda: cluster_programs(suite)))
    return failed or script(suite, ["tests/cluster/test_cluster.py"], 900)


def suite_kind(suite):
    """Tests without a cluster, then those of the cluster; if kind cannot run, they are skipped with the reason."""
    programs = ("lockstep-operator", "lockstep-agent", "lockstep-trainer", "lockstep-trainer-cuda", "fakenccl",
                "fakecublaslt", "fakecudnn")
    failed = need(suite, ("the release build", lambda: build(suite, "release", () if () in BUILT else programs)),
                  ("the programs of the test cluster", lambda: cluster_programs(suite)),
                  ("the programs and images of kind", lambda: run(suite, ["tests/kind/run.sh", "prepare"], 4800)))
    if failed:
        return failed
    counts = pytest(suite, [f"tests/kind/test_{name}.py" for name in ("mock_nvml", "sandbox", "runner")], 900)
    report = out(f"{suite}.cluster.xml")
    report.unlink(missing_ok=True)
    # TERM when this process dies; run.sh then removes the cluster.
    command = ["setpriv", "--pdeathsig", "TERM", "--", "tests/kind/run.sh", "-s", f"--junitxml={report}"]
    run(suite, command, 3000, {"LOCKSTEP_KIND_PREPARED": "1"})
    on_cluster = count_junit(report)
    counts.add(on_cluster)
    counts.names += on_cluster.names
    for line in log_of(suite).read_text(errors="replace").splitlines():
        if re.match(r"prepare: | *\d+\.\d s  |docker\.io/lockstep/", line):
            print(f"           {line}", flush=True)
    return counts


def soak(suite):
    """The long forms, one after the other; each prints its seed into the log."""
    failed = need(suite, ("the release build", lambda: build(suite, "release")),
                  ("the programs of the test cluster", lambda: cluster_programs(suite)))
    if failed:
        return failed
    counts = Counts()
    for name, command, env, *limit in soak_forms(int(os.environ.get("LOCKSTEP_SOAK_ROUNDS", "20"))):
        begun = time.monotonic()
        status = run(suite, command, limit[0] if limit else 7200, env)
        verdict = "passed" if status == 0 else f"failed with {status}"
        print(f"           {name}: {verdict} in {time.monotonic() - begun:.0f} s", flush=True)
        counts.passed += status == 0
        counts.failed += status != 0
        if status:
            counts.names.append(f"FAILED  {name} (see out/tests/{suite}.log)")
    return counts


def bench(suite):
    """Benchmarks: their output is the result, and no time fails them."""
    programs = ("all_reduce_bench", "lockstep", "lockstep-agent", "lockstep-trainer")
    if build(suite, "release", programs) != 0:
        counts = Counts(failed=1)
        counts.names.append(f"FAILED  the build (see out/tests/{suite}.log)")
        return counts
    counts = Counts()
    for command in (
        [ROOT / "build/release/tests/bin/all_reduce_bench"],
        [PYTHON, "tests/bench/deterministic_bench.py"],
    ):
        log = log_of(suite)
        begun = log.stat().st_size
        status = run(suite, command, 1800)
        print(log.read_bytes()[begun:].decode(errors="replace"), flush=True)
        counts.passed += status == 0
        counts.failed += status != 0
    return counts


# name -> (description, function)
SUITES = {
    "structure": (
        "rooms, includes, files; the arithmetic of the benchmarks",
        lambda s: pytest(s, ["tests/structure", "tests/bench/recovery", "tests/bench/placement"], 180),
    ),
    "unit": ("unit and property tests, release build", lambda s: ctest(s, "release", "unit")),
    "asan": ("the same under AddressSanitizer and UBSan", lambda s: ctest(s, "asan", "unit")),
    "tsan": ("the same under ThreadSanitizer", lambda s: ctest(s, "tsan", "unit")),
    "run": (
        "lockstep run on this machine, and who counts what it trained",
        lambda s: suite_cluster(s, ["tests/ledger", "tests/e2e/local"], 1800),
    ),
    "compat": ("agents of the commit in tests/compat/BASELINE under this coordinator", suite_compat),
    "chart": (
        "chart, manifests, images, files of a release, workflows",
        lambda s: suite_cluster(s, ["tests/chart", "tests/release"], 1500),
    ),
    "cluster": ("the test cluster itself", test_cluster),
    "faults": (
        "the operator killed after each of its writes, the API server killed",
        lambda s: suite_cluster(s, ["tests/e2e/faults"], 1800),
    ),
    "leader": (
        "the leader's objects deleted, its Lease late, the API server away, jobs that crash or come again",
        lambda s: suite_cluster(s, ["tests/e2e/leader"], 900),
    ),
    "ranks": ("ranks follow the racks of real nodes", lambda s: suite_cluster(s, ["tests/e2e/ranks"], 600)),
    "placement": (
        "gangs on the nodes that the operator chooses: placed, contending, repaired, the operator killed",
        lambda s: suite_cluster(s, ["tests/e2e/placement"], 1200),
    ),
    "jobs": ("jobs on the real cluster", lambda s: suite_cluster(s, ["tests/e2e/cluster"], 2400)),
    "readme": (
        "the command blocks of the pages, word for word",
        lambda s: suite_cluster(s, ["tests/e2e/readme"], 1800),
    ),
    "kind": ("the chart and jobs with mock GPUs on kind, over podman", suite_kind),
    "gpu": (
        "the CUDA backend, its libraries, and two ranks on one GPU: on fakes, then on a GPU where there is one",
        suite_gpu,
    ),
    "kernels": ("the CUDA kernels by nvcc, against their table; plans of cuDNN itself", suite_kernels),
    "soak": ("the long forms of the tests", soak),
    "bench": ("benchmarks", bench),
}

# The suites of `all`: the first, which use every core, one after the other; then these lanes in parallel, because most
# suites wait for a cluster (jobs takes half of a core); then the last, which were prepared meanwhile.
# LOCKSTEP_SERIAL=1: the lanes one after the other too. chart, readme and kind hold locks of podman, so they share a
# lane.
FIRST = ("structure", "unit")
LANES = (
    ("jobs", "faults", "leader", "ranks", "placement", "cluster"),
    ("run", "readme", "kind", "chart", "kernels", "compat", "gpu"),
)
LAST = ("asan", "tsan")
# Minutes that a sanitizer's suite takes on a slow machine, with what is left of its build.
MINUTES = {"asan": 25, "tsan": 15}


class Report:
    """The counts and the output of all suites; suites of several lanes report at the same time."""

    def __init__(self):
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self.total = Counts()
        self.cluster_skips = 0

    def too_late(self, name):
        """Why a suite is not begun, or None. One of which some tests have run is begun: a failure counts."""
        limit = float(os.environ.get("LOCKSTEP_MINUTES", "inf"))
        spent = (time.monotonic() - self._started) / 60
        if name in TESTED or spent + MINUTES.get(name, 0) <= limit:
            return None
        return f"skipped {name}: {spent:.0f} of {limit:.0f} minutes were spent; scripts/run_tests.py {name} runs it"

    def begin(self, name):
        log_of(name).unlink(missing_ok=True)
        with self._lock:
            print(f"{name:10} {SUITES[name][0]} ...", flush=True)

    def end(self, name, counts, seconds):
        with self._lock:
            self.total.add(counts)
            if name in ("cluster", "jobs", "faults", "leader", "ranks", "placement", "readme", "kind"):
                # A clone without the history is no failure of the machine.
                self.cluster_skips += counts.skipped - sum("git fetch --unshallow" in line for line in counts.names)
            outcome = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
            print(f"{name:10} {outcome} in {seconds:.0f} s", flush=True)
            for line in counts.names:
                print(f"           {line[:300]}", flush=True)
            if counts.failed:
                tail = log_of(name).read_text(errors="replace").splitlines()[-60:]
                print("\n".join(f"    | {line[:240]}" for line in tail), flush=True)

    def verdict(self):
        """Prints the last lines; returns the exit status."""
        total = self.total
        print(f"{time.monotonic() - self._started:.0f} s in all")
        if self.cluster_skips and os.environ.get("LOCKSTEP_REQUIRE_CLUSTER") == "1":
            print(f"{self.cluster_skips} cluster tests were skipped, which counts as failed here")
            total.failed += self.cluster_skips
            total.skipped -= self.cluster_skips
        print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
        return 1 if total.failed or not total.passed else 0


def run_suites(names, report):
    for name in names:
        if STOPPING.is_set():
            return
        report.begin(name)
        begun = time.monotonic()
        try:
            late = report.too_late(name)
            counts = Counts(skipped=1) if late else SUITES[name][1](name)
            counts.names += [late] if late else []
        except Exception as error:  # a suite that breaks must not take its lane with it unseen
            counts = Counts(failed=1)
            counts.names.append(f"FAILED  the suite broke: {error!r}")
        report.end(name, counts, time.monotonic() - begun)


def main(arguments):
    every = [*FIRST, *(name for lane in LANES for name in lane), *LAST]
    if "--list" in arguments or "-h" in arguments or "--help" in arguments:
        print(__doc__)
        for name, (what, _) in SUITES.items():
            print(f"  {name:10} {what}{'' if name in every else ' (not part of all)'}")
        return 0
    names = every if arguments == ["all"] else arguments
    unknown = [name for name in names if name not in SUITES]
    if unknown or not names:
        print(f"run_tests: no suite called {', '.join(unknown) or 'nothing'}; --list shows them", file=sys.stderr)
        return 2
    processes.begin()
    report = Report()
    if arguments == ["all"]:
        start_programs()
        run_suites(FIRST, report)
        start_when_idle()
        threads = [threading.Thread(target=run_suites, args=(lane, report)) for lane in LANES]
        for thread in threads:
            thread.start()
            if os.environ.get("LOCKSTEP_SERIAL") == "1":
                thread.join()
        for thread in threads:
            thread.join()
        run_suites(LAST, report)
        processes.end_all()  # the build of a suite that was not begun
    else:
        run_suites(names, report)
    return report.verdict()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
