"""A repository `octo/tide` with pull request 1 in a served world, and an empty database file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.situations.feedback.bench import Bench, open_pulls

from tidelore_world.server import serve
from tidelore_world.world import World


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Nothing is followed yet."""
    world = World()
    open_pulls(world)
    with serve(world) as server:
        yield Bench(world, tmp_path, server.url)


@pytest.fixture
def followed(bench: Bench) -> Bench:
    """Pull request 1 is followed, and everything quiet is known to be quiet."""
    bench.track(1)
    bench.settle()
    return bench
