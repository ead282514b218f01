"""Rough weather: killed time after time, a database that others hold, no room to grow, a file that is no database."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import time

import pytest
from tests.situations.service.station import LAB, OWNER, REPOS, Station, Watch, end, wait_until
from tests.situations.service.test_sources import catch_up, follow

from tidelore.clock import SystemClock
from tidelore.errors import DatabaseUnusable
from tidelore.store import dialect_sqlite
from tidelore.store.check import check_database

KILLS = 8


def test_killed_time_after_time_nothing_is_lost_or_doubled_and_no_run_stays_open(post: Station) -> None:
    post.lab()
    post.hub(extra=f'operator_logins = ["{OWNER}"]\nsettle_write_seconds = 0.5')
    post.write()
    follow(post)
    dice = random.Random(5)
    said: list[str] = []
    for number in range(KILLS):
        catch_up(post)
        with post.world.lock:
            post.world.gitlab.create_issue(LAB)
            post.world.github.comment(REPOS[0], 1, f"Remark {number}", OWNER)
            post.world.github.comment(REPOS[0], 1, "/lore status", OWNER)
        said.append(f"Remark {number}")
        process = post.spawn("service")
        holder = f"SELECT 1 FROM leases WHERE name = 'service' AND holder_pid = {process.pid}"
        wait_until(lambda holder=holder: bool(post.rows(holder)), process)  # type: ignore[misc]
        time.sleep(dice.random() * 1.2)
        process.kill()
        process.communicate()
    catch_up(post)

    async def story(watch: Watch) -> None:
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(5 + KILLS,)])
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM feedback_events") == [(KILLS,)])
        await watch.until(
            lambda: post.rows("SELECT COUNT(*) FROM outbox WHERE status = 'observed'") == [(KILLS,)],
            str(post.rows("SELECT status, attempts, last_error FROM outbox")),
        )

    post.serve(story)
    bodies = [body for (body,) in post.rows("SELECT body FROM feedback_events ORDER BY id")]
    assert sorted(bodies) == sorted(said)
    answers = [row for row in post.world.github.truth_comments(REPOS[0]) if "lore-action:" in row["body"]]
    assert len(answers) == KILLS, "one answer for each command, however often we died"
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    with post.database() as database:
        assert [found for found in check_database(database, SystemClock().now_ms()) if not found.ok] == []


def test_a_database_that_another_program_holds_is_waited_for(post: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_sqlite, "BUSY_TIMEOUT_MS", 50)
    post.lab()
    post.write()
    post.once()

    async def story(watch: Watch) -> None:
        await watch.rounds("gitlab:gitlab", 1)
        holder = sqlite3.connect(post.db, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        await watch.until(lambda: not watch.running.done() and holding(2.0))
        holder.execute("ROLLBACK")
        holder.close()
        post.world.gitlab.create_issue(LAB)
        watch.control.reload()
        await watch.until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(6,)])

    began = time.monotonic()

    def holding(seconds: float) -> bool:
        return time.monotonic() - began > seconds

    post.serve(story)
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]


def test_without_room_to_grow_it_goes_on_and_with_room_it_completes_the_copy(post: Station) -> None:
    post.lab()
    post.hub()
    post.write()
    post.once()
    post.world.gitlab.bulk(LAB, 300, 0, discussions=2, notes=2)
    room = post.db.stat().st_size + 20_000

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    process = post.spawn("service", preexec_fn=limit)
    failed = "SELECT 1 FROM sync_runs WHERE status = 'failed' AND command = 'lore sync'"
    wait_until(lambda: bool(post.rows(failed)) or post.jobs()["gitlab:gitlab"].failures > 0, process)
    time.sleep(1)
    assert process.poll() is None, "it waits for room"
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: post.rows("SELECT COUNT(*) FROM issues") == [(305,)], process)
    code, _, err, _ = end(process)
    assert code == 0
    assert "Traceback" not in err
    with post.database() as database:
        assert [found for found in check_database(database, SystemClock().now_ms()) if not found.ok] == []


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(post: Station) -> None:
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


def test_a_folder_that_cannot_be_written_ends_it_with_a_remedy(post: Station) -> None:
    post.lab()
    post.write()
    (post.folder / "lore.db").mkdir()
    process = post.spawn("service")
    _, err = process.communicate(timeout=30)
    assert process.returncode in (1, 2, 8)
    assert "Traceback" not in err
    assert "error:" in err


def test_two_that_start_at_once_are_one(post: Station) -> None:
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
