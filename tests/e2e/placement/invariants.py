"""Invariants of all pods at every moment, as functions of the events of a watch.

Events are [(seconds, type, pod)] in the order of the API server, of all namespaces. Each function returns sentences,
none when all is well.
"""

import placed

ENDED = ("Succeeded", "Failed")


def counted_twice(events, allocatable):
    """Nodes whose bound pods request more GPUs than the node has (`allocatable`: GPUs by node)."""
    return _above(events, allocatable, lambda pod: placed.node_of(pod), "bound pods")


def claimed_twice(events, allocatable, slack):
    """Nodes of which placement gave away more GPUs than the node has, other pods left aside.

    A gated pod binds to nothing. Its claim may overlap with another for `slack` seconds. Its create or its move was on
    the way when the answer changed, or the operator died between the two writes."""
    def where(pod):
        leaves = pod["metadata"].get("deletionTimestamp") and not placed.node_of(pod)
        return None if leaves or not placed.reserved(pod) else placed.node_of(pod) or placed.reserved(pod)

    def open_where(pod):
        return None if placed.gated(pod) else where(pod)

    return (_above(events, allocatable, open_where, "pods without a gate")
            + _above(events, allocatable, where, "pods of jobs", slack))


def _above(events, allocatable, where, whose, slack=0):
    """Sentences on nodes of which more is held than they have, for `slack` seconds or longer."""
    held, problems, since = {}, {}, {}  # held: {node: {uid: GPUs}}; since: {node: seconds}
    homes = {}  # uid -> node

    def judge(now):
        for node in [node for node, begun in since.items() if now - begun >= slack and node not in problems]:
            total = sum(held[node].values())
            claims = f"at {since[node]:.2f} s {whose} claim {total} of {allocatable[node]} GPUs of {node}"
            problems[node] = "\n  ".join([claims, *_histories(events, held[node], since[node])])

    for seconds, kind, pod in events:
        judge(seconds)
        uid = pod["metadata"]["uid"]
        left = homes.pop(uid, None)
        held.get(left, {}).pop(uid, None)
        node = None if kind == "DELETED" or placed.phase(pod) in ENDED else where(pod)
        if node in allocatable:
            homes[uid] = node
            held.setdefault(node, {})[uid] = placed.gpus_of(pod)
        for touched in {left, node} & held.keys():
            if sum(held[touched].values()) > allocatable[touched]:
                since.setdefault(touched, seconds)
            else:
                since.pop(touched, None)
        if slack == 0:
            judge(seconds)
    judge(max((seconds for seconds, _, _ in events), default=0))
    return list(problems.values())


def _histories(events, uids, until):
    """Of each pod, a line that says when it had which node, and whether it was gated, bound or ending."""
    lines = {uid: [] for uid in uids}
    for seconds, kind, pod in events:
        uid = pod["metadata"]["uid"]
        if uid not in lines or seconds > until + 5:
            continue
        states = (("gated", placed.gated(pod)), ("bound", placed.node_of(pod)),
                  ("ending", pod["metadata"].get("deletionTimestamp")))
        state = " ".join([name for name, holds in states if holds] or ["pinned"])
        if not lines[uid]:
            lines[uid].append(f"{pod['metadata']['name']}, {placed.gpus_of(pod)} GPUs:")
        version = pod["metadata"].get("resourceVersion", "?")
        lines[uid].append(f"[{seconds:.2f} s, version {version}: {kind.lower()}, {placed.reserved(pod)}, {state}]")
    return [" ".join(words) for words in lines.values()]


def past_timeout(events, gangs, slack):
    """Gangs of which a part was bound for longer than their timeout and `slack`, before all were.

    `gangs`: {job: (pods, timeout in seconds)}."""
    problems = []
    bound, since, whole = {}, {}, set()
    last = max((seconds for seconds, _, _ in events), default=0)

    def judge(job, now):
        pods, timeout = gangs[job]
        if job in since and now - since[job] > timeout + slack:
            part = f"{len(bound[job])} of {pods} pods were bound for {now - since[job]:.1f} s"
            problems.append(f"{job}: {part}; its timeout is {timeout} s")
            del since[job]

    for seconds, kind, pod in events:
        job = placed.job_of(pod)
        if job not in gangs:
            continue
        judge(job, seconds)
        there = bound.setdefault(job, set())
        if kind != "DELETED" and placed.node_of(pod) and placed.phase(pod) != "Failed":
            there.add(pod["metadata"]["uid"])
        else:
            there.discard(pod["metadata"]["uid"])
        if len(there) >= gangs[job][0]:
            whole.add(job)
        elif not there:
            whole.discard(job)
        if not there or job in whole:
            since.pop(job, None)
        else:
            since.setdefault(job, seconds)
    for job in list(since):
        judge(job, last)
    return problems


def leaked(events):
    """Pods that are there at the end and hold a node to which they are not bound."""
    left = {}
    for _, kind, pod in events:
        if kind == "DELETED":
            left.pop(pod["metadata"]["uid"], None)
        else:
            left[pod["metadata"]["uid"]] = pod
    return [f"pod {pod['metadata']['name']} still reserves {placed.reserved(pod)}" for pod in left.values()
            if placed.gated(pod) or (placed.reserved(pod) and not placed.node_of(pod))]
