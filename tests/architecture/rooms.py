"""The rooms of the house and the rule between them: imports lead downward, never up, never sideways, never round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import PACKAGE, Module, internal_imports, read_modules

STOREYS = (
    ("core", ""),
    ("http", "engine"),
    ("sources", "store", "embedding"),
    ("sync", "documents", "search", "feedback"),
    ("service",),
    ("app",),
    ("console", "web", "mcp"),
    ("cli",),
)
"""From the ground up. Rooms of one storey do not import each other. The command line stands above the other
faces, because it starts them."""

FACES = frozenset({"cli", "console", "web", "mcp"})
FACES_MAY_IMPORT = frozenset({"app", "core", "", *FACES})
"""The faces see use-cases and their answers, no stored rows, sources or reports. Each other only downward."""

WORLD = "tidelore_world"
DEMO = "demo"
"""The one folder of the world that may import the product: it shows both together."""

_HEIGHT = {room: height for height, rooms in enumerate(STOREYS) for room in rooms}


def misplaced_imports(root: Path) -> list[str]:
    """Return every import that leads upward or sideways."""
    return [
        f"{module.path.relative_to(root)}:{line}: {problem}"
        for module, target, line in internal_imports(read_modules(root))
        if (problem := _judge(module, target)) is not None
    ]


def face_imports_below_app(root: Path) -> list[str]:
    """Return every import of a face that leads past the use-cases into the rooms below them."""
    return [
        f"{module.path.relative_to(root)}:{line}: imports {target}; a face imports app and core only"
        for module, target, line in internal_imports(read_modules(root))
        if module.room in FACES and target.partition(".")[0] not in FACES_MAY_IMPORT
    ]


def unknown_rooms(root: Path) -> list[str]:
    """Return the modules that stand in no room of the plan."""
    return [
        f"{module.path.relative_to(root)}: not a room of the plan"
        for module in read_modules(root)
        if module.room not in _HEIGHT
    ]


def product_imports_of_the_world(root: Path) -> list[str]:
    """Return every import of the simulated world in the product."""
    return _imports_of(WORLD, read_modules(root), root)


def world_imports_of_the_product(world: Path) -> list[str]:
    """Return every import of the product in the simulated world, outside its demo."""
    return _imports_of(PACKAGE, [module for module in read_modules(world) if module.room != DEMO], world)


def _imports_of(package: str, modules: list[Module], root: Path) -> list[str]:
    return [
        f"{module.path.relative_to(root)}:{imported.line}: imports {imported.name}"
        for module in modules
        for imported in module.imports()
        if imported.name.partition(".")[0] == package
    ]


def circles(root: Path) -> list[str]:
    """Return every circle of imports, also through functions, as `a -> b -> a`."""
    graph: dict[str, set[str]] = {}
    for module, target, _ in internal_imports(read_modules(root), types=False):
        if target != module.name:
            graph.setdefault(module.name, set()).add(target)
    return sorted(" -> ".join([*component, component[0]]) for component in _components(graph))


def _judge(module: Module, target: str) -> str | None:
    room, other = module.room, target.partition(".")[0]
    if room == other or room not in _HEIGHT or other not in _HEIGHT:
        return None
    if _HEIGHT[other] > _HEIGHT[room]:
        return f"{room} imports {other}, which lies above it"
    if _HEIGHT[other] == _HEIGHT[room] > 0:
        return f"{room} imports {other}, which lies beside it"
    return None


def _components(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the circles: for each module that can reach itself, a shortest way round, each set once."""
    told: set[frozenset[str]] = set()
    for start in sorted(graph):
        way = _way_round(graph, start)
        if way and frozenset(way) not in told:
            told.add(frozenset(way))
            yield way


def _way_round(graph: dict[str, set[str]], start: str) -> list[str]:
    ways = [[start]]
    reached = {start}
    while ways:
        way = ways.pop(0)
        for target in sorted(graph.get(way[-1], ())):
            if target == start:
                return way
            if target not in reached:
                reached.add(target)
                ways.append([*way, target])
    return []
