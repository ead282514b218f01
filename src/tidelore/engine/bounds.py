"""Bounds on a hostile or broken server. Owns when a pass over a list is given up instead of being read for ever.

A list ends when the server says so. One whose pages lead back to each other, that goes on without bringing anything, or
that holds more below one parent than we are willing to keep, is an error of that list and of nothing else.
"""

from __future__ import annotations

from tidelore.core.errors import RemotePermanent
from tidelore.core.model import RemoteId
from tidelore.engine.ports import Page

IDLE_PAGES = 20
"""How many pages in a row may bring nothing that was not on an earlier page."""
MOST_REMEMBERED = 20_000
"""How many items of earlier pages are remembered, so that the memory of a walk does not grow with its list."""
REPEATED = "repeated_page"


class PageGuard:
    """Watches the pages of one pass. `max_bytes` bounds the payloads of all of them together."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._tokens: set[str] = set()
        self._met: set[RemoteId] = set()
        self._idle = 0
        self._bytes = 0

    def look(self, page: Page[object]) -> None:
        """Take a page into account; raise RemotePermanent when the pass would not end or holds too much."""
        self._bytes += sum(len(item.payload) for item in page.items) + sum(len(one.payload) for one in page.rejected)
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            raise RemotePermanent(
                f"the list holds more than {self._max_bytes:,} bytes",
                reason="too_many_children",
                fix="raise sync.max_children_bytes if this is expected",
            )
        if len(self._met) > MOST_REMEMBERED:
            self._met.clear()
        before = len(self._met)
        self._met.update(item.version.id for item in page.items)
        self._met.update(one.key for one in page.rejected)
        self._idle = self._idle + 1 if len(self._met) == before else 0
        token = page.next_token
        if token is None:
            return
        if token in self._tokens:
            raise RemotePermanent("the pages of the list lead back to each other", reason=REPEATED)
        self._tokens.add(token)
        if self._idle >= IDLE_PAGES:
            raise RemotePermanent(f"{IDLE_PAGES} pages in a row brought nothing new", reason="endless_list")
