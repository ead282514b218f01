"""Decide what to request next in a list ordered by update time (or by id). Pure functions, no I/O.

Offset pages shift while they are walked: an item edited after page 1 was read moves to the end, and the first item of
page 2 slides into page 1 unseen. So the walk RE-ANCHORS: after each page the next request starts at the page's last
instant, page 1. Only while a page does not leave the window's own instant does the walk follow the server's pages, and
then the window counts as read when two passes over it in a row saw the same versions: an item hidden by a shift in one
pass means that another one left during that pass, which the next pass cannot show again. (Invariants 2 and 3.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.content import blake2b
from tidelore.core.model import Position
from tidelore.engine.cursor import SKEW_MS, Cursor, Window, order_key

MAX_PASSES = 25
ALL_TIME = 2**62


class Order(StrEnum):
    """How a remote list is ordered."""

    UPDATED = "updated"
    ID = "id"


class Step(Struct, frozen=True):
    """The decision after a page. Without `window` the walk is over; `remember` is kept for the next walk."""

    window: Window | None
    watermark: Position | None
    remember: Window | None = None


def begin(cursor: Cursor, order: Order, overlap_ms: int) -> Window:
    """Return the first window of a walk: the one a crash interrupted, or the overlap before the watermark."""
    saved = cursor.window
    if saved is not None and is_open(saved):
        # The next pass also covers items that were written late, just before the interrupted window.
        since = None if saved.since is None else max(min(saved.since, saved.instant - overlap_ms), 0)
        if saved.passes:
            # That pass was due or in progress, so it starts over; the pass before it still counts.
            return Window(saved.instant, since, before=saved.before, passes=1)
        return replace(saved, since=since, before="interrupted")
    start = cursor.horizon if cursor.watermark is None else cursor.watermark.at
    if cursor.watermark is None and not start:
        return Window(instant=ALL_TIME if order is Order.ID else -1, since=None)
    since = max(start - overlap_ms, 0)
    return Window(instant=ALL_TIME if order is Order.ID else since, since=since)


def is_open(window: Window) -> bool:
    """Return whether a stored window was interrupted, rather than kept from one that was read completely."""
    return window.token is not None or window.passes > 0


def believable(positions: Iterable[Position], server_at: int | None) -> list[Position]:
    """Return the positions that may move a watermark: none that are in the future by the server's clock."""
    if server_at is None:
        return list(positions)
    return [position for position in positions if position.at <= server_at + SKEW_MS]


def advance(
    window: Window, positions: Sequence[Position], next_token: str | None, order: Order, margin_ms: int
) -> Step:
    """Decide from one page what to request next and how far the watermark may move."""
    tops = [*positions, window.top] if window.top is not None else list(positions)
    top = max(tops, key=order_key, default=None)
    read = replace(window, pages=window.pages + 1, seen=_chain(window.seen, positions), top=top)
    if not window.pages and top is not None and positions[0].at == top.at:
        # The whole page shares one instant, so requesting from that instant would return the same page again.
        read = replace(read, instant=max(window.instant, top.at))
    left = top is not None and top.at > read.instant
    if next_token is not None and not left:
        return Step(replace(read, token=next_token), _inside(read, positions, order))
    if read.pages > 1 and read.seen != read.before:
        again = Window(read.instant, read.since, before=read.seen, passes=read.passes + 1)
        return Step(again, _inside(read, positions, order))
    kept = Window(read.instant, read.since, before=read.seen) if read.pages > 1 else None
    if next_token is None or top is None:
        return Step(None, top, remember=kept)
    return Step(Window(top.at, max(top.at - margin_ms, 0)), top, remember=kept)


def recall(window: Window, remembered: Window | None) -> Window:
    """Give a window the digest of the last complete pass over the same instant, from an earlier walk."""
    if remembered is None or remembered.instant != window.instant or window.before:
        return window
    return replace(window, before=remembered.before)


def bounded(candidate: Position | None, opened_at: int | None) -> Position | None:
    """Keep a watermark from passing the server's clock at the first response of the walk.

    Items that appear late, at a position the walk has already passed, are then still inside the overlap of the next
    walk.
    """
    if candidate is None or opened_at is None or candidate.at <= opened_at:
        return candidate
    return Position(opened_at, 0)


def lasting(window: Window, opened_at: int | None, overlap_ms: int) -> Window:
    """Drop a window's digest unless its instant is final: while items can still be added, it proves nothing."""
    final = window.instant >= ALL_TIME or (opened_at is not None and window.instant + overlap_ms <= opened_at)
    return window if final else replace(window, before="")


def _inside(window: Window, positions: Sequence[Position], order: Order) -> Position | None:
    """Return how far the watermark may move before the window was read completely."""
    if order is Order.ID:
        return None
    return max((p for p in positions if p.at <= window.instant), key=order_key, default=None)


def _chain(seen: str, positions: Sequence[Position]) -> str:
    text = ";".join(f"{position.at}:{position.id}" for position in positions)
    return blake2b(f"{seen}|{text}".encode(), digest_size=16).hexdigest()
