"""What may be spoken where: SQL only in the store, HTTP and sockets only in the sources, time only in the clock."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import Module, docstrings, read_modules

_SQL = re.compile(
    r"""\s*(?: (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|WITH)\s+\w
        | (?i:select\s.+\sfrom\s+\w | insert\s+(?:or\s+\w+\s+)?into\s+\w | update\s+\w+\s+set\s+\w
              | delete\s+from\s+\w | (?:create|alter|drop)\s+(?:table|index|view|trigger)\s+\w) )""",
    re.VERBOSE | re.DOTALL,
)
_CLIENTS = (
    "httpx2",
    "httpx",
    "httpcore2",
    "httpcore",
    "requests",
    "aiohttp",
    "urllib3",
    "urllib.request",
    "http.client",
)
_SOCKETS = ("websockets",)
_CLOCKS = frozenset(
    {
        *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
        "datetime.date.today",
        *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep", "perf_counter")),
        "asyncio.sleep",
    }
)
# A simulated server delays real sockets; but its world must not know what the time is outside.
_WORLD_MAY = frozenset({"asyncio.sleep", "time.sleep", "time.monotonic"})


# The types that carry records from a source to the store; with `Any` inside they would carry anything.
RECORD_CARRIERS = frozenset(
    {
        *("Item", "Page", "Pages", "Lister", "Batch", "ScopeStore"),
        *("Intake", "Sorted", "Walk", "NewestFirstWalk", "LogWalk", "Scrub", "LogScrub", "TimedList"),
        *("Children", "ChildStore", "ChildSync", "Renewal"),
        *("Family", "ChildFamily", "ScopeWriter", "PageWriter", "ChildWriter"),
    }
)


def records_of_any_type(root: Path) -> list[str]:
    """Return every use of `Any` as the record of a type that carries records: `Item[Any]`, `Lister[Any]`."""
    return [
        f"{module.path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}"
        for module in read_modules(root)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Subscript)
        and _last_name(node.value) in RECORD_CARRIERS
        and any(_last_name(part) == "Any" for part in ast.walk(node.slice))
    ]


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name
    return ""


def sql_outside_the_store(root: Path) -> list[str]:
    """Return every string that is SQL and stands outside `store/`."""
    return [
        f"{module.path.relative_to(root)}:{line}: {text.strip()[:60]!r}"
        for module in read_modules(root)
        if module.room != "store"
        for line, text in _texts(module)
        if _SQL.match(text)
    ]


def http_clients_outside_http(root: Path) -> list[str]:
    """Return every import of an HTTP client outside `http/`."""
    return _imported_outside(root, {"http"}, _CLIENTS)


def sockets_outside_the_sources(root: Path) -> list[str]:
    """Return every import of a WebSocket library outside `sources/`."""
    return _imported_outside(root, {"sources"}, _SOCKETS)


def fences_outside_the_leases(root: Path) -> list[str]:
    """Return every use of the fence outside `store/work/leases.py`: transactions under a lease begin with `writing`."""
    return [
        f"{module.path.relative_to(root)}:{node.lineno}"
        for module in read_modules(root)
        if module.name != "store.work.leases"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and _last_name(node) == "_fence"
    ]


def page_loops_outside_the_engine(root: Path) -> list[str]:
    """Return every place outside `engine/` that asks for the next page of a list; feedback still has its own loops."""
    return [
        f"{module.path.relative_to(root)}:{node.lineno}"
        for module in read_modules(root)
        if module.room not in {"engine", "feedback"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "next_token"
    ]


def clocks_outside_the_clock(root: Path) -> list[str]:
    """Return every reading of a clock, and every sleep, outside `core/clock.py`."""
    return [
        f"{module.path.relative_to(root)}:{line}: {name}"
        for module in read_modules(root)
        if module.name != "core.clock"
        for line, name in _clock_names(module)
    ]


def clocks_in_the_world(world: Path) -> list[str]:
    """Return every reading of a clock in the simulated world, except waiting for sockets."""
    return [
        f"{module.path.relative_to(world)}:{line}: {name}"
        for module in read_modules(world)
        for line, name in _clock_names(module)
        if name not in _WORLD_MAY
    ]


def _imported_outside(root: Path, rooms: set[str], libraries: tuple[str, ...]) -> list[str]:
    return sorted(
        {
            f"{module.path.relative_to(root)}:{imported.line}: {library}"
            for module in read_modules(root)
            if module.room not in rooms
            for imported in module.imports()
            for library in libraries
            if imported.name == library or imported.name.startswith(f"{library}.")
        }
    )


def _texts(module: Module) -> Iterator[tuple[int, str]]:
    skipped = docstrings(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _clock_names(module: Module) -> Iterator[tuple[int, str]]:
    aliases = module.aliases()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = _dotted(node, aliases)
            if name in _CLOCKS:
                yield node.lineno, name


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value, aliases)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
