"""Re-verify a scope in order of creation, to find differences that no cursor can detect.

A stride reads one page, stores every version that differs from ours, and fetches each stored item that should have been
on the page but was not: only a 'gone' response makes a tombstone. The position is durable, so every difference is found
within a bounded time at a fixed cost.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec.structs import replace

from tidelore.core.errors import RemoteError, RemotePermanent
from tidelore.core.model import RemoteId
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Census, Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.engine.whole import PageGuard

R = TypeVar("R")

MAX_QUESTIONS = 20
"""The number of missing items one stride fetches; if more are missing, the next one starts at the same place."""


class Scrub(Generic[R]):
    """Verify one scope, one stride at a time. The lister must return items in order of creation."""

    def __init__(self, lister: Lister[R], intake: Intake[R]) -> None:
        self._lister = lister
        self._intake = intake
        self._guard = PageGuard()

    async def stride(self) -> bool:
        """Verify one more page; return whether this completed a cycle over the whole scope."""
        cursor = self._intake.store.load()
        census = cursor.census
        page, census = await self._fetch(census)
        self._intake.seam(Seam.AFTER_FETCH)
        self._look(page, cursor, census)
        met = {*census.met, *(item.version.id for item in page.items), *(entry.key for entry in page.rejected)}
        last = max((item.at for item in page.items), default=census.after)
        if page.next_token is not None and last <= census.after:
            # More than a page was created in one instant, so missing items are known only after that instant.
            census = replace(census, token=page.next_token, met=tuple(met))
            self._intake.take(page, replace(cursor, census=census))
            return False
        upto = None if page.next_token is None else last
        held = self._intake.store.held(census.after, upto)
        missing = {key: locator for key, locator in held.items() if not {key, str(key)} & met}
        answers, gone = await self._ask(missing)
        done = len(missing) <= MAX_QUESTIONS
        if done:
            census = _onward(census, upto, page)
        merged = Page(
            items=[item for part in (page, *answers) for item in part.items],
            rejected=[entry for part in (page, *answers) for entry in part.rejected],
            server_at=page.server_at,
        )
        self._intake.take(merged, replace(cursor, census=census), gone=gone)
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
            self._intake.store.commit(Batch((), replace(cursor, census=replace(census, token=None, met=()))))
            raise

    async def _ask(self, missing: dict[RemoteId, str]) -> tuple[list[Page[R]], list[RemoteId]]:
        """Fetch each missing item; return the responses for those that exist, and the ids of those that are gone."""
        answers: list[Page[R]] = []
        gone: list[RemoteId] = []
        for key in sorted(missing, key=str)[:MAX_QUESTIONS]:
            answer = await self._lister.fetch_one(missing[key])
            if answer.items or answer.rejected:
                answers.append(answer)
            else:
                gone.append(key)
        return answers, gone


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
