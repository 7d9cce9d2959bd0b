"""Shared by the end-to-end tests: commands with deadlines, waiting on conditions, jobs, and one cluster per run."""

import calendar
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster"), str(ROOT / "tests/ledger")]
import check_ledger  # noqa: E402
import lockstep_cluster.api  # noqa: E402
import lockstep_cluster.layout  # noqa: E402

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release"))
OUT = ROOT / "out" / "e2e"
SICK = "example.com/sick"  # the label of a node that members leave
DEAD = "example.com/dead"  # the label of a node that counts as lost
NAMESPACE = "lockstep-system"


class CommandFailed(AssertionError):
    pass


def run(*command, deadline=60, check=True, env=None, stdin=None, cwd=ROOT):
    """Runs a command to its end; returns the CompletedProcess with text. Fails with what it printed."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, timeout=deadline, input=stdin, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired as late:
        said = f"{' '.join(map(str, command))}: no end after {deadline} s\n{late.stdout}\n{late.stderr}"
        raise CommandFailed(said) from None
    if check and done.returncode != 0:
        raise CommandFailed(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def wait_for(what, look, deadline=60.0, every=0.1):
    """Calls `look` until it returns something true, and hands that out."""
    end = time.monotonic() + deadline
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:.0f} s: {what}")
        time.sleep(every)  # the condition is outside this process: looking again is the only event there is


_guard = []


def ends_with_us(process, kind="process"):
    """Has the process end with the tests, even if these are killed; returns it. `kind` group: with its process group.

    PR_SET_PDEATHSIG ends a process with the thread that started it, and tests start operators from threads."""
    if not _guard:
        _guard.append(subprocess.Popen([ROOT / "scripts/guard.py"], stdin=subprocess.PIPE, text=True,
                                       start_new_session=True))
    _guard[0].stdin.write(f"{kind} {process.pid}\n")
    _guard[0].stdin.flush()
    return process


def program(name):
    """A program of the test cluster (kubectl, helm, ...), built on first use."""
    folder = run(ROOT / "tests/cluster/binaries.sh", name, deadline=4800).stdout.strip().splitlines()[-1]
    return pathlib.Path(folder) / name


@contextlib.contextmanager
def applied_jobs(cluster):
    """A function that applies a job and returns its name. The jobs are deleted at the end of the `with` block."""
    names = []

    def apply(document):
        names.append(document["metadata"]["name"])
        cluster.apply(document)
        return document["metadata"]["name"]

    try:
        yield apply
    finally:
        for name in names:
            cluster.delete_job(name)


class Cluster:
    """A cluster of tests/cluster, with kubectl bound to it."""

    def __init__(self, name, nodes=3, audit=True, kwok=0):
        self.name = name
        self.nodes = nodes
        self.tool = ROOT / "tests/cluster/cluster"
        arguments = ["up", "--name", name, "--nodes", str(nodes), "--kwok", str(kwok)] + (["--audit"] if audit else [])
        if not os.environ.get("LOCKSTEP_E2E_KEEP"):
            arguments += ["--owner", str(os.getpid())]  # gone with this process, even when it is killed
        begun = time.monotonic()
        run(self.tool, *arguments, deadline=300)
        self.up_seconds = time.monotonic() - begun
        self.kubeconfig = run(self.tool, "kubeconfig", "--name", name).stdout.strip()
        self.env = {"KUBECONFIG": self.kubeconfig}
        self._kubectl = program("kubectl")
        self._of_thread = threading.local()

    def down(self):
        run(self.tool, "down", "--name", self.name, deadline=180)

    def command(self, *words, deadline=120):
        return run(self.tool, words[0], "--name", self.name, *words[1:], deadline=deadline)

    def kubectl(self, *words, deadline=60, check=True, stdin=None):
        return run(self._kubectl, *words, deadline=deadline, check=check, stdin=stdin, env=self.env)

    def read(self, path):
        """The object or text of a path of the API, or None; for what is looked at many times a second. Any thread."""
        if not hasattr(self._of_thread, "api"):
            self._of_thread.api = lockstep_cluster.api.Api(lockstep_cluster.layout.Cluster(self.name))
        for again in (True, False):
            try:
                return self._of_thread.api.call("GET", path)
            except lockstep_cluster.api.Refused as error:
                if error.status in (400, 404):  # 400: a log whose container does not run yet
                    return None
                raise CommandFailed(str(error)) from None
            except OSError as error:  # a connection that was idle for too long is opened again, once
                if not again:
                    raise CommandFailed(str(error)) from None
        return None

    def get(self, *words):
        """`kubectl get ... -o json` as an object, or None when it is not there."""
        done = self.kubectl("get", *words, "-o", "json", check=False)
        if done.returncode != 0:
            if "NotFound" in done.stderr or "not found" in done.stderr:
                return None
            raise CommandFailed(done.stderr)
        return json.loads(done.stdout)

    def apply(self, document, namespace="default", check=True, deadline=60):
        text = document if isinstance(document, str) else json.dumps(document)
        return self.kubectl("apply", "-n", namespace, "-f", "-", stdin=text, check=check, deadline=deadline)

    def job(self, name, namespace="default"):
        return self.read(f"/apis/lockstep.dev/v1alpha1/namespaces/{namespace}/trainingjobs/{name}")

    def pods(self, job, namespace="default"):
        selector = urllib.parse.quote(f"lockstep.dev/job={job}")
        return self.read(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")["items"]

    def audit(self):
        """Every finished request of the audit log, as objects."""
        with open(json.loads(self.command("status", "--json").stdout)[0]["audit_log"], encoding="utf-8") as stream:
            for line in stream:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # the line that is being written
                if entry.get("stage") == "ResponseComplete":
                    yield entry

    def rank_0(self, job, namespace="default"):
        """Name of the newest pod of slot 0, or None."""
        labels = [(pod["metadata"]["labels"], pod["metadata"]["name"]) for pod in self.pods(job, namespace)]
        first = [(int(label["lockstep.dev/incarnation"]), name)
                 for label, name in labels if label["lockstep.dev/slot"] == "0"]
        return max(first)[1] if first else None

    def record(self, job, namespace="default"):
        """The coordinator's record of a job."""
        return json.loads(self.read(f"/api/v1/namespaces/{namespace}/configmaps/{job}-record")["data"]["record"])

    def gang(self, job, namespace="default"):
        """Slots of the members of the generation in force, as the coordinator has recorded them."""
        return sorted(self.slots_by_rank(job, namespace))

    def slots_by_rank(self, job, namespace="default"):
        """Of the generation in force, as the coordinator has recorded it; a slot for each place."""
        record = self.record(job, namespace)
        return [member["slot"] for member in record.get("ranks") or record["members"]]

    def by_slot(self, job, namespace="default"):
        """The pods of a job that are to stay, by slot: of each slot the newest."""
        found = {}
        for pod in sorted(self.pods(job, namespace),
                          key=lambda pod: int(pod["metadata"]["labels"]["lockstep.dev/incarnation"])):
            if "deletionTimestamp" not in pod["metadata"]:
                found[int(pod["metadata"]["labels"]["lockstep.dev/slot"])] = pod
        return found

    def leader(self):
        """The leader: the holder of the Lease, which is another with each start of a process, and the name of its
        pod."""
        lease = self.read(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/lockstep-operator")
        holder = lease["spec"]["holderIdentity"]
        return holder, holder.rpartition("_")[0]

    def logged_step(self, job, namespace="default", pod=None):
        """The newest step that rank 0 has printed; the status says it too, but only every 15 seconds.

        `pod` has rank 0; without it, the newest pod of slot 0, which may be a spare where the job has one."""
        first = pod or self.rank_0(job, namespace)
        if first is None:
            return 0
        log = str(self.read(f"/api/v1/namespaces/{namespace}/pods/{first}/log?container=trainer&tailLines=20"))
        return max((int(step) for step in re.findall(r"^.*?step (\d+)", log, re.M)), default=0)

    def trainer_result(self, job, namespace="default"):
        """The last line of the trainer in rank 0 of a job that has ended; which pod that was, only its log knows."""
        names = [pod["metadata"]["name"] for pod in self.pods(job, namespace)]
        logs = [self.read(f"/api/v1/namespaces/{namespace}/pods/{name}/log?container=trainer&tailLines=20")
                for name in names]
        found = [result for result in map(trainer_result, map(str, logs)) if result]
        assert len(found) == 1, logs
        return found[0]

    @contextlib.contextmanager
    def following(self, pod, namespace="default"):
        """Follows a pod's log, and at the end of the block to its end; `.text` is it then. A pod that goes takes its
        log with it."""
        with tempfile.TemporaryFile("w+") as stream:
            process = subprocess.Popen([str(self._kubectl), "logs", "-n", namespace, "-f", "--tail=5", pod, "-c",
                                        "trainer"],
                                       stdout=stream, env={**os.environ, **self.env})
            said = types.SimpleNamespace(text="")
            try:
                # The pod may be gone before kubectl asks for its log. Of a log that is empty nothing comes at all.
                end = time.monotonic() + 5
                while not os.fstat(stream.fileno()).st_size and process.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                yield said
                process.wait(60)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                stream.seek(0)
                said.text = stream.read()

    def delete_job(self, name, namespace="default"):
        self.kubectl("delete", "trainingjob", name, "-n", namespace, "--ignore-not-found", deadline=120)
        wait_for(f"pods of {name} are gone", lambda: not self.pods(name, namespace), deadline=90)

    def wait_condition(self, name, condition, deadline=180, namespace="default"):
        """Waits for a condition of a job to be True; a job that ended otherwise fails at once, with its status."""
        ends = {"Succeeded", "Failed"} - {condition}

        def look():
            job = self.job(name, namespace)
            true = true_conditions(job or {})
            if condition in true:
                return job
            assert not true & ends, f"{name} is to be {condition}, and is {true & ends}"
            return None

        return self.wait_for(name, f"{condition} is True", look, deadline, 0.2, namespace)

    def wait_for(self, name, what, look, deadline=60.0, every=0.1, namespace="default"):
        """As the function of that name; a failure says what is known of the job."""
        try:
            return wait_for(f"{name}: {what}", look, deadline, every)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.known(name, namespace)}") from None

    def known(self, job, namespace="default"):
        """The status of a job and the last lines of each of its pods and of the operator, for a failure's message."""
        status = json.dumps((self.job(job, namespace) or {}).get("status"), indent=1)
        text = []
        for pod in self.pods(job, namespace):
            name = pod["metadata"]["name"]
            log = self.kubectl("logs", "-n", namespace, name, "--tail=12", check=False)
            text.append(f"--- {name} {pod['status'].get('phase')}\n{log.stdout}{log.stderr}")
        return status[:6000] + "\n" + "\n".join(text)[-4000:] + "\n--- operator\n" + self.operators_say(80)[-16000:]

    def operators_say(self, lines=-1):
        """The last lines of the log of each operator, or all of them."""
        return self.kubectl("logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=lockstep", f"--tail={lines}",
                            "--prefix", check=False).stdout


class Ledgers:
    """The ledgers of a job (trainer/report/ledger.h), read while they grow: what training does, also while the API
    server is away."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.lines = {}  # name of a file -> its lines, the first of which says what is trained; each process writes one
        self._offsets = {}

    def read(self):
        """Takes in what was written since the last call; returns itself."""
        for path in self.folder.glob("*.jsonl"):
            begun = self._offsets.get(path, 0)
            with path.open("rb") as stream:
                stream.seek(begun)
                data = stream.read()
            whole = data.rfind(b"\n") + 1  # a line that is being written is read the next time
            self._offsets[path] = begun + whole
            self.lines.setdefault(path.name, []).extend(json.loads(line) for line in data[:whole].splitlines())
        return self

    def commits(self):
        """The committed steps of each process, in their order."""
        steps = [[line for line in lines if line["kind"] == "step"] for lines in self.lines.values()]
        return [lines for lines in steps if lines]

    def generation(self):
        """The newest that has committed a step."""
        return max((lines[-1]["generation"] for lines in self.commits()), default=0)

    def step(self):
        """The newest that anybody has committed."""
        return max((lines[-1]["step"] for lines in self.commits()), default=0)

    def survivors(self):
        """The ranks of the processes that committed steps in several generations. Such a process may have received the
        state of another: a rank does that had not committed the last step of a broken generation."""
        return sorted(lines[-1]["rank"] for lines in self.commits() if len({line["generation"] for line in lines}) > 1)

    def trains_with(self, world, newer_than=0, steps=5):
        """Whether the newest generation has so many ranks, each of which has committed that many steps in it."""
        generation = self.generation()
        done = [sum(line["generation"] == generation for line in lines[-steps:]) for lines in self.commits()
                if lines[-1]["generation"] == generation and lines[-1]["world"] == world]
        return generation > newer_than and done == [steps] * world


def ledger_verdict(folder, reference, finished=True):
    """tests/ledger/check_ledger.py of a job's ledgers, against those of an undisturbed run."""
    result = check_ledger.check(folder, reference, finished)
    print(result.summary())
    return result


def processes(name, **environment):
    """Host numbers of the living processes of that name with all of that in their environment, those inside of nodes
    included."""
    wanted = {f"{key}={value}".encode() for key, value in environment.items()}
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().strip() == name[:15] and \
                    wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def seconds_of(text):
    """Seconds since 1970 of an RFC 3339 time in UTC, with or without a fraction; None of nothing."""
    if not text:
        return None
    whole, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


def trainer_result(log):
    """The trainer's last line `result {json}` of a log, as an object; empty where there is none."""
    found = re.findall(r"result (\{.*\})", log)
    return json.loads(found[-1]) if found else {}


def true_conditions(job):
    return {c["type"] for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"}
