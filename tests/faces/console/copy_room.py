"""A copy in which something of everything happened, for screens to show: sources, runs, pull requests, accounts."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

from tests.databases.feedback_samples import add_events, comment, pull
from tests.databases.feeds import MIRA, NOOR, OTTO, follow, post, share
from tests.databases.samples import issue, merge_request
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note, placed
from tests.support.manual_clock import ManualClock

from tidelore.app.mirroring import document
from tidelore.app.wiring import App
from tidelore.core.config_file import parse_config
from tidelore.core.model import ProjectRecord
from tidelore.core.process import ProcessIdentity
from tidelore.engine.lease import LeaseRow
from tidelore.engine.ledger import Counters, Run, Surgery
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import note_unavailable, pause_account
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.work import tracked_pull_requests as tracked
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.outbox import plan
from tidelore.store.work.runs import RunTable
from tidelore.store.work.service_records import BudgetRow, JobRow, save_budgets, save_jobs

HOST = "http://127.0.0.1:9"
NOW = 1_772_442_000_000
REPO = "harborline/quay"
LEDGER = "harborline/platform/ledger"
SETTINGS = f"""
[[gitlab]]
base_url = "http://127.0.0.1:9"
projects = ["{LEDGER}"]
[[github]]
base_url = "http://127.0.0.1:9"
[[github.repos]]
name = "{REPO}"
[bluesky]
base_url = "http://127.0.0.1:9"
accounts = ["mira.test", "noor.test", "otto.test"]
[embedding]
provider = "none"
[http]
max_retries = 0
timeout_seconds = 2
"""
FAILED_IDS = (
    '[{"entity_type":"issue","iid":12,"reference":"LEDGER#12","source":"gitlab","project":"LEDGER","fetch_failure":'
    '{"entity_type":"issue","iid":12,"reference":"LEDGER#12","source":"gitlab","stage":"fetch","code":"NOT_FOUND",'
    '"message":"the server knows no issue 12"}}]'
).replace("LEDGER", LEDGER)


def build_copy(folder: Path) -> App:
    """Make the copy and return the application on it; its clock stands still at NOW."""
    clock = ManualClock(NOW)
    config = parse_config(tomllib.loads(SETTINGS))
    app = App(config, {}, db=str(folder / "lore.db"), clock=clock)
    database = app.open_store(create=True)
    try:
        _forge(database)
        _pulls(database)
        _accounts(database)
    finally:
        database.close()
    asyncio.run(document(app, full=False, force=False))
    database = app.open_store()
    try:
        _runs(database)
        _service(database)
    finally:
        database.close()
    return app


def _project(database: Database, source: str, remote_id: int, path: str) -> ProjectRow:
    record = ProjectRecord(remote_id, path, path.rpartition("/")[2], f"https://forge.test/{path}", archived=False)
    with database.transaction() as tx:
        return save_project(tx, source, path, record, NOW - 86_400_000)


def _forge(database: Database) -> None:
    project = _project(database, "gitlab", 1, LEDGER)
    page = f"https://forge.test/{LEDGER}"
    keep(
        database,
        project,
        ISSUES,
        [
            issue(7, NOW - 900_000, iid=7, title="Postings are rounded twice", web_url=f"{page}/-/issues/7"),
            issue(8, NOW - 700_000, iid=8, title="The quarterly report takes an hour", state="closed"),
        ],
    )
    keep(
        database,
        project,
        MERGE_REQUESTS,
        [
            merge_request(
                21, NOW - 60_000, iid=21, title="Round once, at the edge",
                description="Rounding moves to the edge.\n\n```python\namount = round(total, 2)\n```",
                web_url=f"{page}/-/merge_requests/21",
            )
        ],
    )  # fmt: skip
    attach(
        database,
        project,
        "merge_requests",
        21,
        DISCUSSIONS,
        discussion(
            "d1",
            placed(501, "Why not round half to even here?", "ledger/rounding.py", 40, author_username="noor"),
            note(502, "Because the tax office rounds half up.\x1b[31m", author_username="mira"),
        ),
        discussion("d2", note(503, "Looks good to me.", author_username="otto")),
    )


def _pulls(database: Database) -> None:
    project = _project(database, "github", 90, REPO)
    with database.transaction() as tx:
        for number, title in (
            (12, "Cranes report their load"),
            (15, "Berths are booked [early]"),
            (19, "Tides by SMS"),
        ):
            row = tracked.track(
                tx, project.id, REPO, number, issue_number=None, tracked_by="operator", now_ms=NOW - 7_200_000
            )
            page = f"https://github.test/{REPO}/pull/{number}"
            row = tracked.note_pull(tx, row, pull(number, NOW - 600_000, title=title, url=page), NOW - 600_000)
            if number == 15:
                tracked.move(tx, row, tracked.BLOCKED, "force_pushed", "head changed", NOW - 300_000)
            if number == 19:
                tracked.set_paused(tx, row.id, paused=True, now_ms=NOW - 100_000)
    records = [
        comment(
            3001, 12, NOW - 240_000, author="noor", body="Please name the unit:\n\n> load in tonnes, or kilograms?"
        ),
        comment(3002, 12, NOW - 120_000, author="mira", body="And log it once a minute, not once a second."),
        comment(3003, 15, NOW - 90_000, author="otto", body="Still wanted?", url=f"https://github.test/{REPO}/pull/15"),
    ]
    add_events(database, project, records)
    with database.transaction() as tx:
        tx.execute(
            "UPDATE feedback_events SET attempts = 2, last_error = 'the handler exited with 1' WHERE pr_number = 15"
        )
        plan(
            tx,
            project.id,
            REPO,
            PlannedReply("pr", 12, None, "ab" * 32, "In tonnes; the unit is named now.", "operator"),
            NOW - 30_000,
        )


def _accounts(database: Database) -> None:
    mira, noor, otto = follow(database, MIRA, NOOR, OTTO, now_ms=NOW - 86_400_000)
    share(
        database,
        post(MIRA, "p1", NOW - 500_000, text="The tide turns at noon."),
        post(MIRA, "p2", NOW - 400_000, text="Rounding half up is a custom, not a law."),
        now_ms=NOW - 400_000,
    )
    with database.transaction() as tx:
        tx.execute(
            "UPDATE accounts SET last_polled_at = :read, next_poll_at = :next, state = 'established' WHERE id = :id",
            {"read": NOW - 300_000, "next": NOW + 600_000, "id": mira.id},
        )
        note_unavailable(tx, noor.id, "AccountTakedown", NOW - 200_000)
        pause_account(tx, otto.id, "too loud", NOW - 100_000)


def _runs(database: Database) -> None:
    table, here = RunTable(database), ProcessIdentity.current()
    for minutes, (command, end, stored, requests) in {
        50: ("lore sync", "succeeded", 120, 480),
        30: ("lore sync", "failed", 0, 12),
        20: ("lore poll github", "succeeded", 0, 9),
        10: ("lore sync", "warned", 7, 61),
    }.items():
        clock = ManualClock(NOW - minutes * 60_000)
        run = Run.start(table, clock, command, here, phase="ingest")
        run.set_counters(Counters(issues_ingested=stored, issues_fetched=stored, requests=requests))
        clock.advance(95)
        if end == "failed":
            run.finish_failed("the server at 127.0.0.1 does not answer")
        elif end == "warned":
            run.finish_succeeded(2)
        else:
            run.finish_succeeded()
    clock = ManualClock(NOW - 300_000)
    surgical = Run.start(
        table,
        clock,
        "lore sync",
        here,
        mode="surgical",
        phase="preflight",
        surgery=Surgery('{"issues":[12]}', FAILED_IDS),
    )
    surgical.finish_failed("1 of 1 could not be fetched, nothing was stored")
    going = Run.start(table, ManualClock(NOW - 40_000), "lore sync", here, phase="ingest")
    going.set_counters(Counters(issues_ingested=42, requests=17))
    going.set_phase("dependents")
    table.update(going.id, progress_done=340, progress_total=1200, progress_note=f"{LEDGER} discussions: 340 read")


def _service(database: Database) -> None:
    here = ProcessIdentity.current()
    LeaseTable(database).swap(None, LeaseRow("service", 1, here, "lore service", NOW - 3_600_000, NOW - 5_000))
    save_jobs(
        database,
        [
            JobRow("gitlab:gitlab", "gitlab", "sync", HOST, "running", None, NOW - 40_000, NOW - 340_000,
                   NOW - 340_000, 0, None, 1020.0, 579, NOW),
            JobRow(f"github:github/{REPO}", "github", "poll", REPO, "backing_off", NOW + 45_000, NOW - 700_000,
                   NOW - 690_000, NOW - 1_800_000, 3, "rate limited until 09:05", 300.0, 88, NOW),
            JobRow("answers:github", "github", "answers", HOST, "idle", NOW - 1_000, NOW - 16_000,
                   NOW - 15_000, NOW - 15_000, 0, None, None, 4, NOW),
            JobRow("bluesky:poll", "bluesky", "poll", HOST, "idle", NOW + 12_000, NOW - 18_000,
                   NOW - 17_000, NOW - 17_000, 0, None, 2820.0, 31, NOW),
        ],
    )  # fmt: skip

    save_budgets(
        database,
        [BudgetRow("github", 312, None, NOW, 5000), BudgetRow("gitlab", 1_934, NOW + 300_000, NOW, 2000)],
    )


def at_rest(app: App) -> None:
    """Bring everything into the one file, so that copying it copies all."""
    database = app.open_store()
    database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
