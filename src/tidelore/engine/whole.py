"""Read whole lists (the children of one parent, a list in order of creation) and detect endless ones.

A list of more than one page is read until two passes agree, because pages shift while they are read. Memory use is
bounded: the children of one parent are moved to a temporary file once they are large. `PageGuard` aborts a pass over a
list whose pages form a cycle, that continues without anything new, or that has more children below one parent than the
limit allows; that is an error of this list only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from typing import IO, Generic, Protocol, TypeVar

from msgspec import Struct

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import Item, R_co, Rejected, RemoteId
from tidelore.engine.ports import Lister, ListRequest, Page, Pages, Parent
from tidelore.engine.window import MAX_PASSES

IDLE_PAGES = 20
"""The number of pages in a row that may contain only items of earlier pages."""
MOST_REMEMBERED = 20_000
"""The number of items of earlier pages to remember, so that memory use does not grow with the list."""
REPEATED = "repeated_page"


class PageGuard:
    """Check the pages of one pass. `max_bytes` limits the total size of their payloads."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._tokens: set[str] = set()
        self._met: set[RemoteId] = set()
        self._idle = 0
        self._bytes = 0

    def look(self, page: Page[object]) -> None:
        """Check a page; raise RemotePermanent if the pass would not end or is too large."""
        self._bytes += sum([len(item.payload) for item in page.items])
        self._bytes += sum([len(one.payload) for one in page.rejected])
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            raise RemotePermanent(
                f"the list holds more than {self._max_bytes:,} bytes",
                reason="too_many_children",
                fix="raise sync.max_children_bytes if this is expected",
            )
        token = page.next_token
        if token is None:
            # Most lists end with their first page.
            return
        if len(self._met) > MOST_REMEMBERED:
            self._met.clear()
        before = len(self._met)
        self._met.update(item.version.id for item in page.items)
        self._met.update(one.key for one in page.rejected)
        self._idle = self._idle + 1 if len(self._met) == before else 0
        if token in self._tokens:
            raise RemotePermanent("the pages of the list form a cycle", reason=REPEATED)
        self._tokens.add(token)
        if self._idle >= IDLE_PAGES:
            raise RemotePermanent(f"{IDLE_PAGES} pages in a row contained nothing new", reason="endless_list")


C = TypeVar("C")

CHUNK_BYTES = 4 * 1024 * 1024
"""The number of payload bytes to hold in memory, and to write to the database, at a time."""


class Spool(Collection[Item[C]], Generic[C]):
    """Items in the order received, each id once with its last version.

    Beyond `CHUNK_BYTES` they are moved to an unnamed temporary file, which disappears with the process. `before` are
    items of another list that come first.
    """

    def __init__(self, before: Spool[C] | None = None) -> None:
        self._before = before
        self._held: dict[RemoteId, Item[C]] = {}
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._chunks = 0
        self._chunk_of: dict[RemoteId, int] = {}

    @property
    def held_bytes(self) -> int:
        """How many bytes of payloads are in memory."""
        return self._held_bytes + (0 if self._before is None else self._before.held_bytes)

    def add(self, items: Iterable[Item[C]]) -> None:
        """Append items; an item with a known id replaces the earlier one."""
        for item in items:
            self._held[item.version.id] = item
            self._held_bytes += len(item.payload)
        if self._held_bytes > CHUNK_BYTES:
            self._spill()

    def _spill(self) -> None:
        # Imported here because offline reads import this module but never spill.
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
            # Another iterator may have moved the file position.
            file.seek(place)
            items: list[Item[C]] = pickle.load(file)  # noqa: S301 - written by this process to an unnamed file
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


class HasPayload(Protocol):
    """Something that was read from a server."""

    @property
    def payload(self) -> bytes: ...


P = TypeVar("P", bound=HasPayload)


def in_chunks(items: Iterable[P]) -> Iterator[list[P]]:
    """Split items into chunks of at most `CHUNK_BYTES` of payloads; a larger item gets a chunk to itself."""
    chunk: list[P] = []
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
    """All children of one parent that could be parsed, and those that were rejected; `held_bytes` are in memory."""

    items: Collection[Item[R_co]]
    rejected: Sequence[Rejected]
    pages: int
    server_at: int | None
    held_bytes: int = 0


class ChildReading(Struct, Generic[R_co], frozen=True):
    """All children of one parent, and whether they were read late enough to count as settled."""

    parent: Parent
    children: Children[R_co]
    settled: bool


async def read_pages(
    lister: Pages[C], token: str | None = None, guard: PageGuard | None = None
) -> AsyncIterator[Page[C]]:
    """Read a list once, from a token or its beginning to its end."""
    guard = guard or PageGuard()
    while True:
        page = await lister.fetch(ListRequest(token=token))
        guard.look(page)
        yield page
        token = page.next_token
        if token is None:
            return


async def read_all(lister: Pages[C], max_bytes: int | None = None, before: Spool[C] | None = None) -> Children[C]:
    """Read every page of a list, up to `max_bytes`. A list of several pages is read until two passes agree."""
    agreed: tuple[object, ...] | None = None
    total = 0
    for _ in range(MAX_PASSES):
        items: Spool[C] = Spool(before)
        met: set[str] = set()
        rejected: dict[str, Rejected] = {}
        pages, server_at = 0, None
        async for page in read_pages(lister, guard=PageGuard(max_bytes)):
            pages, total = pages + 1, total + 1
            # Use the clock of the first page: a child added after that response may be missing from this pass.
            server_at = page.server_at if server_at is None else server_at
            items.add(page.items)
            rejected.update((entry.key, entry) for entry in page.rejected)
            if pages > 1 or page.next_token is not None:
                met.update(str(item.version.id) for item in page.items)
        seen = (*sorted(met), *sorted(rejected))
        if pages == 1 or seen == agreed:
            return Children(items, list(rejected.values()), total, server_at)
        agreed = seen
    raise RemoteTransient("the children kept changing while they were read", reason="unstable_list")


async def read_lists(listers: Sequence[Pages[C]], max_bytes: int | None = None) -> Children[C]:
    """Read all lists that make up one kind of children; the result has the earliest clock of them."""
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
        0 if items is None else items.held_bytes,
    )


async def read_by_creation(lister: Lister[C]) -> AsyncIterator[Page[C]]:
    """Read a list in order of creation.

    Each page starts at the instant at which the previous page ended, because deletions shift offsets. A list without
    such a filter is followed by its tokens: a deletion may then hide an item, and callers ask for it alone.
    """
    since, token, guard = 0, None, PageGuard()
    while True:
        page = await lister.fetch(ListRequest(since=since, token=token))
        guard = guard if token is not None else PageGuard()
        guard.look(page)
        yield page
        if page.next_token is None:
            return
        last = max((item.at for item in page.items), default=since)
        since, token = (last, None) if last > since and page.anchored else (since, page.next_token)
