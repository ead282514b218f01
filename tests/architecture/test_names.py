"""A source is named only where it must be, so that a new one needs no change elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.architecture.names import KNOWN, SOURCES, named_sources

Plant = Callable[[dict[str, str]], Path]


def test_sources_are_named_only_in_the_listed_modules(source: Path) -> None:
    found = named_sources(source)
    new = [place for name in SOURCES for module, place in found[name].items() if module not in KNOWN[name]]
    assert not new, "\n".join(new)


def test_every_listed_module_still_names_its_source(source: Path) -> None:
    found = named_sources(source)
    assert {name: sorted(KNOWN[name] - found[name].keys()) for name in SOURCES} == {name: [] for name in SOURCES}


def test_the_engine_the_loop_over_lists_documents_and_search_name_no_forge() -> None:
    rooms = ("engine.", "http.", "documents.", "search.", "embedding.", "service.")
    forges = {module for name in ("gitlab", "github") for module in KNOWN[name]}
    assert [module for module in forges if module.startswith(rooms)] == []
    assert [module for module in forges if module.startswith("sync.")] == ["sync.projects"]


def test_a_named_source_is_caught_in_code_and_not_in_text(plant: Plant) -> None:
    root = plant(
        {
            "sync/a.py": '"""About GitLab."""\nx = "see GitLab for this"\n',
            "sync/b.py": "from tidelore.sources.gitlab.source import open_gitlab\n",
            "sync/c.py": 'def f(kind):\n    """GitHub only."""\n    return kind == "github"\n',
            "sync/d.py": "def f(config):\n    return config.bluesky\n",
            "store/e.py": "SQL = \"SELECT 1 FROM cursors WHERE source = 'bluesky'\"\n",
            "sources/gitlab/f.py": "gitlab = 1\n",
        }
    )
    assert {name: sorted(found) for name, found in named_sources(root).items()} == {
        "gitlab": ["sync.b"],
        "github": ["sync.c"],
        "bluesky": ["store.e", "sync.d"],
    }
