"""Several workers on one database: real processes, a simulated world, and what happens when one of them is gone."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest
from tests.databases.postgres_server import PostgresServer
from tests.situations.service.station import LAB, Program, Station, end, wait_until
from tests.situations.service.test_postgres import assert_sound, has_arrived, live, log_of, settle, write
from tests.situations.service.test_sources import catch_up
from tests.support.fork_server import CLOCK, OFFSET

from tidelore.app.workers import scopes
from tidelore.app.workers.running import WorkRequest, work
from tidelore.core.clock import SystemClock
from tidelore.documents import generation
from tidelore.http import transport
from tidelore.http.connections import ConnectionStack
from tidelore.service.control import Control

PROJECTS = tuple(f"harbor/quay-{number}" for number in range(6))


@pytest.fixture
def placed(post: Station, postgres_address: str) -> Station:
    """A station that looks after three sources, whose copy is on the server that all tests share."""
    return settle(post, postgres_address)


@pytest.fixture
def forges(post: Station, postgres_address: str) -> Station:
    """A station with seven projects of one GitLab, which are due once an hour."""
    post.server, post.interval = postgres_address, 3600
    for project in PROJECTS:
        post.world.gitlab.create_project(project)
        for _ in range(2):
            post.world.gitlab.create_issue(project)
    post.world.advance(500)
    names = ", ".join(f'"{name}"' for name in PROJECTS)
    post.lab()
    post.sections["gitlab"] = post.sections["gitlab"].replace(f'["{LAB}"]', f'["{LAB}", {names}]')
    write(post)
    return post


def work_once(post: Station, workers: int) -> None:
    """Let several workers start at the same time, and work until nothing is due."""
    crowd = [post.spawn("worker", "--once", "--robot", "--concurrency", "2") for _ in range(workers)]
    ended = [worker.communicate(timeout=90) for worker in crowd]
    assert [worker.returncode for worker in crowd] == [0] * workers, ended
    assert sum(json.loads(out)["data"]["ended"] for out, _ in ended) >= len(PROJECTS) + 1


def registered(post: Station) -> set[int]:
    """Return the processes of the workers that have begun."""
    return {pid for (pid,) in post.rows("SELECT holder_pid FROM leases WHERE name LIKE 'worker %'")}


def test_a_worker_is_refused_on_sqlite_and_names_the_service(post: Station) -> None:
    post.lab()
    post.write()
    process = post.spawn("worker", "--robot")
    out, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "lore service" in out + err
    assert not post.db.exists()


def test_one_worker_works_until_nothing_is_due(placed: Station) -> None:
    catch_up(placed)
    process = placed.spawn("worker", "--once", "--robot")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert "failing" not in json.loads(out)["data"]
    assert has_arrived(placed, 0)
    assert set(placed.rows("SELECT holder_host FROM leases")) == {(None,)}
    assert_sound(placed, 0)


@pytest.mark.deep
def test_three_workers_send_the_requests_of_one_and_make_the_same_copy(
    forges: Station, postgres_server: PostgresServer
) -> None:
    shared = forges.spent(lambda: work_once(forges, 3))
    issues = forges.rows("SELECT title FROM issues ORDER BY title")
    assert len(issues) == 5 + 2 * len(PROJECTS)
    with postgres_server.fresh_database() as other:
        forges.server = other
        alone = forges.spent(lambda: work_once(forges, 1))
        assert shared == alone, "a project that two workers had read would show twice"
        assert forges.rows("SELECT title FROM issues ORDER BY title") == issues


def test_documents_are_made_a_batch_at_a_time_until_none_is_left(
    forges: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "BATCH", 4)
    monkeypatch.setattr(generation, "BATCH", 2)
    text = forges.config.read_text()
    forges.config.write_text(text.replace('provider = "none"', 'provider = "local"'))
    items = 5 + 2 * len(PROJECTS)
    report = asyncio.run(work(forges.app(), WorkRequest(concurrency=2, once=True), Control()))
    assert report.error is None
    made = forges.rows("SELECT docs_regenerated FROM sync_runs WHERE docs_regenerated > 0")
    assert sum(count for (count,) in made) == items
    assert max(count for (count,) in made) == 4, "a turn is a batch"
    assert forges.rows("SELECT COUNT(*) FROM dirty_sources") == [(0,)]
    vectors = "SELECT COUNT(DISTINCT document_id) FROM embeddings"
    assert forges.rows(vectors) == [(items,)], "the rest of a batch is not left to the next interval"


def test_the_projects_of_a_worker_share_the_connections_to_their_host(
    forges: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    closed: list[object] = []
    open_one, close_all = transport.open_transport, ConnectionStack.aclose

    def counted(base_url: str, **options: Any) -> transport.Transport:
        opened.append(base_url)
        return open_one(base_url, **options)

    async def noted(stack: ConnectionStack) -> None:
        closed.append(stack)
        await close_all(stack)

    monkeypatch.setattr(transport, "open_transport", counted)
    monkeypatch.setattr(ConnectionStack, "aclose", noted)
    report = asyncio.run(work(forges.app(), WorkRequest(concurrency=3, once=True), Control()))
    assert report.error is None
    assert forges.rows("SELECT COUNT(*) FROM issues") == [(5 + 2 * len(PROJECTS),)]
    assert opened == [forges.url]
    assert len(closed) == 1, "with the worker"


def test_a_worker_syncs_a_project_that_is_added_to_its_configuration(forges: Station) -> None:
    every = forges.config.read_text()
    listed = ", ".join(f'"{name}"' for name in PROJECTS)
    few = every.replace(f", {listed}", "")
    assert few != every
    forges.config.write_text(few)
    worker = forges.spawn("worker", "--concurrency", "2")
    stored = "SELECT COUNT(*) FROM issues"
    wait_until(lambda: forges.rows(stored) == [(5,)], worker)
    forges.config.write_text("nonsense = [")
    worker.send_signal(signal.SIGHUP)
    wait_until(lambda: "keeping the previous one" in log_of(forges).read_text(), worker)
    forges.config.write_text(every)
    worker.send_signal(signal.SIGHUP)
    wait_until(lambda: forges.rows(stored) == [(5 + 2 * len(PROJECTS),)], worker, seconds=20)
    code, _, err, _ = end(worker)
    assert code == 0, err
    assert "Traceback" not in log_of(forges).read_text()


def test_the_scope_of_a_killed_worker_is_taken_over(forges: Station) -> None:
    slow = forges.world.faults.add("slow", "GET /projects", 1, seconds=30)
    first = forges.spawn("worker", "--concurrency", "1")
    held = "SELECT name FROM leases WHERE name LIKE 'sync %' AND holder_host IS NOT NULL"
    wait_until(lambda: slow.fired == 1 and bool(forges.rows(held)), first)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=30)
    second = forges.spawn("worker", "--once", "--robot")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert json.loads(out)["data"]["ended"] > len(PROJECTS)
    assert forges.rows("SELECT COUNT(*) FROM issues") == [(5 + 2 * len(PROJECTS),)]
    assert forges.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'crashed'") == [(1,)]
    assert forges.rows(held) == []


def test_a_worker_whose_clock_is_moved_neither_takes_leases_nor_postpones_scopes(placed: Station) -> None:
    clock = placed.folder / "clock"
    clock.write_bytes(OFFSET.pack(6 * 3600))
    other = placed.spawn("worker", "--concurrency", "2")
    wait_until(lambda: has_arrived(placed, 0), other)
    wrong = placed.spawn("worker", "--concurrency", "2", environ={CLOCK: str(clock)})
    wait_until(lambda: registered(placed) == {other.pid, wrong.pid}, wrong)
    live(placed, 1)
    wait_until(lambda: has_arrived(placed, 1), wrong)
    assert end(other)[0] == 0
    # From six hours ahead to six hours behind: what only it does now goes on.
    clock.write_bytes(OFFSET.pack(-6 * 3600))
    live(placed, 2)
    wait_until(lambda: has_arrived(placed, 2), wrong)
    frequent = [row for row in placed.jobs().values() if row.name != "ledger"]
    times = [at for row in frequent for at in (row.due_at, row.succeeded_at) if at is not None]
    times += [beat for (beat,) in placed.rows("SELECT heartbeat_at FROM leases WHERE heartbeat_at > 0")]
    now = SystemClock().now_ms()
    assert all(abs(at - now) < 3_600_000 for at in times), times
    assert end(wrong)[0] == 0
    log = log_of(placed).read_text()
    assert "took over" not in log
    assert "Traceback" not in log
    assert_sound(placed, 2)


@pytest.mark.deep
def test_workers_that_come_and_go_answer_each_command_once_and_keep_the_copy_true(placed: Station) -> None:
    crowd: list[Program] = [placed.spawn("worker", "--concurrency", "4") for _ in range(2)]
    for count in range(1, 4):
        live(placed, count)
        wait_until(lambda count=count: has_arrived(placed, count), crowd[1])  # type: ignore[misc]
        crowd[0].send_signal(signal.SIGKILL if count % 2 else signal.SIGTERM)
        crowd[0].communicate(timeout=30)
        crowd = [crowd[1], placed.spawn("worker", "--concurrency", "4")]
    # A process that has just been started is ended by a signal without a word.
    pids = {worker.pid for worker in crowd}
    wait_until(lambda: pids <= registered(placed), crowd[1])
    # What the one that was killed last had held is taken over at the next look.
    held = "SELECT holder_pid FROM leases WHERE name LIKE 'sync%' AND holder_pid IS NOT NULL"
    wait_until(lambda: {pid for (pid,) in placed.rows(held)} <= pids, crowd[1])
    for worker in crowd:
        code, _, err, _ = end(worker)
        assert code == 0, err
    assert "Traceback" not in log_of(placed).read_text()
    assert placed.rows(held) == []
    assert_sound(placed, 3)
