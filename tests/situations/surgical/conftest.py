"""The bench of the GitLab situations, with something on it."""

from __future__ import annotations

import pytest
from tests.situations.gitlab.bench import PROJECT, Bench, OddWorld, start_thread
from tests.situations.gitlab.conftest import bench, both, world

__all__ = ["bench", "both", "filled", "world"]


@pytest.fixture
def filled(world: OddWorld, bench: Bench) -> Bench:
    """Four issues and three merge requests an hour ago, each with a thread; nothing of it is stored."""
    forge = world.gitlab
    for number in range(1, 5):
        start_thread(world, forge.create_issue(PROJECT, title=f"Crane {number}"), f"first word on issue {number}")
    for number in range(1, 4):
        item = forge.create_merge_request(PROJECT, title=f"Winch {number}")
        start_thread(world, item, f"first word on change {number}")
    world.advance(3600)
    return bench
