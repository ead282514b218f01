"""Re-verification: what no cursor can see. Owns one stride over the list in order of creation.

A stride reads one page (more only when a whole page was created in one instant), takes every version that
differs from ours, and asks by itself for each item we hold that should have been on it: only an answer
of 'gone' makes a tombstone. The position is durable, so every difference has a bounded life at a fixed cost.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec.structs import replace

from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Census, Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.model import RemoteId

R = TypeVar("R")

MAX_QUESTIONS = 20
"""How many missing items one stride asks for; if more are missing, the next starts at the same place."""


class Scrub(Generic[R]):
    """Verifies one scope, one stride at a time. The lister's items stand in order of creation."""

    def __init__(self, lister: Lister[R], intake: Intake[R]) -> None:
        self._lister = lister
        self._intake = intake

    async def stride(self) -> bool:
        """Verify the next span; return whether that completed a whole cycle over the scope."""
        cursor = self._intake.shelf.load()
        since = cursor.census.after
        pages: list[Page[R]] = []
        token, upto = None, None
        while True:
            page = await self._lister.fetch(ListRequest(since=since, token=token))
            self._intake.seam(Seam.AFTER_FETCH)
            pages.append(page)
            token = page.next_token
            last = max((item.at for item in page.items), default=since)
            if token is None or last > since:
                upto = last if token is not None else None
                break
        return await self._conclude(pages, cursor, since, upto)

    async def _conclude(self, pages: list[Page[R]], cursor: Cursor, since: int, upto: int | None) -> bool:
        present: set[RemoteId] = {item.version.id for page in pages for item in page.items}
        known = {entry.key for page in pages for entry in page.rejected}
        held = self._intake.shelf.held(since, upto)
        missing = {key: at for key, at in held.items() if key not in present and str(key) not in known}
        gone: list[RemoteId] = []
        for key in sorted(missing, key=str)[:MAX_QUESTIONS]:
            answer = await self._lister.fetch_one(missing[key])
            if answer.items or answer.rejected:
                pages.append(answer)
            else:
                gone.append(key)
        server_at = pages[0].server_at
        census = cursor.census
        if len(missing) <= MAX_QUESTIONS:
            started = census.started_at if census.after else server_at
            census = (
                Census(after=0, started_at=None, verified_at=started)
                if upto is None
                else Census(after=upto, started_at=started, verified_at=census.verified_at)
            )
        merged = Page(
            items=[item for page in pages for item in page.items],
            rejected=[entry for page in pages for entry in page.rejected],
        )
        self._intake.take(merged, replace(cursor, census=census), gone=gone)
        return upto is None and len(missing) <= MAX_QUESTIONS
