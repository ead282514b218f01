"""Manage followed Bluesky accounts: `lore accounts`.

Renders accounts as text and as data. Text from the network is cleaned before it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tidelore.app.accounts import (
    MODES,
    STATES,
    Account,
    AccountChanges,
    AccountList,
    FollowedAccounts,
    PausedAccounts,
    ReadingMode,
    RefreshedAccounts,
    RemovedAccounts,
    ResetAccounts,
    ResumedAccounts,
    ShownAccount,
    add_accounts,
    copy_follows,
    import_accounts,
    list_accounts,
    pause_accounts,
    refresh_handles,
    remove_accounts,
    reset_accounts,
    resume_accounts,
    show_account,
)
from tidelore.app.wiring import App
from tidelore.cli.command import Invocation, lore_group
from tidelore.cli.output.render import Output, instant, plural, when
from tidelore.cli.output.table import Column, fields, on_terminal, table_of
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import UserError
from tidelore.core.references import parse_names
from tidelore.core.text import one_line

accounts_command = lore_group(
    "accounts", "Manage followed Bluesky accounts.", example="lore accounts add alice.bsky.social"
)


def _mode_option() -> Callable[[Any], Any]:
    return click.option("--mode", type=click.Choice(MODES), help="How to read them; default: bluesky.mode.")


@accounts_command.command("add", example="lore accounts add alice.bsky.social", answer=FollowedAccounts)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_mode_option()
def add_command(invocation: Invocation, names: tuple[str, ...], mode: ReadingMode | None) -> Output:
    """Follow Bluesky accounts.

    NAME is a handle, a DID or the URL of a profile. The URL of a list or starter pack follows its members. Exits with
    7 if some names could not be resolved; the others are followed.
    """
    return _follow(invocation, lambda app: add_accounts(app, names, mode))


@accounts_command.command("import", example="lore accounts import accounts.txt", answer=FollowedAccounts)
@click.argument("file")
@_mode_option()
def import_command(invocation: Invocation, file: str, mode: ReadingMode | None) -> Output:
    """Follow the Bluesky accounts listed in FILE.

    FILE holds one or more names per line; # starts a comment. Use - for stdin. Exits with 7 if some names could not
    be read or resolved; they are printed with their line, the others are followed.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}", fix="pass a text file with one handle per line") from None
    names = parse_names(text)
    if not names.targets:
        odd = "".join(f"; line {names.lines[word]}: {error.message}" for word, error in names.refused.items())
        raise UserError(f"{file} contains no account names{odd[:1000]}", fix="write one handle per line")
    return _follow(invocation, lambda app: import_accounts(app, names, mode))


@accounts_command.command("follows", example="lore accounts follows alice.bsky.social", answer=FollowedAccounts)
@click.argument("name")
@_mode_option()
def follows_command(invocation: Invocation, name: str, mode: ReadingMode | None) -> Output:
    """Follow the accounts that NAME follows."""
    return _follow(invocation, lambda app: copy_follows(app, name, mode))


@accounts_command.command("list", example="lore accounts list --state paused", answer=AccountList)
@click.option("--state", type=click.Choice(STATES), help="Only accounts in this state.")
def list_command(invocation: Invocation, state: str | None) -> Output:
    """List followed accounts and their state."""
    found = list_accounts(invocation.app(), state)
    lines = _account_table(found.items) if found.items else [_nothing_listed(state, found)]
    if found.states:
        lines.append(", ".join(f"{found.states[name]:,} {name}" for name in STATES if name in found.states))
    if found.configured:
        lines.append(f"Configured, added by the next `lore poll bluesky`: {', '.join(found.configured)}")
    return Output(found, lines)


@accounts_command.command("show", example="lore accounts show alice.bsky.social", answer=ShownAccount)
@click.argument("name")
def show_command(invocation: Invocation, name: str) -> Output:
    """Show one account and its problems."""
    found = show_account(invocation.app(), name)
    return Output(found, _account_lines(found))


@accounts_command.command(
    "pause",
    example="lore accounts pause alice.bsky.social --reason 'too noisy'",
    answer=PausedAccounts,
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Reason, shown by `list` and `show`.")
def pause_command(invocation: Invocation, names: tuple[str, ...], reason: str | None) -> Output:
    """Stop polling accounts until they are resumed.

    Stored posts are kept.
    """
    found = pause_accounts(invocation.app(), names, reason)
    return Output(found, _changed_lines(found, "paused"))


@accounts_command.command("resume", example="lore accounts resume alice.bsky.social", answer=ResumedAccounts)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def resume_command(invocation: Invocation, names: tuple[str, ...]) -> Output:
    """Resume polling paused accounts.

    Polling continues where it stopped.
    """
    found = resume_accounts(invocation.app(), names)
    return Output(found, _changed_lines(found, "resumed"))


@accounts_command.command("remove", example="lore accounts remove alice.bsky.social", answer=RemovedAccounts)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def remove_command(invocation: Invocation, names: tuple[str, ...], force: bool) -> Output:  # noqa: FBT001
    """Stop following accounts.

    Deletes their reading positions and keeps their posts.
    """
    found = remove_accounts(invocation.app(), names, force=force)
    return Output(found, _changed_lines(found, "removed"))


@accounts_command.command("reset", example="lore accounts reset alice.bsky.social", answer=ResetAccounts)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def reset_command(invocation: Invocation, names: tuple[str, ...], force: bool) -> Output:  # noqa: FBT001
    """Reset the reading positions of accounts.

    The next poll reads each one like a new account. Stored posts are kept.
    """
    found = reset_accounts(invocation.app(), names, force=force)
    return Output(found, _changed_lines(found, "reset"))


@accounts_command.command("refresh", example="lore accounts refresh", answer=RefreshedAccounts)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def refresh_command(invocation: Invocation, names: tuple[str, ...]) -> Output:
    """Update the handles of accounts.

    Without NAME, updates all accounts. Accounts are identified by DID, so a renamed account keeps its history.
    """
    found = refresh_handles(invocation.app(), names)
    lines = [f"{one.before} was renamed to {one.after}" for one in found.renamed]
    lines.append(f"{plural(found.accounts, 'account')} checked, {len(found.renamed):,} renamed")
    return Output(found, lines)


def _follow(invocation: Invocation, follow: Callable[[App], FollowedAccounts]) -> Output:
    found = follow(invocation.logged_app())
    lines = [f"Following {one_line(account.handle)} ({account.did})" for account in found.added]
    lines += [f"{one_line(account.handle)}: already followed" for account in found.known]
    lines += [f"{one.place}: {one.error}" for one in found.unresolved]
    lines.append(f"{plural(len(found.added), 'account')} added, {len(found.known):,} already followed")
    return Output(found, lines, found.error)


def _account_table(accounts: list[Account]) -> list[str]:
    now = SystemClock().now_ms()
    return table_of(
        accounts,
        Column("ACCOUNT", lambda one: one.handle, colour="cyan"),
        Column("STATE", lambda one: one.state, state=True),
        Column("MODE", lambda one: one.mode, optional=True),
        Column("POSTS", lambda one: f"{one.posts_fetched_count:,}", right=True),
        Column("LAST POST", lambda one: when(one.last_post_at)),
        Column("NEXT POLL", lambda one: _due(one, now), optional=True),
        *([Column("REASON", _reason, shrinks=True)] if not on_terminal() or any(map(_reason, accounts)) else []),
    )


def _reason(account: Account) -> str:
    return account.reason or account.last_error or ""


def _account_lines(account: ShownAccount) -> list[str]:
    lines = fields({name: getattr(account, name) for name in account.__struct_fields__ if name != "positions"})
    for place in account.positions:
        if place.watermark_at is None and not place.complete and not place.gaps:
            continue
        told = (
            f"read up to {instant(place.watermark_at) or '-'}, {'complete' if place.complete else 'not yet complete'}"
        )
        lines.append(f"{place.surface}: {told}, verified {instant(place.verified_at) or 'never'}")
        lines += [
            f"  open from {instant(gap.top_at) or 'the top'} down to {instant(gap.floor_at) or '-'}"
            for gap in place.gaps
        ]
    return lines


def _changed_lines(found: AccountChanges, word: str) -> list[str]:
    return [f"{item.handle}: {word if item.changed else 'no change'}" for item in found.items]


def _due(account: Account, now: int) -> str:
    at = account.next_poll_at
    if at is None:
        return "-"
    if not on_terminal():
        return instant(at) or "-"
    return "now" if at <= now else f"in {describe_age((at - now) / 1000)}"


def _nothing_listed(state: str | None, found: AccountList) -> str:
    if found.states:
        return f"No account is {state}."
    if found.configured:
        return f"No accounts yet; {plural(len(found.configured), 'account')} in the configuration."
    return "No accounts yet. Add one with `lore accounts add`."
