"""A mirror in slices of time: it costs what one in a single run costs, starves nobody, and ends as the truth.

Every request takes one second of the world's time, so a slice of so many seconds is so many requests.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.properties.audit import compare
from tests.properties.inprocess import BASE_URL, NEVER_SECONDS, PROJECT, House, Reaper, WorldTransport
from tests.properties.offspring import compare_children
from tests.properties.progress import completed

from tidelore.app.mirroring import mirror
from tidelore.core.config_file import parse_config
from tidelore.service.jobs import SyncRounds
from tidelore.sources.ports import RESOURCES
from tidelore.store.work.last_sync import last_success_at
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport
from tidelore_world.world import World

HOUR = 3600
MOST_SLICES = 200
PATIENCE = 6
"""Within so many slices everybody has a turn: eight lists at a time, of forty, and a poll of all beside it."""
_LIST = re.compile(r"/projects/\d+/(?:issues|merge_requests)\?")


class Unhurried(WorldTransport):
    """Answers from a world in which a second passes with every request."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        self._world.advance(1)
        return answer


class Sliced(House):
    """A house whose runs end when their time is up, and are gone on with as the service does."""

    def __init__(self, folder: Path, world: World, projects: tuple[str, ...] = (PROJECT,), **sync: Any) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, world)
        self.config = parse_config(
            {
                "http": {"per_page": 5, "max_retries": 0},
                "sync": {"scrub_share": 0, "heartbeat_interval_seconds": NEVER_SECONDS, **sync},
                "gitlab": [{"base_url": BASE_URL, "projects": list(projects), "graphql": "off"}],
            }
        )
        self.transport = Unhurried(world)
        self.rounds = SyncRounds()

    def slice(self, seconds: float | None) -> RunReport:
        """Mirror once, for so long."""
        self.transport.asked.clear()
        request = MirrorRequest(RESOURCES, seconds=seconds, turns=self.rounds.turns, statuses=False)
        report = asyncio.run(mirror(self.app(Reaper()), request, "lore sync"))
        self.rounds.take(report)
        return report

    def slices(self, seconds: float) -> list[RunReport]:
        """Mirror again and again until nothing is left."""
        reports = [self.slice(seconds)]
        while reports[-1].unfinished:
            assert len(reports) < MOST_SLICES, "it never comes to its end"
            reports.append(self.slice(seconds))
        return reports

    def ledger(self) -> list[tuple[Any, ...]]:
        with self.database() as database:
            return database.read(
                "SELECT status, mirrored_at IS NOT NULL, warnings_count, note FROM sync_runs ORDER BY id"
            )


def lively_world(projects: tuple[str, ...] = (PROJECT,), issues: int = 40, merge_requests: int = 12) -> World:
    """Projects whose items changed minutes apart, each with a conversation, and all of it long ago."""
    world = World()
    for path in projects:
        world.gitlab.create_project(path)
        world.gitlab.bulk(path, issues=issues, merge_requests=merge_requests, discussions=1, notes=2, files=1)
    world.advance(HOUR)
    return world


def asked(world: World) -> tuple[Counter[str], int]:
    """The requests for children and projects, each by its address, and the number of those for pages of lists."""
    targets = [target for _, target, _ in world.log]
    pages = [target for target in targets if _LIST.search(target)]
    return Counter(target for target in targets if not _LIST.search(target)), len(pages)


@pytest.mark.deep
def test_mirroring_in_slices_sends_the_requests_of_one_run_plus_one_poll_per_slice(
    tmp_path: Path,
) -> None:
    whole = Sliced(tmp_path / "whole", lively_world())
    assert whole.slice(None).unfinished == 0
    sliced = Sliced(tmp_path / "sliced", lively_world())
    reports = sliced.slices(20.0)
    assert len(reports) > 5
    # What a new slice costs by itself: one poll for each list that was read to its end in a slice before it.
    polls = sum(not scope.list_left for report in reports[:-1] for scope in report.scopes)
    (once, pages), (again, sliced_pages) = asked(whole.world), asked(sliced.world)
    assert again == once
    assert sliced_pages == pages + polls
    assert sum(report.requests for report in reports) == sum(once.values()) + pages + polls
    compare(sliced, exact=True)


def test_a_slice_ends_at_its_time_limit_and_stores_the_page_in_flight(tmp_path: Path) -> None:
    sliced = Sliced(tmp_path, lively_world(), dependent_concurrency=3)
    for report in sliced.slices(20.0):
        # Three workers for each of two lists, and a parent that is under way has three lists at most.
        assert report.requests <= 20 + 2 * 3 * 3
    with sliced.database() as database:
        attempts = database.read("SELECT MAX(attempts), COUNT(last_error) FROM child_sync WHERE parent_kind = 'issues'")
    assert attempts == [(0, 0)], "nobody was cut off"


def test_only_the_last_slice_brings_the_copy_up_to_date_and_runs_record_what_was_left(tmp_path: Path) -> None:
    sliced = Sliced(tmp_path, lively_world())
    first = sliced.slice(20.0)
    assert first.unfinished == 2
    with sliced.database() as database:
        assert last_success_at(database) is None
    sliced.slices(20.0)
    *before, last = sliced.ledger()
    assert set(before) == {("succeeded", 0, 0, "left off after 20 s; the next run continues there")}
    assert last == ("succeeded", 1, 0, None)
    with sliced.database() as database:
        assert last_success_at(database) is not None


@pytest.mark.deep
def test_every_list_gets_a_turn_within_a_few_slices_under_any_load(tmp_path: Path) -> None:
    projects = tuple(f"group/project{number:02}" for number in range(20))
    world = lively_world(projects, issues=4, merge_requests=1)
    sliced = Sliced(tmp_path, world, projects, dependent_concurrency=1)
    reports = sliced.slices(70.0)
    turns = [{scope.key for scope in report.scopes if scope.had_turn} for report in reports]
    everybody = {scope.key for scope in reports[0].scopes}
    assert len(everybody) == 40
    assert turns[0] < everybody
    assert not turns[0] & turns[1], "who had a turn comes after all who had none"
    assert len(turns) > PATIENCE
    for first in range(len(turns) - PATIENCE):
        assert set().union(*turns[first : first + PATIENCE]) == everybody, first
    with sliced.database() as database:
        compare_children(database, world.gitlab, projects, ("issues", "merge_requests"))


def test_a_restarted_service_begins_with_the_least_recently_read_list(tmp_path: Path) -> None:
    projects = tuple(f"group/project{number:02}" for number in range(30))
    sliced = Sliced(tmp_path, lively_world(projects, issues=3, merge_requests=3), projects)
    first = {scope.key for scope in sliced.slice(40.0).scopes if scope.had_turn}
    sliced.rounds = SyncRounds()
    second = sliced.slice(40.0)
    assert 0 < len(first) < 60
    assert not {scope.key for scope in second.scopes if scope.had_turn} & first


def test_lists_that_use_all_their_time_leave_the_children_their_share(tmp_path: Path) -> None:
    """More lists than can be polled in a slice: the children are read all the same, and each list in its turn."""
    projects = tuple(f"group/project{number:02}" for number in range(15))
    sliced = Sliced(tmp_path, lively_world(projects, issues=2, merge_requests=1), projects)
    wanted = 15 * 2 * len(("discussions", "events")) + 15 * len(("discussions", "events", "closes", "diffs"))
    slices = done = 0
    while done < wanted:
        report = sliced.slice(25.0)
        assert any(scope.list_left for scope in report.scopes), "all lists together are more than a slice"
        with sliced.database() as database:
            done = len(completed(database))
        slices += 1
        assert slices < MOST_SLICES, "the children are never read"
    with sliced.database() as database:
        compare_children(database, sliced.world.gitlab, projects, ("issues", "merge_requests"))


def test_items_of_one_instant_that_exceed_a_slice_are_all_read(tmp_path: Path) -> None:
    world = World()
    world.gitlab.create_project(PROJECT)
    world.gitlab.bulk(PROJECT, issues=60, same_instant=True)
    world.advance(HOUR)
    sliced = Sliced(tmp_path, world)
    sliced.slices(6.0)
    compare(sliced, exact=True)


def test_changes_between_slices_are_in_the_copy_after_the_last_slice(tmp_path: Path) -> None:
    sliced = Sliced(tmp_path, lively_world(issues=25, merge_requests=6))
    forge, number = sliced.world.gitlab, 0
    while sliced.slice(15.0).unfinished:
        number += 1
        assert number < MOST_SLICES
        if number < 8:
            forge.add_note(forge.issue(PROJECT, 3 * number), "said meanwhile")
            forge.create_issue(PROJECT)
    sliced.world.advance(HOUR)
    sliced.slices(15.0)
    assert number > 3
    compare(sliced)
