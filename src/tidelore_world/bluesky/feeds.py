"""The author feed: which items one page shows, and the cursor that leads further into the past.

Owns paging, filters and the early end. Refuses to render. Invariant: a page is cut from the index first and
thinned afterwards: hidden or vanished posts make short, even empty pages, and the cursor still leads on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelore_world.bluesky import values
from tidelore_world.bluesky.cursors import read_cursor, write_cursor
from tidelore_world.bluesky.records import REPOST, Account, Record
from tidelore_world.bluesky.settings import BlueskySettings

Filter = Callable[[Record], bool]


def _no_replies(record: Record) -> bool:
    return record.collection == REPOST or "reply" not in record.value


def _media(record: Record) -> bool:
    return record.collection != REPOST and values.has_media(record.value)


def _nothing(_record: Record) -> bool:
    return False


def _everything(_record: Record) -> bool:
    return True


def filter_named(name: str) -> Filter | None:
    """The filter of this name; None when there is none. No post here has a video."""
    known: dict[str, Filter] = {
        "posts_with_replies": _everything,
        "posts_no_replies": _no_replies,
        "posts_with_media": _media,
        "posts_and_author_threads": _everything,
        "posts_with_video": _nothing,
    }
    return known.get(name)


@dataclass(frozen=True, slots=True)
class Page:
    """The items of one page, newest first, and the cursor behind them."""

    items: tuple[Record, ...]
    cursor: str | None


def cut_page(account: Account, settings: BlueskySettings, keep: Filter, limit: int, cursor: str | None) -> Page:
    """Cut a page from the feed; ValueError when the cursor is not one of this server's.

    The cursor is missing only behind an empty page, as on the real service, or where the feed ends early.
    """
    feed, form = account.feed, settings.cursor_format
    size = len(feed.places)
    index = size if cursor is None else read_cursor(form, cursor, feed.places)
    depth = settings.feed_depth.get(account.did)
    floor = 0 if depth is None else max(0, size - depth)
    items: list[Record] = []
    while index > floor and len(items) < limit:
        index -= 1
        record = feed.at(index)
        if keep(record):
            items.append(record)
    cut_short = depth is not None and index <= floor
    if not items or cut_short:
        return Page(tuple(items), None)
    return Page(tuple(items), write_cursor(form, items[-1].place))


def drop_torn_threads(items: tuple[Record, ...]) -> tuple[Record, ...]:
    """What `posts_and_author_threads` keeps: a reply only if all of its thread above it is on this page."""
    shown = {record.uri: record for record in items if record.collection != REPOST}

    def whole(record: Record) -> bool:
        reply = record.value.get("reply")
        if reply is None:
            return True
        parent = shown.get(reply["parent"]["uri"])
        return parent is not None and parent.did == record.did and whole(parent)

    return tuple(record for record in items if record.collection == REPOST or whole(record))
