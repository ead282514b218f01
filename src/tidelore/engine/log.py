"""Walk a list in the order of writing, resumed by key: the order "log".

The list has parts, each with its own position: the last key read. A key usually encodes the time of writing and sorts
by it. But writers may choose other keys and clocks may be wrong, so only keys that encode a time, and not one in the
server's future, move a position. Items and position are one commit (invariant 1). A finished walk is followed by one
that reads an overlap again, an unfinished walk by one that continues exactly where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.model import RemoteId
from tidelore.engine.cursor import SKEW_MS, Cursor, LogPosition, forward
from tidelore.engine.intake import Intake, Tally, retry_quarantined
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.engine.whole import PageGuard
from tidelore.engine.window import believable

R = TypeVar("R")


class KeyScheme(Struct, frozen=True):
    """The keys of a source: the part and key of an id, the instant in a key, and the last key before an instant."""

    split: Callable[[RemoteId], tuple[str, str]]
    instant: Callable[[str], int | None]
    before: Callable[[int], str | None]


class LogPlan(Struct, frozen=True):
    """How to read a list. One walk reads `max_pages` of each part's new items, and at most as many of its overlap."""

    keys: KeyScheme
    overlap_ms: int
    max_pages: int = 100
    safe_backfill_ms: int = 86_400_000


def start_key(position: LogPosition, part: str, plan: LogPlan) -> str | None:
    """Return the key after which to continue reading a part; None to start at its beginning."""
    last = position.keys.get(part)
    if last is None:
        return plan.keys.before(position.floor)
    written_at = plan.keys.instant(last)
    return last if written_at is None or position.behind else plan.keys.before(written_at - plan.overlap_ms)


def advance_key(
    position: LogPosition, part: str, keys: Iterable[str], server_at: int | None, scheme: KeyScheme
) -> LogPosition:
    """Return the position after a page: its last key that encodes a time which is not in the server's future."""
    known = position.keys.get(part, "")
    limit = None if server_at is None else server_at + SKEW_MS
    believed = [key for key in keys if (at := scheme.instant(key)) is not None and (limit is None or at <= limit)]
    last = max([known, *believed])
    return position if last == known else replace(position, keys={**position.keys, part: last})


class PartProgress(Struct, frozen=True):
    """How far a walk has come in one part. `known` is its last key before the walk; `again` and `new` count pages."""

    token: str | None
    known: str
    again: int = 0
    new: int = 0

    def after(self, next_token: str | None, max_pages: int) -> PartProgress:
        """Return the progress after one more page."""
        inside = next_token is not None and next_token < self.known
        again = self.again + inside
        if inside and again >= max_pages:
            # The overlap holds more items than a walk may read: verification covers the rest.
            next_token = self.known
        return PartProgress(next_token, self.known, again, self.new + (not inside))


class LogWalk(Generic[R]):
    """A bounded walk over the parts of one list. `behind` says whether it stopped before the end."""

    def __init__(self, listers: Mapping[str, Lister[R]], intake: Intake[R], plan: LogPlan) -> None:
        self._listers = listers
        self._intake = intake
        self._plan = plan
        self.behind = False

    async def run(self) -> Tally:
        """Read each part from its position on, then fetch quarantined items again."""
        cursor = self._intake.load(self._plan.safe_backfill_ms)
        position = cursor.log
        if position is None:
            # An invalid position was replaced by an instant: everything since then is read again.
            position = LogPosition(cursor.watermark.at if cursor.watermark else 0)
        # Decided before the first page is stored: from then on the position says that the walk is unfinished.
        starts = {part: start_key(position, part, self._plan) for part in self._listers}
        cursor = replace(cursor, log=position)
        for part, token in starts.items():
            cursor = await self._read(part, PartProgress(token, position.keys.get(part, "")), cursor)
        await retry_quarantined(next(iter(self._listers.values())), self._intake)
        return self._intake.tally

    async def _read(self, part: str, progress: PartProgress, cursor: Cursor) -> Cursor:
        """Read one part to its end, or to the page limit."""
        guard, max_pages, is_last = PageGuard(), self._plan.max_pages, part == [*self._listers][-1]
        while True:
            page = await self._intake.fetch(self._listers[part], ListRequest(token=progress.token))
            guard.look(page)
            progress = progress.after(page.next_token, max_pages)
            self.behind = self.behind or (progress.token is not None and progress.new >= max_pages)
            whole = progress.token is None and is_last and not self.behind
            cursor = self._covering(cursor, part, page, whole=whole)
            self._intake.begin(page, cursor)
            if progress.token is None or progress.new >= max_pages:
                return cursor

    def _covering(self, cursor: Cursor, part: str, page: Page[R], *, whole: bool) -> Cursor:
        """Return the cursor that covers a page. Until the end is reached, the next walk continues exactly here."""
        assert cursor.log is not None
        scheme = self._plan.keys
        keys = [scheme.split(item.version.id)[1] for item in page.items]
        position = advance_key(cursor.log, part, keys, page.server_at, scheme)
        positions = believable((item.position for item in page.items), page.server_at)
        newest = max(positions, key=lambda position: position.at, default=None)
        return replace(
            cursor,
            watermark=forward(cursor.watermark, newest),
            log=replace(position, behind=not whole),
            complete=cursor.complete or whole,
        )
