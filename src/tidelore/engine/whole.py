"""Lists that are read to their end (the children of one parent, a list in order of creation), and lists that never end.

A list that takes more than one page is read until two passes agree, because pages shift while they are read. Memory
stays flat: what one parent has waits in a temporary file as soon as it is large. `PageGuard` gives up a pass over a
list whose pages lead back to each other, that goes on without anything new, or that holds more below one parent than
we are willing to keep: that is an error of this list only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from typing import IO, Generic, TypeVar

from msgspec import Struct

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import Item, R_co, Rejected, RemoteId
from tidelore.engine.ports import Lister, ListRequest, Page, Pages
from tidelore.engine.window import MAX_PASSES

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


C = TypeVar("C")

CHUNK_BYTES = 4 * 1024 * 1024
"""How many bytes of payloads are held in memory, and written to the database, at a time."""


class Spool(Collection[Item[C]], Generic[C]):
    """Items in the order in which they came, each id once with its last version.

    Beyond `CHUNK_BYTES` they wait in a file without a name, which disappears with the process. `before` are items of
    another list that come first.
    """

    def __init__(self, before: Spool[C] | None = None) -> None:
        self._before = before
        self._held: dict[RemoteId, Item[C]] = {}
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._chunks = 0
        self._chunk_of: dict[RemoteId, int] = {}

    def add(self, items: Iterable[Item[C]]) -> None:
        """Append items; one that came before is replaced."""
        for item in items:
            self._held[item.version.id] = item
            self._held_bytes += len(item.payload)
        if self._held_bytes > CHUNK_BYTES:
            self._spill()

    def _spill(self) -> None:
        # Offline reads import this module, and never get here.
        import pickle
        from tempfile import TemporaryFile

        if self._file is None:
            self._file = TemporaryFile(prefix="tidelore-")  # noqa: SIM115 - closed with the spool
        self._file.seek(0, 2)
        pickle.dump(list(self._held.values()), self._file, pickle.HIGHEST_PROTOCOL)
        self._chunk_of.update(dict.fromkeys(self._held, self._chunks))
        self._chunks += 1
        self._held, self._held_bytes = {}, 0

    def __iter__(self) -> Iterator[Item[C]]:
        if self._before is not None:
            yield from self._before
        if self._file is not None:
            yield from self._spilled(self._file)
        yield from self._held.values()

    def _spilled(self, file: IO[bytes]) -> Iterator[Item[C]]:
        import pickle

        place = 0
        for chunk in range(self._chunks):
            # Another iterator may have moved the file meanwhile.
            file.seek(place)
            items: list[Item[C]] = pickle.load(file)  # noqa: S301 - this process wrote it, and the file has no name
            place = file.tell()
            for item in items:
                if self._chunk_of[item.version.id] == chunk and item.version.id not in self._held:
                    yield item

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._chunk_of.keys() | self._held.keys()) + (0 if self._before is None else len(self._before))

    def __contains__(self, item: object) -> bool:
        return any(item == own for own in self)


def in_chunks(items: Iterable[Item[C]]) -> Iterator[list[Item[C]]]:
    """Group items so that no group but one of a single item has more than `CHUNK_BYTES` of payloads."""
    chunk: list[Item[C]] = []
    size = 0
    for item in items:
        if chunk and size + len(item.payload) > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += len(item.payload)
    if chunk:
        yield chunk


class Children(Struct, Generic[R_co], frozen=True):
    """Everything one parent has now, as far as it could be understood."""

    items: Collection[Item[R_co]]
    rejected: Sequence[Rejected]
    pages: int
    server_at: int | None


async def read_all(lister: Pages[C], max_bytes: int | None = None, before: Spool[C] | None = None) -> Children[C]:
    """Read every page of a list, up to a number of bytes; one of several pages is read until two passes agree."""
    agreed: tuple[object, ...] | None = None
    total = 0
    for _ in range(MAX_PASSES):
        items: Spool[C] = Spool(before)
        met: set[str] = set()
        rejected: dict[str, Rejected] = {}
        pages, token, guard = 0, None, PageGuard(max_bytes)
        server_at: int | None = None
        while True:
            page = await lister.fetch(ListRequest(token=token))
            guard.look(page)
            pages, total = pages + 1, total + 1
            # The first page's clock: a child added after it was answered may be missing from this pass.
            server_at = page.server_at if server_at is None else server_at
            items.add(page.items)
            met.update(str(item.version.id) for item in page.items)
            rejected.update((entry.key, entry) for entry in page.rejected)
            token = page.next_token
            if token is None:
                break
        seen = (*sorted(met), *sorted(rejected))
        if pages == 1 or seen == agreed:
            return Children(items, list(rejected.values()), total, server_at)
        agreed = seen
    raise RemoteTransient("the children kept changing while they were read", reason="unstable_list")


async def read_lists(listers: Sequence[Pages[C]], max_bytes: int | None = None) -> Children[C]:
    """Read all lists that make up one kind of children; the earliest clock of them is the clock of all."""
    items: Spool[C] | None = None
    parts: list[Children[C]] = []
    for lister in listers:
        part = await read_all(lister, max_bytes, items)
        parts.append(part)
        assert isinstance(part.items, Spool)
        items = part.items
    clocks = [part.server_at for part in parts]
    return Children(
        Spool() if items is None else items,
        [entry for part in parts for entry in part.rejected],
        sum(part.pages for part in parts),
        None if None in clocks else min(clock for clock in clocks if clock is not None),
    )


async def read_by_creation(lister: Lister[C]) -> AsyncIterator[Page[C]]:
    """Read a list in order of creation. Each page starts at the instant the one before it ended with: deletions shift
    offsets."""
    since, token, guard = 0, None, PageGuard()
    while True:
        page = await lister.fetch(ListRequest(since=since, token=token))
        guard = guard if token is not None else PageGuard()
        guard.look(page)
        yield page
        if page.next_token is None:
            return
        last = max((item.at for item in page.items), default=since)
        since, token = (last, None) if last > since else (since, page.next_token)
