"""The API server's behaviour that the operator's client and cache rely on, also when the server is killed."""

import e2e


def test_a_cache_is_right_again_after_the_api_server_was_killed(cluster):
    tool = f"{cluster.tool} {{}}-api-server --name {cluster.name}"
    done = e2e.run(e2e.BUILD / "tests/bin/cache_cluster_test", deadline=180,
                   env={"LOCKSTEP_TEST_KUBECONFIG": cluster.kubeconfig,
                        "LOCKSTEP_TEST_RESTART_COMMAND": f"{tool.format('kill')} && {tool.format('start')}"})
    print("\n" + "\n".join(done.stdout.splitlines()[-8:]))
    assert "[  PASSED  ]" in done.stdout and "SKIPPED" not in done.stdout, done.stdout


def test_the_real_server_keeps_the_contract_that_the_client_relies_on(cluster):
    # After the restart of the test above: a server that was never restarted has forgotten no version yet.
    done = e2e.run(
        e2e.BUILD / "tests/bin/kube_cluster_test", deadline=180, env={"LOCKSTEP_TEST_KUBECONFIG": cluster.kubeconfig}
    )
    print("\n" + "\n".join(done.stdout.splitlines()[-8:]))
    assert "[  PASSED  ]" in done.stdout and "SKIPPED" not in done.stdout, done.stdout


def test_placement_counts_the_pods_of_every_scheduler(cluster):
    done = e2e.run(
        e2e.BUILD / "tests/bin/job_cluster_test", deadline=180, env={"LOCKSTEP_TEST_KUBECONFIG": cluster.kubeconfig}
    )
    print("\n" + "\n".join(done.stdout.splitlines()[-8:]))
    assert "[  PASSED  ]" in done.stdout and "SKIPPED" not in done.stdout, done.stdout
