"""Small modules with names and docstrings, nothing put off; each rule is shown to catch what it forbids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.architecture.craft import (
    ENGINE_LINES,
    code_lines,
    crowded,
    oversized,
    put_off,
    shapeless_names,
    undocumented,
)

Plant = Callable[[dict[str, str]], Path]


def test_no_module_or_function_exceeds_its_size_limit(source: Path, world_source: Path) -> None:
    assert oversized(source) + oversized(world_source) == []


def test_no_folder_holds_more_than_twenty_modules(source: Path, plant: Plant) -> None:
    assert crowded(source) == []
    assert crowded(plant({f"engine/a{number}.py": "" for number in range(21)})) == ["engine: 21"]


def test_the_engine_stays_below_its_total_size_limit(source: Path) -> None:
    lines = code_lines(source / "engine")
    assert 0 < lines < ENGINE_LINES


def test_every_module_has_a_docstring(source: Path, world_source: Path) -> None:
    assert undocumented(source) + undocumented(world_source) == []


def test_no_module_has_a_generic_name(source: Path, world_source: Path) -> None:
    assert shapeless_names(source) + shapeless_names(world_source) == []


def test_no_todo_or_stub_is_left(source: Path, world_source: Path) -> None:
    assert put_off(source) + put_off(world_source) == []


def test_a_long_module_is_caught(plant: Plant) -> None:
    assert oversized(plant({"engine/a.py": "x = 1\n" * 700})) == []
    assert oversized(plant({"engine/a.py": "x = 1\n" * 701})) == ["engine/a.py: 701 lines"]


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_long_function_is_caught(plant: Plant, keyword: str) -> None:
    body = "class A:\n    " + keyword + " f(self):\n" + "        x = 1\n" * 49
    assert oversized(plant({"engine/a.py": body})) == []
    assert oversized(plant({"engine/a.py": body + "        x = 1\n"})) == ["engine/a.py:2: f has 51 lines"]


def test_lines_of_code_leave_out_blanks_comments_and_docstrings(plant: Plant) -> None:
    text = '''"""Two
lines."""

# why
import os  # counts


class A:
    """Doc."""

    x = 1
    """What x is."""

    def f(self):
        """Doc."""
        return [
            1,
        ]
'''
    assert code_lines(plant({"__init__.py": "", "engine/a.py": text})) == 7


def test_a_module_without_a_docstring_is_caught(plant: Plant) -> None:
    assert undocumented(plant({"engine/a.py": "# only a comment\n"})) == ["engine/a.py"]


@pytest.mark.parametrize("path", ["engine/utils.py", "helpers/a.py", "store/base.py", "cli/common.py", "manager.py"])
def test_a_generic_module_name_is_caught(plant: Plant, path: str) -> None:
    assert shapeless_names(plant({path: ""})) == [path]


def test_a_name_that_only_contains_a_forbidden_word_passes(plant: Plant) -> None:
    assert shapeless_names(plant({"store/database/port.py": ""})) == []


@pytest.mark.parametrize(
    "text", ["# TODO: more", "x = 1  # FIXME", "# XXX", '"""Good enough for now."""', "# Currently"]
)
def test_a_todo_or_stub_is_caught(plant: Plant, text: str) -> None:
    assert len(put_off(plant({"engine/a.py": text}))) == 1
    assert len(put_off(plant({"engine/a.py": "", "store/migrations/1.sql": f"-- {text}"}))) == 1
