"""Follow Bluesky accounts: resolve names to DIDs, store them, and refresh their handles.

A name that cannot be resolved is reported and does not stop the others. No lease is needed: a running poll does not
depend on what changes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.concurrency import gather
from tidelore.core.config import Config
from tidelore.core.errors import RemoteError, RemoteNotFound, RemotePermanent, TideloreError
from tidelore.core.references import MemberList
from tidelore.sources.bluesky.client import MOST_PROFILES
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import (
    CONFIGURED,
    NO_HANDLE,
    AccountRow,
    Mode,
    NewAccount,
    add_accounts,
    configured_only,
    list_accounts,
    rename_account,
)


class FollowResult(Struct):
    """The result of following accounts: new ones, those followed already, and names that could not be resolved.

    `lines` maps names to line numbers if they were read from a file.
    """

    created: list[NewAccount] = field(default_factory=list)
    known: list[NewAccount] = field(default_factory=list)
    unresolved: dict[str, TideloreError] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


async def follow_targets(
    database: Database,
    source: BlueskySource,
    config: Config,
    clock: Clock,
    targets: Sequence[str | MemberList],
    added_by: str,
    mode: Mode | None = None,
) -> FollowResult:
    """Follow accounts and the members of lists and starter packs; the result contains what could not be found."""
    names = [target for target in targets if isinstance(target, str)]
    found = await follow(database, source, config, clock, names, added_by, mode)
    for target in targets:
        if isinstance(target, str):
            continue
        try:
            members = await source.members(target.owner, target.collection, target.rkey)
        except RemotePermanent as error:
            found.unresolved[target.text] = _no_list(target, error)
            continue
        wanted = [NewAccount(one.did, one.handle.lower(), one.display_name, mode) for one in members]
        _store(database, config, clock, wanted, f"list:{target.text}", found)
    return found


async def follow(
    database: Database,
    source: BlueskySource,
    config: Config,
    clock: Clock,
    names: Sequence[str],
    added_by: str,
    mode: Mode | None = None,
) -> FollowResult:
    """Follow accounts by handle or DID; the result contains the names that could not be resolved."""
    found = FollowResult()
    gate = asyncio.Semaphore(config.bluesky.max_concurrent)

    async def resolve(name: str) -> str | None:
        async with gate:
            try:
                return await source.resolve(name)
            except RemotePermanent as error:
                found.unresolved[name] = error
                return None

    dids = dict.fromkeys(did for did in await gather(resolve(name) for name in names) if did is not None)
    profiles = {profile.did: profile for profile in await source.profiles(list(dids))}
    handles = dict.fromkeys(dids, NO_HANDLE)
    for did in dids.keys() - profiles.keys():
        # An account without a visible profile is followed anyway: it may come back.
        try:
            handles[did] = (await source.document(did)).handle or NO_HANDLE
        except RemotePermanent as error:
            found.unresolved[did] = error
    wanted = [
        NewAccount(did, profiles[did].handle.lower(), profiles[did].display_name, mode)
        if did in profiles
        else NewAccount(did, handles[did], None, mode)
        for did in dids
        if did not in found.unresolved
    ]
    return _store(database, config, clock, wanted, added_by, found)


async def follow_follows(
    database: Database,
    source: BlueskySource,
    config: Config,
    clock: Clock,
    name: str,
    mode: Mode | None = None,
) -> FollowResult:
    """Follow all accounts that an account follows."""
    did = await source.resolve(name)
    wanted = [
        NewAccount(profile.did, profile.handle.lower(), profile.display_name, mode)
        for profile in await source.follows(did)
    ]
    return _store(database, config, clock, wanted, f"follows:{name}", FollowResult())


async def follow_configured(
    database: Database, source: BlueskySource, config: Config, clock: Clock
) -> dict[str, TideloreError]:
    """Follow configured accounts that are not followed yet; return the names that could not be resolved."""
    if not config.bluesky.accounts:
        return {}
    troubles: dict[str, TideloreError] = {}
    for name in configured_only(config.bluesky.accounts, list_accounts(database)):
        # One by one, because each account is stored with the name it was configured by.
        try:
            found = await follow(database, source, config, clock, [name], f"{CONFIGURED}{name}")
        except RemoteError as error:
            troubles[name] = error
        else:
            troubles |= found.unresolved
    return troubles


async def refresh(
    database: Database, source: BlueskySource, clock: Clock, accounts: Sequence[AccountRow]
) -> list[tuple[str, str]]:
    """Fetch the current handles; return the changed ones as (old, new)."""
    changed: list[tuple[str, str]] = []
    rows = {account.did: account for account in accounts}
    for part in _parts(list(rows), MOST_PROFILES):
        profiles = [p for p in await source.profiles(part) if p.did in rows and p.handle != NO_HANDLE]
        with database.transaction() as tx:
            for profile in profiles:
                before, handle = rows[profile.did].handle, profile.handle.lower()
                rename_account(tx, profile.did, handle, clock.now_ms(), display_name=profile.display_name)
                if handle != before:
                    changed.append((before, handle))
    return changed


async def refresh_if_possible(
    database: Database, source: BlueskySource, clock: Clock, accounts: Sequence[AccountRow]
) -> list[tuple[str, str]]:
    """Like `refresh`, but ignore remote errors: outdated handles must not fail a poll."""
    try:
        return await refresh(database, source, clock, accounts)
    except RemoteError:
        return []


def _store(
    database: Database,
    config: Config,
    clock: Clock,
    wanted: Sequence[NewAccount],
    added_by: str,
    found: FollowResult,
) -> FollowResult:
    interval = max(1, int(config.bluesky.interval_minutes * 60))
    with database.transaction() as tx:
        added = add_accounts(tx, wanted, added_by, interval, clock.now_ms())
    by_did = {account.did: account for account in wanted}
    found.created += [by_did[did] for did in added.created]
    found.known += [by_did[did] for did in added.known]
    return found


def _parts(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _no_list(target: MemberList, error: RemotePermanent) -> RemotePermanent:
    if error.status not in (400, 404):
        return error
    return RemoteNotFound("list or starter pack not found", status=error.status, url=error.url, list=target.text)
