"""Runs tests against a copy of the program, with or without a bug in it, in a process of its own.

Owns the copy, the child's environment and the reading of its end. Refuses to judge a child that tested another
copy than its own (an editable install must not win), or that failed for another reason than a test.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutants.mutant import Mutant
from tests.mutants.witness import MARK

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = "tidelore"
PATIENCE_SECONDS = 180.0

Verdict = Literal["caught", "survived", "broken", "timeout"]
_FAILED = re.compile(r"^FAILED (.+?)(?: - (.*))?$", re.MULTILINE)
_NO_BUG_BUT_A_WRECK = ("SyntaxError", "IndentationError", "NameError", "ImportError", "UnboundLocalError")


@dataclass(frozen=True)
class Outcome:
    """How a child ended. `broken` is neither: nothing was collected, or the mutated code cannot even run."""

    verdict: Verdict
    seconds: float
    output: str


def mutated(mutant: Mutant, text: str) -> str:
    """Return the source with the bug in it; the snippet must be there once."""
    if text.count(mutant.before) != 1:
        raise ValueError(f"{mutant.name}: the snippet occurs {text.count(mutant.before)} times in {mutant.file}")
    return text.replace(mutant.before, mutant.after)


def copy_source(folder: Path, mutant: Mutant | None = None) -> Path:
    """Copy the program, put the bug into the copy, and return the folder to import it from."""
    copy = folder / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = copy / PACKAGE / mutant.file
        path.write_text(mutated(mutant, path.read_text(encoding="utf-8")), encoding="utf-8")
    return copy


def run_tests(copy: Path, *tests: str, patience: float = PATIENCE_SECONDS) -> Outcome:
    """Run tests of this repository against a copy of the program."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tests.mutants.witness"]
    # What steers the run we are part of (its workers, its depth) must not steer the child.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TIDELORE_"))}
    environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400", "TIDELORE_MUTANT": "1"}
    started = time.monotonic()
    child = subprocess.Popen(
        [*words, *tests],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        # The whole session: what the tests themselves started must not outlive them.
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        return Outcome("timeout", time.monotonic() - started, output)
    assert f"{MARK}{copy / PACKAGE / '__init__.py'}\n" in output, f"the child tested another copy:\n{output}"
    return Outcome(judge(child.returncode, output), time.monotonic() - started, output)


def judge(code: int, output: str) -> Verdict:
    """Tell a test that failed from a child that could not test (pytest's exit codes 2 to 5, errors of fixtures)."""
    if code == 0:
        return "survived"
    failed = _FAILED.findall(output)
    wrecked = any((reason or "").startswith(_NO_BUG_BUT_A_WRECK) for _, reason in failed)
    return "caught" if code == 1 and failed and not wrecked else "broken"


def try_mutant(mutant: Mutant, folder: Path) -> Outcome:
    """Put the bug in, and run the test that must notice it."""
    return run_tests(copy_source(folder, mutant), mutant.test)
