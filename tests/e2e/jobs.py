"""Jobs that the end-to-end tests run, as a user would write them."""


def training_job(name, **spec):
    return {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def on_this_machine(name, *command, **spec):
    """A job for `lockstep run`, which needs no image."""
    return training_job(name, image="none", command=[str(word) for word in command], **spec)


def pod_template(**spec):
    """Of a job whose image is on the nodes and in no registry."""
    return {"spec": {"containers": [{"name": "trainer", "imagePullPolicy": "Never"}], **spec}}


def trainer(name, *flags, nodes=3, procs=1, every=2, claim=None, **spec):
    """A job of our own trainer on the licence texts; checkpoints on the claim where one is given."""
    job = {
        "image": "docker.io/lockstep/trainer:dev",
        "command": ["lockstep-trainer", *flags],
        "nodes": nodes,
        "procsPerNode": procs,
        # A pod that requests nothing gets a hundredth of the share of any process on a machine that is busy.
        "resources": {"requests": {"cpu": "200m"}},
        "podTemplate": pod_template(),
        **spec,
    }
    if claim:
        job["checkpoint"] = {"path": "/checkpoints", "claimName": claim, "everySeconds": every,
                             "gracePeriodSeconds": 20}
    return training_job(name, **job)


def patient():
    """A pod template that bears a node which is not ready for five minutes, as pods do by default; here it is five
    seconds, in which a kubelet on a busy machine may not find an API server that was away."""
    tolerations = [{"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300}
                   for what in ("not-ready", "unreachable")]
    return pod_template(tolerations=tolerations)


def pace(seconds):
    """The flag with which no step takes less: a job to which something is done is not over before, however fast the
    machine is."""
    return f"--min-step-seconds={seconds}"


def small_model(steps, *more):
    """A transformer small enough that a step takes some ten milliseconds on a shared core."""
    return ["--model=char-transformer", "--data=/usr/share/common-licenses", f"--steps={steps}", "--batch-size=12",
            "--micro-batch-size=1", "--layers=2", "--width=64", "--threads=1", "--seed=7", "--log-every=10", *more]


def mlp(steps):
    """A perceptron whose steps take a few milliseconds; its weights are bitwise identical for any number of workers."""
    return ["--model=mlp", f"--steps={steps}", "--batch-size=32", "--micro-batch-size=4", "--threads=1", "--seed=7",
            "--log-every=50", "--deterministic"]


def shell(name, script, nodes=1, **spec):
    """A job whose processes run a shell script (busybox)."""
    job = {"image": "docker.io/lockstep/busybox:test", "command": ["/bin/sh", "-c", script], "nodes": nodes,
           "rendezvous": {"kind": "Torch"}, "podTemplate": pod_template(), **spec}
    return training_job(name, **job)
