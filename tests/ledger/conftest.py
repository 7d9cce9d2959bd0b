"""Tests the checker of ledgers on those that the trainer and `lockstep run` write."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in (TESTS / "ledger", TESTS / "e2e", TESTS / "e2e" / "local"):
    sys.path.insert(0, str(folder))
