"""Re-verify a scope in order of creation or by key, to find differences that no cursor can detect.

A stride reads one page, stores every version that differs from ours, and fetches each stored item that should have been
on the page but was not: only a 'gone' response makes a tombstone. The position is durable, so every difference is found
within a bounded time at a fixed cost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from msgspec.structs import replace

from tidelore.core.errors import RemoteError, RemotePermanent
from tidelore.core.model import Item, RemoteId
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Census, Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.log import KeyScheme
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.engine.whole import PageGuard

R = TypeVar("R")

MAX_QUESTIONS = 20
"""The number of missing items one stride fetches; if more are missing, the next one starts at the same place."""


class Scrub(Generic[R]):
    """Verify one scope, one stride at a time. The lister must return items in order of creation."""

    def __init__(self, lister: Lister[R], intake: Intake[R]) -> None:
        self._lister = lister
        self.intake = intake
        self._guard = PageGuard()

    async def stride(self) -> bool:
        """Verify one more page; return whether this completed a cycle over the whole scope."""
        cursor = self.intake.store.load()
        census = cursor.census
        page, census = await self._fetch(census)
        self.intake.seam(Seam.AFTER_FETCH)
        self._look(page, cursor, census)
        met = {*census.met, *(item.version.id for item in page.items), *(entry.key for entry in page.rejected)}
        last = max((item.at for item in page.items), default=census.after)
        if page.next_token is not None and last <= census.after:
            # More than a page was created in one instant, so missing items are known only after that instant.
            census = replace(census, token=page.next_token, met=tuple(met))
            self.intake.take(page, replace(cursor, census=census))
            return False
        upto = None if page.next_token is None else last
        held = self.intake.store.held(census.after, upto)
        missing = {key: locator for key, locator in held.items() if not {key, str(key)} & met}
        merged, gone = await _ask(self._lister, page, missing)
        done = len(missing) <= MAX_QUESTIONS
        if done:
            census = _onward(census, upto, page)
        self.intake.take(merged, replace(cursor, census=census), gone=gone)
        return done and upto is None

    async def _fetch(self, census: Census) -> tuple[Page[R], Census]:
        """Fetch the page that is due. If the server no longer knows its token, restart at the beginning of its span."""
        try:
            return await self._lister.fetch(ListRequest(since=census.after, token=census.token)), census
        except RemoteError as error:
            if census.token is None or error.retryable:
                raise
            census = replace(census, token=None, met=())
            return await self._lister.fetch(ListRequest(since=census.after)), census

    def _look(self, page: Page[R], cursor: Cursor, census: Census) -> None:
        if census.token is None:
            self._guard = PageGuard()
        try:
            self._guard.look(page)
        except RemotePermanent:
            # Continuing at this token would only repeat the error.
            self.intake.store.commit(Batch((), replace(cursor, census=replace(census, token=None, met=()))))
            raise


async def _ask(lister: Lister[R], page: Page[R], missing: Mapping[RemoteId, str]) -> tuple[Page[R], list[RemoteId]]:
    """Fetch the items missing from a page; return the page with those that exist, and the ids of those that are gone.

    An error ends the stride: an item that cannot be fetched is not gone.
    """
    parts, gone = [page], []
    for key in sorted(missing, key=str)[:MAX_QUESTIONS]:
        answer = await lister.fetch_one(missing[key])
        if answer.items or answer.rejected:
            parts.append(answer)
        else:
            gone.append(key)
    items = [item for part in parts for item in part.items]
    rejected = [entry for part in parts for entry in part.rejected]
    return Page(items=items, rejected=rejected, server_at=page.server_at), gone


def _onward(census: Census, upto: int | None, page: Page[R]) -> Census:
    """Return the census after a verified span: at the next span, or at the start of a new cycle."""
    started = census.started_at if census.after else page.server_at
    if upto is None:
        return Census(verified_at=started)
    if page.anchored:
        return Census(after=upto, started_at=started, verified_at=census.verified_at)
    # The next page does not repeat the last instant of this one.
    met = tuple(item.version.id for item in page.items if item.at >= upto)
    return Census(after=upto, started_at=started, verified_at=census.verified_at, token=page.next_token, met=met)


class LogScrub(Generic[R]):
    """Verify a list that is read by key, part after part, one stride at a time."""

    def __init__(self, listers: Mapping[str, Lister[R]], intake: Intake[R], keys: KeyScheme) -> None:
        self._listers = listers
        self._intake = intake
        self._keys = keys
        self._guard = PageGuard()

    async def stride(self) -> bool:
        """Verify one more page; return whether this completed a cycle over the whole list."""
        cursor = self._intake.store.load()
        census, parts = cursor.census, [*self._listers]
        # If the start of the stored range is unknown, verify only stored items: else the whole past would be fetched.
        floor = self._intake.now_ms() if cursor.log is None else cursor.log.floor
        part = census.part if census.part in parts else parts[0]
        held = {
            key: place for key, place in self._intake.store.held(0, None).items() if self._keys.split(key)[0] == part
        }
        after = census.token or first_key(held, floor, self._keys)
        page = await self._listers[part].fetch(ListRequest(token=after or None))
        self._intake.seam(Seam.AFTER_FETCH)
        met = {*(item.version.id for item in page.items), *(entry.key for entry in page.rejected)}
        upto = page.next_token
        missing = {key: place for key, place in held.items() if key not in met and self._is_within(key, after, upto)}
        wanted = replace(page, items=[item for item in page.items if is_wanted(item, held, floor)])
        merged, gone = await _ask(self._listers[part], wanted, missing)
        done = len(missing) <= MAX_QUESTIONS
        if done:
            # Only now: until nothing more is missing, the same page is read again.
            self._guard = PageGuard() if census.token is None else self._guard
            self._guard.look(page)
            census = self._onward(census, part, upto, page.server_at or self._intake.now_ms())
        self._intake.take(merged, replace(cursor, census=census), gone=gone)
        return done and not census.part

    def _is_within(self, key: RemoteId, after: str, upto: str | None) -> bool:
        place = self._keys.split(key)[1]
        return place > after and (upto is None or place <= upto)

    def _onward(self, census: Census, part: str, upto: str | None, server_at: int) -> Census:
        """Return the census after a verified page: at the next page, at the next part, or finished."""
        started = census.started_at if census.part else server_at
        rest = [*self._listers][[*self._listers].index(part) + 1 :]
        if upto is None and not rest:
            return Census(verified_at=started)
        onward = part if upto is not None else rest[0]
        return Census(part=onward, token=upto, started_at=started, verified_at=census.verified_at)


def first_key(held: Collection[RemoteId], floor: int, keys: KeyScheme) -> str:
    """Return the key after which verification starts: before the floor and before every stored item."""
    least = min((keys.split(key)[1] for key in held), default=None)
    start = keys.before(floor) or ""
    # One character less sorts before the key itself.
    return start if least is None else min(start, least[:-1])


def is_wanted(item: Item[R], held: Collection[RemoteId], floor: int) -> bool:
    """Return whether the copy should contain an item: it was written since the floor, or is already stored."""
    return item.at >= floor or item.version.id in held
