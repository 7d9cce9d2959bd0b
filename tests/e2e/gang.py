"""A training job on a cluster whose every commit the test follows, and the faults for it."""

import contextlib
import json
import math
import os
import signal
import time

import e2e
import jobs

NODES = 3
FLAGS = ["--model=mlp", "--width=64", "--layers=2", "--batch-size=12", "--micro-batch-size=2", "--threads=1",
         "--seed=7", "--log-every=50", "--deterministic"]
# Three ranks, a kubelet or an API server that starts and other programs share two cores. A rank that waits for an
# unreachable peer waits 2 s or more.
TIMES, FLOOR = 3, 1
# Of status.attempts, as far as there.
PHASES = ("detect", "decide", "abort", "record", "agree", "start", "init", "transfer", "firstStep")


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def reference(folder, *flags):
    """The ledger of an undisturbed run of one process, and its last line."""
    done = e2e.run(e2e.BUILD / "bin/lockstep-trainer", *flags, f"--ledger={folder}", deadline=600)
    return e2e.trainer_result(done.stdout)["digest"]


class Gang:
    """A job with a ledger, and what is done to it. Slots are ranks unless the nodes are in several racks, because each
    fault begins when all are there again."""

    def __init__(self, cluster, job, name, *flags, steps, pace, nodes=NODES, elastic=True, **spec):
        flags += (f"--steps={steps}",)
        self.cluster, self.name, self.flags, self.steps, self.nodes = cluster, name, flags, steps, nodes
        if elastic:
            spec["elastic"] = {"minNodes": 2, "stabilizationSeconds": 1}
        state = cluster.command("volume", "default", f"{name}-state").stdout.strip()
        self.ledgers = e2e.Ledgers(f"{state}/ledger")
        self.rows = []  # (what, begun, ended, attempts)
        spec.setdefault("podTemplate", jobs.patient())
        job(jobs.trainer(name, *flags, jobs.pace(pace), "--ledger=/checkpoints/ledger", claim=f"{name}-state",
                         every=3600, nodes=nodes, restart={"maxRestarts": 100, "forceDeleteAfterSeconds": 1}, **spec))
        self.until("all train", lambda: self.ledgers.trains_with(nodes))

    def until(self, what, look, deadline=90):
        """Waits for what the ledgers say."""
        def look_again():
            self.ledgers.read()
            return look()

        return self.cluster.wait_for(self.name, what, look_again, deadline, every=0.02)

    def makes_steps(self, count):
        since = self.ledgers.read().step()
        self.until(f"{count} steps more", lambda: self.ledgers.step() >= since + count)

    def status(self):
        return self.cluster.job(self.name)["status"]

    def pod(self, slot):
        return self.cluster.by_slot(self.name)[slot]

    def process(self, slot, name="lockstep-trainer"):
        (pid,) = e2e.processes(name, LOCKSTEP_POD_NAME=self.pod(slot)["metadata"]["name"])
        return pid

    def kill_process(self, slot):
        os.kill(self.process(slot), signal.SIGKILL)

    def replace(self, node):
        """Deletes the pod on that node; another one takes its slot."""
        (pod,) = [pod for pod in self.cluster.by_slot(self.name).values() if pod["spec"]["nodeName"] == node]
        self.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")

    def whole_again(self, newer_than):
        """The status, once all train in a newer generation, the job says so, and no pod is left that is to go."""
        self.until("all train again", lambda: self.ledgers.trains_with(self.nodes, newer_than))

        def look():
            status = self.status()
            pods = self.cluster.pods(self.name)
            slots = self.cluster.by_slot(self.name)
            settled = status["worldSize"] == self.nodes == status["nodes"]["ready"] == len(pods) == len(slots)
            return status if settled and status["membershipGeneration"] == self.ledgers.generation() else None

        return self.until("the job says so", look)

    @contextlib.contextmanager
    def fault(self, what, costs_a_member=True):
        """A row of the table: the block makes the fault and heals what it broke, then all have to train again."""
        generation = self.ledgers.read().generation()
        assert self.ledgers.trains_with(self.nodes) and self.ledgers.step() < self.steps - 20, \
            "the job is too short for its faults"
        begun = time.monotonic_ns()
        yield generation
        if costs_a_member:
            attempts = [attempt for attempt in self.whole_again(generation)["attempts"]
                        if attempt["generation"] >= generation]
            assert attempts, f"{what}: nothing is recorded"
        else:
            attempts = self.status().get("attempts", [])
            attempts = [attempt for attempt in attempts if attempt["generation"] >= generation]
            later = self.ledgers.read().generation()
            assert attempts == [] and later == generation, \
                f"{what}: generation {generation}, then {later}, {attempts}\n{self.cluster.known(self.name)}"
        self.rows.append((what, begun, time.monotonic_ns(), attempts))
        self.makes_steps(10)

    def undisturbed(self):
        """Seconds between the commits of each process while nothing was done to the job."""
        def quiet(before, after):
            return before["generation"] == after["generation"] and all(after["ns"] < begun or before["ns"] > ended
                                                                       for _, begun, ended, _ in self.rows)

        return [(after["ns"] - before["ns"]) / 1e9 for lines in self.ledgers.commits()
                for before, after in zip(lines, lines[1:]) if quiet(before, after)]

    def stood_still(self, begun, ended):
        """The longest gap between two commits of a rank that was there before the fault and in the generation that
        followed it."""
        commits = self.ledgers.commits()
        now = max(line["generation"] for lines in commits for line in lines if line["ns"] < begun)
        later = [line["generation"] for lines in commits
                 for line in lines if line["generation"] > now and line["ns"] < ended]
        going_on = min(later, default=now)
        gaps = [(after["ns"] - before["ns"]) / 1e9 for lines in commits
                if any(line["generation"] == now and line["ns"] < begun for line in lines)
                and any(line["generation"] == going_on and line["ns"] > begun for line in lines)
                for before, after in zip(lines, lines[1:]) if after["ns"] > begun and before["ns"] < ended]
        return max(gaps)

    def longest_allowed(self):
        """Seconds between two commits while nobody is lost: so many times what 99 of 100 gaps are within, or the floor;
        or what this machine, whose disk may stall everybody, does to a gang to which nothing is done."""
        undisturbed = self.undisturbed()
        return max(TIMES * p99(undisturbed), FLOOR, max(undisturbed))

    def print_table(self, result, alone):
        """`result` is what tests/ledger/check_ledger.py says, `alone` the ledger of an undisturbed run."""
        expected = {line["step"]: line["digest"] for lines in e2e.Ledgers(alone).read().commits() for line in lines}
        digests = result.digests()
        known = {key for _, _, _, attempts in self.rows for attempt in attempts for key in attempt.get("phases", {})}
        phases = [phase for phase in PHASES if f"{phase}Milliseconds" in known]
        print(f"\n{'fault':44}{'stood still':>12}  {'cause':16}" + "".join(f"{phase:>10}" for phase in phases) +
              "  ledger  digest")
        for what, begun, ended, attempts in self.rows:
            step = max(line["step"] for lines in self.ledgers.commits() for line in lines if line["ns"] < ended)
            same = digests.get(step) == expected[step]
            verdict = f"  {'WRONG' if result.violations else 'exact':8}{'same' if same else 'OTHER'}"
            seconds = f"{self.stood_still(begun, ended):10.2f} s"
            for number, attempt in enumerate(attempts or [{"cause": "-"}]):
                took = "".join(f"{attempt.get('phases', {}).get(f'{phase}Milliseconds', '-'):>10}" for phase in phases)
                print(f"{'' if number else what:44}{'' if number else seconds:>12}  "
                      f"{attempt['cause']:16}{took}{'' if number else verdict}")

    def hurry(self):
        """Has what is left of the steps made without the pace: the job is suspended for that, since a command stays as
        it is."""
        self.cluster.kubectl("patch", "tj", self.name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        self.cluster.wait_condition(self.name, "Suspended", deadline=90)
        e2e.wait_for("no pod is left", lambda: not self.cluster.pods(self.name), deadline=120)
        command = ["lockstep-trainer", *self.flags, "--ledger=/checkpoints/ledger"]
        self.cluster.kubectl("patch", "tj", self.name, "--type=merge", "-p",
                             json.dumps({"spec": {"suspend": False, "command": command}}))

    def finish(self):
        """The digest that rank 0 printed at the end."""
        self.cluster.wait_condition(self.name, "Succeeded", deadline=180)
        self.ledgers.read()
        return self.cluster.trainer_result(self.name)["digest"]
