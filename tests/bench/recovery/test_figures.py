"""The benchmark's arithmetic on invented commits."""

import json
import math
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import figures  # noqa: E402
import ledgers  # noqa: E402
from figures import Commit  # noqa: E402

MS = 1_000_000


def run(rank, world, generation, steps, begin_ms, every_ms):
    return [Commit(step, generation, rank, world, round((begin_ms + i * every_ms) * MS))
            for i, step in enumerate(steps)]


def test_a_percentile_is_a_value_that_was_measured():
    values = list(range(1, 201))
    assert [figures.percentile(values, share) for share in (0.5, 0.9, 0.99, 1)] == [100, 180, 198, 200]
    assert figures.percentile([7], 0.99) == 7


def test_a_kill_without_a_recovery_is_the_slowest_of_all():
    values = [10.0] * 98 + [math.inf] * 2
    assert figures.percentile(values, 0.98) == 10 and math.isinf(figures.percentile(values, 0.99))
    assert figures.summary(values)["failed"] == 2 and figures.number(figures.summary(values)["max"]) == "never"


def test_a_recovery_ends_with_the_first_commit_of_the_last_survivor():
    survivors = [run(0, 3, 1, [8, 9], 0, 100) + run(0, 2, 2, [10, 11], 300, 100),
                 run(2, 3, 1, [8, 9], 1, 100) + run(1, 2, 2, [10, 11], 320, 100)]
    found = figures.recovery(150 * MS, 1, survivors)
    assert (found.milliseconds, found.world, found.steps_lost) == (170, 2, 0)


def test_a_survivor_without_a_further_commit_makes_the_recovery_infinite():
    survivors = [run(0, 3, 1, [8, 9], 0, 100) + run(0, 2, 2, [10], 300, 100), run(2, 3, 1, [8, 9], 1, 100)]
    assert math.isinf(figures.recovery(150 * MS, 1, survivors).milliseconds)
    assert math.isinf(figures.recovery(150 * MS, 1, []).milliseconds)


def test_repeated_steps_are_counted():
    survivors = [run(0, 2, 1, [8, 9], 0, 100) + run(0, 1, 2, [6, 7], 300, 100)]
    assert figures.recovery(150 * MS, 1, survivors).steps_lost == 4


def test_the_first_step_of_a_generation_is_no_undisturbed_one():
    commits = run(0, 3, 1, [1, 2, 3], 0, 100) + run(0, 2, 2, [4, 5, 6], 900, 50)
    assert figures.step_gaps(commits) == [100, 50] and figures.step_gaps(commits, skip=2) == []


def test_restarted_ranks_have_progressed_once_all_are_past_the_old_step():
    before = [run(0, 2, 1, [1, 2, 3], 0, 100), run(1, 2, 1, [1, 2, 3], 1, 100)]
    after = [run(0, 2, 2, [2, 3, 4], 500, 100), run(1, 2, 2, [2, 3, 4], 520, 100)]
    assert figures.progress_ns(1, 3, before + after, 2) == 720 * MS
    assert figures.progress_ns(1, 3, before + after[:1], 2) is None


def test_lost_time_is_what_the_steps_made_do_not_explain():
    commits = [run(0, 2, 1, [1, 2, 3], 0, 100) + run(0, 2, 2, [4, 5], 900, 100)]
    assert figures.newest_step(commits, 250 * MS) == 3
    assert figures.lost_ms(commits, 200 * MS, 1000 * MS, 100) == 600


def test_a_step_in_progress_at_either_end_is_not_lost_in_part():
    commits = [run(0, 2, 1, list(range(1, 20)), 0, 100)]
    assert figures.lost_ms(commits, 350 * MS, 990 * MS, 100) == 0
    assert figures.lost_ms(commits, 350 * MS, 1010 * MS, 100) == 0


def test_all_time_is_lost_in_which_no_new_step_was_committed():
    commits = [run(0, 2, 1, [1, 2, 3], 0, 100) + run(0, 2, 2, [1, 2, 3], 900, 100)]
    assert figures.lost_ms(commits, 250 * MS, 1150 * MS, 100) == 950


def test_a_gang_is_whole_again_when_each_rank_has_made_a_step_that_is_new():
    survivor = run(0, 2, 1, [1, 2, 3], 0, 100) + run(0, 1, 2, [4, 5], 300, 100) + run(0, 2, 3, [6, 7], 600, 100)
    newcomer = run(1, 2, 3, [6, 7], 650, 100)
    killed = run(1, 2, 1, [1, 2, 3], 0, 100)
    assert figures.whole_again_ns(1, 3, [survivor, killed, newcomer], 2) == 650 * MS
    assert figures.whole_again_ns(1, 6, [survivor, killed, newcomer], 2) == 750 * MS
    assert figures.whole_again_ns(1, 3, [survivor, killed], 2) is None


def test_a_kill_costs_the_time_lost_until_a_while_after_the_gang_is_whole():
    # Steps of 90 ms before the kill at 2000, 700 ms until the next one, then of 110 ms.
    gang = [run(rank, 2, 1, list(range(1, 22)), 200, 90) + run(rank, 2, 2, list(range(22, 60)), 2700, 110)
            for rank in range(2)]
    lost, step = figures.cost(gang, 2, 2000 * MS, 2700 * MS, 440 * MS, 9000 * MS)
    assert round(step) == 100
    assert round(lost) == (2700 + 440 - 2000) - 5 * 100  # steps 22 to 26


def test_a_kill_after_which_the_gang_is_not_whole_in_time_costs_infinity():
    gang = [run(rank, 2, 1, list(range(1, 22)), 200, 90) + run(rank, 2, 2, list(range(22, 60)), 2700, 110)
            for rank in range(2)]
    assert math.isinf(figures.cost(gang, 2, 2000 * MS, None, 440 * MS, 9000 * MS)[0])
    assert math.isinf(figures.cost(gang, 2, 2000 * MS, 2700 * MS, 440 * MS, 2600 * MS)[0])
    assert math.isinf(figures.cost([run(0, 2, 1, [1, 2], 0, 100)], 2, 50 * MS, 100 * MS, 10 * MS,
                                   9000 * MS)[0]), "no step to go by"


def test_a_join_is_the_longest_gap_of_the_ranks_that_were_there():
    survivors = [run(0, 3, 2, [5, 6], 0, 100) + run(0, 4, 3, [7], 350, 100),
                 run(1, 3, 2, [5, 6], 0, 100) + run(1, 4, 3, [7], 400, 100)]
    assert figures.join(survivors, 3, 4).milliseconds == 300
    assert figures.join(survivors, 2, 4) is None


def test_the_bandwidth_of_an_all_reduce_is_that_of_its_links():
    assert figures.bandwidth(16e6, 4, 24) == 1e6


def test_a_ledger_is_followed_line_by_line_and_a_torn_line_waits(tmp_path):
    def step(number, generation):
        return json.dumps({"kind": "step", "step": number, "generation": generation, "rank": 1, "world": 2,
                           "ns": number * MS, "batches": []})

    path = tmp_path / "uid-with-dashes-41-7.jsonl"
    path.write_text(json.dumps({"kind": "process", "pid": 41}) + "\n" + step(1, 1) + "\n" + step(2, 1)[:20])
    follow = ledgers.Ledgers(tmp_path)
    follow.read()
    assert [commit.step for commit in follow.commits[41]] == [1]
    path.write_text(path.read_text()[:-20] + step(2, 1) + "\n")
    follow.read()
    follow.read()
    assert [commit.step for commit in follow.commits[41]] == [1, 2]


def test_a_gang_is_whole_when_each_of_its_ranks_lives_and_made_some_steps():
    follow = ledgers.Ledgers(os.devnull)
    follow.commits = {1: run(0, 2, 3, [4, 5], 0, 1), 2: run(1, 2, 3, [4, 5], 0, 1), 3: run(2, 3, 2, [3], 0, 1)}
    assert follow.whole(2, 2, lambda pid: True) == {1: 0, 2: 1}
    assert follow.whole(2, 3, lambda pid: True) is None
    assert follow.whole(2, 2, lambda pid: pid != 2) is None
    assert follow.whole(3, 1, lambda pid: True) is None


def test_json_says_null_where_there_is_no_number():
    assert figures.plain({"a": [math.inf, 1.5], "b": math.nan}) == {"a": [None, 1.5], "b": None}


def test_the_error_of_a_mean_shrinks_with_the_root_of_the_number_of_values():
    assert figures.standard_error([1.0, 3.0]) == 1.0
    assert math.isclose(figures.standard_error([1.0, 3.0] * 50), 0.1, rel_tol=0.01)
    assert math.isnan(figures.standard_error([1.0])) and math.isnan(figures.standard_error([1.0, math.inf]))
