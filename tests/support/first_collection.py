"""Lets one worker compile the tests after a fresh clone, while the others wait for the result.

pytest rewrites the assertions of each test module and keeps the compiled result. Without this, every worker that starts
beside the first one would do the same work, which on two cores takes as long and costs as much again for each of them.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL

ENOUGH = 50
"""The number of modules to compile at which waiting pays."""


@contextmanager
def compiled_once(tests: Path) -> Iterator[None]:
    """Collect inside this: while much has to be compiled, one worker at a time."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker or sys.dont_write_bytecode or count_stale(tests) < ENOUGH:
        yield
        return
    folder = tests / "__pycache__"
    folder.mkdir(exist_ok=True)
    with (folder / "collecting.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if count_stale(tests) < ENOUGH:
            # Another worker has just done it, and those that remain need not wait for this one.
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield


def count_stale(tests: Path) -> int:
    """Return how many test modules have no compiled form that is as new as they are."""
    return sum(not _is_compiled(module) for module in tests.rglob("test_*.py"))


def _is_compiled(module: Path) -> bool:
    compiled = module.parent / "__pycache__" / f"{module.stem}{PYC_TAIL}"
    return compiled.is_file() and compiled.stat().st_mtime >= module.stat().st_mtime
