"""Save searches under a name, run them again, and tell which results are new since the last time.

A result is new if its thread was not among the first results of the last time. Only those are remembered.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, instant, means
from tidelore.app.searching import SearchPage, SearchQuestion, fit_page, search
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.store.work.saved_searches import (
    SavedRow,
    list_searches,
    note_seen,
    remove_search,
    save_search,
)

REMEMBERED = 100
"""How many results of a saved search are compared with those of the last time."""
_NAME = re.compile(r"[\w.-]{1,60}")
_KEPT = ("text", "mode", "type", "project", "author", "state", "since", "path", "labels")


class SavedSearch(Struct, frozen=True, kw_only=True):
    """A saved search."""

    name: Annotated[str, means("its name")]
    query: Annotated[str, means("the query")]
    filters: Annotated[dict[str, str], means("the filters that were given as options")]
    mode: Annotated[str, means("hybrid, lexical or semantic")]
    created_at: Annotated[Instant, means("when it was first saved")]
    seen_at: Annotated[Instant, means("when its results were last shown")]
    results: Annotated[int, means("number of results that are remembered, at most 100")]


class SavedSearches(Struct, frozen=True):
    """The answer of `lore searches`."""

    items: list[SavedSearch]
    total: Annotated[int, means("number of saved searches")]
    next: Annotated[None, means("null")] = None


class RemovedSearch(Struct, frozen=True):
    """The answer of `lore searches remove`."""

    name: Annotated[str, means("the removed search")]


def save(app: App, name: str, question: SearchQuestion) -> SearchPage:
    """Run a search and save it under a name, in place of an earlier one; return its first page."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"invalid value for --save: {name!r}", fix="use at most 60 letters, digits, dots, hyphens or underscores"
        )
    whole = _run(app, question)
    asked = msgspec.json.encode({key: getattr(question, key) for key in _KEPT})
    with app.store() as database, database.transaction() as tx:
        save_search(tx, name, asked, [item.reference for item in whole.items], app.clock.now_ms())
    return _page(whole, question)


def run_saved(app: App, name: str, question: SearchQuestion, *, only_new: bool = False) -> SearchPage:
    """Run a saved search; its results say whether they are new. `question` has the limits of the page."""
    row = _find(app, name)
    asked = _question(row)
    whole = _run(app, asked)
    items = [replace(item, new=item.reference not in row.seen) for item in whole.items]
    fresh = [item for item in items if item.new]
    with app.store() as database, database.transaction() as tx:
        note_seen(tx, name, [item.reference for item in items], app.clock.now_ms())
    shown = replace(whole, items=fresh, total=len(fresh)) if only_new else replace(whole, items=items)
    return _page(replace(shown, new=len(fresh)), question)


def list_saved(app: App) -> SavedSearches:
    """Return the saved searches by name."""
    with app.reading() as database:
        found = [_saved(row) for row in list_searches(database)]
    return SavedSearches(found, len(found))


def remove_saved(app: App, name: str) -> RemovedSearch:
    """Delete a saved search."""
    _find(app, name)
    with app.store() as database, database.transaction() as tx:
        remove_search(tx, name)
    return RemovedSearch(name)


def _run(app: App, question: SearchQuestion) -> SearchPage:
    return search(app, replace(question, limit=REMEMBERED, after=None, max_tokens=None))


def _page(whole: SearchPage, question: SearchQuestion) -> SearchPage:
    """Return the first page; a saved search has no further pages, so that showing it twice shows the same."""
    page = replace(whole, items=whole.items[: question.limit], next=None)
    return page if question.max_tokens is None else fit_page(page, question.max_tokens, question.fields)


def _find(app: App, name: str) -> SavedRow:
    with app.reading() as database:
        rows = {row.name: row for row in list_searches(database)}
    if name not in rows:
        known = f"the saved searches are {', '.join(rows)}" if rows else "save one with `lore search QUERY --save NAME`"
        raise NotFound(f"no saved search {name!r}", fix=known, name=name)
    return rows[name]


def _question(row: SavedRow) -> SearchQuestion:
    stored = msgspec.json.decode(row.question)
    return SearchQuestion(**{**stored, "labels": tuple(stored["labels"])})


def _saved(row: SavedRow) -> SavedSearch:
    asked = _question(row)
    filters = {key: value for key in _KEPT[2:-1] if (value := getattr(asked, key)) is not None}
    filters |= {"label": ", ".join(asked.labels)} if asked.labels else {}
    return SavedSearch(
        name=row.name,
        query=asked.text,
        filters=filters,
        mode=asked.mode,
        created_at=instant(row.created_at),
        seen_at=instant(row.seen_at),
        results=len(row.seen),
    )
