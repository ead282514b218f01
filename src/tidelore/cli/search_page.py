"""Renders a page of search results as data: fields, token budget, continuation token.

A page that exceeds its budget is truncated; it always contains one item, whose snippet is shortened first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tidelore.cli.render import instant
from tidelore.core.content import digest
from tidelore.core.errors import UserError
from tidelore.search.query import Query
from tidelore.search.results import ThreadResult

CHARACTERS_PER_TOKEN = 4
_ENVELOPE = 200
"""Characters of a document around its `data`, and a token that grows."""


class Page(Struct, frozen=True):
    """The items of a page, and whether results were cut to fit the budget."""

    items: list[dict[str, Any]]
    truncated: bool = False


def item_of(thread: ThreadResult, fields: frozenset[str]) -> dict[str, Any]:
    """Return the chosen fields of a result."""
    item = {name: getattr(thread, name) for name in ThreadResult.__struct_fields__ if name in fields}
    if "updated_at" in item:
        item["updated_at"] = instant(thread.updated_at)
    return item


def fit(items: Sequence[dict[str, Any]], max_tokens: int | None, beside: dict[str, Any]) -> Page:
    """Return as many items as the budget allows; `beside` holds the other fields of the answer."""
    if max_tokens is None:
        return Page(list(items))
    room = max_tokens * CHARACTERS_PER_TOKEN - _ENVELOPE - _size(beside)
    kept: list[dict[str, Any]] = []
    for item in items:
        room -= _size(item)
        if room < 0 and kept:
            return Page(kept, truncated=True)
        if room < 0:
            kept.append(_without_snippet(item))
            return Page(kept, truncated=True)
        kept.append(item)
    return Page(kept)


def read_fields(text: str | None) -> frozenset[str]:
    """Return the requested fields; all of them by default."""
    known = frozenset(ThreadResult.__struct_fields__)
    if text is None:
        return known
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - known:
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - known)) or 'no field given'}",
            fix="use any of: " + ", ".join(ThreadResult.__struct_fields__),
            fields=text,
        )
    return chosen


def encode_token(place: int, query: Query, written: Sequence[tuple[str, str]]) -> str:
    """Return the continuation token for a position in the results of a query."""
    return f"{place}-{_mark(query, written)}"


def read_token(text: str, query: Query, written: Sequence[tuple[str, str]]) -> int:
    """Return the position of a continuation token; raise UserError for a token of another query."""
    place, _, mark = text.partition("-")
    if not (place.isascii() and place.isdecimal() and len(place) < 10):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    if mark != _mark(query, written):
        raise UserError(
            "--after was created by a different query", fix="repeat the query with the same filters", after=text
        )
    return int(place)


def _mark(query: Query, written: Sequence[tuple[str, str]]) -> str:
    asked = (query.terms, query.excluded, query.names, sorted(set(written)))
    return digest(msgspec.json.encode(asked)).hex()[:8]


def _without_snippet(item: dict[str, Any]) -> dict[str, Any]:
    emptied = {"snippet": "", "highlights": ()}
    return {name: emptied.get(name, value) for name, value in item.items()}


def _size(item: dict[str, Any]) -> int:
    return len(msgspec.json.encode(item, enc_hook=str).decode()) + 1
