"""Show how far lists have been read: `lore sync-status`, `lore cursors`.

Reads the local database; only `lore cursors reset` changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import click

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.runs import CHILD_NAMES, running_lines
from tidelore.cli.output.table import Column, fields, page_columns, table
from tidelore.core.errors import UserError
from tidelore.service.status import ListStatus, Status, read_status
from tidelore.store.mirror.accounts import SURFACES
from tidelore.store.mirror.cursors import CursorRow, find_cursor, list_cursors, reset_cursor
from tidelore.store.reading.totals import STATES, AccountTotals, read_account_totals
from tidelore.store.work.runs import RunView

QUARANTINE_SHOWN = 10


@click.command("sync-status", cls=LoreCommand, example="lore sync-status")
@click.option("--runs", type=click.IntRange(0, 1000), default=5, show_default=True, help="Number of runs to show.")
@click.pass_context
def sync_status_command(ctx: click.Context, runs: int) -> Output:
    """Show how far each list has been read.

    A list is complete up to its watermark. Child items (discussions, events, files) are due until they have been read
    for the stored version of their parent; settling ones are read once more, failing ones could not be read.
    """
    invocation = invocation_of(ctx)
    database = invocation.open_store()
    try:
        status = read_status(database, invocation.app().config, runs)
        accounts = read_account_totals(database, invocation.app().clock.now_ms())
    finally:
        database.close()
    return Output({**_data(status), "accounts": _account_data(accounts)}, _lines(status, accounts))


def cursor_data(cursor: CursorRow) -> dict[str, Any]:
    """Return a cursor as data."""
    return {
        "source": cursor.source,
        "surface": cursor.surface,
        "scope": cursor.scope,
        "project": cursor.project,
        "account": cursor.account,
        "watermark_at": instant(cursor.watermark_at),
        "watermark_id": cursor.watermark_id,
        "complete": bool(cursor.bootstrap_complete),
        "gaps": cursor.gaps,
        "polled_at": instant(cursor.polled_at),
        "verified_at": instant(cursor.verified_at),
        "etag": cursor.etag,
        "url": cursor.url,
        "reading": cursor.reading,
        "set_aside": cursor.set_aside,
        "set_aside_at": instant(cursor.set_aside_at),
    }


def cursor_table(cursors: list[CursorRow]) -> list[str]:
    """Return the cursors as a table."""
    rows = [
        [
            cursor.surface,
            f"{cursor.account} {cursor.scope}" if cursor.account else cursor.place,
            _second(cursor.watermark_at) or "(empty)",
            "complete" if cursor.bootstrap_complete else "first sync running",
            ago(cursor.polled_at),
            _second(cursor.verified_at) or "not yet",
        ]
        for cursor in cursors
    ]
    columns = [
        Column("LIST", path=True, shrinks=True),
        Column("SCOPE", path=True, shrinks=True),
        Column("WATERMARK"),
        Column("STATE", optional=True),
        Column("READ"),
        Column("VERIFIED", optional=True),
    ]
    return table(columns, rows)


def _data(status: Status) -> dict[str, Any]:
    return {
        "projects": [{"source": p.source, "path": p.path, "remote_id": p.remote_id} for p in status.projects],
        "cursors": [cursor_data(entry.cursor) for entry in status.lists],
        "children": [
            {
                "source": entry.cursor.source,
                "surface": entry.cursor.surface,
                "project": entry.cursor.project,
                "kind": backlog.kind,
                "due": backlog.due,
                "settling": backlog.settling,
                "failing": backlog.failing,
                "error": backlog.error,
                "unavailable": backlog.unavailable,
                "next_attempt_at": instant(backlog.next_attempt_at),
                "oldest_read_at": instant(backlog.oldest),
            }
            for entry in status.lists
            for backlog in entry.children
        ],
        "quarantine": [
            {
                "surface": entry.surface,
                "scope": entry.scope,
                "remote_key": entry.remote_key,
                "error": entry.error,
                "attempts": entry.attempts,
                "first_seen_at": instant(entry.first_seen_at),
                "next_attempt_at": instant(entry.next_attempt_at),
            }
            for entry in status.quarantine
        ],
        "oldest_verification": instant(status.oldest_verification),
        "oldest_children_verification": instant(status.oldest_children),
        "runs": [_run(run) for run in status.runs],
    }


def _run(run: RunView) -> dict[str, Any]:
    data = {name: getattr(run, name) for name in run.__struct_fields__}
    return {**data, "started_at": instant(run.started_at), "finished_at": instant(run.finished_at)}


def _account_data(accounts: AccountTotals) -> dict[str, Any]:
    return {
        **{state: accounts.states.get(state, 0) for state in STATES},
        "due": accounts.due,
        "never_polled": accounts.never_polled,
        "oldest_poll_at": instant(accounts.oldest_poll),
        "gaps": accounts.gaps,
    }


def _accounts(accounts: AccountTotals) -> list[str]:
    """Return one summary of all accounts; `lore accounts list` shows the position of each."""
    states = ", ".join(f"{accounts.states[state]:,} {state}" for state in STATES if state in accounts.states)
    rows = [
        [
            f"{accounts.accounts:,}",
            f"{accounts.due:,}",
            f"{accounts.never_polled:,}",
            ago(accounts.oldest_poll),
            f"{accounts.gaps:,}",
        ]
    ]
    columns = [
        *(Column(name, right=True) for name in ("ACCOUNTS", "DUE", "NEVER POLLED")),
        Column("OLDEST POLL"),
        Column("OPEN GAPS", right=True),
    ]
    return ["Bluesky accounts", *table(columns, rows, indent="  ", always_headings=True), *_fit(states), ""]


def _lines(status: Status, accounts: AccountTotals) -> list[str]:
    if not status.lists and not accounts.accounts:
        under_way = running_lines(status.runs, page_columns())
        return under_way or ["Nothing synced yet. Run `lore sync`."]
    lists = [entry for entry in status.lists if entry.cursor.surface not in SURFACES.values()]
    several = len({entry.cursor.source for entry in status.lists}) > 1
    lines = _accounts(accounts) if accounts.accounts else []
    places = [(entry.cursor.source, entry.cursor.place) for entry in lists]
    for place in dict.fromkeys(places):
        found = [entry for entry, other in zip(lists, places, strict=True) if other == place]
        lines += [f"{place[1]} ({place[0]})" if several else place[1], *_project(found), ""]
    lines.append(f"Quarantine: {len(status.quarantine):,}")
    for entry in status.quarantine[:QUARANTINE_SHOWN]:
        attempts = plural(entry.attempts, "attempt")
        lines += _fit(f"{entry.surface} {entry.scope} {entry.remote_key}: {entry.error} ({attempts})")
    if len(status.quarantine) > QUARANTINE_SHOWN:
        lines.append(f"  ... and {len(status.quarantine) - QUARANTINE_SHOWN:,} more; --robot shows all")
    verified, children = status.oldest_verification, status.oldest_children
    lines.append(f"Oldest verification of a list: {instant(verified) or 'some lists have not been verified yet'}")
    lines.append(f"Oldest verification of children: {instant(children) or 'none fetched yet'}")
    return (
        [*lines, "", "Last runs", *_runs(status.runs), *running_lines(status.runs, page_columns())]
        if status.runs
        else lines
    )


def _project(lists: Sequence[ListStatus]) -> list[str]:
    """Return the lists of one project, then their child items, then the errors of those."""
    rows = [
        [
            _words(entry.cursor.surface),
            _second(entry.cursor.watermark_at) or "(empty)",
            ago(entry.cursor.polled_at),
            (_second(entry.cursor.verified_at) or "not yet") if entry.cursor.bootstrap_complete else "first read",
        ]
        for entry in lists
    ]
    lines = table(["LIST", "WATERMARK", "READ", "VERIFIED"], rows, indent="  ", always_headings=True)
    found = [(_words(entry.cursor.surface), backlog) for entry in lists for backlog in entry.children]
    if found:
        below = [
            [
                f"{noun} {CHILD_NAMES.get(backlog.kind, _words(backlog.kind))}",
                f"{backlog.due:,}",
                f"{backlog.settling:,}",
                f"{backlog.failing:,}",
                ago(backlog.oldest),
            ]
            for noun, backlog in found
        ]
        numbers = [Column(name, right=True) for name in ("DUE", "SETTLING", "FAILING")]
        lines += table(["CHILDREN", *numbers, "OLDEST READ"], below, indent="  ", always_headings=True)
    for noun, backlog in found:
        name = f"{noun} {CHILD_NAMES.get(backlog.kind, _words(backlog.kind))}"
        if backlog.unavailable is not None:
            again = _second(backlog.next_attempt_at)
            lines += _fit(f"{name}: unavailable in this project ({backlog.unavailable}); next attempt {again}")
        if backlog.error is not None:
            lines += _fit(f"{name}: {backlog.error}")
    return lines


def _runs(runs: Sequence[RunView]) -> list[str]:
    rows = [
        [
            str(run.id),
            run.command.removeprefix("lore "),
            run.status,
            f"{run.warnings_count:,}",
            f"{run.issues_ingested + run.mrs_ingested:,}",
            f"{run.requests:,}",
            ago(run.started_at).removesuffix(" ago"),
        ]
        for run in runs
    ]
    columns = [Column("RUN"), Column("COMMAND", shrinks=True), Column("STATUS", state=True)]
    numbers = [Column(name, right=True) for name in ("WARNINGS", "STORED", "REQUESTS")]
    return table([*columns, *numbers, Column("AGE")], rows, always_headings=True)


def _words(name: str) -> str:
    """Return the last part of a name in words: `gitlab.merge_requests` is `merge requests`."""
    return name.rpartition(".")[2].replace("_", " ")


def _second(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else f"{(instant(instant_ms) or '')[:19]}Z"


def _fit(text: str) -> list[str]:
    """Wrap a text to the width of the page; long words are not broken, so that they can be searched and copied."""
    return wrap(
        text,
        page_columns(),
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@click.group(
    "cursors",
    cls=LoreGroup,
    help="List, show or reset reading positions.",
    no_args_is_help=True,
    params=global_options(),
    example="lore cursors list",
)
def cursors_command() -> None:
    pass


@cursors_command.command("list", cls=LoreCommand, example="lore cursors list")
@click.pass_context
def list_command(ctx: click.Context) -> Output:
    """List all reading positions."""
    database = invocation_of(ctx).open_store()
    try:
        cursors = list_cursors(database)
    finally:
        database.close()
    items = [cursor_data(cursor) for cursor in cursors]
    lines = cursor_table(cursors) if cursors else ["No cursors yet."]
    return Output({"items": items, "total": len(items), "next": None}, lines)


@cursors_command.command("show", cls=LoreCommand, example="lore cursors show gitlab.issues group/project")
@click.argument("surface")
@click.argument("scope")
@click.pass_context
def show_command(ctx: click.Context, surface: str, scope: str) -> Output:
    """Show one reading position.

    SURFACE is a list such as gitlab.issues. SCOPE is a project path or number, or a Bluesky account.
    """
    database = invocation_of(ctx).open_store()
    try:
        data = cursor_data(find_cursor(database, surface, scope))
    finally:
        database.close()
    return Output(data, fields(data))


@cursors_command.command("reset", cls=LoreCommand, example="lore cursors reset gitlab.issues group/project --yes")
@click.argument("surface")
@click.argument("scope")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def reset_command(ctx: click.Context, surface: str, scope: str, yes: bool, force: bool) -> Output:  # noqa: FBT001
    """Reset a reading position.

    The next run reads the list from the beginning. Stored rows are kept. The reset is recorded in `lore sync-runs`.
    Asks for confirmation on a terminal; without a terminal --yes is required.
    """
    from tidelore.app.wiring import run_until_signalled
    from tidelore.store.work.session import Workshop, open_session

    invocation = invocation_of(ctx)
    app = invocation.app()
    database = invocation.open_store()
    try:
        cursor = find_cursor(database, surface, scope)
        name = f"{cursor.surface} {cursor.place}"
        if not yes and not _confirmed(invocation, name):
            raise UserError(
                f"reading position of {name} was not reset: confirmation required", fix="confirm with --yes"
            )

        async def reset() -> None:
            shop = Workshop(database, app.config, app.clock, app.seam, "lore cursors reset")
            async with open_session(shop, force=force, note=f"cursor reset by the operator: {name}"):
                with database.transaction() as tx:
                    reset_cursor(tx, cursor.source, cursor.surface, cursor.scope)

        run_until_signalled(reset())
    finally:
        database.close()
    return Output({"reset": cursor_data(cursor)}, [f"Reset {name}; the next run reads it from the beginning."])


def _confirmed(invocation: Invocation, name: str) -> bool:
    """Ask for confirmation if there is a terminal."""
    asked = not invocation.choices.robot and sys.stdin is not None and sys.stdin.isatty()
    return asked and click.confirm(f"Reset {name}?", err=True)
