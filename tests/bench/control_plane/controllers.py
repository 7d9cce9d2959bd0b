"""The controllers that are measured: processes of this machine, started for one measurement, watched from outside."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

BUILD = pathlib.Path(
    os.environ.get("LOCKSTEP_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build" / "release")
)
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """CPU that a process has used so far, its ended children left out."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def memory_mib(pid, field):
    """VmRSS (resident now) or VmHWM (the most since the last forget_peak) of a process."""
    return int(re.search(rf"{field}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def forget_peak(pid):
    """Resets VmHWM to the resident memory of this moment."""
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class Controller:
    """A running controller; ends with the block that uses it."""

    ready = None  # the line of its log when it leads

    def __init__(self, fleet, command, env=None):
        self.log = fleet.folder / f"{type(self).__name__.lower()}.log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)],  # it ends with the bench
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
            )
        self.pid = self.process.pid
        self._fleet = fleet

    def __enter__(self):
        try:
            self._fleet.until(f"{type(self).__name__} leads; see {self.log}", self._leads, deadline=90)
        except BaseException:
            self.end()
            raise
        time.sleep(1)  # its first list of an empty cluster; no event outside of the process says that it is done
        forget_peak(self.pid)
        return self

    def __exit__(self, *_):
        self.end()

    def _leads(self):
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"bench: {type(self).__name__} ended with {self.process.returncode}:\n{tail}")
        return re.search(self.ready, self.log.read_text(errors="replace"))

    def led_once(self):
        """Whether it never lost its Lease."""
        return len(re.findall(self.ready, self.log.read_text(errors="replace"))) == 1

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Lockstep(Controller):
    """Our operator, with the flags that the chart gives it."""

    ready = r"(?m)^\S+ info +leading +lease="

    def __init__(self, fleet, env=None, flags=()):
        super().__init__(
            fleet,
            [
                BUILD / "bin/lockstep-operator",
                f"--kubeconfig={fleet.kubeconfig}",
                "--namespace=lockstep-system",
                "--metrics-address=127.0.0.1:0",
                "--coordinator-port=0",
                f"--pod-ip={fleet.layout.bridge_address}",
                "--agent-image=docker.io/lockstep/operator:dev",
                *flags,
            ],
            env,
        )


class JobSet(Controller):
    """JobSet's controller. The Job controller of the control plane, a process of its own, creates its pods."""

    ready = r"Starting workers"

    def __init__(self, fleet):
        serving = fleet.folder / "serving"
        serving.mkdir(exist_ok=True)
        if not (serving / "tls.crt").exists():
            subprocess.run(
                [
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-days",
                    "1",
                    "-subj",
                    "/CN=webhook",
                    "-keyout",
                    serving / "tls.key",
                    "-out",
                    serving / "tls.crt",
                ],
                check=True,
                stderr=subprocess.DEVNULL,
                timeout=30,
            )
        config = fleet.folder / "jobset.yaml"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
                    "kind": "Configuration",
                    "leaderElection": {"leaderElect": False},
                    "internalCertManagement": {"enable": False},
                    "webhook": {"host": fleet.layout.private_address, "port": 9443, "certDir": str(serving)},
                }
            )
        )
        super().__init__(
            fleet,
            [
                fleet.programs / "jobset",
                f"--kubeconfig={fleet.kubeconfig}",
                f"--config={config}",
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
                "--zap-devel=false",
            ],
        )
