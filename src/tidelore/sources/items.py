"""Parses the raw items of a list page, and finds the next page of a list.

An item that cannot be parsed becomes a `Rejected`, and the other items are still read (invariant 7). A next link to
another origin is never requested: the list continues as if the link were missing, so no token is leaked and no item is
skipped.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.clock import instant_of, parse_instant
from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, Rejected, Version, comment_key
from tidelore.engine.ports import ListRequest, Page, Pages
from tidelore.http.pagination import next_page
from tidelore.http.response import Response, outline, read_marker

_LOG = logging.getLogger(__name__)


class DatedRecord(Protocol):
    """The fields that a record needs to have a version."""

    @property
    def remote_id(self) -> int: ...
    @property
    def updated_at(self) -> int: ...


P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R", bound=DatedRecord)


class ParsedItems(Struct, Generic[R], frozen=True):
    """The items of a page: those that were parsed and those that were rejected."""

    items: list[Item[R]]
    rejected: list[Rejected]


class ItemReader(Generic[P, R]):
    """Parses raw list items into records of one kind; items for which the transform returns None are skipped.

    `locator` is the field by which an item is requested again. By default an item's version is derived from the bytes
    of its payload; with `by_record` from the record, so that a change of a field we do not store is not a new version.
    `unversioned` are optional fields of the record that only some responses contain: they do not change the version.
    """

    def __init__(
        self,
        payload: type[P],
        transform: Callable[[P], R | None],
        *,
        locator: str | None = "iid",
        by_record: bool = False,
        unversioned: tuple[str, ...] = (),
    ) -> None:
        self._decode = msgspec.json.Decoder(payload).decode
        self._transform: Callable[[P], R | None] = transform
        self._locator = locator
        self._by_record = by_record
        self._unversioned: dict[str, None] = dict.fromkeys(unversioned)

    def read(self, raws: list[Raw], at: Callable[[R], int]) -> ParsedItems[R]:
        """Parse the items of a page; `at` returns the timestamp by which the list is ordered."""

        def understand(payload: bytes) -> Item[R] | None:
            record = self._understand(payload)
            if record is None:
                return None
            content = digest(self._versioned(record) if self._by_record else payload)
            version = Version(record.remote_id, record.updated_at, content)
            return Item(version, at(record), payload, record, None if self._by_record else content)

        return ParsedItems(*parse_items(raws, understand, self._locator))

    def version_digest(self, record: R) -> bytes:
        """Return the content of a version that is derived from its record."""
        return digest(self._versioned(record))

    def _versioned(self, record: R) -> bytes:
        if self._unversioned:
            return msgspec.json.encode(replace(cast("Struct", record), **self._unversioned))
        return msgspec.json.encode(record)

    def one(self, payload: bytes) -> R:
        """Return the record of one payload, or raise ValueError or DecodeError."""
        record = self._understand(payload)
        if record is None:
            raise ValueError("passed over")
        return record

    def _understand(self, payload: bytes) -> R | None:
        record = self._transform(self._decode(payload))
        if b"\\u0000" in payload and record is not None:
            refuse_nul(cast("Struct", record))
        return record


class ThreadComments:
    """The comments of one kind in one thread, as children: their keys say which kind they are of."""

    def __init__(self, comments: Pages[CommentRecord]) -> None:
        self._comments = comments

    async def fetch(self, request: ListRequest) -> Page[CommentRecord]:
        page = await self._comments.fetch(request)
        return replace(page, items=[replace(item, version=_keyed(item)) for item in page.items])


def _keyed(item: Item[CommentRecord]) -> Version:
    return item.version._replace(id=comment_key(item.record.kind, item.record.remote_id))


def refuse_nul(record: Struct) -> None:
    """Raise ValueError for text with a NUL: PostgreSQL cannot store it, and one item must not fail its whole page."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "\x00" in text for text in texts):
            raise ValueError(f"{name}: contains a NUL character")


def parse_items(
    raws: Iterable[Raw], understand: Callable[[bytes], Item[T] | None], locator: str | None
) -> tuple[list[Item[T]], list[Rejected]]:
    """Parse the items of a page; those for which `understand` returns None are passed over."""
    items: list[Item[T]] = []
    rejected: list[Rejected] = []
    for raw in raws:
        payload = bytes(raw)
        try:
            item = understand(payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            rejected.append(reject(payload, str(error), locator))
            continue
        if item is not None:
            items.append(item)
    return items, rejected


def reject(payload: bytes, error: str, locator: str | None = "iid") -> Rejected:
    """Return a `Rejected` for a payload that cannot be parsed, identified as well as its contents allow."""
    payload, error = read_marker(payload) or (payload, error)
    try:
        # A tolerant parser, so that an invalid string elsewhere in the payload does not hide its identifiers.
        value = json.loads(outline(payload))
    except (ValueError, RecursionError):
        value = None
    known = value if isinstance(value, dict) else {}
    remote_id, number = known.get("id"), known.get(locator) if locator else None
    named = isinstance(remote_id, int | str) and not isinstance(remote_id, bool) and remote_id != ""
    key = str(remote_id) if named else f"content:{digest(payload).hex()}"
    located = str(number) if isinstance(number, int) and not isinstance(number, bool) else None
    _LOG.warning("could not parse item %s: %s", key, error)
    return Rejected(key, located, payload, error)


def next_address(response: Response, count: int, per_page: int, route: str) -> str | None:
    """Return the URL of the next page of an offset list, from the response headers; None at its end."""
    following = next_page(response.headers, response.url, count, per_page)
    if following is not None and following.foreign:
        warn_foreign(route)
        kept = {name: value for name, value in response.headers.items() if name != "link"}
        following = next_page(kept, response.url, count, per_page)
    return None if following is None else following.url


def warn_foreign(route: str) -> None:
    """Log that a next link to another origin was refused."""
    _LOG.warning("%s: refused a next link to another origin", route)


def instant(field: str, value: str | datetime) -> int:
    """Return a timestamp, as text or as the JSON decoder has parsed it, or raise ValueError naming the field."""
    try:
        return parse_instant(value) if isinstance(value, str) else instant_of(value)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def optional_instant(field: str, value: str | datetime | None) -> int | None:
    """Return a timestamp that may be missing."""
    return None if value is None else instant(field, value)
