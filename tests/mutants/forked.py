"""A pytest plugin that tries many mutants in one session: a forked child per mutant, with only the changed code new.

Starting pytest and importing the program costs two seconds, most tests a few hundredths. So the session collects
once, and each child replaces the code of the mutated functions before it runs its tests. A change that this cannot
show (its function ran at the import, or its free variables differ) is handed back as `unsuitable`. Imports nothing of
the project, because it is copied next to the tree under test.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

JOBS_VARIABLE = "TIDELORE_MUTANT_JOBS"
RESULTS_VARIABLE = "TIDELORE_MUTANT_RESULTS"
LEAST_SECONDS = 8.0
# A test may take this many times what it took before, by processor time; and by the wall on a busy machine.
SLOWER = 5
SLOWER_BY_THE_WALL = 30

_PR_SET_PDEATHSIG = 1

Code = dict[tuple[str, int], CodeType]


class _Verdict(Exception):  # it ends a child, it is no error
    """What a child found out."""

    def __init__(self, word: str, killer: str = "") -> None:
        super().__init__(word)
        self.word = word
        self.killer = killer


class _Failures:
    """Remembers the first test that failed."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.first = self.first or report.nodeid


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try every mutant in place of running the tests once."""
    if JOBS_VARIABLE not in os.environ:
        return None
    items = {item.nodeid: item for item in session.items}
    for job in json.loads(Path(os.environ[JOBS_VARIABLE]).read_text(encoding="utf-8")):
        missing = [name for name, _ in job["tests"] if name not in items]
        if missing:
            raise pytest.UsageError(f"not collected: {missing}")
        started = time.monotonic()
        result = _fork(session, items, job)
        result |= {"number": job["number"], "seconds": time.monotonic() - started}
        with Path(os.environ[RESULTS_VARIABLE]).open("a", encoding="utf-8") as results:
            results.write(json.dumps(result) + "\n")
    return True


def _fork(session: pytest.Session, items: dict[str, pytest.Item], job: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        # A child in an endless loop must not outlive a session that is killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _work(session, items, job, writer)
    os.close(writer)
    said = b""
    while select.select([reader], [], [], _patience(job, said.count(b"\n")))[0]:
        more = os.read(reader, 65536)
        if not more:
            break
        said += more
    with suppress(ProcessLookupError):
        # What the tests of this child left running, too.
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    *passed, last = said.split(b"\n")
    return {"tests": len(passed), **(json.loads(last) if last else {"verdict": "timeout", "killer": ""})}


def _patience(job: dict[str, Any], passed: int) -> float:
    """How long the test that is running may go on without a word, by the wall."""
    tests = job["tests"]
    usual = tests[passed][1] if passed < len(tests) else 0.0
    return LEAST_SECONDS * SLOWER + SLOWER_BY_THE_WALL * min(usual, LEAST_SECONDS)


def _work(session: pytest.Session, items: dict[str, pytest.Item], job: dict[str, Any], writer: int) -> None:
    """Be the child: never returns. Writes a line per test that passed, then the verdict."""
    try:
        _swap(Path(job["path"]), job["mutated"].encode())
        _run(session, [(items[name], seconds) for name, seconds in job["tests"]], job["cap"], writer)
        verdict = _Verdict("survived")
    except _Verdict as found:
        verdict = found
    except BaseException as error:  # noqa: BLE001  # whatever it is, a child must not go on as its parent
        verdict = _Verdict("killed", f"{type(error).__name__}: {error}"[:200])
    os.write(writer, json.dumps({"verdict": verdict.word, "killer": verdict.killer}).encode())
    os._exit(0)


def _run(session: pytest.Session, tests: list[tuple[pytest.Item, float]], cap: float, writer: int) -> None:
    failures = _Failures()
    session.config.pluginmanager.register(failures)
    for place, (item, seconds) in enumerate(tests):
        used = time.process_time()
        if used > cap:
            return
        limit = round(used + LEAST_SECONDS + SLOWER * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        following = tests[place + 1][0] if place + 1 < len(tests) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.first:
            raise _Verdict("killed", failures.first)
        os.write(writer, b"\n")


def _swap(path: Path, mutated: bytes) -> None:
    """Give the functions of a module the code of its mutated text."""
    before, after = _code_of(path.read_bytes(), path), _code_of(mutated, path)
    names = {name for name, _ in before.keys() ^ after.keys()}
    changed = {key: code for key, code in after.items() if key in before and code != before[key]}
    old = {_place(code): key for key, code in before.items()}
    swapped = 0
    for function in [found for found in gc.get_objects() if isinstance(found, FunctionType)]:
        key = old.get(_place(function.__code__))
        if key is None or function.__code__.co_filename != str(path):
            continue
        if key[0] in names:
            raise _Verdict("unsuitable")
        if key in changed:
            try:
                function.__code__ = changed[key]
            except ValueError:
                raise _Verdict("unsuitable") from None
            swapped += 1
    if not swapped:
        raise _Verdict("unsuitable")


def _place(code: CodeType) -> tuple[str, int, int]:
    return code.co_qualname, code.co_firstlineno, len(code.co_code)


def _code_of(source: bytes, path: Path) -> Code:
    """Every function of a module, by its name and by which of that name it is."""
    found: Code = {}
    seen: Counter[str] = Counter()
    for code in _nested(compile(source, str(path), "exec", dont_inherit=True)):
        found[code.co_qualname, seen[code.co_qualname]] = code
        seen[code.co_qualname] += 1
    return found


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)
