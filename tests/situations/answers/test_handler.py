"""The handler command: one event at a time, done once, or failed with what it said."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.situations.answers.hub import REPO, Hub
from tests.unit.feedback.people import comment

from tidelore.core.config import RepoSettings, repo_settings
from tidelore.core.errors import ConfigError
from tidelore.feedback.delivery import HandlerRunner, run_handler
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.store.work.events import EventRow, NewEvent, NewFollowup, find_event, insert_events, lease_next
from tidelore.store.work.followed_issues import add_followups, find_issue, follow_issue
from tidelore.store.work.tracked_pull_requests import TrackedPr, find_tracked, track

FAILS = "import sys; sys.stdin.read(); print('first', file=sys.stderr); sys.exit('it does not build')"


@pytest.fixture
def tracked(hub: Hub) -> TrackedPr:
    """The pull request, followed."""
    with hub.database.transaction() as tx:
        return track(
            tx, hub.project_id, REPO, hub.pr, issue_number=None, tracked_by="operator", now_ms=hub.clock.now_ms()
        )


def settings(hub: Hub, program: str, **keys: Any) -> RepoSettings:
    """A handler that is a line of Python."""
    handler = (sys.executable, "-c", program) if program else ()
    return replace(repo_settings(hub.host, REPO), handler=handler, **keys)


def add_event(hub: Hub, name: str = "one", body: str = "Please rename this.", number: int | None = None) -> None:
    record = comment(body, number=number or hub.pr, remote_id=len(name) * 100 + ord(name[0]))
    with hub.database.transaction() as tx:
        event = NewEvent(f"{record.number}:{name}", record.number, None, record)
        assert insert_events(tx, hub.project_id, REPO, [event], hub.clock.now_ms())


def handle(hub: Hub, how: RepoSettings) -> EventRow | None:
    return asyncio.run(HandlerRunner(hub.database, hub.project(), how, hub.clock).run_next())


def saving(folder: Path) -> str:
    return f"import sys; open({str(folder / 'seen')!r}, 'a').write(sys.stdin.read())"


def test_a_handler_gets_the_event_as_json_and_its_success_acks_the_event(
    hub: Hub, tracked: TrackedPr, tmp_path: Path
) -> None:
    add_event(hub, body="Rename é 𝄞\n'quoted' $(rm -rf) `x`")
    event = handle(hub, settings(hub, saving(tmp_path)))
    assert event is not None
    assert event.processed_at == hub.clock.now_ms()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["body"] == "Rename é 𝄞\n'quoted' $(rm -rf) `x`"
    assert (seen["source"], seen["repo_full_name"], seen["pr_number"], seen["kind"]) == (
        "github",
        REPO,
        hub.pr,
        "issue_comment",
    )
    assert seen["updated_at"] == "2026-03-02T09:00:00.000Z"
    assert "lease_id" not in seen
    assert handle(hub, settings(hub, saving(tmp_path))) is None


def test_without_a_handler_no_event_is_leased(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    assert handle(hub, settings(hub, "")) is None
    assert lease_next(hub.database, hub.clock.now_ms(), 1000, "me") is not None


def test_a_handler_that_is_not_a_program_is_a_config_error_and_costs_no_attempt(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    with pytest.raises(ConfigError, match="cannot run the handler"):
        handle(hub, replace(settings(hub, ""), handler=("no-such-program-here",)))
    event = lease_next(hub.database, hub.clock.now_ms(), 1000, "me")
    assert event is not None
    assert event.attempts == 0


def test_a_failed_event_keeps_the_last_output_lines_and_is_retried_with_back_off(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    how = settings(hub, FAILS)
    failed = handle(hub, how)
    assert failed is not None
    assert (failed.attempts, failed.processed_at) == (1, None)
    assert failed.last_error == "the handler ended with exit code 1\nfirst\nit does not build"
    assert handle(hub, how) is None, "it rests"
    hub.let_pass(30)
    again = handle(hub, how)
    assert again is not None
    assert (again.attempts, again.next_attempt_at) == (2, hub.clock.now_ms() + 60_000)


def test_after_the_last_attempt_the_pull_request_is_blocked_and_later_events_wait(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub, "a")
    add_event(hub, "b")
    how = settings(hub, FAILS, handler_max_attempts=3, handler_backoff_seconds=0)
    for _ in range(3):
        row = find_tracked(hub.database, hub.project_id, hub.pr)
        assert row is not None
        assert row.status == "awaiting_feedback"
        event = handle(hub, how)
        assert event is not None
        assert event.event_key == "1:a"
    row = find_tracked(hub.database, hub.project_id, hub.pr)
    assert row is not None
    assert (row.status, row.blocked_reason) == ("blocked", "handler_failed")
    assert handle(hub, how) is None


def test_unblocking_hands_out_the_failed_event_at_once_with_fresh_attempts(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    how = settings(hub, FAILS, handler_max_attempts=1)
    assert handle(hub, how) is not None
    hub.ask(lambda source: Lifecycle(hub.database, source, hub.project(), hub.host, hub.clock).unblock(hub.pr))
    again = lease_next(hub.database, hub.clock.now_ms(), 1000, "me")
    assert again is not None
    assert again.attempts == 0


def test_a_failed_event_without_a_pull_request_to_block_waits_an_hour(hub: Hub) -> None:
    with hub.database.transaction() as tx:
        follow_issue(tx, hub.project_id, REPO, 7, now_ms=hub.clock.now_ms())
        add_followups(tx, hub.project_id, [NewFollowup(7, comment("One", number=7, author="alex"))])
    how = settings(hub, FAILS, handler_max_attempts=2, handler_backoff_seconds=0)
    assert handle(hub, how) is not None
    event = handle(hub, how)
    assert event is not None
    assert (event.attempts, event.next_attempt_at) == (2, hub.clock.now_ms() + 3_600_000)
    assert handle(hub, how) is None


def test_a_failing_event_does_not_stop_other_pull_requests(hub: Hub, tracked: TrackedPr, tmp_path: Path) -> None:
    add_event(hub, "a")
    add_event(hub, "b", number=77)
    failing = settings(hub, FAILS, handler_max_attempts=1)
    assert handle(hub, failing) is not None
    event = handle(hub, settings(hub, saving(tmp_path)))
    assert event is not None
    assert (event.pr_number, event.processed_at) == (77, hub.clock.now_ms())


def test_a_handler_that_exceeds_its_timeout_is_killed_with_its_children(
    hub: Hub, tracked: TrackedPr, tmp_path: Path
) -> None:
    add_event(hub)
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "print('working', file=sys.stderr, flush=True)\n"
        "time.sleep(600)"
    )
    event = handle(hub, settings(hub, program, handler_timeout_seconds=3))
    assert event is not None
    assert event.last_error == "the handler took longer than 3 s and was killed\nworking"
    assert_gone(int((tmp_path / "pid").read_text()))


def test_background_processes_of_a_handler_are_killed_and_do_not_delay_it(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    started = time.monotonic()
    ending = asyncio.run(run_handler((sys.executable, "-c", program), b"{}", 60))
    assert ending.error is None
    assert time.monotonic() - started < 30
    assert_gone(int((tmp_path / "pid").read_text()))


def test_the_error_of_a_killed_handler_names_the_signal() -> None:
    ending = asyncio.run(run_handler((sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"), b"{}", 60))
    assert ending.error == "the handler was killed by signal 9"


def test_a_handler_that_does_not_read_its_input_may_still_succeed() -> None:
    ending = asyncio.run(run_handler((sys.executable, "-c", "pass"), b"x" * 5_000_000, 60))
    assert ending.error is None


def test_a_long_error_output_is_kept_to_its_last_lines() -> None:
    program = "import sys\nfor n in range(200000): print('line', n, file=sys.stderr)\nsys.exit(3)"
    ending = asyncio.run(run_handler((sys.executable, "-c", program), b"{}", 60))
    assert ending.error is not None
    assert ending.error.startswith("the handler ended with exit code 3\nline 199980\n")
    assert ending.error.endswith("line 199999")


def test_a_binary_error_output_is_stored(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    program = r"import sys; sys.stderr.buffer.write(b'\xff\x00bad\n'); sys.exit(1)"
    event = handle(hub, settings(hub, program))
    assert event is not None
    assert (event.last_error or "").endswith("�bad")


def test_a_handler_interrupted_by_shutdown_returns_its_event(hub: Hub, tracked: TrackedPr, tmp_path: Path) -> None:
    add_event(hub)
    pid = tmp_path / "pid"
    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    runner = HandlerRunner(hub.database, hub.project(), settings(hub, program), hub.clock)

    async def stopped() -> None:
        task = asyncio.create_task(runner.run_next())
        while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert_gone(int(pid.read_text()))
    ((event_id,),) = hub.database.read("SELECT id FROM feedback_events")
    event = find_event(hub.database, event_id)
    assert (event.processed_at, event.leased_until) == (None, None)
    assert (event.last_error or "").startswith("interrupted")


def test_an_event_lease_lasts_longer_than_the_handler_timeout(hub: Hub, tracked: TrackedPr, tmp_path: Path) -> None:
    add_event(hub)
    how = settings(hub, saving(tmp_path), event_lease_seconds=1, handler_timeout_seconds=600)
    runner = HandlerRunner(hub.database, hub.project(), how, hub.clock)

    async def halfway() -> EventRow | None:
        task = asyncio.create_task(runner.run_next())
        await asyncio.sleep(0)
        taken = lease_next(hub.database, hub.clock.now_ms() + 599_000, 1000, "somebody else")
        await task
        return taken

    assert asyncio.run(halfway()) is None


def test_waiting_comments_of_a_source_issue_are_handled_as_one_event(hub: Hub, tmp_path: Path) -> None:
    with hub.database.transaction() as tx:
        follow_issue(tx, hub.project_id, REPO, 7, now_ms=hub.clock.now_ms())
        records = [comment(body, number=7, author="alex", remote_id=key) for key, body in ((11, "One"), (12, "Two"))]
        add_followups(tx, hub.project_id, [NewFollowup(7, record) for record in records])
    event = handle(hub, settings(hub, saving(tmp_path)))
    assert event is not None
    seen = json.loads((tmp_path / "seen").read_text())
    assert (seen["kind"], seen["issue_number"], seen["pr_number"]) == ("issue_followups", 7, None)
    assert seen["body"] == "@alex:\n\nOne\n\n---\n\n@alex:\n\nTwo"
    issue = find_issue(hub.database, hub.project_id, 7)
    assert issue is not None
    assert issue.pre_pr_last_consumed_comment_id == 12
    assert handle(hub, settings(hub, saving(tmp_path))) is None


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_running(pid):
        assert time.monotonic() < deadline, "still running"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process does anything: one that has ended may still wait to be collected by its parent."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()[:1] not in {"", "Z"}
