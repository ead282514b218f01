"""A pytest plugin for the child processes of `random_run`: it records which test runs which line.

With TIDELORE_LINE_MAP it measures the folders of TIDELORE_LINE_MAP_SOURCE and writes a JSON file: seconds per
passed test, and for each file the tests that run each line ("" stands for the import). With
TIDELORE_STOP_AFTER it ends the session after that many seconds of processor time without counting that as a failure,
and the process when one test goes on for twice as long. Imports nothing of the project, because it is copied next to
the tree under test.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MAP_VARIABLE = "TIDELORE_LINE_MAP"
SOURCE_VARIABLE = "TIDELORE_LINE_MAP_SOURCE"
STOP_VARIABLE = "TIDELORE_STOP_AFTER"
STOPPED = "stopped early: out of time"

_seconds: dict[str, float] = {}
_failed: set[str] = set()
_coverage: Any = None

if STOP_VARIABLE in os.environ:
    # Processor time, not the wall's: on a busy machine a slow test is no endless loop.
    resource.setrlimit(resource.RLIMIT_CPU, (round(2 * float(os.environ[STOP_VARIABLE])),) * 2)

if MAP_VARIABLE in os.environ:
    import coverage

    folders = os.environ[SOURCE_VARIABLE].split(os.pathsep)
    _coverage = coverage.Coverage(data_file=None, config_file=False, source=folders, messages=False)
    _coverage.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the lines of a test, its fixtures included, under its name."""
    if _coverage is None:
        return (yield)
    _coverage.switch_context(item.nodeid)
    started = time.monotonic()
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] = time.monotonic() - started
        _coverage.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Leave tests that failed or were skipped out of the map."""
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the session when its time is over."""
    if time.process_time() > float(os.environ.get(STOP_VARIABLE, "inf")):
        item.session.shouldstop = STOPPED


def pytest_sessionfinish() -> None:
    """Write the map."""
    if _coverage is None:
        return
    _coverage.stop()
    data = _coverage.get_data()
    lines = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
    tests = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    Path(os.environ[MAP_VARIABLE]).write_text(json.dumps({"seconds": tests, "lines": lines}), encoding="utf-8")
