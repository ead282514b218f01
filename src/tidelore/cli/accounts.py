"""Manage followed Bluesky accounts: `lore accounts`.

Renders accounts as text and as data. Text from the network is cleaned before it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, instant, plural, when
from tidelore.cli.output.table import Column, fields, on_terminal, table
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import NotFound, PartialSuccess, TideloreError, UserError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from tidelore.core.config import Config
    from tidelore.engine.cursor import Cursor, Gap
    from tidelore.store.mirror.accounts import AccountRow
    from tidelore.sync.accounts import FollowResult

    Standing = tuple[str, Cursor, Sequence[Gap]]
    from collections.abc import Callable, Coroutine

    from tidelore.app.wiring import App
    from tidelore.core.references import FileNames, MemberList
    from tidelore.store.database.port import Database, Transaction
    from tidelore.store.mirror.accounts import Mode


def account_data(row: AccountRow, config: Config, positions: Sequence[Standing] | None = None) -> dict[str, Any]:
    """Return an account as data, with its reading positions if given."""
    data: dict[str, Any] = {
        "did": row.did,
        "handle": row.handle,
        "display_name": row.display_name,
        "state": row.state,
        "reason": row.reason,
        "mode": row.mode or config.bluesky.mode,
        "pds_url": row.pds_url,
        "added_by": row.added_by,
        "next_poll_at": None if row.state == "paused" else instant(row.next_poll_at),
        "interval_seconds": row.interval_seconds,
        "last_post_at": instant(row.last_post_at),
        "last_polled_at": instant(row.last_polled_at),
        "posts_fetched_count": row.posts_fetched_count,
        "failures": row.failures,
        "last_error": row.last_error,
        "created_at": instant(row.created_at),
    }
    if positions is not None:
        data["positions"] = [_position(*standing) for standing in positions]
    return data


def account_table(rows: Sequence[AccountRow], config: Config) -> list[str]:
    """Return a table of accounts."""
    now = SystemClock().now_ms()
    cells = [
        [
            row.handle,
            row.state,
            row.mode or config.bluesky.mode,
            f"{row.posts_fetched_count:,}",
            when(row.last_post_at),
            _due(row, now),
            row.reason or row.last_error or "",
        ]
        for row in rows
    ]
    columns = [
        Column("ACCOUNT", colour="cyan"),
        Column("STATE", state=True),
        Column("MODE"),
        Column("POSTS", right=True),
        Column("LAST POST"),
        Column("NEXT POLL"),
        Column("REASON", shrinks=True),
    ]
    return table(columns, cells)


def account_lines(data: dict[str, Any]) -> list[str]:
    """Return one account as text."""
    plain = {name: value for name, value in data.items() if name != "positions"}
    lines = fields(plain)
    for place in data["positions"]:
        if place["watermark_at"] is None and not place["complete"] and not place["gaps"]:
            continue
        told = f"read up to {place['watermark_at'] or '-'}, {'complete' if place['complete'] else 'not yet complete'}"
        lines.append(f"{place['surface']}: {told}, verified {place['verified_at'] or 'never'}")
        lines += [f"  open from {gap['top_at'] or 'the top'} down to {gap['floor_at'] or '-'}" for gap in place["gaps"]]
    return lines


def following_answer(found: FollowResult) -> Output:
    """Return the result of following accounts; names that could not be resolved are an error."""
    lines = [f"Following {one_line(account.handle)} ({account.did})" for account in found.created]
    lines += [f"{one_line(account.handle)}: already followed" for account in found.known]
    lines += [f"{_where(found, name)}: {error.message}" for name, error in _by_line(found)]
    lines.append(f"{plural(len(found.created), 'account')} added, {len(found.known):,} already followed")
    data = {
        "added": [{"did": one.did, "handle": one.handle} for one in found.created],
        "known": [{"did": one.did, "handle": one.handle} for one in found.known],
        "unresolved": [
            {"account": name, "line": found.lines.get(name), "code": error.code, "error": error.message}
            for name, error in _by_line(found)
        ],
    }
    return Output(data, lines, _judge(found))


def _judge(found: FollowResult) -> PartialSuccess | NotFound | None:
    if not found.unresolved:
        return None
    names = ", ".join(_where(found, name) for name, _ in _by_line(found))
    fix = "check the spelling; if a handle was changed, use the DID"
    if not found.created and not found.known:
        return NotFound(f"could not add {names}", fix=fix, accounts=list(found.unresolved))
    return PartialSuccess(f"could not add {names}; the others are followed", fix=fix, accounts=list(found.unresolved))


def _by_line(found: FollowResult) -> list[tuple[str, TideloreError]]:
    """Return the names that could not be resolved, in the order of the file."""
    return sorted(found.unresolved.items(), key=lambda entry: found.lines.get(entry[0], 0))


def _where(found: FollowResult, name: str) -> str:
    """Return a name that could not be resolved, with its line number if it comes from a file."""
    line = found.lines.get(name)
    return one_line(name) if line is None else f"line {line}: {one_line(name)}"


def _due(row: AccountRow, now: int) -> str:
    if row.state == "paused":
        return "-"
    if not on_terminal():
        return instant(row.next_poll_at) or "-"
    return "now" if row.next_poll_at <= now else f"in {describe_age((row.next_poll_at - now) / 1000)}"


def _position(surface: str, cursor: Cursor, gaps: Sequence[Gap]) -> dict[str, Any]:
    return {
        "surface": surface,
        "watermark_at": instant(cursor.watermark.at if cursor.watermark else None),
        "complete": cursor.complete,
        "held_since": instant(cursor.window.since if cursor.window else None),
        "verified_at": instant(cursor.census.verified_at),
        "gaps": [{"top_at": instant(gap.top.at if gap.top else None), "floor_at": instant(gap.floor)} for gap in gaps],
    }


STATES = ("new", "established", "unavailable", "paused")
MODES = ("feed", "records")


@click.group(
    "accounts",
    cls=LoreGroup,
    help="Manage followed Bluesky accounts.",
    no_args_is_help=True,
    params=global_options(),
    example="lore accounts add alice.bsky.social",
)
def accounts_command() -> None:
    pass


def mode_option() -> Callable[[Any], Any]:
    return click.option("--mode", type=click.Choice(MODES), help="How to read them; default: bluesky.mode.")


@accounts_command.command("add", cls=LoreCommand, example="lore accounts add alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@mode_option()
@click.pass_context
def add_command(ctx: click.Context, names: tuple[str, ...], mode: str | None) -> Output:
    """Follow Bluesky accounts.

    NAME is a handle, a DID or the URL of a profile. The URL of a list or starter pack follows its members. Exits with
    7 if some names could not be resolved; the others are followed.
    """
    from tidelore.core.references import parse_target

    wanted = list(dict.fromkeys(parse_target(name) for name in names))
    return _follow(invocation_of(ctx), wanted, "lore accounts add", mode)


@accounts_command.command("import", cls=LoreCommand, example="lore accounts import accounts.txt")
@click.argument("file")
@mode_option()
@click.pass_context
def import_command(ctx: click.Context, file: str, mode: str | None) -> Output:
    """Follow the Bluesky accounts listed in FILE.

    FILE holds one or more names per line; # starts a comment. Use - for stdin. Exits with 7 if some names could not
    be read or resolved; they are printed with their line, the others are followed.
    """
    from tidelore.core.references import parse_names

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}", fix="pass a text file with one handle per line") from None
    names = parse_names(text)
    if not names.targets:
        odd = "".join(f"; line {names.lines[word]}: {error.message}" for word, error in names.refused.items())
        raise UserError(f"{file} contains no account names{odd[:1000]}", fix="write one handle per line")
    return _follow(invocation_of(ctx), names.targets, "lore accounts import", mode, names)


@accounts_command.command("follows", cls=LoreCommand, example="lore accounts follows alice.bsky.social")
@click.argument("name")
@mode_option()
@click.pass_context
def follows_command(ctx: click.Context, name: str, mode: str | None) -> Output:
    """Follow every account that NAME follows on Bluesky."""
    from tidelore.app.bluesky import follow_follows
    from tidelore.core.references import clean_name

    invocation = invocation_of(ctx)
    return _told(invocation, lambda app: follow_follows(app, clean_name(name), cast("Mode | None", mode)))


@accounts_command.command("list", cls=LoreCommand, example="lore accounts list --state paused")
@click.option("--state", type=click.Choice(STATES), help="Only accounts in this state.")
@click.pass_context
def list_command(ctx: click.Context, state: str | None) -> Output:
    """List followed accounts with their state and next poll."""
    from tidelore.store.mirror.accounts import configured_only, count_accounts, list_accounts

    invocation = invocation_of(ctx)
    config = invocation.app().config
    try:
        database = invocation.open_store()
    except NotFound:
        # Configured accounts can be listed before the first poll creates the database.
        if not config.bluesky.accounts:
            raise
        every, counts = [], {}
    else:
        try:
            every, counts = list_accounts(database), count_accounts(database)
        finally:
            database.close()
    waiting = configured_only(config.bluesky.accounts, every)
    rows = [row for row in every if state in (None, row.state)]
    lines = account_table(rows, config) if rows else [_nothing_listed(state, every, waiting)]
    if counts:
        lines.append(", ".join(f"{counts[name]:,} {name}" for name in STATES if name in counts))
    if waiting:
        lines.append(f"Configured, added by the next `lore poll bluesky`: {', '.join(waiting)}")
    items = [account_data(row, config) for row in rows]
    return Output({"items": items, "total": len(items), "next": None, "states": counts, "configured": waiting}, lines)


@accounts_command.command("show", cls=LoreCommand, example="lore accounts show alice.bsky.social")
@click.argument("name")
@click.pass_context
def show_command(ctx: click.Context, name: str) -> Output:
    """Show the state, reading positions and problems of an account."""
    from tidelore.store.mirror.accounts import account_scope, find_account
    from tidelore.store.mirror.cursors import load_cursor, load_gaps

    invocation = invocation_of(ctx)
    database = invocation.open_store()
    try:
        account = find_account(database, name)
        scopes = [account_scope(account, mode) for mode in ("feed", "records")]
        positions = [(scope.surface, load_cursor(database, scope), load_gaps(database, scope)) for scope in scopes]
    finally:
        database.close()
    data = account_data(account, invocation.app().config, positions)
    return Output(data, account_lines(data))


@accounts_command.command(
    "pause", cls=LoreCommand, example="lore accounts pause alice.bsky.social --reason 'too noisy'"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Reason, shown by `list` and `show`.")
@click.pass_context
def pause_command(ctx: click.Context, names: tuple[str, ...], reason: str | None) -> Output:
    """Stop polling accounts until they are resumed.

    Stored posts are kept.
    """
    from tidelore.store.mirror.accounts import pause_account

    return _change(invocation_of(ctx), names, "paused", lambda tx, row, now: pause_account(tx, row.id, reason, now))


@accounts_command.command("resume", cls=LoreCommand, example="lore accounts resume alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.pass_context
def resume_command(ctx: click.Context, names: tuple[str, ...]) -> Output:
    """Resume polling paused accounts.

    Polling continues where it stopped.
    """
    from tidelore.store.mirror.accounts import resume_account

    return _change(invocation_of(ctx), names, "resumed", lambda tx, row, now: resume_account(tx, row.id, now))


@accounts_command.command("remove", cls=LoreCommand, example="lore accounts remove alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def remove_command(ctx: click.Context, names: tuple[str, ...], force: bool) -> Output:  # noqa: FBT001
    """Stop following accounts.

    Deletes their reading positions and keeps their posts.
    """
    from tidelore.store.mirror.accounts import remove_account

    return _change_alone(
        invocation_of(ctx), names, "removed", lambda tx, row, _now: remove_account(tx, row.id), force=force
    )


@accounts_command.command("reset", cls=LoreCommand, example="lore accounts reset alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def reset_command(ctx: click.Context, names: tuple[str, ...], force: bool) -> Output:  # noqa: FBT001
    """Reset the reading positions of accounts.

    The next poll reads each one like a new account. Stored posts are kept.
    """
    from tidelore.store.mirror.accounts import reset_account

    return _change_alone(
        invocation_of(ctx), names, "reset", lambda tx, row, now: reset_account(tx, row.id, now), force=force
    )


@accounts_command.command("refresh", cls=LoreCommand, example="lore accounts refresh")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.pass_context
def refresh_command(ctx: click.Context, names: tuple[str, ...]) -> Output:
    """Update the handles of accounts.

    Without NAME, updates all accounts. Accounts are identified by DID, so a renamed account keeps its history.
    """
    from tidelore.app.bluesky import refresh_accounts
    from tidelore.app.wiring import run_until_signalled

    invocation = invocation_of(ctx)
    rows, changed = run_until_signalled(refresh_accounts(invocation.app(), names))
    lines = [f"{old} was renamed to {new}" for old, new in changed]
    lines.append(f"{plural(len(rows), 'account')} checked, {len(changed):,} renamed")
    renamed = [{"before": old, "after": new} for old, new in changed]
    return Output({"accounts": len(rows), "renamed": renamed}, lines)


def _follow(
    invocation: Invocation,
    targets: Sequence[str | MemberList],
    added_by: str,
    mode: str | None,
    file: FileNames | None = None,
) -> Output:
    from tidelore.app.bluesky import follow_accounts

    async def work(app: App) -> FollowResult:
        found = await follow_accounts(app, targets, added_by, cast("Mode | None", mode))
        if file is not None:
            found.unresolved |= file.refused
            found.lines = file.lines
        return found

    return _told(invocation, work)


def _nothing_listed(state: str | None, every: Sequence[AccountRow], waiting: Sequence[str]) -> str:
    if every:
        return f"No account is {state}."
    if waiting:
        return f"No accounts yet; {plural(len(waiting), 'account')} in the configuration."
    return "No accounts yet. Add one with `lore accounts add`."


def _told(invocation: Invocation, work: Callable[[App], Coroutine[Any, Any, FollowResult]]) -> Output:
    from tidelore.app.wiring import run_until_signalled

    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    return following_answer(run_until_signalled(work(app), "no accounts were added"))


def _change(
    invocation: Invocation, names: tuple[str, ...], word: str, change: Callable[[Transaction, AccountRow, int], bool]
) -> Output:
    database = invocation.open_store()
    try:
        rows = _find(database, names)
        now = invocation.app().clock.now_ms()
        with database.transaction() as tx:
            changed = [row for row in rows if change(tx, row, now)]
    finally:
        database.close()
    return _changed(rows, changed, word)


def _change_alone(
    invocation: Invocation,
    names: tuple[str, ...],
    word: str,
    change: Callable[[Transaction, AccountRow, int], bool],
    *,
    force: bool,
) -> Output:
    """Change accounts under the lock, because a running poll relies on them; the change is recorded as a run."""
    from tidelore.app.wiring import run_until_signalled
    from tidelore.store.work.session import Workshop, open_session
    from tidelore.sync.account_poll import LEASE

    app = invocation.app()
    database = invocation.open_store()
    try:
        rows = _find(database, names)
        shop = Workshop(database, app.config, app.clock, app.seam, f"lore accounts {word}")
        note = f"accounts {word} by the operator: {', '.join(row.handle for row in rows)}"

        async def work() -> list[AccountRow]:
            async with open_session(shop, force=force, note=note, lease=LEASE) as session:
                with session.writing() as tx:
                    return [row for row in rows if change(tx, row, app.clock.now_ms())]

        changed = run_until_signalled(work(), "nothing was changed")
    finally:
        database.close()
    return _changed(rows, changed, word)


def _find(database: Database, names: tuple[str, ...]) -> list[AccountRow]:
    from tidelore.store.mirror.accounts import find_account

    rows = [find_account(database, name) for name in names]
    return list({row.id: row for row in rows}.values())


def _changed(rows: list[AccountRow], changed: list[AccountRow], word: str) -> Output:
    ids = {row.id for row in changed}
    items = [{"did": row.did, "handle": row.handle, "changed": row.id in ids} for row in rows]
    lines = [f"{row.handle}: {word if row.id in ids else 'no change'}" for row in rows]
    return Output({word: [item for item in items if item["changed"]], "items": items}, lines)
