"""A second port of the API server's address, whose packets can be dropped.

Its rules end with the process that holds them, however that one ends: the table is nft's, with the flag `owner`."""

import contextlib
import os
import subprocess
import urllib.parse

import e2e

PORT = 16444


class Way:
    """A port of this host that leads to the API server at `url`; `server` is the address with it."""

    def __init__(self, url):
        listed = urllib.parse.urlparse(url)
        self._host = listed.hostname
        self.server = f"https://{self._host}:{PORT}"
        self.table = f"lockstep-way-{os.getpid()}"
        self._nft = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._say(f"add table ip {self.table} {{ flags owner; }}",
                  f"add chain ip {self.table} lead {{ type nat hook output priority -100; }}",
                  f"add chain ip {self.table} cut {{ type filter hook output priority 0; }}",
                  f"add rule ip {self.table} lead ip daddr {self._host} tcp dport {PORT} "
                  f"dnat to {self._host}:{listed.port}")
        e2e.wait_for("the second port leads to the API server", lambda: "dnat to" in self._rules(), 10)

    def _say(self, *commands):
        self._nft.stdin.writelines(f"{command}\n" for command in commands)
        self._nft.stdin.flush()

    def _rules(self):
        return e2e.run("nft", "list", "table", "ip", self.table, check=False).stdout

    @contextlib.contextmanager
    def cut(self):
        """Drops every packet in both directions, silently."""
        self._say(f"add rule ip {self.table} cut meta l4proto tcp ct original ip daddr {self._host} "
                  f"ct original proto-dst {PORT} drop")
        e2e.wait_for("packets are dropped", lambda: "drop" in self._rules(), 10)
        try:
            yield
        finally:
            self._say(f"flush chain ip {self.table} cut")
            e2e.wait_for("packets pass", lambda: "drop" not in self._rules(), 10)

    def close(self):
        """Ends the port: the kernel removes the table with its owner."""
        self._nft.stdin.close()
        self._nft.wait(10)
