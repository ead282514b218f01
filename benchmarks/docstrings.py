"""The standard library's docstrings: text that people wrote for people, on every machine that runs Python.

Owns how a module's source becomes described objects. Sources are parsed and never imported, so nothing of them runs.
Python's own tests, and what is installed beside the library, are left out.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tidelore.search.query import STOP_WORDS

LEAST_WORDS = 8
"""So many words have to be left of a docstring after its first sentence."""
LEAST_ASKED = 3
"""So many telling words have to be left of a first sentence without the name."""
_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"})
_BLANK_LINE = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?:](?=\s+[^a-z\s]|\s*$)")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_Described = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class DescribedObject(Struct, frozen=True):
    """A module, class or function: its full name, how it is called, and what its docstring says after `summary`."""

    name: str
    signature: str
    summary: str
    details: str

    @property
    def question(self) -> str:
        """The first sentence as somebody would ask who does not know the name: without it, and without its parts."""
        own = self.name.rpartition(".")[2]
        names = {own.lower(), *(part.lower() for word in _WORD.findall(own) for part in (word, *_HUMP.split(word)))}
        return " ".join(word for word in self.summary.split() if not names & _spellings(word))


def read_library() -> list[DescribedObject]:
    """Return what the standard library of this interpreter describes, in the order of its files."""
    root = Path(sysconfig.get_path("stdlib"))
    return [found for path in _sources(root) for found in _read(path, _module_name(path.relative_to(root)))]


def describe(tree: ast.Module, module: str) -> Iterator[DescribedObject]:
    """Yield what one module describes well enough to be asked for: itself, its classes and its functions."""
    for name, signature, node in _objects(tree, module):
        summary, details = split_summary(ast.get_docstring(node) or "")
        found = DescribedObject(name, signature, summary, details)
        if len(details.split()) >= LEAST_WORDS and len(_telling(found.question)) >= LEAST_ASKED:
            yield found


def split_summary(docstring: str) -> tuple[str, str]:
    """Return the first sentence on one line, and what comes after it."""
    text = docstring.strip()
    blank = _BLANK_LINE.search(text)
    border = len(text) if blank is None else blank.start()
    ended = _SENTENCE_END.search(text, 0, border)
    end = border if ended is None else ended.end()
    return " ".join(text[:end].split()), text[end:].strip()


def _objects(node: _Described, name: str) -> Iterator[tuple[str, str, _Described]]:
    yield name, _signature(node, name), node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _objects(child, f"{name}.{child.name}")


def _signature(node: _Described, name: str) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"def {name}({ast.unparse(node.args)})"
    return f"class {name}" if isinstance(node, ast.ClassDef) else f"module {name}"


def _spellings(word: str) -> set[str]:
    """Return the ways in which a word may spell a name: whole, by its parts, and without a plural's ending."""
    parts = [part.lower() for part in _WORD.findall(word)]
    return {word.strip("`'\"().,:;!?*").lower(), *parts, *(part.removesuffix("s") for part in parts)}


def _telling(question: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(question)} - STOP_WORDS


def _sources(root: Path) -> Iterable[Path]:
    return (path for path in sorted(root.rglob("*.py")) if not _LEFT_OUT & set(path.relative_to(root).parts))


def _module_name(path: Path) -> str:
    parts: Sequence[str] = path.with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def _read(path: Path, module: str) -> Iterator[DescribedObject]:
    with warnings.catch_warnings():
        # Old escapes in old modules are not our concern.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    yield from describe(tree, module)
