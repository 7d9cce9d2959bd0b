"""The oracle on doctored lives: it finds each kind of harm, and none in a sound life."""

import copy

import oracle

UID = "5265aaaa-0000-0000-0000-000000000000"
PODS = ["train-5265-0-1", "train-5265-1-1"]


def created(name, code=201):
    return {"verb": "create", "objectRef": {"resource": "pods", "name": name, "namespace": "x"},
            "responseStatus": {"code": code}}


def pod(name, uid, **status):
    return {"metadata": {"name": name, "uid": uid, "labels": {}}, "status": status}


def container(state, number=1, restarts=0):
    return {"containerStatuses": [{"containerID": f"containerd://{number}", "restartCount": restarts, "state": state}]}


def job(state, true=(), generation=1, attempts=()):
    kinds = ("Placed", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
    return {"metadata": {"name": "train", "uid": UID},
            "status": {"state": state, "membershipGeneration": generation, "attempts": list(attempts),
                       "restarts": {"total": 0}, "completionTime": "2026-11-21T05:00:40Z",
                       "conditions": [{"type": kind, "status": "True" if kind in true else "False", "reason": "x"}
                                      for kind in kinds]}}


def sound():
    ended = {"terminated": {"exitCode": 0}}
    events = []
    for number, name in enumerate(PODS):
        events += [("ADDED", pod(name, f"uid-{number}", phase="Pending")),
                   ("MODIFIED", pod(name, f"uid-{number}", **container({"running": {}}))),
                   ("MODIFIED", pod(name, f"uid-{number}", **container(ended))),
                   ("DELETED", pod(name, f"uid-{number}", **container(ended)))]
    return {
        "job": "train", "uid": UID, "slots": 2, "killed_at": 1.0, "ran_before_the_kill": False,
        "audit": [created(name) for name in PODS] + [created(PODS[0], 409)],
        "pods": events,
        "jobs": [("ADDED", job("Pending")), ("MODIFIED", job("Running", ["Placed", "Running"])),
                 ("MODIFIED", job("Succeeded", ["Placed", "Succeeded"], attempts=[{"cause": "Completed"}]))],
        "log": "2026 [0] configuration\n2026 [0]   world           2 ranks, generation 1\n"
               "2026 [0] step 100/300  epoch 0\n"
               '2026 [0] step 200/300  epoch 0\n2026 [0] result {"step":300,"digest":"abc"}\n',
    }


def found_in(change):
    life = copy.deepcopy(sound())
    change(life)
    return oracle.violations(life)


def test_a_sound_life_has_no_violations_and_a_refused_create_is_none():
    assert oracle.violations(sound()) == []
    end = oracle.end_state(sound())
    assert end["digest"] == "abc" and end["trained to step"] == 300 and end["pods left"] == []


def test_two_accepted_creates_of_one_name_are_found():
    assert found_in(lambda life: life["audit"].append(created(PODS[1]))) == [f"pod {PODS[1]} was created 2 times"]


def test_a_pod_under_a_second_name_is_found():
    for name in (PODS[0] + "-again", "train-5265-0-2", "train-5265-2-1"):
        found = found_in(lambda life: life["audit"].append(created(name)))
        assert found == [f"pod {name} was created, which is no first pod of a slot"]


def test_a_pod_that_came_back_with_another_uid_is_found():
    found = found_in(lambda life: life["pods"].append(("ADDED", pod(PODS[0], "uid-9"))))
    assert f"pod {PODS[0]} had 2 uids" in found


def test_a_pod_that_was_never_created_is_found():
    def change(life):
        life["audit"] = life["audit"][1:2]

    assert f"pod {PODS[0]} was created 0 times" in found_in(change)


def test_a_recorded_failure_is_found():
    def change(life):
        life["jobs"][-1][1]["status"]["attempts"].insert(0, {"cause": "MemberLost", "message": "slot 1 fell silent"})

    assert found_in(change) == ["an attempt ended with MemberLost: slot 1 fell silent"]


def test_a_job_that_stopped_running_for_a_while_is_found():
    found = found_in(lambda life: life["jobs"].insert(2, ("MODIFIED", job("Starting", ["Placed"]))))
    assert found == ["the job was no longer Running before it had Succeeded"]
    found = found_in(lambda life: life["jobs"].insert(2, ("MODIFIED", job("Restarting", ["Placed", "Restarting"]))))
    assert "the job was Restarting" in found


def test_a_trainer_that_started_twice_is_found():
    def change(life):
        life["log"] = life["log"] + life["log"]

    found = found_in(change)
    assert "rank 0's trainer started 2 times" in found
    assert "rank 0 did not count its steps up: [100, 200, 100, 200]" in found
    assert "the job ends in generation 1, rank 0 was started in [1, 1]" in found


def test_a_container_that_was_replaced_or_failed_is_found():
    new = ("MODIFIED", pod(PODS[0], "uid-0", **container({"running": {}}, number=2)))
    assert found_in(lambda life: life["pods"].append(new)) == [f"pod {PODS[0]} had 2 containers"]
    again = ("MODIFIED", pod(PODS[0], "uid-0", **container({"running": {}}, restarts=1)))
    assert found_in(lambda life: life["pods"].append(again)) == [f"a container of {PODS[0]} was restarted"]
    failed = ("MODIFIED", pod(PODS[0], "uid-0", **container({"terminated": {"exitCode": 137}})))
    assert found_in(lambda life: life["pods"].append(failed)) == [f"{PODS[0]} ended with 137"]


def test_a_pod_that_is_deleted_while_it_runs_is_found():
    def change(life, at):
        going = pod(PODS[1], "uid-1", **container({"running": {}}))
        going["metadata"].update(deletionTimestamp=at, deletionGracePeriodSeconds=20)
        life["pods"].insert(6, ("MODIFIED", going))

    assert found_in(lambda life: change(life, "2026-11-21T05:00:55Z")) == [f"pod {PODS[1]} was deleted while it ran"]
    # The job had ended; the pod had not said so.
    assert found_in(lambda life: change(life, "2026-11-21T05:01:00Z")) == []


def test_another_generation_is_found_unless_nothing_ran_before_the_death():
    def change(life, ran):
        life["ran_before_the_kill"] = ran
        life["jobs"][-1][1]["status"]["membershipGeneration"] = 2
        life["log"] = life["log"].replace("generation 1", "generation 2")

    assert found_in(lambda life: change(life, False)) == []
    assert found_in(lambda life: change(life, True)) == [
        "the job ends in generation 2 although nothing happened before it ran"]
