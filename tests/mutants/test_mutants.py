"""Each deliberate bug is noticed by the test that promises to: a test that cannot fail proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutants.mutant import Mutant
from tests.mutants.registry import MUTANTS
from tests.mutants.runner import copy_source, judge, run_tests, try_mutant

SOON = frozenset({"watermark-from-the-local-clock", "lost-race-taken-for-won"})
"""Two of the fastest run with every change: proof that the machinery works."""

EVERY_TEST = tuple(dict.fromkeys(mutant.test for mutant in MUTANTS))
SOON_TESTS = tuple(mutant.test for mutant in MUTANTS if mutant.name in SOON)


def cases() -> list[object]:
    return [
        pytest.param(mutant, id=mutant.name, marks=() if mutant.name in SOON else pytest.mark.deep)
        for mutant in MUTANTS
    ]


@pytest.mark.parametrize("mutant", cases())
def test_each_mutant_is_caught_by_its_test(mutant: Mutant, tmp_path: Path) -> None:
    outcome = try_mutant(mutant, tmp_path)
    assert outcome.verdict == "caught", f"{mutant.name}: {mutant.why}\n{outcome.output}"


@pytest.mark.parametrize(
    "tests", [pytest.param(SOON_TESTS, id="soon"), pytest.param(EVERY_TEST, id="every", marks=pytest.mark.deep)]
)
def test_without_a_mutant_the_same_tests_pass(tests: tuple[str, ...], tmp_path: Path) -> None:
    outcome = run_tests(copy_source(tmp_path), *tests, patience=600)
    assert outcome.verdict == "survived", outcome.output


def test_a_test_run_of_another_copy_of_the_package_is_rejected(tmp_path: Path) -> None:
    """There is nothing to import here, so the child finds the installed program."""
    with pytest.raises(AssertionError, match="the child tested another copy"):
        run_tests(tmp_path, SOON_TESTS[0])


FAILURE = "FAILED tests/x.py::test_x[a b] - AssertionError: assert 1 == 2"


@pytest.mark.parametrize(
    ("code", "output", "verdict"),
    [
        (0, "1 passed", "survived"),
        (1, FAILURE, "caught"),
        (1, "FAILED tests/x.py::test_x", "caught"),
        (1, "ERROR tests/x.py::test_x - OSError", "broken"),
        (1, "FAILED tests/x.py::test_x - NameError: name 'y' is not defined", "broken"),
        (2, FAILURE, "broken"),
        (4, "ERROR: not found: tests/x.py::test_y", "broken"),
        (5, "no tests ran", "broken"),
        (-9, "", "broken"),
    ],
)
def test_only_a_failed_test_counts_as_a_caught_mutant(code: int, output: str, verdict: str) -> None:
    assert judge(code, output) == verdict
