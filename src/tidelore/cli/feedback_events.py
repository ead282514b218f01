"""`lore feedback next|peek|ack|nack`: takes events and records their outcome."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.feedback_data import event_data
from tidelore.cli.feedback_threads import PR, REPO, repo_and_number
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, ago, plural, when
from tidelore.cli.table import Column, on_terminal, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.text import block, one_line
from tidelore.store.work.events import EventRow, PendingCount, peek, pending_counts
from tidelore.store.work.tracked_pull_requests import TERMINAL

_LARGEST_ID = 2**63 - 1
_WIDTH = 100


@click.command("next", cls=LoreCommand, example="lore feedback next --wait --poll")
@REPO
@PR
@click.option("--wait", is_flag=True, help="Wait until an event is ready.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="With --wait: give up after this time."
)
@click.option("--include-closed", is_flag=True, help="Also take events of merged and closed pull requests.")
@click.option("--poll", is_flag=True, help="Poll GitHub first, and every poll_interval_seconds while waiting.")
@click.pass_context
def next_command(
    ctx: click.Context,
    repo: str | None,
    pr: str | None,
    wait: bool,  # noqa: FBT001
    timeout: float | None,
    include_closed: bool,  # noqa: FBT001
    poll: bool,  # noqa: FBT001
) -> Answer:
    """Take the oldest ready event.

    The event is leased to you for event_lease_seconds, then requeued. Finish it with `lore feedback ack` or `lore
    feedback nack`. A pull request has at most one event in progress; a blocked or paused one has none, a merged or
    closed one only with --include-closed. Without --wait the result may be empty. Several consumers may run side by
    side.
    """
    from tidelore.app.feedback_events import TakeRequest, count_of_closed, take_event
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.repositories import choose_repos

    face = face_of(ctx)
    app = face.app()
    if timeout is not None and not wait:
        raise UserError("--timeout requires --wait", fix="add --wait, or remove --timeout")
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    number: int | None = None
    if pr is not None:
        place, number = repo_and_number(app.config, repo, pr)
        places = [place]
    else:
        places = choose_repos(app.config, repo)
    request = TakeRequest(places, number, wait, timeout, poll, include_closed)
    event = run_until_signalled(take_event(app, request), "no event was taken")
    if event is None:
        return Answer({"event": None}, ["No events ready.", *_closed_lines(count_of_closed(app, request))])
    return Answer({"event": event_data(event, lease=True)}, [*_lines(event), f"Lease {event.lease_id}"])


@click.command("peek", cls=LoreCommand, example="lore feedback peek --limit 5")
@REPO
@PR
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of items to show."
)
@click.pass_context
def peek_command(ctx: click.Context, repo: str | None, pr: str | None, limit: int) -> Answer:
    """List unprocessed events without taking one.

    Events of merged and closed pull requests are marked; `lore feedback next` takes them only with --include-closed.
    """
    from tidelore.feedback.repositories import choose_repo

    face = face_of(ctx)
    number: int | None = None
    place = None
    if pr is not None:
        place, number = repo_and_number(face.app().config, repo, pr)
    elif repo is not None:
        place = choose_repo(face.app().config, repo)
    database = face.open_store()
    try:
        ids = None
        if place is not None:
            from tidelore.app.sources import find_followed

            ids = [find_followed(database, place).id]
        rows = peek(database, pr=number, project_ids=ids, limit=limit)
        now = SystemClock().now_ms()
        total = sum(count.pending for count in pending_counts(database, now) if _is_meant(count, ids, number))
    finally:
        database.close()
    data = {"items": [event_data(row) for row in rows], "total": total, "next": None}
    return Answer(data, _peek_lines(rows, total, now))


@click.command("ack", cls=LoreCommand, example="lore feedback ack 42")
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
@click.pass_context
def ack_command(ctx: click.Context, event: int | None, lease: str | None) -> Answer:
    """Mark an event as done.

    EVENT is its number; --lease identifies it by its lease instead. An expired lease is accepted unless another
    consumer has taken the event since (exit 3). Repeating the command is allowed.
    """
    from tidelore.app.feedback_events import ack_event

    face = face_of(ctx)
    handle = _handle(event, lease)
    database = face.open_store()
    try:
        row = ack_event(database, handle, SystemClock().now_ms())
    finally:
        database.close()
    return Answer({"event": event_data(row)}, [f"Event {row.id} of {_thread(row)} is done."])


@click.command("nack", cls=LoreCommand, example="lore feedback nack 42 --error 'build failed'")
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
@click.option("--error", metavar="TEXT", required=True, help="Error message to record.")
@click.pass_context
def nack_command(ctx: click.Context, event: int | None, lease: str | None, error: str) -> Answer:
    """Mark an event as failed and retry it later.

    EVENT is its number. The event is handed out again after handler_backoff_seconds, doubled with each failure. After
    handler_max_attempts failures the pull request is blocked.
    """
    from tidelore.app.feedback_events import nack_event
    from tidelore.store.work.tracked_pull_requests import BLOCKED, find_tracked

    face = face_of(ctx)
    handle = _handle(event, lease)
    database = face.open_store()
    try:
        row = nack_event(face.app(), database, handle, error)
        pull = None if row.pr_number is None else find_tracked(database, row.project_id, row.pr_number)
    finally:
        database.close()
    blocked = pull is not None and pull.status == BLOCKED
    told = f"Event {row.id} of {_thread(row)} failed, attempt {row.attempts}"
    if row.processed_at is not None:
        told = f"Event {row.id} of {_thread(row)} was already done."
    elif blocked:
        told += "; the pull request is blocked (`lore feedback blocked list`)."
    else:
        told += "; it will be retried."
    return Answer({"event": event_data(row), "blocked": blocked}, [told])


def _handle(event: int | None, lease: str | None) -> int | str:
    if (event is None) == (lease is None):
        raise UserError(
            "expected either an event number or --lease",
            fix="pass the number, or --lease with the lease_id from `lore feedback next`",
        )
    return lease if lease is not None else event or 0


def _closed_lines(count: int) -> list[str]:
    if not count:
        return []
    return [f"{plural(count, 'event')} of merged and closed pull requests: take them with --include-closed."]


def _is_meant(count: PendingCount, ids: list[int] | None, number: int | None) -> bool:
    return (ids is None or count.project_id in ids) and number in (None, count.thread_number)


def _thread(row: EventRow) -> str:
    return f"{row.repo_full_name}#{row.thread_number}"


def _lines(row: EventRow) -> list[str]:
    place = f", {one_line(row.path)}:{row.line or '-'}" if row.path else ""
    state = f", {row.review_state}" if row.review_state else ""
    head = f"Event {row.id}: {row.kind.replace('_', ' ')} {row.comment_id} on {_thread(row)}{place}{state}"
    lines = [head, f"{row.author or 'ghost'}, {ago(row.updated_at)}"]
    return [*lines, *([row.url] if row.url else []), "", *block(row.body, _WIDTH, "  "), ""]


def _peek_lines(rows: list[EventRow], total: int, now_ms: int) -> list[str]:
    if not rows:
        return ["No pending events."]
    cells = [
        [
            str(row.id),
            _thread(row),
            row.kind,
            row.author or "ghost",
            when(row.updated_at).removesuffix(" ago"),
            _standing(row, now_ms),
            row.body,
        ]
        for row in rows
    ]
    columns = [
        Column("EVENT", right=True),
        Column("THREAD", colour="cyan"),
        *(Column(name) for name in ("KIND", "AUTHOR", "AGE", "STATE")),
        Column("BODY", shrinks=True),
    ]
    if not on_terminal():
        return table(columns, cells)
    lines = [f"Unprocessed events (showing {len(rows):,} of {total:,})", *table(columns, cells)]
    if any(row.pr_status in TERMINAL for row in rows):
        lines.append("Take events of merged and closed pull requests with `lore feedback next --include-closed`.")
    failed = sum(row.attempts > 0 for row in rows)
    return lines + ([f"{plural(failed, 'event')} failed before; see the error with --robot."] if failed else [])


def _standing(row: EventRow, now_ms: int) -> str:
    if row.leased_until is not None and row.leased_until > now_ms:
        return "in progress"
    if row.pr_status in TERMINAL:
        return f"pull request {row.pr_status}"
    resting = row.next_attempt_at is not None and row.next_attempt_at > now_ms
    return f"retrying ({row.attempts} failed)" if resting else "pending"
