"""`lore accounts`: manages followed Bluesky accounts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tidelore.cli.account_text import account_data, account_lines, account_table, following_answer
from tidelore.cli.face import Face, LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, plural
from tidelore.core.errors import NotFound, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tidelore.app.wiring import App
    from tidelore.core.references import FileNames, MemberList
    from tidelore.store.database.port import Database, Transaction
    from tidelore.store.mirror.accounts import AccountRow, Mode
    from tidelore.sync.accounts import FollowResult

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
def command() -> None:
    pass


def mode_option() -> Callable[[Any], Any]:
    return click.option("--mode", type=click.Choice(MODES), help="How to read them; default: bluesky.mode.")


@command.command("add", cls=LoreCommand, example="lore accounts add alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@mode_option()
@click.pass_context
def add_command(ctx: click.Context, names: tuple[str, ...], mode: str | None) -> Answer:
    """Follow Bluesky accounts.

    NAME is a handle, a DID or the URL of a profile. The URL of a list or starter pack follows its members. Exits with
    7 if some names could not be resolved; the others are followed.
    """
    from tidelore.core.references import parse_target

    wanted = list(dict.fromkeys(parse_target(name) for name in names))
    return _follow(face_of(ctx), wanted, "lore accounts add", mode)


@command.command("import", cls=LoreCommand, example="lore accounts import accounts.txt")
@click.argument("file")
@mode_option()
@click.pass_context
def import_command(ctx: click.Context, file: str, mode: str | None) -> Answer:
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
    return _follow(face_of(ctx), names.targets, "lore accounts import", mode, names)


@command.command("follows", cls=LoreCommand, example="lore accounts follows alice.bsky.social")
@click.argument("name")
@mode_option()
@click.pass_context
def follows_command(ctx: click.Context, name: str, mode: str | None) -> Answer:
    """Follow every account that NAME follows on Bluesky."""
    from tidelore.app.bluesky import follow_follows
    from tidelore.core.references import clean_name

    face = face_of(ctx)
    return _told(face, lambda app: follow_follows(app, clean_name(name), cast("Mode | None", mode)))


@command.command("list", cls=LoreCommand, example="lore accounts list --state paused")
@click.option("--state", type=click.Choice(STATES), help="Only accounts in this state.")
@click.pass_context
def list_command(ctx: click.Context, state: str | None) -> Answer:
    """List followed accounts with their state and next poll."""
    from tidelore.store.mirror.accounts import configured_only, count_accounts, list_accounts

    face = face_of(ctx)
    config = face.app().config
    try:
        database = face.open_store()
    except NotFound:
        # Accounts of the configuration can be listed before the first poll makes the copy.
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
    return Answer({"items": items, "total": len(items), "next": None, "states": counts, "configured": waiting}, lines)


@command.command("show", cls=LoreCommand, example="lore accounts show alice.bsky.social")
@click.argument("name")
@click.pass_context
def show_command(ctx: click.Context, name: str) -> Answer:
    """Show the state, reading positions and problems of an account."""
    from tidelore.store.mirror.accounts import account_scope, find_account
    from tidelore.store.mirror.cursors import load_cursor, load_gaps

    face = face_of(ctx)
    database = face.open_store()
    try:
        account = find_account(database, name)
        scopes = [account_scope(account, mode) for mode in ("feed", "records")]
        positions = [(scope.surface, load_cursor(database, scope), load_gaps(database, scope)) for scope in scopes]
    finally:
        database.close()
    data = account_data(account, face.app().config, positions)
    return Answer(data, account_lines(data))


@command.command("pause", cls=LoreCommand, example="lore accounts pause alice.bsky.social --reason 'too noisy'")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Reason, shown by `list` and `show`.")
@click.pass_context
def pause_command(ctx: click.Context, names: tuple[str, ...], reason: str | None) -> Answer:
    """Stop polling accounts until they are resumed.

    Stored posts are kept.
    """
    from tidelore.store.mirror.accounts import pause_account

    return _change(face_of(ctx), names, "paused", lambda tx, row, now: pause_account(tx, row.id, reason, now))


@command.command("resume", cls=LoreCommand, example="lore accounts resume alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.pass_context
def resume_command(ctx: click.Context, names: tuple[str, ...]) -> Answer:
    """Resume polling paused accounts.

    Polling continues where it stopped.
    """
    from tidelore.store.mirror.accounts import resume_account

    return _change(face_of(ctx), names, "resumed", lambda tx, row, now: resume_account(tx, row.id, now))


@command.command("remove", cls=LoreCommand, example="lore accounts remove alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def remove_command(ctx: click.Context, names: tuple[str, ...], force: bool) -> Answer:  # noqa: FBT001
    """Stop following accounts.

    Deletes their reading positions and keeps their posts.
    """
    from tidelore.store.mirror.accounts import remove_account

    return _change_alone(face_of(ctx), names, "removed", lambda tx, row, _now: remove_account(tx, row.id), force=force)


@command.command("reset", cls=LoreCommand, example="lore accounts reset alice.bsky.social")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def reset_command(ctx: click.Context, names: tuple[str, ...], force: bool) -> Answer:  # noqa: FBT001
    """Reset the reading positions of accounts.

    The next poll reads each one like a new account. Stored posts are kept.
    """
    from tidelore.store.mirror.accounts import reset_account

    return _change_alone(face_of(ctx), names, "reset", lambda tx, row, now: reset_account(tx, row.id, now), force=force)


@command.command("refresh", cls=LoreCommand, example="lore accounts refresh")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.pass_context
def refresh_command(ctx: click.Context, names: tuple[str, ...]) -> Answer:
    """Update the handles of accounts.

    Without NAME, updates all accounts. Accounts are identified by DID, so a renamed account keeps its history.
    """
    from tidelore.app.bluesky import refresh_accounts
    from tidelore.app.wiring import run_until_signalled

    face = face_of(ctx)
    rows, changed = run_until_signalled(refresh_accounts(face.app(), names))
    lines = [f"{old} was renamed to {new}" for old, new in changed]
    lines.append(f"{plural(len(rows), 'account')} checked, {len(changed):,} renamed")
    renamed = [{"before": old, "after": new} for old, new in changed]
    return Answer({"accounts": len(rows), "renamed": renamed}, lines)


def _follow(
    face: Face, targets: Sequence[str | MemberList], added_by: str, mode: str | None, file: FileNames | None = None
) -> Answer:
    from tidelore.app.bluesky import follow_accounts

    async def work(app: App) -> FollowResult:
        found = await follow_accounts(app, targets, added_by, cast("Mode | None", mode))
        if file is not None:
            found.unresolved |= file.refused
            found.lines = file.lines
        return found

    return _told(face, work)


def _nothing_listed(state: str | None, every: Sequence[AccountRow], waiting: Sequence[str]) -> str:
    if every:
        return f"No account is {state}."
    if waiting:
        return f"No accounts yet; {plural(len(waiting), 'account')} in the configuration."
    return "No accounts yet. Add one with `lore accounts add`."


def _told(face: Face, work: Callable[[App], Coroutine[Any, Any, FollowResult]]) -> Answer:
    from tidelore.app.wiring import run_until_signalled

    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    return following_answer(run_until_signalled(work(app), "no accounts were added"))


def _change(
    face: Face, names: tuple[str, ...], word: str, change: Callable[[Transaction, AccountRow, int], bool]
) -> Answer:
    database = face.open_store()
    try:
        rows = _find(database, names)
        now = face.app().clock.now_ms()
        with database.transaction() as tx:
            changed = [row for row in rows if change(tx, row, now)]
    finally:
        database.close()
    return _changed(rows, changed, word)


def _change_alone(
    face: Face,
    names: tuple[str, ...],
    word: str,
    change: Callable[[Transaction, AccountRow, int], bool],
    *,
    force: bool,
) -> Answer:
    """Change something that a running poll relies on: under the lock, and recorded as a run."""
    from tidelore.app.wiring import run_until_signalled
    from tidelore.store.work.leases import fence
    from tidelore.store.work.session import Workshop, open_session
    from tidelore.sync.account_poll import LEASE

    app = face.app()
    database = face.open_store()
    try:
        rows = _find(database, names)
        shop = Workshop(database, app.config, app.clock, app.seam, f"lore accounts {word}")
        note = f"accounts {word} by the operator: {', '.join(row.handle for row in rows)}"

        async def work() -> list[AccountRow]:
            async with open_session(shop, force=force, note=note, lease=LEASE) as session:
                with database.transaction() as tx:
                    fence(tx, session.lease)
                    return [row for row in rows if change(tx, row, app.clock.now_ms())]

        changed = run_until_signalled(work(), "nothing was changed")
    finally:
        database.close()
    return _changed(rows, changed, word)


def _find(database: Database, names: tuple[str, ...]) -> list[AccountRow]:
    from tidelore.store.mirror.accounts import find_account

    rows = [find_account(database, name) for name in names]
    return list({row.id: row for row in rows}.values())


def _changed(rows: list[AccountRow], changed: list[AccountRow], word: str) -> Answer:
    ids = {row.id for row in changed}
    items = [{"did": row.did, "handle": row.handle, "changed": row.id in ids} for row in rows]
    lines = [f"{row.handle}: {word if row.id in ids else 'no change'}" for row in rows]
    return Answer({word: [item for item in items if item["changed"]], "items": items}, lines)
