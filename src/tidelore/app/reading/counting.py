"""Count stored issues, merge requests, topics, posts and what belongs to them.

Reads the local database only. Imports little, so that `lore count` starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from tidelore.app.answers import copy_fields, means
from tidelore.app.wiring import App
from tidelore.core.references import KINDS, Kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.counts import (
    count_by_state,
    count_deleted,
    count_discussions,
    count_events,
    count_files,
    count_notes,
)

_STATES = ("opened", "merged", "closed", "locked")


class ItemCount(Struct, frozen=True):
    """A count of issues, merge requests or topics."""

    total: Annotated[int, means("items that are not deleted")]
    by_state: Annotated[dict[str, int], means("number in each state")]
    deleted: Annotated[int, means("number of deleted ones")]


class DiscussionCount(Struct, frozen=True):
    """A count of discussions."""

    total: Annotated[int, means("discussions, those of system notes included")]
    by_type: Annotated[dict[Kind, int], means("how many on issues (issue) and on merge requests (mr)")]


class NoteCounts(Struct, frozen=True, kw_only=True):
    """A count of notes."""

    total: Annotated[int, means("user notes")]
    system: Annotated[int, means("system notes")]
    diff_notes: Annotated[int, means("notes with a position in a diff")]


class NoteCount(NoteCounts, frozen=True, kw_only=True):
    """A count of notes by the kind of item."""

    by_type: Annotated[dict[Kind, NoteCounts], means("the same on issues (issue) and on merge requests (mr)")]


class EventCount(Struct, frozen=True):
    """A count of state, label and milestone events."""

    total: Annotated[int, means("state, label and milestone events")]
    by_kind: Annotated[dict[str, int], means("how many of each")]
    by_type: Annotated[dict[Kind, int], means("how many on issues (issue) and on merge requests (mr)")]


class FileCount(Struct, frozen=True):
    """A count of changed files."""

    total: Annotated[int, means("changed files of merge requests, at their newest heads")]


class PostCount(Struct, frozen=True):
    """A count of posts."""

    total: Annotated[int, means("posts that are not deleted")]
    by_kind: Annotated[dict[str, int], means("how many posts, replies, quotes and reposts")]
    deleted: Annotated[int, means("number of deleted ones")]
    links: Annotated[int, means("how many different links were shared")]


class Counts(Struct, frozen=True, kw_only=True):
    """The answer of `lore count`.

    Besides `project`, only the requested counts are present, and in `by_type` only the requested kinds.
    """

    project: Annotated[str | None, means("the selected project, or null for all")]
    issues: ItemCount | UnsetType = UNSET
    mrs: ItemCount | UnsetType = UNSET
    topics: ItemCount | UnsetType = UNSET
    discussions: DiscussionCount | UnsetType = UNSET
    notes: NoteCount | UnsetType = UNSET
    events: EventCount | UnsetType = UNSET
    files: FileCount | UnsetType = UNSET
    posts: PostCount | UnsetType = UNSET


COUNTED = Counts.__struct_fields__[1:]


def count(app: App, entities: Sequence[str], kind: Kind | None = None, project: str | None = None) -> Counts:
    """Count stored items of these kinds; `kind` narrows what belongs to issues and merge requests."""
    kinds = [kind] if kind else list(KINDS)
    with app.reading() as database:
        chosen = match_project(database, project) if project else None
        project_id = chosen.id if chosen else None
        found = {name: _COUNTERS[name](database, kinds, project_id) for name in entities}
    return Counts(project=chosen.path if chosen else None, **found)


def _count_items(database: Database, table: str, project_id: int | None) -> ItemCount:
    found = count_by_state(database, table, project_id)
    order = [*(state for state in _STATES if state in found), *(state for state in found if state not in _STATES)]
    return ItemCount(
        sum(found.values()), {state: found[state] for state in order}, count_deleted(database, table, project_id)
    )


def _count_discussions(database: Database, kinds: Sequence[Kind], project_id: int | None) -> DiscussionCount:
    found = {kind: count_discussions(database, kind, project_id) for kind in kinds}
    return DiscussionCount(sum(found.values()), found)


def _count_notes(database: Database, kinds: Sequence[Kind], project_id: int | None) -> NoteCount:
    found = {kind: copy_fields(NoteCounts, count_notes(database, kind, project_id)) for kind in kinds}
    sums = {name: sum(getattr(one, name) for one in found.values()) for name in NoteCounts.__struct_fields__}
    return NoteCount(**sums, by_type=found)


def _count_events(database: Database, kinds: Sequence[Kind], project_id: int | None) -> EventCount:
    found = {kind: count_events(database, kind, project_id) for kind in kinds}
    by_kind = {name: sum(counts[name] for counts in found.values()) for name in found[kinds[0]]}
    return EventCount(sum(by_kind.values()), by_kind, {kind: sum(counts.values()) for kind, counts in found.items()})


def _count_files(database: Database, project_id: int | None) -> FileCount:
    return FileCount(count_files(database, project_id))


def _count_posts(database: Database) -> PostCount:
    from tidelore.store.reading import posts

    found = posts.count_posts(database)
    return PostCount(sum(found.values()), found, posts.count_deleted_posts(database), posts.count_links(database))


_COUNTERS: dict[str, Callable[[Database, Sequence[Kind], int | None], Any]] = {
    "issues": lambda database, _kinds, project_id: _count_items(database, "issues", project_id),
    "mrs": lambda database, _kinds, project_id: _count_items(database, "merge_requests", project_id),
    "topics": lambda database, _kinds, project_id: _count_items(database, "topics", project_id),
    "discussions": _count_discussions,
    "notes": _count_notes,
    "events": _count_events,
    "files": lambda database, _kinds, project_id: _count_files(database, project_id),
    "posts": lambda database, _kinds, _project_id: _count_posts(database),
}
