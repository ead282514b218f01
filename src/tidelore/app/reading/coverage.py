"""Report how complete the copy is: what is stored, failing, never read or unavailable, and what the rest would cost.

Reads the local database only.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.wiring import App
from tidelore.core.config import sync_settings
from tidelore.store.mirror.child_progress import off_switch
from tidelore.store.mirror.projects import list_projects, match_project
from tidelore.store.reading.coverage import ChildCoverage, read_children, read_lists, read_refusals, request_rate

_BATCHED = {"status": 100}
"""Kinds that are read for many parents with one request."""


class CoveredList(Struct, frozen=True):
    """A list of a project."""

    source: Annotated[str, means("the configured host")]
    project: Annotated[str, means("the project's path")]
    list: Annotated[str, means("the list, such as gitlab.issues")]
    stored: Annotated[int, means("number of items in the copy")]
    complete: Annotated[bool, means("whether it was read to its end")]
    read_at: Annotated[Instant | None, means("when it was last read, or null")]
    since: Annotated[
        Instant | None, means("older items, by their last update, are not stored (`mirror_since`); null for none")
    ]


class CoveredChildren(Struct, frozen=True, kw_only=True):
    """A kind of children of the issues or merge requests of a project."""

    source: Annotated[str, means("the configured host")]
    project: Annotated[str, means("the project's path")]
    of: Annotated[str, means("issues or merge_requests")]
    kind: Annotated[str, means("discussions, comments, threads, resource_events, diffs and the like")]
    parents: Annotated[int, means("number of issues or merge requests")]
    current: Annotated[int, means("of these, read for their newest version")]
    outdated: Annotated[int, means("read for an earlier version")]
    never_read: Annotated[int, means("never read")]
    failing: Annotated[int, means("whose last reading failed")]
    unavailable: Annotated[
        str | None, means("why this kind is not read: refused by the server, or switched off; or null")
    ]
    requests: Annotated[int, means("estimated requests for the rest, one page each; 0 if unavailable")]


class Coverage(Struct, frozen=True, kw_only=True):
    """The answer of `lore coverage`."""

    lists: Annotated[list[CoveredList], means("lists of issues, merge requests and topics")]
    children: Annotated[list[CoveredChildren], means("what belongs to them")]
    requests: Annotated[int, means("estimated requests for everything that is missing")]
    seconds: Annotated[
        int | None, means("estimated time for that at the pace of the last runs; null before the first longer run")
    ]


def read_coverage(app: App, project: str | None = None) -> Coverage:
    """Return how complete the copy is, of one project or of all."""
    with app.reading() as database:
        chosen = match_project(database, project) if project else None
        found_lists, found_children = read_lists(database), read_children(database, chosen.id if chosen else None)
        configured = {(one.source, one.path): one.configured for one in list_projects(database)}
        refused = {(one.source, one.project, one.parent_kind, one.kind): one.error for one in read_refusals(database)}
        rate = request_rate(database)
    lists = [
        CoveredList(
            one.source,
            one.project,
            one.surface,
            one.stored,
            bool(one.is_complete),
            instant(one.polled_at),
            instant(one.horizon_at),
        )
        for one in found_lists
        if chosen is None or (one.source, one.project) == (chosen.source, chosen.path)
    ]
    children = []
    for one in found_children:
        settings = sync_settings(app.config, one.source, configured[one.source, one.project])
        off = off_switch(one.kind, settings)
        children.append(_children(one, refused.get(one[:4]) or (None if off is None else f"sync.{off} is false")))
    requests = sum(one.requests for one in children)
    seconds = None if rate is None else round(requests / rate)
    return Coverage(lists=lists, children=children, requests=requests, seconds=seconds)


def _children(found: ChildCoverage, unavailable: str | None) -> CoveredChildren:
    missing = found.outdated + found.never_read
    requests = 0 if unavailable else -(-missing // _BATCHED.get(found.kind, 1))
    return copy_fields(CoveredChildren, found, of=found.parent_kind, unavailable=unavailable, requests=requests)
