"""A package's source as the rules see it: modules with their syntax trees, and the imports between them.

Owns reading and name resolution. Refuses judgement: what is forbidden stands in the rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

PACKAGE = "tidelore"


@dataclass(frozen=True)
class Imported:
    """One import as written, and where."""

    name: str
    line: int
    for_types: bool = False


@dataclass(frozen=True)
class Module:
    """One source file; `name` is relative to the package: `cli.main`, `engine`, `` for the package itself."""

    name: str
    path: Path
    is_package: bool
    package: str = PACKAGE

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return _parse(self.text)

    @property
    def room(self) -> str:
        """The first part of the name: a folder, or a module that stands alone."""
        return self.name.partition(".")[0]

    def imports(self) -> Iterator[Imported]:
        """Every import, wherever it stands, under its absolute name: `from x import y` is `x.y`."""
        never_run = _for_types(self.tree)
        for node in ast.walk(self.tree):
            late = id(node) in never_run
            if isinstance(node, ast.Import):
                yield from (Imported(alias.name, node.lineno, late) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = self._absolute(node)
                yield from (Imported(f"{origin}.{alias.name}", node.lineno, late) for alias in node.names)
            elif isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
                for argument in node.args[:1]:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield Imported(argument.value, node.lineno)

    def aliases(self) -> dict[str, str]:
        """What each imported local name stands for: `dt` -> `datetime.datetime`."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    local = alias.asname or alias.name.partition(".")[0]
                    found[local] = alias.name if alias.asname else local
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{self._absolute(node)}.{alias.name}"
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = [self.package, *self.name.split(".")] if self.name else [self.package]
        climb = node.level - 1 if self.is_package else node.level
        parts = parts[: len(parts) - climb]
        return ".".join([*parts, node.module] if node.module else parts)


def read_modules(root: Path) -> list[Module]:
    """Return every module below the folder of the package."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found.append(Module(".".join(parts[:-1] if is_package else parts), path, is_package, root.name))
    return found


def internal_imports(modules: list[Module], *, types: bool = True) -> Iterator[tuple[Module, str, int]]:
    """Yield (module, imported module of the package, line), each once; `types` with those a type checker reads."""
    known = {module.name for module in modules}
    for module in modules:
        seen: set[str] = set()
        for imported in module.imports():
            if imported.name != PACKAGE and not imported.name.startswith(f"{PACKAGE}."):
                continue
            if imported.for_types and not types:
                continue
            target = imported.name.removeprefix(PACKAGE).removeprefix(".")
            # Of `from tidelore.store import issues` only the module counts, of `... import Issue` its module.
            while target not in known and target:
                target = target.rpartition(".")[0]
            if target not in seen:
                seen.add(target)
                yield module, target, imported.line


def docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.Module:
    # Every rule reads the whole package; no rule changes a tree.
    return ast.parse(text)


def _for_types(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes below `if TYPE_CHECKING`."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }


def _called(node: ast.Call) -> str:
    function = node.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
