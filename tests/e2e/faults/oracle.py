"""Invariants of a job's life under an operator that dies, as functions of the recorded life.

A life is a dict:
  job              metadata.name and metadata.uid of the TrainingJob
  slots            how many pods the job has
  killed_at        wall time at which the operator died; None when it did not
  audit            finished requests of the API server's audit log in the job's namespace, in their order
  pods             events of a watch of pods: (type, object)
  jobs             events of a watch of the TrainingJob: (type, object)
  log              rank 0's log
"""

import re

from e2e import seconds_of, trainer_result


def pod_names(life):
    """The names of incarnation 1 of every slot."""
    part = re.sub(r"[^a-z0-9]", "", life["uid"])[:4]
    return [f"{life['job']}-{part}-{slot}-1" for slot in range(life["slots"])]


def status(life):
    return life["jobs"][-1][1].get("status", {}) if life["jobs"] else {}


def condition(found, kind):
    for entry in found.get("conditions", []):
        if entry["type"] == kind:
            return entry["status"] == "True"
    return False


def generations_of_the_log(life):
    """The generations in which rank 0's trainer was started, by its own word."""
    return [int(word) for word in re.findall(r"world .*, generation (\d+)", life["log"])]


def end_state(life):
    """What must be the same in each life: everything that is no time, no name, and no number of a proposal."""
    found = status(life)
    return {
        "conditions": sorted((c["type"], c["status"], c["reason"]) for c in found.get("conditions", [])),
        "state": found.get("state"),
        "worldSize": found.get("worldSize"),
        "incarnation": found.get("incarnation"),
        "restarts": {key: found.get("restarts", {}).get(key, 0)
                     for key in ("total", "charged", "counted", "lastCause")},
        "attempts": [(a["cause"], a.get("strategy"), a.get("firstFailingRank"), a.get("counted", False))
                     for a in found.get("attempts", [])],
        "step in the status": found.get("progress", {}).get("step"),
        "digest": trainer_result(life["log"]).get("digest"),
        "trained to step": trainer_result(life["log"]).get("step"),
        "pods left": sorted(pods_left(life)),
    }


def pods_left(life):
    left = {}
    for kind, pod in life["pods"]:
        if kind == "DELETED":
            left.pop(pod["metadata"]["name"], None)
        else:
            left[pod["metadata"]["name"]] = pod
    return left


def violations(life):
    """Sentences; none when all is well."""
    return _pods_twice(life) + _interrupted(life) + _generation(life)


def _pods_twice(life):
    problems = []
    created = {}
    for entry in life["audit"]:
        where = entry["objectRef"]
        if entry["verb"] != "create" or where["resource"] != "pods" or where.get("subresource"):
            continue
        if entry["responseStatus"]["code"] == 201:
            created[where["name"]] = created.get(where["name"], 0) + 1
    uids = {}
    for _, pod in life["pods"]:
        uids.setdefault(pod["metadata"]["name"], set()).add(pod["metadata"]["uid"])
    for name in pod_names(life):
        if created.get(name, 0) != 1:
            problems.append(f"pod {name} was created {created.get(name, 0)} times")
        if len(uids.get(name, ())) != 1:
            problems.append(f"pod {name} had {len(uids.get(name, ()))} uids")
    for name in sorted((set(created) | set(uids)) - set(pod_names(life))):
        problems.append(f"pod {name} was created, which is no first pod of a slot")
    return problems


def _interrupted(life):
    problems = []
    for attempt in status(life).get("attempts", []):
        if attempt["cause"] != "Completed":
            problems.append(f"an attempt ended with {attempt['cause']}: {attempt.get('message', '')[:200]}")
    ran = False
    for _, job in life["jobs"]:
        found = job.get("status", {})
        if condition(found, "Restarting"):
            problems.append("the job was Restarting")
            break
        if ran and not condition(found, "Running") and not condition(found, "Succeeded"):
            problems.append("the job was no longer Running before it had Succeeded")
            break
        ran = ran or condition(found, "Running")
    containers = {}
    completed = seconds_of(status(life).get("completionTime")) or float("inf")
    for _, pod in life["pods"]:
        name = pod["metadata"]["name"]
        if _deletion(pod) < completed and not _all_ended(pod):
            problems.append(f"pod {name} was deleted while it ran")
        for state in pod.get("status", {}).get("containerStatuses", []):
            if state.get("containerID"):
                containers.setdefault(name, set()).add(state["containerID"])
            if state.get("restartCount"):
                problems.append(f"a container of {name} was restarted")
            code = state.get("state", {}).get("terminated", {}).get("exitCode", 0)
            if code != 0:
                problems.append(f"{name} ended with {code}")
    for name, ids in sorted(containers.items()):
        if len(ids) > 1:
            problems.append(f"pod {name} had {len(ids)} containers")
    starts = len(re.findall(r"(?m)^(?:\S+ )?(?:\[0\] )?configuration$", life["log"]))
    if starts != 1:
        problems.append(f"rank 0's trainer started {starts} times")
    steps = [int(word) for word in re.findall(r"(?m)^(?:\S+ )?(?:\[0\] )?step (\d+)/", life["log"])]
    if not steps or steps != sorted(set(steps)):
        problems.append(f"rank 0 did not count its steps up: {steps[:40]}")
    return list(dict.fromkeys(problems))


def _all_ended(pod):
    states = pod.get("status", {}).get("containerStatuses", [])
    return bool(states) and all("terminated" in state.get("state", {}) for state in states)


def _deletion(pod):
    """When somebody asked for the deletion of the pod; its own time stamp is later by the grace."""
    meta = pod["metadata"]
    if not meta.get("deletionTimestamp"):
        return float("inf")
    return seconds_of(meta["deletionTimestamp"]) - meta.get("deletionGracePeriodSeconds", 0)


def _generation(life):
    """A killed proposal takes its number with it, so training may begin in a later generation than 1; then it stays."""
    problems = []
    final = status(life).get("membershipGeneration")
    started = generations_of_the_log(life)
    if started != [final]:
        problems.append(f"the job ends in generation {final}, rank 0 was started in {started}")
    if final != 1 and (life["killed_at"] is None or life["ran_before_the_kill"]):
        problems.append(f"the job ends in generation {final} although nothing happened before it ran")
    return problems
