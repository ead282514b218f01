"""A bench for each test: one project in a world on a real socket, and a home without surprises."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases.migrated_file import lay_out
from tests.situations.gitlab.bench import PROJECT, Bench, OddWorld

from tidelore_world.server import serve


@pytest.fixture
def world() -> OddWorld:
    """An empty project."""
    world = OddWorld()
    world.gitlab.create_project(PROJECT)
    return world


@pytest.fixture
def bench(
    world: OddWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Bench]:
    """A bench whose world is served; its copy is a file. The machine's owner and the next test are left alone."""
    for name in list(os.environ):
        if name.startswith(("LORE_", "XDG_", "GITLAB_", "NO_COLOR", "FORCE_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    logger = logging.getLogger("tidelore")
    before = logger.handlers, logger.propagate, logger.level

    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    with serve(world) as server:
        bench = Bench(tmp_path, server.url, world, read)
        bench.set_up()
        lay_out(bench.db)
        yield bench
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])


@pytest.fixture
def both(bench: Bench, address: str) -> Bench:
    """The same bench, its copy in each kind of database."""
    bench.address = address
    return bench
