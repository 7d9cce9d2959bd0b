"""The history of the benchmarks: page and plot show its records, and each record is a ratio of a known series."""

import json
import pathlib
import sys
import unittest
from unittest import mock
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import bench_history  # noqa: E402

# A line of each benchmark, and what it says.
PRINTED = {
    "resnet50, 16 samples, 2 threads, median of 5, against its convolutions alone\n"
    "  all                         3000.0   5900.0     1.30     1.21":
        ("CPU time of a step of resnet50, ours / theirs", 1.21),
    "mlp, 128 samples, 2 threads, median of 5, against its matrix products alone\n"
    "  all                            3.0      5.9     1.30     1.25":
        ("CPU time of a step of mlp, ours / its products", 1.25),
    "transformer, 2 ranks: a deterministic step takes 1.071 times as long (1.060 to 1.100; a plain one 40 ms)":
        ("step with --deterministic, 2 ranks", 1.071),
    "    4  shared memory      16384        12.000       6.000     2.0":
        ("ring all-reduce, 4 ranks, shared memory, 16384 KiB", 2.0),
    "racks / least: lockstep is 0.961 of the best peer, slurm (by seed 0.958 ± 0.026); goal ≤ 0.92: missed":
        ("racks of gangs, mean over the seeds", 0.958),
    "wait s: lockstep is 0.984 of the best peer, kueue-least-free (by seed 1.180 ± 0.424); goal ≤ 1.00: met":
        ("wait of gangs, mean over the seeds", 1.18),
    "order of ranks         2013380    1.000       683225    1.000": ("ring edges between racks", 1.0),
    "lockstep to raw: 1.08, the bound is 1.15": ("all pods of a job bound", 1.08),
    "ours to the better of the others: 0.123 of its standstill, 0.200 of its seconds lost":
        ("standstill of a fault", 0.123),
    "a worker of 600 costs 0.97 times the CPU of a worker of 100":
        ("CPU of a sleeping worker, 600 beside 100 of them", 0.97),
}


class BenchHistory(unittest.TestCase):
    def test_the_page_and_the_plot_show_the_records(self):
        for path, text in bench_history.files(bench_history.records()).items():
            self.assertEqual(path.read_text(), text, f"{path.name}: run scripts/bench_history.py draw")

    def test_the_plot_has_the_ratio_of_each_record(self):
        found = bench_history.records()
        root = ElementTree.fromstring(bench_history.plot(found))
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(len(list(root.iter("{http://www.w3.org/2000/svg}circle"))), len(found))
        for record in found:
            self.assertIn(f"{record['ratio']:g}", texts)
            self.assertIn(record["benchmark"], texts)

    def test_each_benchmark_that_prints_a_ratio_is_read(self):
        for text, (benchmark, ratio) in PRINTED.items():
            against = bench_history.series_of(benchmark)[1].against
            self.assertEqual(list(bench_history.ratios_of(text)), [(benchmark, against, ratio)], text)
        self.assertEqual(list(bench_history.ratios_of("3 passed in 4.00 s")), [])

    def test_a_line_beside_pytorch_has_a_ratio_of_times_and_one_of_memory(self):
        line = "mlp     3.1     4.6    1.48     6.0     9.2    1.53     60     420    0.14  compiled"
        self.assertEqual([list(found) for found in bench_history.ratios_of(line)],
                         [["CPU time of a step of mlp, theirs / ours", "PyTorch", 1.53],
                          ["memory of a step of mlp, ours / theirs", "PyTorch", 0.14]])

    def test_what_is_no_record_is_refused(self):
        good = bench_history.records()[0]
        wrong = {"a ratio of 0": {**good, "ratio": 0}, "a date of words": {**good, "date": "yesterday"},
                 "another peer": {**good, "against": "itself"}, "an unknown benchmark": {**good, "benchmark": "speed"},
                 "a time": {**good, "seconds": 3}}
        for what, record in wrong.items():
            path = mock.Mock(**{"read_text.return_value": json.dumps(record) + "\n"})
            path.name = "records"
            with self.assertRaises(bench_history.Wrong, msg=what):
                bench_history.records(path)


if __name__ == "__main__":
    unittest.main()
