"""The processes of handlers: what they are given, how many run, what they leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.situations.answers.hub import REPO, Hub
from tests.situations.answers.test_handler import add_event, assert_gone, handle, settings
from tests.unit.feedback.people import comment

from tidelore.feedback.delivery import HandlerRunner
from tidelore.store.work.events import NewEvent, find_event, insert_events
from tidelore.store.work.tracked_pull_requests import find_tracked, track

TOKEN = f"ghp_{'x7' * 18}"
SEES = "import json, os, sys; json.dump(dict(os.environ), open({!r}, 'w'))"


def environment(hub: Hub, folder: Path, **keys: object) -> dict[str, str]:
    """The variables that a handler sees."""
    add_event(hub)
    done = handle(hub, settings(hub, SEES.format(str(folder / "seen")), **keys))
    assert done is not None
    assert done.processed_at is not None, done.last_error
    seen: dict[str, str] = json.loads((folder / "seen").read_text())
    # The interpreter of the test sets it by itself.
    return {name: value for name, value in seen.items() if name != "LC_CTYPE"}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("LORE_"):
            monkeypatch.delenv(name)
    values = {"GITHUB_TOKEN": TOKEN, "SECRET_OF_MINE": "hush", "LORE_CONFIG": "/c.toml", "LANG": "C", "TERM": "dumb"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("variables")
def test_a_handler_inherits_no_secret_variable_unless_it_is_listed(hub: Hub, tmp_path: Path) -> None:
    seen = environment(hub, tmp_path)
    assert seen == {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TERM", "LORE_CONFIG")}


@pytest.mark.usefixtures("variables")
def test_handler_env_lists_the_variables_a_handler_inherits(hub: Hub, tmp_path: Path) -> None:
    seen = environment(hub, tmp_path, handler_env=("GITHUB_TOKEN", "SECRET_*", "NOT_SET"))
    assert seen == {"GITHUB_TOKEN": TOKEN, "SECRET_OF_MINE": "hush"}


@pytest.mark.usefixtures("variables")
def test_a_handler_found_on_the_path_runs_without_the_variable_path(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_event(hub)
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "only-here"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    done = handle(hub, replace(settings(hub, ""), handler=("only-here",), handler_env=("LANG",)))
    assert done is not None
    assert done.processed_at is not None, done.last_error


@pytest.mark.usefixtures("variables")
def test_tokens_in_the_errors_of_a_handler_are_redacted_before_they_are_stored(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub.database.transaction() as tx:
        track(tx, hub.project_id, REPO, hub.pr, issue_number=None, tracked_by="operator", now_ms=hub.clock.now_ms())
    add_event(hub)
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    program = (
        "import sys\n"
        "sys.exit('git push https://me:hunter22@host/x failed; Authorization: Bearer abcdef123456;'\n"
        f" ' {TOKEN}; correct horse battery')"
    )
    failed = handle(hub, settings(hub, program, handler_max_attempts=1))
    assert failed is not None
    stored = find_event(hub.database, failed.id).last_error or ""
    assert "git push https://***@host/x failed" in stored
    ((detail,),) = hub.database.read("SELECT detail FROM tracked_pr_history WHERE to_status = 'blocked'")
    for text in (stored, detail):
        assert not [secret for secret in (TOKEN, "hunter22", "abcdef123456", "correct horse") if secret in text]


def test_a_token_cut_off_at_the_beginning_of_a_long_error_is_not_stored(hub: Hub) -> None:
    add_event(hub)
    # The kept end begins inside the token, where its prefix does not tell it any more.
    program = f"import sys; sys.stderr.reconfigure(encoding='utf-8'); sys.exit('{TOKEN} ' + '\U0001d11e' * 2043)"
    failed = handle(hub, settings(hub, program))
    assert failed is not None
    assert "\U0001d11e" in (failed.last_error or "")
    assert "x7x7" not in (failed.last_error or "")


WAITS = """
import json, os, sys, time
event = json.load(sys.stdin)
folder, wanted = {folder!r}, {wanted}
open(os.path.join(folder, f"{{event['pr_number']}}.{{event['id']}}"), "w").close()
deadline = time.monotonic() + 20
while len({{name.split(".")[0] for name in os.listdir(folder)}}) < wanted:
    if time.monotonic() > deadline:
        sys.exit("alone")
    time.sleep(0.01)
"""


def run_all(hub: Hub, program: str, **keys: object) -> int:
    return asyncio.run(HandlerRunner(hub.database, hub.project(), settings(hub, program, **keys), hub.clock).run_all())


def add_events_of(hub: Hub, *numbers: int) -> None:
    for at, number in enumerate(numbers):
        record = comment(f"Number {at}", number=number, remote_id=100 + at)
        with hub.database.transaction() as tx:
            event = NewEvent(f"{number}:{at}", number, None, record)
            insert_events(tx, hub.project_id, REPO, [event], hub.clock.now_ms())


def test_four_pull_requests_are_handled_side_by_side(hub: Hub, tmp_path: Path) -> None:
    add_events_of(hub, 1, 2, 3, 4)
    assert run_all(hub, WAITS.format(folder=str(tmp_path), wanted=4)) == 4
    assert hub.database.read("SELECT COUNT(*) FROM feedback_events WHERE processed_at IS NOT NULL") == [(4,)]


COUNTS = """
import json, os, sys, time
event = json.load(sys.stdin)
running, log = {folder!r} + "/running", {folder!r} + "/log"
os.makedirs(running, exist_ok=True)
mine = os.path.join(running, f"{{event['pr_number']}}.{{event['id']}}")
open(mine, "w").close()
time.sleep(0.05)
now = sorted(os.listdir(running))
with open(log, "a") as out:
    out.write(json.dumps([event["pr_number"], event["id"], now]) + "\\n")
os.unlink(mine)
"""


def test_no_more_handlers_run_than_configured_and_a_pull_request_keeps_its_order(hub: Hub, tmp_path: Path) -> None:
    add_events_of(hub, 1, 1, 2, 1, 3, 2, 4)
    assert run_all(hub, COUNTS.format(folder=str(tmp_path)), handler_concurrency=2) == 7
    runs = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert max(len(running) for _, _, running in runs) <= 2
    for pr in (1, 2):
        ids = [event_id for number, event_id, _ in runs if number == pr]
        assert ids == sorted(ids)
    for _, _, running in runs:
        assert len({name.partition(".")[0] for name in running}) == len(running), "one event at a time of each"


PARENT = """
import asyncio, sys
from tidelore.feedback.delivery import run_handler
asyncio.run(run_handler((sys.executable, "-c", sys.argv[1]), b"{}", 600))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_handler_is_killed_when_its_parent_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, program])
    with pid.open() as written:
        handler = int(written.read())
    assert os.getpgid(handler) == handler, "a group of its own"
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    assert_gone(handler)


def test_processes_that_a_handler_started_are_killed_when_its_parent_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, program])
    with pid.open() as written:
        grandchild = int(written.read())
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    assert_gone(grandchild)


def test_a_failed_handler_blocks_its_pull_request_while_others_continue(hub: Hub, tmp_path: Path) -> None:
    with hub.database.transaction() as tx:
        for number in (1, 2):
            track(tx, hub.project_id, REPO, number, issue_number=None, tracked_by="operator", now_ms=hub.clock.now_ms())
    add_events_of(hub, 1, 1, 2, 2)
    program = "import json, sys; sys.exit('no' if json.load(sys.stdin)['pr_number'] == 1 else 0)"
    assert run_all(hub, program, handler_max_attempts=1) == 3
    statuses = [find_tracked(hub.database, hub.project_id, number) for number in (1, 2)]
    assert [row.status for row in statuses if row is not None] == ["blocked", "awaiting_feedback"]
