"""A repository with one pull request in a served world, and an empty database of each kind beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.situations.answers.hub import REPO, Hub, LateWorld
from tests.support.manual_clock import ManualClock

from tidelore.core.config import GitHubHost
from tidelore.store.database.port import Database
from tidelore_world.server import serve


@pytest.fixture
def hub(database: Database, clock: ManualClock) -> Iterator[Hub]:
    """Pull request 1 of `harbor/cranes`, opened just now."""
    world = LateWorld()
    world.github.create_repo(REPO)
    pull = world.github.create_pull(REPO, "Rename the crane", author="robin")
    with serve(world) as server:
        host = GitHubHost(base_url=server.url, operator_logins=("operator",), allowed_users=("alex",))
        hub = Hub(world, server.url, database, clock, host, pull.number)
        hub.project()
        yield hub
        world.wait_for_landings()
