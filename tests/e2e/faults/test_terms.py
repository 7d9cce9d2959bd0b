"""A Lease that somebody deletes: the next leader's term still exceeds those that records and agents hold. 15 s."""

import e2e
import gang as gangs

LEADERS = 3  # before the job: terms of records and agents are far above those of a Lease that begins anew


def recovers(gang, slot):
    """Kills a rank; returns the restarts that the status counts once all ranks train in a newer generation."""
    generation = gang.ledgers.read().generation()
    gang.kill_process(slot)
    status = gang.whole_again(generation)
    assert status["membershipGeneration"] > generation
    gang.makes_steps(20)
    return status["restarts"]["total"]


def test_a_job_recovers_under_a_leader_whose_lease_was_deleted(cluster, job, start):
    for _ in range(LEADERS - 1):
        operator = start()
        operator.wait_until_ready()
        assert operator.stop() == 0
    operator = start()
    operator.wait_until_ready()
    gang = gangs.Gang(cluster, job, "terms", *gangs.FLAGS, pace=0.05, steps=100_000, nodes=2, elastic=False)
    assert cluster.record("terms")["term"] >= LEADERS

    for number, lost in enumerate(("the Lease", "the Lease and the annotation"), 1):
        assert operator.stop() == 0
        cluster.kubectl("delete", "lease", "lockstep-operator")
        if "annotation" in lost:
            cluster.kubectl("annotate", "secret", "lockstep-coordinator-ca", "lockstep.dev/term-")
        before = cluster.record("terms")["term"]
        operator = start()
        operator.wait_until_ready()
        assert recovers(gang, slot=1) == number, lost
        assert cluster.record("terms")["term"] > before, lost
        print(f"\n{lost} deleted: the record's term was {before} and is {cluster.record('terms')['term']}")
    assert e2e.true_conditions(cluster.job("terms")) >= {"Running"}
