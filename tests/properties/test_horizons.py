"""Random histories with `mirror_since`: the copy has what moved since the horizon, whole, and the rest when wanted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.properties.audit import compare
from tests.properties.inprocess import PROJECT, House, Reaper, scratch
from tests.properties.test_github_histories import KINDS, begin
from tests.situations.github.house import REPO, GitHubHouse
from tests.support.deep import deep

from tidelore.app.mirroring import audit
from tidelore.core.clock import format_instant, parse_instant
from tidelore_world.world import World

SLOW = 2000
"""How much slower time passes between changes than on a busy day."""


def moved_since(rows: Iterable[dict[str, Any]], key: str, horizon: int) -> set[int]:
    """The numbers of the items that were last updated at or after the horizon."""
    return {row[key] for row in rows if parse_instant(row["updated_at"]) >= horizon}


def in_slow_motion(world: World) -> Any:
    return lambda seconds: world.advance(seconds * SLOW)


def check_github(seed: int) -> None:
    """Mirror a history from a horizon on, let old and new items move, compare; then lower the horizon twice."""
    rng = random.Random(seed)
    with scratch() as folder:
        house = GitHubHouse(folder, http={"per_page": rng.choice((2, 3, 10)), "max_retries": 1})
        begin(house)
        house.forge.change(20, rng, KINDS, in_slow_motion(house.world))
        horizon = house.clock.now_ms() // 1000 * 1000 - rng.randrange(SLOW * 100)
        house.forge.change(rng.randrange(12), rng, KINDS, in_slow_motion(house.world))
        set_horizon(house, horizon)
        for _ in range(2):
            house.run(Reaper(rng.randrange(60)) if rng.random() < 0.5 else None)
            house.forge.change(rng.randrange(6), rng, KINDS, in_slow_motion(house.world))
        verify_github(house, horizon)
        lower = horizon - rng.randrange(SLOW * 500)
        set_horizon(house, lower)
        house.run(Reaper(rng.randrange(60)) if rng.random() < 0.5 else None)
        verify_github(house, lower)
        set_horizon(house, 0)
        verify_github(house, 0)
        assert house.differences() == []


def set_horizon(house: GitHubHouse, horizon: int) -> None:
    house.settings["host"] = {"mirror_since": format_instant(horizon) if horizon else ""}


def verify_github(house: GitHubHouse, horizon: int) -> None:
    for _ in range(2):
        house.world.advance(120)
        house.sync(scrub_budget=400)
    stored = set(house.column("SELECT iid FROM issues WHERE deleted_at IS NULL"))
    stored |= set(house.column("SELECT iid FROM merge_requests WHERE deleted_at IS NULL"))
    wanted = moved_since(house.forge.truth_issues(REPO), "number", horizon)
    assert wanted <= stored, f"missing: {wanted - stored}"
    assert house.audit().differences == []


@pytest.mark.parametrize("seed", [0, deep(1)])
def test_a_repository_with_a_horizon_is_whole_from_there_on_and_lowering_it_reads_the_rest(seed: int) -> None:
    check_github(seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_many_repositories_with_a_horizon_are_whole_from_there_on(part: int) -> None:
    for seed in range(100 + part * 40, 140 + part * 40):
        check_github(seed)


def check_gitlab(seed: int) -> None:
    """The same for a project on GitLab."""
    rng = random.Random(seed)
    with scratch() as folder:
        house = House(folder, per_page=rng.choice((2, 3, 10)), scrub_share=0.0)
        forge = house.world.gitlab
        for _ in range(3):
            forge.create_issue(PROJECT)
            forge.create_merge_request(PROJECT)
        forge.change(20, rng, None, in_slow_motion(house.world))
        horizon = house.clock.now_ms() - rng.randrange(SLOW * 1000 * 600)
        forge.change(rng.randrange(12), rng, None, in_slow_motion(house.world))
        for wanted in (horizon, horizon - rng.randrange(SLOW * 1000 * 600), 0):
            since = format_instant(wanted) if wanted else ""
            house.config = replace(house.config, gitlab=(replace(house.config.gitlab[0], mirror_since=since),))
            house.run(Reaper(rng.randrange(60)) if rng.random() < 0.5 else None)
            forge.change(rng.randrange(6), rng, None, in_slow_motion(house.world))
            for _ in range(2):
                house.world.advance(86_400)
                house.run(scrub_budget=400)
            with house.database() as database:
                for table, rows in (
                    ("issues", forge.truth_issues(PROJECT)),
                    ("merge_requests", forge.truth_merge_requests(PROJECT)),
                ):
                    stored = {iid for (iid,) in database.read(f"SELECT iid FROM {table} WHERE deleted_at IS NULL")}
                    assert moved_since(rows, "iid", wanted) <= stored
            assert asyncio.run(audit(house.app(Reaper()), None)).differences == []
        compare(house, exact=True)


@pytest.mark.parametrize("seed", [0, deep(1)])
def test_a_project_with_a_horizon_is_whole_from_there_on_and_lowering_it_reads_the_rest(seed: int) -> None:
    check_gitlab(seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_many_projects_with_a_horizon_are_whole_from_there_on(part: int) -> None:
    for seed in range(100 + part * 40, 140 + part * 40):
        check_gitlab(seed)
