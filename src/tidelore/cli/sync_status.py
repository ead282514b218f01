"""Show how far lists have been read: `lore sync-status`, `lore cursors`.

Reads the local database; only `lore cursors reset` changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import wrap

import click

from tidelore.app.positions import (
    AccountSummary,
    ChildBacklog,
    PositionList,
    ReadingPosition,
    ResetPosition,
    SyncStatus,
    list_positions,
    reset_position,
    show_position,
    sync_status,
)
from tidelore.app.reports import CHILD_NAMES
from tidelore.app.status import ListedRun
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.runs import running_lines
from tidelore.cli.output.table import Column, fields, page_columns, table_of

QUARANTINE_SHOWN = 10


@lore_command("sync-status", example="lore sync-status", answer=SyncStatus)
@click.option("--runs", type=click.IntRange(0, 1000), default=5, show_default=True, help="Number of runs to show.")
def sync_status_command(invocation: Invocation, runs: int) -> Output:
    """Show how far each list has been read.

    A list is complete up to its watermark. Child items (discussions, events, files) are due until they have been read
    for the stored version of their parent; settling ones are read once more, failing ones could not be read.
    """
    status = sync_status(invocation.app(), runs)
    return Output(status, _lines(status))


def cursor_table(cursors: list[ReadingPosition]) -> list[str]:
    """Return the cursors as a table."""
    return table_of(
        cursors,
        Column("LIST", lambda one: one.surface, path=True, shrinks=True),
        Column(
            "SCOPE", lambda one: f"{one.account} {one.scope}" if one.account else one.place, path=True, shrinks=True
        ),
        Column("WATERMARK", lambda one: _second(one.watermark_at) or "(empty)"),
        Column(
            "STATE",
            lambda one: f"{'complete' if one.complete else 'first sync running'}{_since(one)}",
            optional=True,
        ),
        Column("READ", lambda one: ago(one.polled_at)),
        Column("VERIFIED", lambda one: _second(one.verified_at) or "not yet", optional=True),
    )


def _scope(cursor: ReadingPosition) -> str:
    return f"{cursor.account} {cursor.scope}" if cursor.account else cursor.place


def _accounts(accounts: AccountSummary) -> list[str]:
    """Return one summary of all accounts; `lore accounts list` shows the position of each."""
    states = ", ".join(f"{count:,} {state}" for state, count in accounts.states.items())
    lines = table_of(
        [accounts],
        Column("ACCOUNTS", lambda one: f"{sum(one.states.values()):,}", right=True),
        Column("DUE", lambda one: f"{one.due:,}", right=True),
        Column("NEVER POLLED", lambda one: f"{one.never_polled:,}", right=True),
        Column("OLDEST POLL", lambda one: ago(one.oldest_poll_at)),
        Column("OPEN GAPS", lambda one: f"{one.gaps:,}", right=True),
        indent="  ",
        always_headings=True,
    )
    return ["Bluesky accounts", *lines, *_fit(states), ""]


def _lines(status: SyncStatus) -> list[str]:
    if not status.cursors and not status.accounts.states:
        under_way = running_lines(status.runs, page_columns())
        return under_way or ["Nothing synced yet. Run `lore sync`."]
    several = len({cursor.source for cursor in status.cursors}) > 1
    lines = _accounts(status.accounts) if status.accounts.states else []
    places: dict[tuple[str, str], list[ReadingPosition]] = {}
    for cursor in status.lists:
        places.setdefault((cursor.source, cursor.place), []).append(cursor)
    for (source, place), found in places.items():
        lines += [f"{place} ({source})" if several else place, *_project(status, found), ""]
    lines.append(f"Quarantine: {len(status.quarantine):,}")
    for entry in status.quarantine[:QUARANTINE_SHOWN]:
        attempts = plural(entry.attempts, "attempt")
        lines += _fit(f"{entry.surface} {entry.scope} {entry.remote_key}: {entry.error} ({attempts})")
    if len(status.quarantine) > QUARANTINE_SHOWN:
        lines.append(f"  ... and {len(status.quarantine) - QUARANTINE_SHOWN:,} more; --robot shows all")
    verified, children = status.oldest_verification, status.oldest_children_verification
    lines.append(f"Oldest verification of a list: {instant(verified) or 'some lists have not been verified yet'}")
    lines.append(f"Oldest verification of children: {instant(children) or 'none fetched yet'}")
    return (
        [*lines, "", "Last runs", *_runs(status.runs), *running_lines(status.runs, page_columns())]
        if status.runs
        else lines
    )


def _project(status: SyncStatus, lists: Sequence[ReadingPosition]) -> list[str]:
    """Return the lists of one project, then their child items, then the errors of those."""
    lines = table_of(
        lists,
        Column("LIST", lambda one: _words(one.surface)),
        Column("WATERMARK", lambda one: f"{_second(one.watermark_at) or '(empty)'}{_since(one)}"),
        Column("READ", lambda one: ago(one.polled_at)),
        Column(
            "VERIFIED",
            lambda one: (_second(one.verified_at) or "not yet") if one.complete else "first read",
            optional=True,
        ),
        indent="  ",
        always_headings=True,
    )
    found = [child for cursor in lists for child in status.children_of(cursor)]
    if found:
        lines += table_of(
            found,
            Column("CHILDREN", _child_name),
            Column("DUE", lambda child: f"{child.due:,}", right=True),
            Column("SETTLING", lambda child: f"{child.settling:,}", right=True, optional=True),
            Column("FAILING", lambda child: f"{child.failing:,}", right=True),
            Column("OLDEST READ", lambda child: ago(child.oldest_read_at), optional=True),
            indent="  ",
            always_headings=True,
        )
    for child in found:
        name = _child_name(child)
        if child.unavailable is not None:
            again = _second(child.next_attempt_at)
            lines += _fit(f"{name}: unavailable in this project ({child.unavailable}); next attempt {again}")
        if child.error is not None:
            lines += _fit(f"{name}: {child.error}")
    return lines


def _child_name(child: ChildBacklog) -> str:
    return f"{_words(child.surface)} {CHILD_NAMES.get(child.kind, _words(child.kind))}"


def _runs(runs: Sequence[ListedRun]) -> list[str]:
    return table_of(
        runs,
        Column("RUN", lambda run: str(run.id)),
        Column("COMMAND", lambda run: run.command.removeprefix("lore "), shrinks=True),
        Column("STATUS", lambda run: run.status, state=True),
        Column("WARNINGS", lambda run: f"{run.warnings_count:,}", right=True, optional=True),
        Column("STORED", lambda run: f"{run.stored:,}", right=True, optional=True),
        Column("REQUESTS", lambda run: f"{run.requests:,}", right=True),
        Column("AGE", lambda run: ago(run.started_at).removesuffix(" ago")),
        always_headings=True,
    )


def _words(name: str) -> str:
    """Return the last part of a name in words: `gitlab.merge_requests` is `merge requests`."""
    return name.rpartition(".")[2].replace("_", " ")


def _since(cursor: ReadingPosition) -> str:
    """Return from when on a list is mirrored; empty if it is mirrored from its beginning."""
    return "" if cursor.horizon_at is None else f", since {(instant(cursor.horizon_at) or '')[:10]}"


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


cursors_command = lore_group("cursors", "List, show or reset reading positions.", example="lore cursors list")


@cursors_command.command("list", example="lore cursors list", answer=PositionList)
def list_command(invocation: Invocation) -> Output:
    """List all reading positions."""
    found = list_positions(invocation.app())
    return Output(found, cursor_table(found.items) if found.items else ["No cursors yet."])


@cursors_command.command("show", example="lore cursors show gitlab.issues group/project", answer=ReadingPosition)
@click.argument("surface")
@click.argument("scope")
def show_command(invocation: Invocation, surface: str, scope: str) -> Output:
    """Show one reading position.

    SURFACE is a list such as gitlab.issues. SCOPE is a project path or number, or a Bluesky account.
    """
    found = show_position(invocation.app(), surface, scope)
    return Output(found, fields({name: getattr(found, name) for name in found.__struct_fields__}))


@cursors_command.command("reset", example="lore cursors reset gitlab.issues group/project --yes", answer=ResetPosition)
@click.argument("surface")
@click.argument("scope")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def reset_command(invocation: Invocation, surface: str, scope: str, yes: bool, force: bool) -> Output:  # noqa: FBT001
    """Reset a reading position.

    The next run reads the list from the beginning. Stored rows are kept. The reset is recorded in `lore sync-runs`.
    Asks for confirmation on a terminal; without a terminal --yes is required.
    """
    found = reset_position(
        invocation.app(), surface, scope, force=force, confirm=lambda name: yes or _confirmed(invocation, name)
    )
    name = f"{found.reset.surface} {found.reset.place}"
    return Output(found, [f"Reset {name}; the next run reads it from the beginning."])


def _confirmed(invocation: Invocation, name: str) -> bool:
    """Ask for confirmation if there is a terminal."""
    asked = not invocation.choices.robot and sys.stdin is not None and sys.stdin.isatty()
    return asked and click.confirm(f"Reset {name}?", err=True)
