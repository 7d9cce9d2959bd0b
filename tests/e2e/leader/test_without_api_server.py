"""The API server is away when the operator starts. 30 s.

This file runs after those whose jobs start at once. For a minute after the API server's return kube-controller-manager
creates no ServiceAccount, and the API server admits no pod to a new namespace."""

import time

import e2e


def test_an_operator_started_without_an_api_server_leads_when_it_is_back(cluster, namespace, start):
    e2e.run(cluster.tool, "kill-api-server", "--name", cluster.name)
    try:
        operator = start()
        e2e.wait_for("it says that it waits", lambda: (operator.get("/readyz") or [0])[0] == 503, 20)
        begun = time.monotonic()
        while time.monotonic() - begun < 20:  # longer than its longest pause between two tries
            assert operator.process.poll() is None, operator.log()
            assert operator.get("/healthz")[0] == 200
            time.sleep(1)
        status, text = operator.get("/readyz")
        print(f"\n/readyz: {text}")
        assert status == 503 and "API server" in text
        assert len(operator.log().splitlines()) < 20, "it logs what it waits for once, not at each try"
    finally:
        e2e.run(cluster.tool, "start-api-server", "--name", cluster.name, deadline=120)
    e2e.wait_for("it leads", operator.leads, 30)
    operator.wait_until_ready()
