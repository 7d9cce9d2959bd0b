"""Ranks of one `--deterministic` gang compute with one instruction set, or the job says which pods do not."""

import json
import re

import pytest

import e2e
import jobs

TRAINER = e2e.BUILD / "bin" / "lockstep-trainer"
STEPS = 5
# oneDNN reads the one or, in older releases, the other.
SSE41 = "export ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41;"


def gang(name, script, *flags):
    command = " ".join([str(TRAINER), *jobs.mlp(STEPS), *flags])
    return jobs.on_this_machine(name, "sh", "-c", f"{script} exec {command}", nodes=2)


def status(command):
    return json.loads((command.folder / "run/job.json").read_text())["status"]


def numerics_under(script):
    out = e2e.run("sh", "-c", f"{script} exec {TRAINER} --model=linear-regression --steps=1 --deterministic",
                  deadline=60).stdout
    return re.search(r"^ +numerics +(\S+),", out, re.MULTILINE)[1]


@pytest.fixture(scope="module")
def two_instruction_sets():
    if numerics_under("") == numerics_under(SSE41):
        pytest.skip("this machine has only one instruction set that oneDNN knows")


def test_two_instruction_sets_in_one_deterministic_gang_are_refused(run, two_instruction_sets):
    command = run(gang("mixed", f'[ "$LOCKSTEP_SLOT" = 1 ] && {{ {SSE41} }};'))
    assert command.wait(60) == 1, command
    (failed,) = [it for it in status(command)["conditions"] if it["type"] == "Failed"]
    assert failed["status"] == "True" and failed["reason"] == "IdentityMismatch", failed
    # The coordinator names a pod's node once it has been told of it, which may be later than this.
    said = re.search(r"the ranks of a generation must have the same numerics: "
                     r"pod (mixed-\w+-1-1)(?: \(node \S+\))? has (\S+), "
                     r"pod (mixed-\w+-0-1)(?: \(node \S+\))? has (\S+)\. ", failed["message"])
    assert said and said[2] != said[4] and "onednn" in said[2], failed
    assert said[0] in command.out, command
    assert [(it["cause"], it["strategy"]) for it in status(command)["attempts"]] == [("IdentityMismatch", "None")]
    log = (command.folder / "run/logs/rank-0.log").read_text()
    assert "loss" not in log, f"it began to train: {log}"
    command.nothing_is_left()
    print(f"\n{failed['message']}")


def test_one_instruction_set_trains_wherever_it_is(run):
    command = run(gang("alike", SSE41))
    assert command.wait(60) == 0, command
    assert [it["cause"] for it in status(command)["attempts"]] == ["Completed"]
    assert "onednn" in (command.folder / "run/logs/rank-0.log").read_text()
    command.nothing_is_left()


def test_ranks_that_need_not_be_bitwise_identical_may_differ(run, two_instruction_sets):
    job = gang("free", f'[ "$LOCKSTEP_SLOT" = 1 ] && {{ {SSE41} }};')
    job["spec"]["command"][2] = job["spec"]["command"][2].replace(" --deterministic", "")
    command = run(job)
    assert command.wait(60) == 0, command
    command.nothing_is_left()


def test_a_trainer_that_fails_before_generation_1_is_an_attempt(run):
    job = gang("dataless", "", "--data=/no/such/file")
    command = run(job)
    assert command.wait(30) == 78, command
    (attempt,) = status(command)["attempts"]
    assert (attempt["generation"], attempt["cause"], attempt["exitCode"]) == (1, "ProcessExit", 78), attempt
    assert "--model=mlp makes its own data" in attempt["message"], attempt
    command.nothing_is_left()


def test_a_program_of_another_kind_may_still_end_well_under_lockstep(run):
    job = gang("other", "")
    job["spec"]["command"] = ["sh", "-c", "echo rank $RANK; sleep 0.$RANK"]
    command = run(job)
    assert command.wait(30) == 0, command
    assert (command.folder / "run/logs/rank-1.log").read_text() == "rank 1\n", "once"
    command.nothing_is_left()
