"""Imports lead downward; each rule is shown to catch what it forbids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.architecture.rooms import (
    circles,
    face_imports_below_app,
    misplaced_imports,
    product_imports_of_the_world,
    unknown_rooms,
    world_imports_of_the_product,
)

Plant = Callable[[dict[str, str]], Path]


def test_no_package_imports_one_above_or_beside_it(source: Path) -> None:
    assert misplaced_imports(source) == []


def test_faces_import_use_cases_and_core_only(source: Path) -> None:
    assert face_imports_below_app(source) == []


def test_the_product_never_imports_the_simulated_world(source: Path) -> None:
    assert product_imports_of_the_world(source) == []


def test_the_simulated_world_imports_the_product_only_in_its_demo(world_source: Path) -> None:
    assert world_imports_of_the_product(world_source) == []


def test_every_module_is_in_a_package_of_the_plan(source: Path) -> None:
    assert unknown_rooms(source) == []


def test_there_are_no_circular_imports(source: Path) -> None:
    assert circles(source) == []


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("engine/walk.py", "from tidelore.store.mirror.cursors import x", "engine imports store, which lies above it"),
        ("store/mirror/parents.py", "import tidelore.sources.registry", "store imports sources, which lies beside it"),
        ("sources/registry.py", "from tidelore import store", "sources imports store, which lies beside it"),
        ("sync/lists.py", "from tidelore.app.wiring import App", "sync imports app, which lies above it"),
        ("web/pages.py", "from tidelore.cli import main", "web imports cli, which lies above it"),
        ("core/errors.py", "from tidelore.engine import walk", "core imports engine, which lies above it"),
        ("sync/mirror.py", "from tidelore.documents import embed", "sync imports documents, which lies beside it"),
        ("engine/walk.py", "def f():\n    from tidelore.sources import http", "lies above it"),
        ("engine/walk.py", "from ..store import cursors", "lies above it"),
        ("engine/__init__.py", "from ..store import cursors", "lies above it"),
        (
            "engine/walk.py",
            "import importlib\nimportlib.import_module('tidelore.store.mirror.cursors')",
            "lies above it",
        ),
        ("engine/walk.py", "if TYPE_CHECKING:\n    from tidelore.cli import main", "lies above it"),
    ],
)
def test_an_import_in_the_wrong_direction_is_caught(plant: Plant, path: str, text: str, problem: str) -> None:
    rooms = ("store", "sources", "web", "engine", "sync", "documents", "cli")
    files = {f"{room}/__init__.py": "" for room in rooms} | dict.fromkeys(("app/wiring.py", "core/clock.py"), "")
    found = misplaced_imports(plant(files | {path: text}))
    assert len(found) == 1
    assert found[0].startswith(path)
    assert problem in found[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("cli/main.py", "from tidelore.core.errors import UserError"),
        ("core/config.py", "from tidelore.core.errors import ConfigError"),
        ("store/mirror/parents.py", "from tidelore.engine import walk"),
    ],
)
def test_an_import_in_the_right_direction_passes(plant: Plant, path: str, text: str) -> None:
    files = {"core/errors.py": "", "engine/walk.py": ""}
    assert misplaced_imports(plant(files | {path: text})) == []


@pytest.mark.parametrize(
    ("path", "text", "target"),
    [
        ("cli/count.py", "from tidelore.store.reading.lists import list_parents", "store.reading.lists"),
        ("cli/output/runs.py", "if TYPE_CHECKING:\n    from tidelore.sync.report import RunReport", "sync.report"),
        ("console/log.py", "def f():\n    from tidelore.http import client", "http.client"),
        ("web/pages.py", "import tidelore.service.status", "service.status"),
        ("mcp/tools.py", "from tidelore.engine.ledger import PHASES", "engine.ledger"),
    ],
)
def test_an_import_of_a_face_past_the_use_cases_is_caught(plant: Plant, path: str, text: str, target: str) -> None:
    below = {f"{name.replace('.', '/')}.py": "" for name in ("store.reading.lists", "sync.report", "http.client")}
    below |= {"service/status.py": "", "engine/ledger.py": "", "app/listing.py": "", "core/text.py": ""}
    allowed = "from tidelore.app.listing import count\nfrom tidelore.core.text import block\n"
    found = face_imports_below_app(plant(below | {path: allowed + text, "app/wiring.py": text}))
    assert [problem.partition(": ")[2] for problem in found] == [f"imports {target}; a face imports app and core only"]


def test_an_import_between_product_and_world_is_caught(plant: Plant) -> None:
    root = plant({"cli/count.py": "def f():\n    from tidelore_world.world import World"})
    assert product_imports_of_the_world(root) == ["cli/count.py:2: imports tidelore_world.world.World"]
    world = plant(
        {"cli/count.py": "", "server.py": "import tidelore.core.clock", "demo/command.py": "import tidelore.app.wiring"}
    )
    assert world_imports_of_the_product(world) == ["server.py:1: imports tidelore.core.clock"]


def test_a_module_outside_the_plan_is_caught(plant: Plant) -> None:
    assert unknown_rooms(plant({"attic/thing.py": ""})) == ["attic/thing.py: not a room of the plan"]


@pytest.mark.parametrize("form", ["from tidelore.engine.a import x", "def f():\n    from tidelore.engine import a"])
def test_a_circular_import_inside_a_function_is_caught(plant: Plant, form: str) -> None:
    files = {
        "engine/a.py": "from tidelore.engine.b import x",
        "engine/b.py": "from tidelore.engine.c import x",
        "engine/c.py": form,
    }
    assert circles(plant(files)) == ["engine.a -> engine.b -> engine.c -> engine.a"]


def test_a_type_checking_import_does_not_count_as_circular(plant: Plant) -> None:
    files = {
        "engine/a.py": "from tidelore.engine.b import x",
        "engine/b.py": "if TYPE_CHECKING:\n    from tidelore.engine.a import x",
    }
    assert circles(plant(files)) == []
