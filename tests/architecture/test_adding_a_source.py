"""Every file and name that docs/adding-a-source.md mentions exists."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding-a-source.md"
CODE = re.compile(r"`([^`\n]+)`")
NO_NAMES = frozenset({"[[toy]]", "#12", "!12", "lore doctor", "pull"})
"""What is written as code and is neither a file nor a name of the program."""


def explain(span: str) -> str | None:
    """Return what is wrong with a piece of code in the page; None if it exists."""
    if span in NO_NAMES:
        return None
    if "/" in span:
        return None if (ROOT / span).exists() else "no such file"
    if not re.fullmatch(r"\w+(\.\w+)*", span):
        return "not a file or a name"
    if "." not in span:
        return None if span in names() else "no such name"
    return None if _resolves(span) else "no such module or attribute"


def _resolves(dotted: str) -> bool:
    """Return whether `engine.walk.Walk`, `core.config` or `World.admit` leads to something."""
    first, _, rest = dotted.partition(".")
    if first[0].isupper():
        return rest in names() and first in names()
    module, _, name = dotted.rpartition(".")
    for path, attribute in ((dotted, None), (module, name)):
        try:
            found = importlib.import_module(f"tidelore.{path}")
        except ImportError:
            continue
        return attribute is None or hasattr(found, attribute)
    return False


@cache
def names() -> frozenset[str]:
    """Every class, function, field, parameter and key of the program, the world, the toy tracker and its contract."""
    folders = [ROOT / "src", ROOT / "tests" / "toy", ROOT / "tests" / "contract"]
    found: set[str] = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(name)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                    found.add(name)
                case ast.Dict(keys=keys):
                    found |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return frozenset(found)


def test_every_file_and_name_in_the_page_about_sources_exists() -> None:
    spans = CODE.findall(PAGE.read_text(encoding="utf-8"))
    wrong = [f"`{span}`: {problem}" for span in dict.fromkeys(spans) if (problem := explain(span)) is not None]
    assert not wrong, "\n".join(wrong)
    assert len(spans) > 60, "was the page read?"


def test_a_file_or_name_that_does_not_exist_is_caught() -> None:
    for span in ("tests/toy/nothing.py", "engine.walk.Stroll", "engine.nothing", "World.nothing_", "NoSuchName", "a b"):
        assert explain(span) is not None, span
    for span in ("tests/toy/", "engine.walk.Walk", "core.config", "World.admit", "ListRequest", "by_creation"):
        assert explain(span) is None, span


def test_the_page_shows_the_registry_and_the_toy_tracker_as_they_are() -> None:
    registry = (ROOT / "src" / "tidelore" / "sources" / "registry.py").read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    assert "_FORGES" in registry
    modules = sorted(path.name for path in (ROOT / "tests" / "toy").glob("*.py"))
    assert [name for name in modules if f"tests/toy/{name}" not in page] == ["driver.py"]
