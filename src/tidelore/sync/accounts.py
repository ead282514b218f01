"""Follow Bluesky accounts: resolve names to DIDs, store them, and refresh their handles.

A name that cannot be resolved is reported and does not stop the others. No lease is needed: a running poll does not
depend on what changes here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from tidelore.core.concurrency import for_each
from tidelore.core.errors import RemoteError, RemoteNotFound, RemotePermanent, TideloreError
from tidelore.core.references import NO_HANDLE, MemberList
from tidelore.sources.bluesky.client import MOST_PROFILES
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.sources.bluesky.surfaces import Profile
from tidelore.store.mirror.accounts import (
    CONFIGURED,
    AccountRow,
    Mode,
    NewAccount,
    add_accounts,
    configured_only,
    list_accounts,
    rename_account,
)
from tidelore.store.work.session import Workshop


class FollowResult(Struct):
    """The result of following accounts: new ones, those followed already, and names that could not be resolved.

    `lines` maps names to line numbers if they were read from a file.
    """

    created: list[NewAccount] = field(default_factory=list)
    known: list[NewAccount] = field(default_factory=list)
    unresolved: dict[str, TideloreError] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


async def follow_targets(
    shop: Workshop,
    source: BlueskySource,
    targets: Sequence[str | MemberList],
    added_by: str,
    mode: Mode | None = None,
) -> FollowResult:
    """Follow accounts and the members of lists and starter packs; the result contains what could not be found."""
    names = [target for target in targets if isinstance(target, str)]
    found = await follow(shop, source, names, added_by, mode)
    for target in targets:
        if isinstance(target, str):
            continue
        try:
            members = await source.members(target.owner, target.collection, target.rkey)
        except RemotePermanent as error:
            found.unresolved[target.text] = _no_list(target, error)
        else:
            _store(shop, [_new(member, mode) for member in members], f"list:{target.text}", found)
    return found


async def follow(
    shop: Workshop, source: BlueskySource, names: Sequence[str], added_by: str, mode: Mode | None = None
) -> FollowResult:
    """Follow accounts by handle or DID; the result contains the names that could not be resolved."""
    found = FollowResult()

    async def resolve(name: str) -> str | None:
        try:
            return await source.resolve(name)
        except RemotePermanent as error:
            found.unresolved[name] = error
            return None

    resolved = await for_each(names, resolve, shop.config.bluesky.max_concurrent)
    dids = dict.fromkeys(did for did in resolved if did is not None)
    profiles = await source.profiles(list(dids))
    wanted = dict.fromkeys(dids) | {one.did: _new(one, mode) for one in profiles if one.did in dids}
    for did, account in wanted.items():
        if account is None:
            # An account without a visible profile is followed anyway: it may come back.
            try:
                wanted[did] = NewAccount(did, (await source.document(did)).handle or NO_HANDLE, None, mode)
            except RemotePermanent as error:
                found.unresolved[did] = error
    return _store(shop, [account for account in wanted.values() if account is not None], added_by, found)


async def follow_follows(shop: Workshop, source: BlueskySource, name: str, mode: Mode | None) -> FollowResult:
    """Follow all accounts that an account follows."""
    profiles = await source.follows(await source.resolve(name))
    return _store(shop, [_new(profile, mode) for profile in profiles], f"follows:{name}", FollowResult())


async def follow_configured(shop: Workshop, source: BlueskySource) -> dict[str, TideloreError]:
    """Follow configured accounts that are not followed yet; return the names that could not be resolved."""
    configured = shop.config.bluesky.accounts
    if not configured:
        return {}
    troubles: dict[str, TideloreError] = {}
    for name in configured_only(configured, list_accounts(shop.database)):
        # One by one, because each account is stored with the name it was configured by.
        try:
            found = await follow(shop, source, [name], f"{CONFIGURED}{name}")
        except RemoteError as error:
            troubles[name] = error
        else:
            troubles |= found.unresolved
    return troubles


async def refresh(shop: Workshop, source: BlueskySource, accounts: Sequence[AccountRow]) -> list[tuple[str, str]]:
    """Fetch the current handles; return the changed ones as (old, new)."""
    changed: list[tuple[str, str]] = []
    rows = {account.did: account for account in accounts}
    dids = list(rows)
    # Stored part by part, so that a failing request loses little.
    for start in range(0, len(dids), MOST_PROFILES):
        profiles = await source.profiles(dids[start : start + MOST_PROFILES])
        with shop.database.transaction() as tx:
            for profile in profiles:
                if profile.did not in rows or profile.handle == NO_HANDLE:
                    continue
                before, handle = rows[profile.did].handle, profile.handle.lower()
                rename_account(tx, profile.did, handle, shop.clock.now_ms(), display_name=profile.display_name)
                if handle != before:
                    changed.append((before, handle))
    return changed


def _new(profile: Profile, mode: Mode | None) -> NewAccount:
    return NewAccount(profile.did, profile.handle.lower(), profile.display_name, mode)


def _store(shop: Workshop, wanted: Sequence[NewAccount], added_by: str, found: FollowResult) -> FollowResult:
    interval = max(1, int(shop.config.bluesky.interval_minutes * 60))
    with shop.database.transaction() as tx:
        added = add_accounts(tx, wanted, added_by, interval, shop.clock.now_ms())
    by_did = {account.did: account for account in wanted}
    found.created += [by_did[did] for did in added.created]
    found.known += [by_did[did] for did in added.known]
    return found


def _no_list(target: MemberList, error: RemotePermanent) -> RemotePermanent:
    if error.status not in (400, 404):
        return error
    return RemoteNotFound("list or starter pack not found", status=error.status, url=error.url, list=target.text)
