"""Read who changed a file, and which links are shared most.

Reads the local database only.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.wiring import App
from tidelore.store.reading.file_history import (
    FileQuestion,
    FileThread,
    HistoryEntry,
    Rename,
    describe_lineage,
    read_file_history,
)
from tidelore.store.reading.posts import trending

_HOUR_MS = 3_600_000


class FileRename(Struct, frozen=True):
    """A merge request that renamed the file."""

    old_path: Annotated[str, means("a name of the file")]
    new_path: Annotated[str, means("its new name, oldest rename first")]
    reference: Annotated[str, means("the merge request that renames it, such as group/project!12")]
    state: Annotated[str, means("the state of that merge request")]
    at: Annotated[Instant, means("when it was merged, or last updated")]


class FileEdit(Struct, frozen=True):
    """What a merge request does to the file."""

    change: Annotated[str, means("what it does to the file: new, renamed, deleted or modified")]
    old_path: Annotated[str, means("the file's path before")]
    new_path: Annotated[str, means("its path after")]


class FileChange(Struct, frozen=True, kw_only=True):
    """A merge request that changes the file."""

    reference: Annotated[str, means("a merge request that changes the file, such as group/project!12")]
    iid: Annotated[int, means("its number in the project")]
    title: Annotated[str, means("its title")]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    merged_at: Annotated[Instant | None, means("when it was merged, or null")]
    web_url: Annotated[str | None, means("its address")]
    changes: list[FileEdit]


class FileDiscussion(Struct, frozen=True, kw_only=True):
    """A review discussion on a line of the file."""

    reference: Annotated[str, means("the merge request it belongs to")]
    id: Annotated[str, means("id on the server")]
    author: Annotated[str | None, means("who wrote its first note")]
    body: Annotated[str, means("its Markdown source")]
    created_at: Annotated[Instant, means("when it was written")]
    path: Annotated[str, means("the file's path there")]
    line: Annotated[int | None, means("the line after the change, or before it, or null")]
    resolvable: Annotated[bool, means("whether the discussion can be resolved")]
    resolved: Annotated[bool, means("whether it is")]
    notes: Annotated[int, means("number of user notes")]


class FileStory(Struct, frozen=True, kw_only=True):
    """The answer of `lore file-history`."""

    path: Annotated[str, means("the file")]
    project: Annotated[str, means("the project's path")]
    names: Annotated[tuple[str, ...], means("all names of the file, oldest first")]
    names_cut: Annotated[bool, means("whether there are more names than were followed")]
    lineage: Annotated[str, means("the names on one line, with an arrow for each rename")]
    renames: list[FileRename]
    items: list[FileChange]
    total: Annotated[int, means("number of merge requests that changed the file")]
    next: Annotated[None, means("null: raise --limit for more")] = None
    discussions: list[FileDiscussion]
    discussions_total: Annotated[int, means("how many discussions there are in all; 0 without --discussions")]


class FileRequest(Struct, frozen=True, kw_only=True):
    """Which file, in which project, and whether renames are followed and discussions included."""

    path: str
    project: str | None = None
    follow: bool = True
    merged: bool = False
    discussions: bool = False
    limit: int = 20


def file_history(app: App, request: FileRequest) -> FileStory:
    """Return the merge requests that changed a file, newest first."""
    with app.reading() as database:
        question = copy_fields(FileQuestion, request, default=app.config.default_project)
        history = read_file_history(database, question)
    project = history.file.project
    return FileStory(
        path=history.file.path,
        project=project,
        names=history.lineage.names,
        names_cut=history.lineage.cut,
        lineage=describe_lineage(history.lineage),
        renames=[_rename(rename, project) for rename in history.lineage.renames],
        items=[_change(entry, project) for entry in history.entries],
        total=history.total,
        discussions=[_discussion(thread, project) for thread in history.threads],
        discussions_total=history.threads_total,
    )


def _rename(rename: Rename, project: str) -> FileRename:
    reference = f"{project}!{rename.iid}"
    return FileRename(rename.old_path, rename.new_path, reference, rename.state, instant(rename.at))


def _change(entry: HistoryEntry, project: str) -> FileChange:
    edits = [FileEdit(touch.kind, touch.old_path, touch.new_path) for touch in entry.touches]
    return copy_fields(FileChange, entry, reference=entry.reference or f"{project}!{entry.iid}", changes=edits)


def _discussion(thread: FileThread, project: str) -> FileDiscussion:
    flags = {"resolvable": bool(thread.resolvable), "resolved": bool(thread.resolved)}
    return copy_fields(FileDiscussion, thread, reference=f"{project}!{thread.iid}", **flags)


class LinkSharer(Struct, frozen=True):
    """An account that shared a link."""

    handle: Annotated[str | None, means("an account that shared it, first one first, or null if unknown")]
    did: Annotated[str, means("the DID")]
    shared_at: Annotated[Instant, means("when first in the window")]


class SharedLink(Struct, frozen=True, kw_only=True):
    """A link and who shared it."""

    url: Annotated[str, means("the link, normalised")]
    title: Annotated[str | None, means("the title on its card, or null")]
    description: Annotated[str | None, means("the description on its card, or null")]
    thumb: Annotated[str | None, means("the picture on its card, or null")]
    shares: Annotated[int, means("number of accounts that shared it")]
    posts: Annotated[int, means("number of posts")]
    first_shared_at: Annotated[Instant, means("when it was shared first in the window")]
    last_shared_at: Annotated[Instant, means("when it was shared last")]
    sharers: list[LinkSharer]


class TrendingLinks(Struct, frozen=True, kw_only=True):
    """The answer of `lore trending`."""

    since: Annotated[Instant, means("the beginning of the window")]
    items: list[SharedLink]
    total: Annotated[int, means("how many links there are here")]
    next: Annotated[None, means("null")] = None


def trending_links(app: App, hours: float, limit: int = 50, min_shares: int = 1) -> TrendingLinks:
    """Return the links that most accounts shared in the last hours, most shared first."""
    since = max(app.clock.now_ms() - round(hours * _HOUR_MS), 0)
    with app.reading() as database:
        found = trending(database, since, limit, min_shares)
    items = [
        copy_fields(SharedLink, trend, sharers=[copy_fields(LinkSharer, sharer) for sharer in trend.sharers])
        for trend in found
    ]
    return TrendingLinks(since=instant(since), items=items, total=len(items))
