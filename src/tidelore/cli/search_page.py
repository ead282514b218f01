"""A page of search results for programs. Owns the fields of an item, the budget and the continuation token. Pure.

A page that does not fit its budget ends early and says so; it always holds one item, whose snippet gives way first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tidelore.cli.render import instant
from tidelore.content import digest
from tidelore.errors import UserError
from tidelore.search.query import Query
from tidelore.search.results import ThreadResult

CHARACTERS_PER_TOKEN = 4
_ENVELOPE = 200
"""Characters of a document around its `data`, and a token that grows."""


class Page(Struct, frozen=True):
    """What is printed, and whether something that was found is not because it did not fit."""

    items: list[dict[str, Any]]
    truncated: bool = False


def item_of(thread: ThreadResult, fields: frozenset[str]) -> dict[str, Any]:
    """Return the chosen fields of a result."""
    item = {name: getattr(thread, name) for name in ThreadResult.__struct_fields__ if name in fields}
    if "updated_at" in item:
        item["updated_at"] = instant(thread.updated_at)
    return item


def fit(items: Sequence[dict[str, Any]], max_tokens: int | None, beside: dict[str, Any]) -> Page:
    """Return as many items as the budget allows, in order, `beside` the other fields of the data."""
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
    """Return the fields that were asked for; all of them when none was named."""
    known = frozenset(ThreadResult.__struct_fields__)
    if text is None:
        return known
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - known:
        raise UserError(
            f"--fields names no field: {', '.join(sorted(chosen - known)) or 'nothing'}",
            fix="the fields are: " + ", ".join(ThreadResult.__struct_fields__),
            fields=text,
        )
    return chosen


def encode_token(place: int, query: Query, written: Sequence[tuple[str, str]]) -> str:
    """Return the token of a place in the results of one query."""
    return f"{place}-{_mark(query, written)}"


def read_token(text: str, query: Query, written: Sequence[tuple[str, str]]) -> int:
    """Return the place a token means; one of another query is refused."""
    place, _, mark = text.partition("-")
    if not (place.isascii() and place.isdecimal() and len(place) < 10):
        raise UserError(f"--after {text!r} is no token", fix="use `data.next` of the page before", after=text)
    if mark != _mark(query, written):
        raise UserError(
            "--after belongs to another query", fix="repeat the query and its filters as they were", after=text
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
