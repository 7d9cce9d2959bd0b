"""`lockstep run --chaos`: a gang under constant faults ends with the bits of an undisturbed one.

LOCKSTEP_SEED=<number> repeats a run; LOCKSTEP_CHAOS_FAULTS and LOCKSTEP_CHAOS_WORKERS make other and longer ones,
LOCKSTEP_CHAOS_SEEDS more of the small ones (3; `make soak`: 20). On the fake of a GPU: LOCKSTEP_CHAOS_GPU_SEEDS (5),
LOCKSTEP_CHAOS_GPU_FAULTS (2 for each seed) and LOCKSTEP_CHAOS_GPU_MODEL (a name in MODELS). What has to hold is counted
from the ledgers by tests/ledger/check_ledger.py, which shares no code with what it checks."""

import collections
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import e2e
import jobs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ledger"))
import check_ledger  # noqa: E402

SEED = int(os.environ.get("LOCKSTEP_SEED", "1"))
SEEDS = int(os.environ.get("LOCKSTEP_CHAOS_SEEDS", "3"))
FAULTS = int(os.environ.get("LOCKSTEP_CHAOS_FAULTS", "60"))
WORKERS = int(os.environ.get("LOCKSTEP_CHAOS_WORKERS", "4"))
STEPS_PER_FAULT = 25
STEP_SECONDS = 0.04  # or more: what is measured is the recovery, not the cores of this machine
GOODPUT = 0.75
CHARGED = ("kill a worker", "kill a pod", "tell a pod to end")


# (pods, processes of each), by turns: ranks of one pod share memory, others talk over TCP.
GANGS = ((3, 2), (2, 1), (5, 1), (2, 2), (4, 1), (2, 3), (6, 1), (3, 1))
# What draws random numbers in training, and what keeps statistics beside its parameters.
MODELS = {
    "transformer": ["--model=char-transformer", "--data=/usr/share/common-licenses", "--layers=2", "--width=32",
                    "--heads=2", "--context=32", "--dropout=0.1"],
    "network": ["--model=mlp", "--width=64", "--layers=2", "--dropout=0.2"],  # with batch norm
    "images": ["--model=resnet18", "--data=synthetic", "--image-size=32", "--classes=10", "--eval-samples=2",
               "--learning-rate=0.001"],
}
BATCH = {"images": 4}  # 24 of the others
SMALL_FAULTS = 5
# On the fake of a GPU.
GPU_SEEDS = int(os.environ.get("LOCKSTEP_CHAOS_GPU_SEEDS", "5"))
GPU_FAULTS = int(os.environ.get("LOCKSTEP_CHAOS_GPU_FAULTS", "2"))
GPU_MODEL = os.environ.get("LOCKSTEP_CHAOS_GPU_MODEL", "network")
GPU_STEPS = GPU_FAULTS * (8 if GPU_MODEL == "images" else STEPS_PER_FAULT)  # seconds each for images


def job(name, steps, *flags):
    # It has batch norm, whose statistics a step that is done again must not have changed.
    return jobs.on_this_machine(name, "lockstep-trainer", *model(steps), jobs.pace(STEP_SECONDS), *flags, nodes=WORKERS,
                                checkpoint={"path": "/checkpoints", "everySeconds": 5},  # for when all are gone
                                elastic={"minNodes": max(1, WORKERS // 2), "stabilizationSeconds": 1})


def model(steps):
    return ["--model=mlp", "--width=64", "--layers=2", "--batch-size=24", "--micro-batch-size=2", f"--steps={steps}",
            "--seed=7", "--deterministic", "--log-every=100"]


@pytest.fixture
def undisturbed(tmp_path):
    """The ledger of the same training in one process."""
    def train(steps):
        ledger = tmp_path / "undisturbed"
        subprocess.run([e2e.BUILD / "bin/lockstep-trainer", *model(steps), f"--ledger={ledger}"], check=True,
                       stdout=subprocess.DEVNULL, timeout=600)
        return ledger

    return train


def test_a_gang_under_chaos_makes_each_step_once_and_is_bitwise_identical(run, undisturbed):
    steps = FAULTS * STEPS_PER_FAULT
    print(f"\nLOCKSTEP_SEED={SEED}, {FAULTS} faults, {WORKERS} workers, {steps} steps")
    command = run(job("chaos", steps), "--chaos", f"{SEED}:{FAULTS}", "--json")
    status = command.wait(max(300, 5 * FAULTS))
    told = json.loads(command.out.splitlines()[-1])["result"]
    chaos = told["chaos"]
    print(table(chaos))
    print(f"{steps * STEP_SECONDS / chaos['seconds']:.3f} of the time is what the steps take at least")
    assert status == 0, command
    command.nothing_is_left()

    result = check_ledger.check(command.folder / "run/ledger", undisturbed(steps))
    print(result.summary())
    assert result.violations == [], f"LOCKSTEP_SEED={SEED}"
    assert chaos["violations"] == [] and chaos["good"]
    assert [event["what"] for event in chaos["events"] if not event["made"]] == []
    assert chaos["made"] == FAULTS and chaos["notReached"] == 0

    made = collections.Counter(event["kind"] for event in chaos["events"])
    may_be_charged = sum(made[kind] for kind in CHARGED)
    assert chaos["maxRestarts"] == 10 + may_be_charged
    assert chaos["charged"] <= may_be_charged <= chaos["charged"] + FAULTS // 3, \
        "two faults of one generation are charged once"
    assert chaos["charged"] == told["job"]["status"]["restarts"]["charged"] <= chaos["restarts"]
    assert chaos["goodput"] >= GOODPUT, table(chaos)


def table(chaos):
    """The cost of each kind of fault."""
    costs = collections.defaultdict(list)
    for event in chaos["events"]:
        costs[event["kind"]].append(event["lostMs"])
    rows = [f"{kind:24}{len(lost):5}{sorted(lost)[len(lost) // 2]:10.0f} ms{max(lost):10.0f} ms"
            for kind, lost in sorted(costs.items())]
    return "\n".join([f"{'fault':24}{'made':>5}{'median':>13}{'worst':>13}", *rows,
                      f"goodput {chaos['goodput']:.3f} over {chaos['seconds']:.0f} s, {chaos['restarts']} restarts, "
                      f"{chaos['charged']} charged, {chaos['doneAgain']} steps done again"])


@pytest.fixture(scope="module")
def digest_of():
    """Of the state after so many steps of a model, trained in one process."""
    @functools.cache
    def train(model, steps):
        out = subprocess.run([e2e.BUILD / "bin/lockstep-trainer", *words_of(model, steps)], check=True,
                             stdout=subprocess.PIPE, text=True, timeout=600).stdout
        return e2e.trainer_result(out)["digest"]

    return train


def was_disturbed(chaos, faults):
    """The run was good, and each fault was made or still due. On a busy machine the last step may come while the pod of
    a fault is starting."""
    return chaos["good"] and chaos["made"] + chaos["notReached"] == faults and 2 * chaos["made"] >= faults


def words_of(model, steps):
    return [*MODELS[model], f"--batch-size={BATCH.get(model, 24)}", "--micro-batch-size=2", f"--steps={steps}",
            "--seed=7", "--deterministic", "--log-every=100"]


@pytest.mark.parametrize("number", range(SEEDS))
def test_weights_are_bitwise_identical_for_any_model_ranks_and_transport(run, digest_of, number):
    seed, (nodes, procs), model = SEED + number, GANGS[number % len(GANGS)], ("transformer", "network")[number % 2]
    transport = ("auto", "tcp")[(number // 2 + number // len(GANGS)) % 2]
    steps = SMALL_FAULTS * STEPS_PER_FAULT
    given = job(f"bits-{number}", steps)
    given["spec"] |= {"nodes": nodes, "procsPerNode": procs,
                      "elastic": {"minNodes": max(1, nodes // 2), "stabilizationSeconds": 1},
                      "command": ["lockstep-trainer", *words_of(model, steps), jobs.pace(STEP_SECONDS),
                                  f"--transport={transport}"]}
    command = run(given, "--chaos", f"{seed}:{SMALL_FAULTS}", "--json")
    assert command.wait(300) == 0, command
    chaos = json.loads(command.out.splitlines()[-1])["result"]["chaos"]
    print(f"\n{model}, {nodes} x {procs} ranks, {transport}, seed {seed}: "
          f"{[event['kind'] for event in chaos['events']]}")
    assert was_disturbed(chaos, SMALL_FAULTS), command
    assert e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())["digest"] == digest_of(model, steps)


def test_a_device_that_computes_late_changes_no_bit(run, digest_of, tmp_path):
    """The trainer on the backend of tests/trainer/backend/late_backend.h, which computes on a thread of its own as late
    as it may."""
    steps, model = SMALL_FAULTS * STEPS_PER_FAULT, "network"
    given = job("late", steps)
    given["spec"]["command"] = [str(e2e.BUILD / "tests/bin/lockstep-trainer-late"), *words_of(model, steps),
                                jobs.pace(STEP_SECONDS), f"--ledger={tmp_path / 'ledger'}"]
    command = run(given, "--chaos", f"{SEED}:{SMALL_FAULTS}", "--json")
    assert command.wait(300) == 0, command
    chaos = json.loads(command.out.splitlines()[-1])["result"]["chaos"]
    assert was_disturbed(chaos, SMALL_FAULTS), command
    assert e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())["digest"] == digest_of(model, steps)


@pytest.fixture(scope="module")
def gpu_digest_of():
    """Of the state after the last step, trained in one process on the fake of a GPU."""
    @functools.cache
    def train(precision):
        command = on_fake_gpu(precision)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=1800)
        return e2e.trainer_result(done.stdout)["digest"]

    return train


def on_fake_gpu(precision):
    bin = e2e.BUILD / "tests/bin"
    return [str(bin / "lockstep-trainer-cuda"), *words_of(GPU_MODEL, GPU_STEPS), "--backend=cuda",
            f"--precision={precision}", f"--cudart-library={bin / 'libfakecuda.so'}",
            f"--cublaslt-library={bin / 'libfakecublaslt.so'}", f"--cudnn-library={bin / 'libfakecudnn.so'}"]


@pytest.mark.parametrize("number", range(GPU_SEEDS))
def test_a_gpu_that_computes_under_chaos_changes_no_bit(run, gpu_digest_of, tmp_path, number):
    """The trainer with --backend=cuda, whose kernels are emulated on the fakes of NVIDIA's libraries."""
    seed, precision = SEED + number, ("fp32", "bf16")[number % 2]
    given = job(f"cuda-{number}", GPU_STEPS)
    given["spec"]["command"] = [*on_fake_gpu(precision), jobs.pace(STEP_SECONDS),
                                f"--ledger={tmp_path / 'ledger'}"]
    command = run(given, "--chaos", f"{seed}:{GPU_FAULTS}", "--json")
    assert command.wait(1800) == 0, command
    chaos = json.loads(command.out.splitlines()[-1])["result"]["chaos"]
    print(f"\n{GPU_MODEL} in {precision}, seed {seed}: {[event['kind'] for event in chaos['events']]}")
    assert was_disturbed(chaos, GPU_FAULTS), command
    told = e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())
    assert told["digest"] == gpu_digest_of(precision), f"LOCKSTEP_SEED={seed}"


def test_a_seed_does_the_same_to_the_same_workers_after_the_same_steps(run):
    def events(name):
        command = run(job(name, 150), "--chaos", f"{SEED}:4", "--json")
        assert command.wait(120) == 0, command
        chaos = json.loads(command.out.splitlines()[-1])["result"]["chaos"]
        made = chaos["events"]
        return [(event["number"], event["kind"], event["slot"]) for event in made], [event["step"] for event in made]

    first, second = events("first"), events("second")
    assert first[0] == second[0]
    assert all(abs(one - other) <= 10 for one, other in zip(first[1], second[1])), (first, second)


def test_ctrl_c_ends_a_gang_under_chaos_with_its_frozen_members(run):
    command = run(job("stopped", 5000), "--chaos", f"{SEED}:1000")
    command.until(": froze the worker of slot ")
    os.killpg(command.process.pid, signal.SIGINT)
    assert command.wait(20) == 130, command
    command.nothing_is_left()
    assert "verdict: the job did not finish; each step was committed once" in command.out, command


def test_chaos_needs_a_ledger_and_says_so_before_anything_starts(run):
    given = job("none", 10)
    given["spec"]["command"] = ["sleep", "100"]
    command = run(given, "--chaos", "1")
    assert command.wait(20) == 1
    assert command.err == ("lockstep run: --chaos needs a program that keeps a ledger: lockstep-trainer, or one with a "
                           "--ledger=DIR of its own\n")


def test_a_ledger_that_is_not_in_order_fails_the_run(run, tmp_path):
    """A trainer that takes torn states: the job ends well, and the verdict does not."""
    folder = tmp_path / "ledger"
    given = job("mutated", 300, f"--ledger={folder}")
    given["spec"]["command"][0] = str(e2e.BUILD / "tests/bin/lockstep-trainer-mutated")
    given["spec"]["env"] = [{"name": "TRAINER_MUTATION", "value": "kTearTransfer"}]
    command = run(given, "--chaos", f"{SEED}:8")
    assert command.wait(120) == 1, command
    assert "did not start from the same state" in command.out, command
    assert "verdict: the job finished; " in command.out
    assert "mutated succeeded after" in command.out
