"""The service on a server's database: one round, connections that are cut, a server that goes and comes back."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases.postgres_server import PostgresServer, running_server
from tests.situations.service.station import LAB, OWNER, REPOS, Program, Station, end, wait_until
from tests.situations.service.test_sources import catch_up, follow

from tidelore.core.clock import SystemClock
from tidelore.store.mirror.check import check_database

SECONDS = 12.0
"""An end within seconds, on a machine that has other things to do."""
AWAY_SECONDS = 8.0
"""Long enough for every job to have failed, and for the loop to have looked several times."""


@pytest.fixture
def placed(post: Station, postgres_address: str) -> Station:
    """A station that looks after three sources, whose copy is on the server that all tests share."""
    return settle(post, postgres_address)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_server() as server:
        yield server


def settle(post: Station, address: str) -> Station:
    post.server = address
    post.world.bluesky.create_account("mira.test")
    post.world.bluesky.post("mira.test", "Low water at noon.")
    post.lab()
    post.hub(extra=f'operator_logins = ["{OWNER}"]\nsettle_write_seconds = 0.5')
    post.sky("mira.test")
    write(post)
    follow(post)
    return post


def write(post: Station) -> None:
    """Write the configuration. Logs go to a file: a pipe that nobody reads is full within a minute."""
    post.write(f'file = "{log_of(post)}"\n')


def log_of(post: Station) -> Path:
    return post.folder / "lore.log"


def live(post: Station, number: int) -> None:
    """Let something happen everywhere."""
    catch_up(post)
    with post.world.lock:
        post.world.gitlab.create_issue(LAB)
        post.world.github.comment(REPOS[0], 1, f"Remark {number}", OWNER)
        post.world.github.comment(REPOS[0], 1, "/lore status", OWNER)
        post.world.bluesky.post("mira.test", f"Tide {number}")


def has_arrived(post: Station, count: int) -> bool:
    """Tell whether all that happened so many times is stored, answered and made searchable."""
    wanted = {
        "issues": 5 + count,
        "feedback_events": count,
        "posts": 1 + count,
        "outbox WHERE status = 'observed'": count,
        "dirty_sources": 0,
    }
    return all(post.rows(f"SELECT COUNT(*) FROM {what}") == [(number,)] for what, number in wanted.items())


def assert_sound(post: Station, count: int) -> None:
    answers = [row for row in post.world.github.truth_comments(REPOS[0]) if "lore-action:" in row["body"]]
    assert len(answers) == count, "one answer for each command"
    assert post.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    with post.database() as database:
        assert [found for found in check_database(database, SystemClock().now_ms()) if not found.ok] == []


def events(post: Station) -> list[str]:
    return [str(json.loads(line).get("event")) for line in log_of(post).read_text().splitlines()]


def assert_ends_well(post: Station, process: Program) -> None:
    code, _, err, seconds = end(process)
    assert code == 0, err
    assert seconds < SECONDS
    assert "Traceback" not in log_of(post).read_text()


def test_one_service_round_on_postgresql_brings_every_source_up_to_date(placed: Station) -> None:
    catch_up(placed)
    process = placed.spawn("service", "--once", "--robot")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert json.loads(out)["data"]["jobs"]
    assert has_arrived(placed, 0)
    assert set(placed.rows("SELECT holder_host FROM leases")) == {(None,)}


@pytest.mark.deep
def test_database_connections_that_are_cut_repeatedly_are_reopened(
    placed: Station, postgres_server: PostgresServer
) -> None:
    process = placed.spawn("service")
    wait_until(lambda: has_arrived(placed, 0), process)
    for number in range(1, 11):
        live(placed, number)
        time.sleep(0.1 * number)
        # After the last cut it may take a look of the loop until there is a connection again.
        wait_until(lambda: postgres_server.cut(placed.address) > 0, process)
    # What met a cut in the middle of its work failed, and comes again by itself.
    wait_until(lambda: has_arrived(placed, 10), process, seconds=90)
    status, body = placed.get("/healthz")
    assert (status, json.loads(body)["ok"]) == (200, True)
    assert_ends_well(placed, process)
    assert_sound(placed, 10)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=["in order", "at once"])
def test_a_restarted_database_server_is_waited_for(post: Station, own_server: PostgresServer, number: int) -> None:
    with own_server.fresh_database() as address:
        settle(post, address)
        process = post.spawn("service")
        wait_until(lambda: has_arrived(post, 0), process)
        # So that a run is under way when the server goes.
        post.world.faults.add("slow", "GET /projects", 1, seconds=1.5)
        live(post, 1)
        wait_until(lambda: bool(post.rows("SELECT 1 FROM sync_runs WHERE status = 'running'")), process)
        own_server.stop(number)
        time.sleep(AWAY_SECONDS)
        assert process.poll() is None, "it waits for its database"
        assert post.get("/healthz")[0] == 503
        own_server.start()
        live(post, 2)
        wait_until(lambda: has_arrived(post, 2), process)
        assert_ends_well(post, process)
        assert [event for event in events(post) if event.startswith("database_")] == ["database_lost", "database_back"]
        assert_sound(post, 2)


@pytest.mark.deep
def test_stopping_while_the_database_is_down_is_clean_and_the_next_service_continues(
    post: Station, own_server: PostgresServer
) -> None:
    with own_server.fresh_database() as address:
        settle(post, address)
        process = post.spawn("service")
        wait_until(lambda: has_arrived(post, 0), process)
        own_server.stop()
        time.sleep(AWAY_SECONDS)
        assert_ends_well(post, process)
        refused = post.spawn("service", "--robot")
        out, _ = refused.communicate(timeout=30)
        error = json.loads(out)["error"]
        assert (refused.returncode, error["code"], error["retryable"]) == (1, "DATABASE_UNREACHABLE", True)
        assert "server runs" in error["fix"]
        own_server.start()
        live(post, 1)
        process = post.spawn("service")
        wait_until(lambda: has_arrived(post, 1), process)
        assert end(process)[0] == 0
        assert_sound(post, 1)


@pytest.mark.deep
def test_settings_changed_while_the_database_is_down_apply_when_it_is_back(
    post: Station, own_server: PostgresServer
) -> None:
    with own_server.fresh_database() as address:
        settle(post, address)
        process = post.spawn("service")
        wait_until(lambda: has_arrived(post, 0), process)
        own_server.stop()
        post.hub(repos=REPOS[:1])
        write(post)
        process.send_signal(signal.SIGHUP)
        time.sleep(AWAY_SECONDS)
        own_server.start()
        wait_until(lambda: f"github:github/{REPOS[1]}" not in post.jobs(), process)
        assert_ends_well(post, process)
        assert "config_refused" not in events(post)


@pytest.mark.deep
def test_a_second_service_is_refused_naming_the_first(placed: Station) -> None:
    process = placed.spawn("service")
    wait_until(lambda: bool(placed.jobs()), process)
    second = placed.spawn("service", "--robot")
    out, _ = second.communicate(timeout=30)
    error = json.loads(out)["error"]
    assert (second.returncode, error["code"], error["details"]["holder_pid"]) == (3, "LOCK_HELD", process.pid)
    assert "lore service" in error["message"]
    assert end(process)[0] == 0


@pytest.mark.deep
def test_a_newer_database_schema_is_refused_and_stops_a_running_service(placed: Station) -> None:
    process = placed.spawn("service")
    wait_until(lambda: has_arrived(placed, 0), process)
    with placed.database() as database, database.transaction() as tx:
        tx.execute("INSERT INTO schema_version VALUES (9999, 'of a newer program', 'x', 1)")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 8, (out, err)
    assert "upgrade tidelore" in err
    before = counted(placed)
    refused = placed.spawn("service", "--robot")
    out, _ = refused.communicate(timeout=30)
    assert (refused.returncode, json.loads(out)["error"]["code"]) == (8, "SCHEMA_TOO_NEW")
    assert counted(placed) == before, "nothing was written"


def counted(post: Station) -> list[tuple[object, ...]]:
    return post.rows("SELECT (SELECT COUNT(*) FROM sync_runs), (SELECT MAX(generation) FROM leases)")
