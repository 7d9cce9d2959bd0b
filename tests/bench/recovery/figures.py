"""The arithmetic of the recovery benchmark: from commits and kills to milliseconds. Pure; times are CLOCK_MONOTONIC in
nanoseconds."""

import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Commit:
    """A committed step of one process, from its ledger."""
    step: int
    generation: int
    rank: int
    world: int
    ns: int


@dataclasses.dataclass
class Recovery:
    """The result of one kill."""
    # From the kill to the last survivor's first commit of a newer generation; infinite: there was none.
    milliseconds: float
    world: int           # ranks of that generation; 0: there was none
    steps_lost: int      # committed before the kill and repeated after it


@dataclasses.dataclass
class Join:
    """The cost of a newcomer's join for the other ranks."""
    milliseconds: float  # the longest gap between two commits of one of them, across the change of the generation
    world: int           # ranks of the generation with the newcomer


def percentile(values, share):
    """The smallest value that at least `share` of all values do not exceed. Infinite values count like any other."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def step_gaps(commits, skip=1):
    """Milliseconds between consecutive commits of one process within a generation, without the first `skip` of each
    generation."""
    gaps, since = [], 0
    for before, after in zip(commits, commits[1:]):
        if after.generation != before.generation:
            since = 0
            continue
        since += 1
        if since > skip:
            gaps.append((after.ns - before.ns) / 1e6)
    return gaps


def recovery(killed_ns, generation, survivors):
    """`survivors`: the commits of each process that outlived the kill in `generation`, in their order."""
    firsts, newest_before = [], 0
    for commits in survivors:
        newest_before = max([newest_before] + [commit.step for commit in commits if commit.generation <= generation])
        first = next((commit for commit in commits if commit.generation > generation and commit.ns > killed_ns), None)
        if first is None:
            return Recovery(math.inf, 0, 0)
        firsts.append(first)
    if not firsts:
        return Recovery(math.inf, 0, 0)
    last = max(firsts, key=lambda commit: commit.ns)
    lost = max(0, newest_before + 1 - min(commit.step for commit in firsts))
    return Recovery((last.ns - killed_ns) / 1e6, last.world, lost)


def first_new(commits, generation, newest, world=None):
    """A process' first commit of a step that was new to all, in a newer generation (of so many ranks); None if it made
    none."""
    return next((commit for commit in commits if commit.generation > generation and commit.step > newest
                 and world in (None, commit.world)), None)


def progress_ns(generation, newest, processes, count):
    """When `count` of the processes had each made such a commit; None if they have not."""
    firsts = [first_new(commits, generation, newest) for commits in processes]
    times = sorted(first.ns for first in firsts if first is not None)
    return times[count - 1] if len(times) >= count else None


def newest_commit(processes, until_ns):
    """The first commit of the largest step that any process had committed by then; None if there was none."""
    return max((commit for commits in processes for commit in commits if commit.ns <= until_ns),
               key=lambda commit: (commit.step, -commit.ns), default=None)


def newest_step(processes, until_ns):
    found = newest_commit(processes, until_ns)
    return found.step if found else 0


def whole_again_ns(generation, newest, processes, world):
    """When all `world` ranks of one newer generation had committed a step that was new to all; None if they have
    not."""
    times = {}  # by generation
    for commits in processes:
        first = first_new(commits, generation, newest, world)
        if first is not None:
            times.setdefault(first.generation, []).append(first.ns)
    return min((max(each) for each in times.values() if len(each) == world), default=None)


def lost_ms(processes, begin_ns, end_ns, step_ms):
    """How much longer the time from `begin_ns`, before which there is a commit, to `end_ns` was than its steps would
    have taken undisturbed. Both are moved back to the commit before them, so that a step that was under way there is
    not counted in part."""
    first, last = newest_commit(processes, begin_ns), newest_commit(processes, end_ns)
    end = end_ns if last == first else last.ns
    return (end - first.ns) / 1e6 - (last.step - first.step) * step_ms


def undisturbed_ms(processes, world, begin_ns, end_ns):
    """The mean step of the whole gang in that time, without the first ones of each generation; NaN if there was
    none."""
    whole = [[commit for commit in commits if commit.world == world and begin_ns <= commit.ns <= end_ns]
             for commits in processes]
    return mean([gap for commits in whole for gap in step_gaps(commits, skip=3)])


def cost(processes, world, killed_ns, whole_ns, after_ns, until_ns):
    """(milliseconds lost, the undisturbed step) by a kill after which the gang was whole again at `whole_ns`: until
    `after_ns` later, but until `until_ns` at most. Infinite if the gang was not whole by then, or no undisturbed step
    is known."""
    if whole_ns is None or whole_ns > until_ns:
        return math.inf, math.nan
    over = min(whole_ns + after_ns, until_ns)
    # On both sides of the measured time, because the machine may get busier meanwhile. Before the first fault there may
    # be little.
    sides = (undisturbed_ms(processes, world, 2 * killed_ns - over, killed_ns),
             undisturbed_ms(processes, world, over, 2 * over - killed_ns))
    step = mean([side for side in sides if not math.isnan(side)])
    return (math.inf if math.isnan(step) else lost_ms(processes, killed_ns, over, step)), step


def join(survivors, before_world, world):
    """The change from a generation of `before_world` ranks to the next one of `world`; None if no survivor saw one."""
    longest = None
    for commits in survivors:
        for before, after in zip(commits, commits[1:]):
            if after.generation > before.generation and before.world == before_world and after.world == world:
                gap = (after.ns - before.ns) / 1e6
                longest = gap if longest is None else max(longest, gap)
                break
    return None if longest is None else Join(longest, world)


def bandwidth(bytes_reduced, ranks, milliseconds):
    """Bytes per millisecond that each link carries in a ring all-reduce: every rank sends 2 (n - 1) / n of the
    bytes."""
    return 2 * (ranks - 1) / ranks * bytes_reduced / milliseconds


def median(values):
    return statistics.median(values) if values else math.nan


def mean(values):
    return statistics.fmean(values) if values else math.nan


def standard_error(values):
    """Of the mean, if the values are independent."""
    known = len(values) > 1 and all(math.isfinite(value) for value in values)
    return statistics.stdev(values) / math.sqrt(len(values)) if known else math.nan


def summary(values):
    return {"count": len(values), "failed": sum(1 for value in values if math.isinf(value)),
            "median": percentile(values, 0.5), "p90": percentile(values, 0.9), "p99": percentile(values, 0.99),
            "max": max(values, default=math.nan), "mean": mean(values), "error": standard_error(values)}


def number(value, digits=0):
    """For a table: infinity as a word, no number as a dash."""
    if value is None or math.isnan(value):
        return "-"
    return "never" if math.isinf(value) else f"{value:.{digits}f}"


def table(head, rows):
    """Lines with columns as wide as they need to be; the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in cells]


def plain(value):
    """A value as JSON can say it: infinity and NaN as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
