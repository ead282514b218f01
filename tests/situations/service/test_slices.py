"""A host whose first mirror takes many intervals: the others go on beside it, and it comes to its end all the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from tests.properties.progress import asked_for
from tests.situations.service.station import LAB, Station, Watch, build_world
from tests.situations.service.test_sources import catch_up

from tidelore.app import service_jobs
from tidelore.service import schedule
from tidelore_world import server
from tidelore_world.demo.comparison import compare
from tidelore_world.demo.truth import true_rows

GIANT = "harbor/giant"
ITEMS = 60
LATENCY = 0.05
SLICE = 0.25
BIG = "gitlab:big"
_LIST = re.compile(r"/projects/\d+/(?:issues|merge_requests)\?")
_ISSUES = "SELECT COUNT(*) FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.path = "
_DUE = (
    f"{_ISSUES} '{GIANT}' AND EXISTS (SELECT 1 FROM child_sync c WHERE c.parent_kind = 'issues'"
    " AND c.kind = 'resource_events' AND c.parent_id = i.id AND c.synced_for IS NULL)"
)


@pytest.fixture
def big(post: Station, monkeypatch: pytest.MonkeyPatch) -> Iterator[server.Server]:
    """A host that answers slowly: ten requests at a time, so about fifty in a slice, of two hundred and fifty."""
    monkeypatch.setattr(service_jobs, "SHORTEST_SLICE_SECONDS", SLICE)
    monkeypatch.setattr(schedule, "BREATH_SECONDS", 0.3)
    world = build_world()
    world.gitlab.create_project(GIANT)
    world.gitlab.bulk(GIANT, issues=ITEMS, discussions=1, notes=1)
    with server.serve(world, latency_seconds=LATENCY) as served:
        post.interval = SLICE
        post.lab()
        post.lab("big", served.url)
        post.sections["big"] = post.sections["big"].replace(LAB, GIANT)
        post.write()
        yield served


@pytest.mark.deep
def test_a_small_host_is_synced_repeatedly_during_the_first_sync_of_a_big_one(
    post: Station, big: server.Server
) -> None:
    arrived: list[int] = []

    async def story(watch: Watch) -> None:
        await watch.until(lambda: small_issues(post) == 5 and post.rows(_DUE)[0][0] > 0)
        for number in range(6, 8):
            catch_up(post)
            with post.world.lock:
                post.world.gitlab.create_issue(LAB)
            await watch.until(lambda number=number: small_issues(post) == number)  # type: ignore[misc]
            arrived.append(post.rows(_DUE)[0][0])
        health, _ = await watch.get("/healthz")
        assert health == 200, "a first reading may take its time"
        await watch.until(lambda: post.rows(_DUE) == [(0,)] and ended_whole(post, watch), "it never comes to its end")

    report = post.serve(story)
    assert all(left > 0 for left in arrived), "the small one was not kept waiting"
    assert report.errors == {}
    assert {job.failures for job in report.jobs} == {0}
    with post.database() as database, big.world.lock:
        assert [one for one in compare(database, partial(true_rows, big.world.gitlab), [GIANT]) if one.faults] == []


def test_a_first_sync_in_slices_requests_nothing_twice_and_records_each_slice(
    post: Station, big: server.Server
) -> None:
    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows(_DUE) == [(0,)] and ended_whole(post, watch), "it never comes to its end")

    post.serve(story)
    children = Counter(asked_for(big.world.log))
    events = {task: times for task, times in children.items() if task[3] == "resource_events"}
    assert len(children) == 2 * ITEMS
    assert set(events.values()) == {3}, "its three lists, each once"
    assert {times for task, times in children.items() if task not in events} == {1}
    runs = post.rows(
        "SELECT status, warnings_count, note, mirrored_at IS NULL FROM sync_runs WHERE command = 'lore sync'"
    )
    left = [run for run in runs if run[2] is not None]
    assert len(left) >= 4
    assert set(left) == {("succeeded", 0, f"left off after {SLICE:g} s; the next run continues there", 1)}
    assert ("succeeded", 0, None, 0) in runs
    # Each run polls each of the two lists once; the first reading had one more page.
    assert sum(bool(_LIST.search(target)) for _, target, _ in big.world.log) <= 2 * len(runs) + 1


@pytest.mark.deep
def test_a_single_round_runs_as_many_slices_as_it_needs(post: Station, big: server.Server) -> None:
    report = post.once()
    assert report.errors == {}
    assert post.rows(_DUE) == [(0,)]
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE note LIKE 'left off%'")[0][0] >= 4
    assert post.rows("SELECT COUNT(*) FROM dirty_sources") == [(0,)]
    with post.database() as database, big.world.lock:
        assert [one for one in compare(database, partial(true_rows, big.world.gitlab), [GIANT]) if one.faults] == []


def small_issues(post: Station) -> int:
    return int(post.rows(f"{_ISSUES} '{LAB}'")[0][0])


def ended_whole(post: Station, watch: Watch) -> bool:
    """Whether a sync of the big host left nothing."""
    newest = post.rows("SELECT status, note FROM sync_runs WHERE command = 'lore sync' ORDER BY id DESC LIMIT 1")
    return newest == [("succeeded", None)] and watch.job(BIG).succeeded_at is not None
