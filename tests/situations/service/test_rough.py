"""Rough weather: killed time after time, a database that others hold, no room to grow, a file that is no database."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import sys
import time

import pytest
from tests.situations.service.station import LAB, OWNER, REPOS, Station, Watch, end, wait_until
from tests.situations.service.test_sources import catch_up, follow

from tidelore.core.clock import SystemClock
from tidelore.core.errors import DatabaseUnusable
from tidelore.store.database import sqlite
from tidelore.store.mirror.check import check_database

HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held")
time.sleep(2)
held.execute("ROLLBACK")
"""


@pytest.mark.parametrize(
    ("dialect", "kills"),
    [
        ("sqlite", 5),
        pytest.param("sqlite", 50, marks=pytest.mark.deep),
        pytest.param("postgres", 20, marks=pytest.mark.deep),
    ],
)
@pytest.mark.deep
def test_a_repeatedly_killed_service_loses_duplicates_and_leaves_open_nothing(
    post: Station, dialect: str, kills: int, request: pytest.FixtureRequest
) -> None:
    if dialect == "postgres":
        post.server = request.getfixturevalue("postgres_address")
    post.world.bluesky.create_account("mira.test")
    post.world.github.settings.content_per_minute = post.world.github.settings.content_per_hour = 10_000
    post.lab()
    post.hub(extra=f'operator_logins = ["{OWNER}"]\nsettle_write_seconds = 0.5')
    post.sky("mira.test")
    post.write()
    follow(post)
    dice = random.Random(5)
    said: list[str] = []
    for number in range(kills):
        catch_up(post)
        with post.world.lock:
            post.world.gitlab.create_issue(LAB)
            post.world.github.comment(REPOS[0], 1, f"Remark {number}", OWNER)
            post.world.github.comment(REPOS[0], 1, "/lore status", OWNER)
            post.world.bluesky.post("mira.test", f"Tide {number}")
        said.append(f"Remark {number}")
        process = post.spawn("service")
        holder = f"SELECT 1 FROM leases WHERE name = 'service' AND holder_pid = {process.pid}"
        wait_until(lambda holder=holder: bool(post.rows(holder)), process)  # type: ignore[misc]
        time.sleep(dice.random() * 1.2)
        process.kill()
        process.communicate()
    catch_up(post)

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(5 + kills,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM feedback_events") == [(kills,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM outbox WHERE status = 'observed'") == [(kills,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM posts") == [(kills,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM dirty_sources") == [(0,)])

    post.serve(story)
    bodies = [body for (body,) in post.rows("SELECT body FROM feedback_events ORDER BY id")]
    assert sorted(bodies) == sorted(said)
    posted = [text for (text,) in post.rows("SELECT text FROM posts")]
    assert sorted(posted) == sorted(f"Tide {number}" for number in range(kills))
    answers = [row for row in post.world.github.truth_comments(REPOS[0]) if "lore-action:" in row["body"]]
    assert len(answers) == kills, "one answer for each command, however often we died"
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    with post.database() as database:
        assert [found for found in check_database(database, SystemClock().now_ms()) if not found.ok] == []


def test_a_database_locked_by_another_program_is_waited_for(post: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    post.lab()
    post.write()
    post.once()

    async def story(watch: Watch) -> None:
        await watch.rounds("gitlab:gitlab", 1)
        # In a process of its own: two libraries in one would undo each other's locks.
        held = [sys.executable, "-c", HOLD, str(post.db)]
        holder = await asyncio.create_subprocess_exec(*held, stdout=asyncio.subprocess.PIPE)
        out, _ = await holder.communicate()
        assert out == b"held\n"
        post.world.gitlab.create_issue(LAB)
        watch.control.reload()
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(6,)])

    report = post.serve(story)
    assert report.errors == {}
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]


@pytest.mark.deep
def test_a_full_disk_does_not_stop_the_service_and_with_space_it_completes_the_copy(post: Station) -> None:
    # Not in the database, which has no room for that either.
    log = post.folder / "lore.log"
    post.hub()
    post.write(f'file = "{log}"\n')
    post.once()
    post.world.gitlab.bulk(LAB, 300, 0, discussions=2, notes=2)
    post.lab()
    post.write(f'file = "{log}"\n')
    room = post.db.stat().st_size + 20_000

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    process = post.spawn("service", limit=limit)
    wait_until(lambda: '"job_failed"' in log.read_text(), process)
    time.sleep(1)
    assert process.poll() is None, "it waits for room"
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(305,)], process)
    assert end(process)[0] == 0
    assert "Traceback" not in log.read_text()
    with post.database() as database:
        assert [found for found in check_database(database, SystemClock().now_ms()) if not found.ok] == []


def test_a_file_that_is_not_a_database_is_refused_unchanged(post: Station) -> None:
    post.lab()
    post.write()
    post.db.write_bytes(b"not a database, but somebody's only copy of something" * 100)
    before = post.db.read_bytes()
    with pytest.raises(DatabaseUnusable):
        post.once()
    process = post.spawn("service")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 8
    assert "fix:" in err
    assert post.db.read_bytes() == before


def test_a_read_only_folder_stops_the_service_with_a_fix(post: Station) -> None:
    post.lab()
    post.write()
    (post.folder / "lore.db").mkdir()
    process = post.spawn("service")
    _, err = process.communicate(timeout=30)
    assert process.returncode in (1, 2, 8)
    assert "Traceback" not in err
    assert "error:" in err


def test_of_two_services_started_at_once_one_runs(post: Station) -> None:
    post.lab()
    post.port = 0
    post.write()
    both = [post.spawn("service") for _ in range(2)]
    deadline = time.monotonic() + 20
    while all(process.poll() is None for process in both):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (loser,) = [process for process in both if process.poll() is not None]
    (winner,) = [process for process in both if process is not loser]
    _, err = loser.communicate()
    assert loser.returncode == 3
    assert f"pid {winner.pid}" in err
    wait_until(lambda: post.jobs()["gitlab:gitlab"].succeeded_at is not None, winner)
    assert end(winner)[0] == 0
