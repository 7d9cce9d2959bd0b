"""Where the operator's resident memory goes: mappings from /proc, the allocator's own account, and samples of the
functions that allocate."""

import bisect
import os
import pathlib
import re
import signal
import subprocess
import time

import controllers
import fleet as fleets

SIZES = (0, 1000, 10000)
GANG = 1000  # pods of each job
SAMPLER = pathlib.Path(__file__).with_name("heap_sampler.cpp")
# The row of a stack: the first rule that a frame matches, from the innermost frame on. Frames without a rule are
# skipped.
RULES = (
    ("TLS", r"libssl|libcrypto"),
    ("JSON", r"nlohmann|YAML::"),
    ("HTTP client", r"web::|pplx::|libcpprest|utility::"),
    ("metrics and logs", r"prometheus|spdlog"),
    ("coordinator", r"lockstep::rendezvous"),
    ("cache: typed objects", r"lockstep::(cache|api)"),
    ("API client", r"lockstep::kube"),
    ("controller and jobs", r"lockstep::(job|control)"),
)
OTHER = "not named by a rule"


class Symbols:
    """Names of functions by address in the operator's program."""

    def __init__(self, program):
        self.program = os.path.realpath(program)
        out = subprocess.run(["nm", "-C", "--defined-only", program], check=True, stdout=subprocess.PIPE, text=True,
                             timeout=120).stdout
        rows = sorted((int(line.split(" ", 2)[0], 16), line.split(" ", 2)[2])
                      for line in out.splitlines() if line[17:18].lower() in ("t", "w"))
        self._addresses, self._names = [address for address, _ in rows], [name for _, name in rows]

    def name(self, frame):
        module, _, offset = frame.rpartition("+")
        if os.path.realpath(module) != self.program:
            return module
        place = bisect.bisect_right(self._addresses, int(offset, 16)) - 1
        return self._names[place] if place >= 0 else module


def category(names):
    """The rule that a stack meets; `names` are its frames, innermost first."""
    for name in names:
        function = re.sub(r"<.*>", "", name)  # an argument of a template does not allocate
        for what, pattern in RULES:
            if re.search(pattern, function) or (what == "JSON" and name.startswith("nlohmann")):
                return what
    return OTHER


def heap_by_category(text, symbols):
    """{category: MiB} of the live samples, and MiB that the allocator holds: (in use by malloc_info, free)."""
    account, _, samples = text.partition("samples\n")
    found = {}
    for line in samples.splitlines():
        if line == "end":
            break
        size, *frames = line.split()
        what = category([symbols.name(frame) for frame in frames])
        found[what] = found.get(what, 0) + int(size) / 2**20
    end = account[account.rindex("</heap>"):]  # the sums over all arenas

    def sum_of(kind):
        return int(re.search(rf'type="{kind}"[^/]*size="(\d+)"', end)[1]) / 2**20

    free = sum_of("fast") + sum_of("rest")
    return found, sum_of("current") + sum_of("mmap") - free, free


def resident(pid):
    """{what: MiB} of the resident pages by the kind of their mapping."""
    stacks = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        words = (task / "syscall").read_text().split()
        if len(words) >= 2:
            stacks.append(int(words[-2], 16))
    found, kind = {"program and libraries": 0.0, "thread stacks": 0.0, "heap and other data": 0.0}, None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+)", line)
        if head:
            begin, end, inode = int(head[1], 16), int(head[2], 16), head[3]
            if inode != "0":
                kind = "program and libraries"
            else:
                is_stack = any(begin <= pointer < end for pointer in stacks)
                kind = "thread stacks" if is_stack else "heap and other data"
        elif line.startswith("Rss:"):
            found[kind] += int(line.split()[1]) / 1024
    found["resident"] = sum(found.values())
    found["peak until then"] = controllers.memory_mib(pid, "VmHWM")
    return found


def connections(pid):
    """Sockets that the process has open."""
    found = 0
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(descriptor).startswith("socket:")
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def heap(fleet, controller, symbols):
    """{what: MiB} of the heap by the functions that allocate. The controller runs with the sampler."""
    out = fleet.folder / "heap"
    out.unlink(missing_ok=True)
    os.kill(controller.pid, signal.SIGUSR2)
    fleet.until("the heap is written",
                lambda: out.exists() and out.read_text(errors="replace").rstrip().endswith("end"), deadline=60)
    by_category, in_use, free = heap_by_category(out.read_text(errors="replace"), symbols)
    rows = {f"heap: {what}": by_category.get(what, 0.0) for what in [*(what for what, _ in RULES), OTHER]}
    rows["heap: not sampled"] = in_use - sum(by_category.values())
    rows["allocator: free, resident or not"] = free
    return rows


def columns(fleet, sizes, look, env=None):
    """What `look` returns for an operator with `env`, at each number of pods."""
    found, there, idle = [], 0, None
    with controllers.Lockstep(fleet, env=env) as controller:
        for size in sizes:
            while there < size:
                more = min(GANG, size - there)
                job = {"path": fleets.COLLECTIONS["lockstep"], "body": fleets.training_job(f"memory-{there}", more)}
                fleet.api.call("POST", job["path"], job["body"])
                there += more
                fleet.until(f"{there} pods run", lambda: fleet.running() >= there, deadline=600, every=1)
            idle = idle or connections(controller.pid)
            # Connections over which pods were created close half a minute after the last of them.
            fleet.until("the operator rests", lambda: connections(controller.pid) <= idle + 2, deadline=120, every=1)
            time.sleep(61)  # it returns free memory to the machine once a minute, without an event
            fleet.api.close()  # the server has closed the idle connection
            found.append(look(controller))
        fleet.clear()
    return found


def show(title, sizes, rows):
    """Prints a table of one column per size."""
    print(f"\n{title:54}" + "".join(f"{size:>10,}" for size in sizes))
    for what in rows[0]:
        print(f"  {what:52}" + "".join(f"{column[what]:10.1f}" for column in rows), flush=True)


def table(fleet, sizes=SIZES):
    """Prints the operator's memory at each number of pods; returns it as rows for the file.

    The heap is sampled in a run of its own. To unwind stacks, a sampler reads tables of every library, and those pages
    would count as the operator's.
    """
    sampler = fleet.folder / "sampler.so"
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", SAMPLER, "-o", sampler, "-ldl", "-lpthread"],
                   check=True, timeout=120)
    symbols = Symbols(controllers.BUILD / "bin/lockstep-operator")
    plain = columns(fleet, sizes, lambda controller: resident(controller.pid))
    show("resident memory of the operator in MiB, by pods", sizes, plain)
    sampled = columns(fleet, sizes, lambda controller: heap(fleet, controller, symbols),
                      {"LD_PRELOAD": str(sampler), "LOCKSTEP_HEAP_OUT": str(fleet.folder / "heap")})
    show("its heap in a second run, sampled", sizes, sampled)
    return [{"memory_at": size, **one, **two} for size, one, two in zip(sizes, plain, sampled)]
