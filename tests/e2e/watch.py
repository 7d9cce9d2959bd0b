"""A watch of the API server that a test keeps: every event of a kind, in order."""

import json
import os
import subprocess
import threading
import time

import e2e


class Watch:
    """Every event of a kind in all namespaces, as kubectl streams them.

    The API server ends a stream when it is short of time or goes away. The watch then continues from the last event."""

    def __init__(self, cluster, path):
        self._changed = threading.Condition()
        self._events = {}  # namespace -> [(type, object)]
        self._arrived = {}  # namespace -> when each of them came
        self._version = ""  # of the last event
        self._stopped = threading.Event()
        self._command = [str(e2e.program("kubectl")), "get", "--raw", f"{path}?watch=true"]
        self._env = {**os.environ, **cluster.env}
        self._follow()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _follow(self):
        *words, target = self._command
        if self._version:
            target += f"&resourceVersion={self._version}"
        self._process = subprocess.Popen([*words, target], stdout=subprocess.PIPE, text=True, env=self._env)

    def _read(self):
        while True:
            self._read_stream()
            self._process.wait()
            if self._stopped.wait(0.2):  # between two tries while the API server is away
                return
            with self._changed:
                if self._stopped.is_set():
                    return
                self._follow()

    def _read_stream(self):
        for line in self._process.stdout:
            arrived = time.monotonic()
            event = json.loads(line)
            meta = event["object"].get("metadata", {})
            namespace = meta.get("namespace", "")
            with self._changed:
                self._version = meta.get("resourceVersion", "")
                if event["type"] == "ERROR":
                    continue
                self._events.setdefault(namespace, []).append((event["type"], event["object"]))
                self._arrived.setdefault(namespace, []).append(arrived)
                self._changed.notify_all()

    def events(self, namespace):
        with self._changed:
            return list(self._events.get(namespace, []))

    def timed(self, namespace, first=0):
        """[(when it came, object)] of the events from the one of that number on."""
        with self._changed:
            objects = [event[1] for event in self._events.get(namespace, [])]
            return list(zip(self._arrived.get(namespace, []), objects))[first:]

    def all_events(self):
        """[(when it came, type, object)] of all namespaces, in the order of the API server."""
        with self._changed:
            found = [(arrived, *event) for namespace, events in self._events.items()
                     for arrived, event in zip(self._arrived[namespace], events)]
        return sorted(found, key=lambda event: event[0])

    def wait(self, what, namespace, look, deadline):
        """Waits until `look` of the namespace's events returns something true, and returns it."""
        end = time.monotonic() + deadline
        with self._changed:
            while True:
                found = look(self._events.get(namespace, []))
                if found:
                    return found
                if not self._changed.wait(max(end - time.monotonic(), 0)) and time.monotonic() >= end:
                    raise AssertionError(f"{namespace}: not within {deadline:.0f} s: {what}")

    def wake(self):
        """Has every wait() look again."""
        with self._changed:
            self._changed.notify_all()

    def stop(self):
        with self._changed:
            self._stopped.set()
            self._process.kill()
        self._thread.join(10)
