"""The walk over an account's own repository, in the order of writing, from the last record key on.

Owns the loop over its collections; what was read and how far is one commit (invariant 1), so a crash repeats one page.
Finds what a feed cannot show: posts that claim an older date. Edits and deletions it does not see; verification does.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.model import PostRecord
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor, LogPosition, forward
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.engine.window import believable
from tidelore.pipeline.record_positions import advance, start_key
from tidelore.sources.bluesky.payloads import split_uri

SAFE_BACKFILL_MS = 86_400_000


class RecordPlan(Struct, frozen=True):
    """How much of each collection one walk reads: so many pages of what is new, and at most as many of the overlap."""

    per_page: int
    max_pages: int


class RecordWalk:
    """One bounded walk over one repository. `behind` says whether it stopped before the end."""

    def __init__(self, listers: Mapping[str, Lister[PostRecord]], intake: Intake[PostRecord], plan: RecordPlan) -> None:
        self._listers = listers
        self._intake = intake
        self._plan = plan
        self.behind = False

    async def run(self) -> Tally:
        """Read what each collection holds behind its position; the cursor says how far an account is held at all."""
        cursor = self._intake.load(SAFE_BACKFILL_MS)
        reach = cursor.log
        if reach is None:
            # A position that could not be believed was replaced by an instant: everything since is read again.
            reach = LogPosition(cursor.watermark.at if cursor.watermark else 0)
        starts = {collection: start_key(reach, collection) for collection in self._listers}
        last = list(self._listers)[-1]
        for collection, lister in self._listers.items():
            known, token = reach.keys.get(collection, ""), starts[collection]
            again = new = 0
            while True:
                page = await lister.fetch(ListRequest(token=token))
                self._intake.seam(Seam.AFTER_FETCH)
                token = following(page, self._plan.per_page)
                inside = token is not None and token < known
                again, new = again + inside, new + (not inside)
                self.behind = self.behind or (token is not None and new >= self._plan.max_pages)
                keys = [split_uri(item.record.uri).rkey for item in page.items]
                # Until the end is reached the next walk, in another process too, goes on exactly here.
                whole = token is None and collection == last and not self.behind
                reach = replace(advance(reach, collection, keys, page.server_at), behind=not whole)
                cursor = _forward(replace(cursor, log=reach), page)
                self._intake.take(page, replace(cursor, complete=cursor.complete or whole))
                if token is None or new >= self._plan.max_pages:
                    break
                if inside and again >= self._plan.max_pages:
                    # More was written in the overlap than a walk may read: the rest of it is left to verification.
                    token = known
        return self._intake.tally


def following(page: Page[PostRecord], per_page: int) -> str | None:
    """Return where the next page begins; a short one is the last, whatever the server adds to it."""
    return page.next_token if len(page.items) + len(page.rejected) >= per_page else None


def _forward(cursor: Cursor, page: Page[PostRecord]) -> Cursor:
    positions = believable((item.position for item in page.items), page.server_at)
    newest = max(positions, key=lambda position: position.at, default=None)
    return replace(cursor, watermark=forward(cursor.watermark, newest))
