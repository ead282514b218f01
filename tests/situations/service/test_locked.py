"""While another program holds a lock on the database, the service answers `/healthz` and stops when it is asked to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from tests.databases.postgres_server import running_server
from tests.situations.service.station import Station, end, wait_until

SECONDS = 8.0
"""Five are promised; this machine has other things to do."""
HOLD = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60000)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
TABLES = "leases, sync_runs, service_jobs, cursors, issues"


@pytest.fixture(params=["sqlite", "postgres"])
def ready(request: pytest.FixtureRequest, post: Station) -> Station:
    """A station with one source, whose copy is in a file or on a server."""
    if request.param == "postgres":
        post.server = request.getfixturevalue("postgres_address")
    post.lab()
    post.hub()
    post.write()
    post.once()
    return post


@contextmanager
def locked(post: Station) -> Iterator[Callable[[], bool]]:
    """Hold what a writer needs; yields whether the service waits for it."""
    with ExitStack() as stack:
        if post.server is not None:
            other = stack.enter_context(psycopg.connect(post.server))
            other.execute(f"LOCK TABLE {TABLES} IN ACCESS EXCLUSIVE MODE")
            yield lambda: bool(other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall())
            return
        # In a process of its own: two libraries in one would undo each other's locks.
        words = [sys.executable, "-c", HOLD, str(post.db)]
        holder = stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        def is_quiet() -> bool:
            asked = len(post.world.log)
            time.sleep(1)
            return len(post.world.log) == asked

        yield is_quiet


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]], ids=["once", "twice"])
@pytest.mark.deep
def test_a_service_whose_database_is_locked_answers_and_stops_within_seconds(
    ready: Station, numbers: list[int]
) -> None:
    process = ready.spawn("service")
    wait_until(lambda: ready.jobs()["gitlab:gitlab"].state in ("idle", "running"), process)
    asked = len(ready.world.log)
    wait_until(lambda: len(ready.world.log) > asked, process)
    with locked(ready) as waits:
        wait_until(waits, process)
        for _ in range(3):
            status, body = ready.get("/healthz")
            answer = json.loads(body)
            assert (status, answer["ok"]) in ((200, True), (503, False))
            if ready.server is not None:
                assert "holds a lock" in answer["error"]
        for number in numbers[:-1]:
            process.send_signal(number)
        code, _, err, seconds = end(process, numbers[-1])
        assert seconds < SECONDS, err
        assert code in (0, 1), err
        assert "Traceback" not in err
    report = ready.once()
    assert report.errors == {}
    assert ready.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]


def test_metrics_of_a_service_whose_database_is_locked_say_so(post: Station, postgres_address: str) -> None:
    post.server = postgres_address
    post.lab()
    post.write()
    process = post.spawn("service")
    wait_until(lambda: post.jobs()["gitlab:gitlab"].succeeded_at is not None, process)
    with locked(post) as waits:
        wait_until(waits, process)
        status, body = post.get("/metrics")
        assert (status, b"holds a lock" in body) == (503, True)
    assert end(process)[0] == 0


@pytest.mark.deep
def test_a_service_whose_server_does_not_answer_says_so_and_stops_within_seconds(post: Station) -> None:
    with running_server() as server, server.fresh_database() as address:
        post.server = address
        post.lab()
        post.write()
        process = post.spawn("service")
        wait_until(lambda: post.jobs()["gitlab:gitlab"].succeeded_at is not None, process)
        with server.frozen():
            status, body = post.get("/healthz")
            assert (status, json.loads(body)["ok"]) == (503, False)
            assert "cannot be reached" in json.loads(body)["error"]
            code, _, err, seconds = end(process)
        assert seconds < SECONDS, err
        assert code in (0, 1), err
        assert post.once().errors == {}
