"""The checker of ledgers is tried on what the trainer and `lockstep run` really write."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in (TESTS / "ledger", TESTS / "e2e", TESTS / "e2e" / "local"):
    sys.path.insert(0, str(folder))
