"""The random mutation run: which changes it makes, which it leaves alone, and that a surviving mutant is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutants.mutations import Change, changes_of, is_a_change
from tests.mutants.random_run import Copy, Job, LineMap, choose, show

MODULE = b'''"""A module."""

LIMIT: int = 3


def bounded(mark: int | None, limit: int) -> int:
    """Not more than the limit."""
    if mark is None or mark > limit:
        return limit
    return min(mark, LIMIT)
'''
TESTS = """from tidelore.marks import bounded


def test_a_mark_above_the_limit_is_cut() -> None:
    assert bounded(9, 2) == 2
"""


def made(kind: str) -> set[str]:
    return {change.text for change in changes_of("marks.py", MODULE) if change.kind == kind}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("comparison", {"(mark is not None)", "(mark >= limit)", "(mark <= limit)"}),
        ("and/or", {"(mark is None and mark > limit)"}),
        ("condition removed", {"(mark is None)", "(mark > limit)"}),
        ("constant", {"4", "2"}),
        ("call replaced by its argument", {"mark", "LIMIT"}),
        ("early exit removed", {"pass"}),
    ],
)
def test_each_kind_of_change_is_made_except_in_annotations_and_docstrings(kind: str, texts: set[str]) -> None:
    assert made(kind) == texts


def test_a_change_replaces_one_expression_and_compiles() -> None:
    changes = [change for change in changes_of("marks.py", MODULE) if change.kind == "and/or"]
    assert [change.apply(MODULE) for change in changes] == [
        MODULE.replace(b"mark is None or mark > limit", b"(mark is None and mark > limit)")
    ]
    assert all(is_a_change(change, MODULE) for change in changes_of("marks.py", MODULE))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy of a small program with one test."""
    tree = tmp_path / "program"
    for name, text in {
        "src/tidelore/__init__.py": '"""The program."""\n',
        "src/tidelore/marks.py": MODULE.decode(),
        "tests/test_marks.py": TESTS,
        "tests/mutants/witness.py": (Path(__file__).parent / "witness.py").read_text(),
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = "--import-mode=importlib"\n',
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return Copy(tree, tmp_path)


def test_the_same_seed_chooses_the_same_changes_when_a_function_moves(copy: Copy) -> None:
    module = copy.source / "tidelore" / "marks.py"

    def chosen(seed: int) -> list[tuple[str, str]]:
        return [(change.kind, change.text) for change in choose(copy, [module], seed, 5)]

    before = chosen(1)
    assert chosen(2) != before
    module.write_bytes(MODULE.replace(b"LIMIT: int", b"# A comment.\n\n\nLIMIT: int"))
    assert chosen(1) == before


@pytest.mark.deep
def test_a_mutant_is_killed_by_a_test_that_runs_its_line_and_survives_where_no_assertion_sees_it(copy: Copy) -> None:
    modules = copy.modules(["marks.py"])
    recorded = copy.record(modules, ["tests"], None)
    assert list(recorded.seconds) == ["tests/test_marks.py::test_a_mark_above_the_limit_is_cut"]

    def outcome(kind: str, text: str) -> tuple[str, int]:
        change = _find(copy, kind, text)
        result = copy.try_change(change, recorded.tests_of(change), 30)
        return result.verdict, result.all_tests

    assert outcome("comparison", "(mark <= limit)") == ("killed", 1)
    assert outcome("comparison", "(mark >= limit)") == ("survived", 1)
    assert outcome("call replaced by its argument", "mark") == ("survived", 0), "no test runs this line"
    assert (copy.source / "tidelore" / "marks.py").read_bytes() == MODULE


@pytest.mark.deep
def test_mutants_run_in_forks_of_one_session_give_the_same_results_as_separate_sessions(copy: Copy) -> None:
    recorded = copy.record(copy.modules(["marks.py"]), ["tests"], None)
    changes = [_find(copy, "comparison", text) for text in ("(mark <= limit)", "(mark >= limit)")]
    jobs = [Job(number, change, recorded.tests_of(change), False) for number, change in enumerate(changes)]
    found = [(job.number, result.verdict) for job, result in copy.try_forked(jobs, recorded.seconds, 30)]
    assert found == [(0, "killed"), (1, "survived")]


def test_lines_run_at_import_are_tested_by_all_tests_of_their_file() -> None:
    recorded = LineMap({"slow": 2.0, "fast": 0.1}, {"marks.py": {"3": [""], "8": ["slow"], "10": ["slow", "fast"]}})
    (first, _) = [change for change in changes_of("marks.py", MODULE) if change.kind == "constant"]
    assert recorded.tests_of(first) == ["fast", "slow"]


def test_the_diff_of_a_mutant_names_its_function_and_its_kind(copy: Copy) -> None:
    (change,) = [change for change in _all(copy) if change.kind == "and/or"]
    text = show(copy, change)
    assert text.startswith("--- tidelore/marks.py bounded\n+++ and/or\n")
    assert "-    if mark is None or mark > limit:\n+    if (mark is None and mark > limit):\n" in text


def _find(copy: Copy, kind: str, text: str) -> Change:
    (change,) = [change for change in _all(copy) if (change.kind, change.text) == (kind, text)]
    return change


def _all(copy: Copy) -> list[Change]:
    return changes_of("tidelore/marks.py", (copy.source / "tidelore" / "marks.py").read_bytes())
