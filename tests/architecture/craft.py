"""The craft of a module: its size, its name, its docstring, the words it may not use."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from tests.architecture.source_tree import read_modules

MODULE_LINES = 700
FUNCTION_LINES = 50
ENGINE_LINES = 1500
"""Five page loops, one per order, and the verification of two of them."""
FOLDER_MODULES = 20

_NAMES = frozenset({"util", "utils", "helper", "helpers", "manager", "base", "common", "misc"})
_WORDS = re.compile(r"\b(?:TODO|FIXME|XXX)\b|(?i:\bfor now\b|\bcurrently\b)")
_SILENT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def oversized(root: Path) -> list[str]:
    """Return every module above 700 lines and every function above 50."""
    found = []
    for module in read_modules(root):
        where = module.path.relative_to(root)
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            found.append(f"{where}: {lines} lines")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(f"{where}:{node.lineno}: {node.name} has {length} lines")
    return found


def crowded(root: Path) -> list[str]:
    """Return every folder with more than 20 modules; the file that makes it a package does not count."""
    counts = Counter(module.path.parent for module in read_modules(root) if module.path.stem != "__init__")
    return [f"{folder.relative_to(root)}: {count}" for folder, count in counts.items() if count > FOLDER_MODULES]


def code_lines(root: Path) -> int:
    """Return how many lines carry code: no blanks, no comments, no docstrings."""
    return sum(_code_lines(module.text, module.tree) for module in read_modules(root))


def undocumented(root: Path) -> list[str]:
    """Return every module without a docstring."""
    return [str(m.path.relative_to(root)) for m in read_modules(root) if not ast.get_docstring(m.tree)]


def shapeless_names(root: Path) -> list[str]:
    """Return every module or folder whose name says nothing."""
    return [str(m.path.relative_to(root)) for m in read_modules(root) if _NAMES & set(m.name.split("."))]


def put_off(root: Path) -> list[str]:
    """Return every line that puts something off."""
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()[:80]}"
        for path in sorted((*root.rglob("*.py"), *root.rglob("*.sql")))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _WORDS.search(line)
    ]


def _code_lines(text: str, tree: ast.Module) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            # Besides docstrings, the bare string after an attribute documents it.
            if _is_text(statement):
                lines.difference_update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return len(lines)


def _is_text(statement: ast.stmt) -> bool:
    bare = isinstance(statement, ast.Expr) and statement.value
    return isinstance(bare, ast.Constant) and isinstance(bare.value, str)
