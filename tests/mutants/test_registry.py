"""The registry is about this source, these tests and docs/invariants.md as they are, in both directions."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.mutants.mutant import Mutant, Promise
from tests.mutants.registry import MUTANTS, PROMISES
from tests.mutants.runner import PACKAGE, ROOT, SOURCE, mutated

PAGE = ROOT / "docs" / "invariants.md"
_LINK = re.compile(r"\[`(test_\w+)`\]\(\.\./([\w/.]+)\)")
_CODE = re.compile(r"`([\w-]+)`")


@pytest.mark.deep
def test_each_mutants_snippet_occurs_once_and_its_replacement_is_valid_code() -> None:
    failed = {mutant.name: problem for mutant in MUTANTS if (problem := problem_of(mutant))}
    assert failed == {}


def problem_of(mutant: Mutant) -> str | None:
    text = (SOURCE / PACKAGE / mutant.file).read_text(encoding="utf-8")
    try:
        changed = ast.dump(ast.parse(mutated(mutant, text)))
    except (ValueError, SyntaxError) as error:
        return str(error)
    return "changes nothing" if changed == ast.dump(ast.parse(text)) else None


def test_a_snippet_that_does_not_occur_exactly_once_is_refused() -> None:
    mutant = Mutant("x", "1", "x.py", "a\n", "b\n", "tests/x.py::test_x", "why")
    assert mutated(mutant, "a\n") == "b\n"
    for text in ("", "a\na\n"):
        with pytest.raises(ValueError, match="occurs"):
            mutated(mutant, text)


def test_mutant_names_and_changes_are_unique_and_have_a_reason() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.why for mutant in MUTANTS)


def test_every_promise_has_a_mutant_and_every_mutant_a_promise() -> None:
    keys = [promise.key for promise in PROMISES]
    assert len(keys) == len(set(keys))
    assert {mutant.invariant for mutant in MUTANTS} == set(keys)


def test_every_test_named_by_a_mutant_exists() -> None:
    named = {plain(test) for test in (*(m.test for m in MUTANTS), *(t for p in PROMISES for t in p.also))}
    assert [test for test in sorted(named) if not exists(test)] == []


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return name in functions_in(ROOT / path)


@cache
def functions_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def plain(test: str) -> str:
    """A test without its parameter id."""
    return test.partition("[")[0]


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """The page's rows: key to tests and mutants."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or cells[0] in {"no.", "promise"} or set(line) <= set("|- "):
            continue
        key, sentence, tests, mutants = cells
        assert key not in found, key
        assert sentence
        linked = [f"{path}::{name}" for name, path in _LINK.findall(tests)]
        assert tests.count("](") == len(linked), tests
        assert len(linked) == len(set(linked)), linked
        found[key] = set(linked), set(_CODE.findall(mutants))
    return found


def test_the_invariants_page_lists_exactly_the_registered_promises_in_order() -> None:
    assert list(documented()) == [promise.key for promise in PROMISES]


def test_a_promise_row_lists_exactly_its_tests_and_mutants() -> None:
    assert documented() == {promise.key: expected(promise) for promise in PROMISES}


def expected(promise: Promise) -> tuple[set[str], set[str]]:
    own = [mutant for mutant in MUTANTS if mutant.invariant == promise.key]
    return {*(plain(mutant.test) for mutant in own), *promise.also}, {mutant.name for mutant in own}
