"""List and count what is stored: issues, merge requests, posts and what belongs to them.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from tidelore.app.answers import Instant, copy_fields, instant, means, page_token
from tidelore.app.wiring import App
from tidelore.core.references import KINDS, Kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family, count_by_state, count_deleted
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading import posts
from tidelore.store.reading.lists import ListedParent, ListFilter, list_parents
from tidelore.store.reading.posts import PostFilter, PostRow
from tidelore.store.reading.totals import count_discussions, count_events, count_files, count_notes

POST_KINDS = posts.KINDS
_STATES = ("opened", "merged", "closed", "locked")


class ListedItem(Struct, frozen=True, kw_only=True):
    """The fields of an item of both lists."""

    project: Annotated[str, means("the project's path")]
    iid: Annotated[int, means("its number in the project")]
    title: Annotated[str, means("its title")]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    milestone: Annotated[str | None, means("its milestone, or null")]
    labels: Annotated[tuple[str, ...], means("its labels")]
    created_at: Annotated[Instant, means("when it was created")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its address")]
    discussions: Annotated[int, means("discussions with user notes")]
    unresolved: Annotated[int, means("unresolved discussions")]


class ListedIssue(ListedItem, frozen=True, kw_only=True):
    """An issue in a list."""

    status: Annotated[str | None, means("its work item status, or null")]


class ListedMergeRequest(ListedItem, frozen=True, kw_only=True):
    """A merge request in a list."""

    draft: Annotated[bool, means("whether it is a draft")]
    source_branch: Annotated[str | None, means("the branch it comes from")]
    target_branch: Annotated[str | None, means("the branch it goes to")]


class ListedPost(Struct, frozen=True, kw_only=True):
    """A post in a list."""

    uri: Annotated[str, means("its address")]
    kind: Annotated[str, means("post, reply, quote or repost")]
    author: Annotated[str, means("the author's handle, or the DID where no handle is known")]
    author_did: Annotated[str, means("the author's DID")]
    text: Annotated[str, means("its text; for a repost, the text of the original")]
    langs: Annotated[list[str], means("its languages")]
    alt_text: Annotated[list[str], means("what its author says an image or video shows")]
    labels: Annotated[list[str], means("a label that its author gave it")]
    tags: Annotated[list[str], means("a tag it has beside those in its text")]
    reply_to: Annotated[str | None, means("the address of the parent post, or null")]
    quotes: Annotated[str | None, means("the address of the quoted post, or null")]
    repeats: Annotated[str | None, means("the address of the reposted post, or null")]
    created_at: Annotated[Instant, means("creation time given by the author")]
    listed_at: Annotated[Instant, means("its place in the author's feed")]
    edited_at: Annotated[Instant | None, means("when an edit was found, or null")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its page")]


class IssueList(Struct, frozen=True):
    """The answer of `lore list issues`."""

    items: list[ListedIssue]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class MergeRequestList(Struct, frozen=True):
    """The answer of `lore list mrs`."""

    items: list[ListedMergeRequest]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class PostPage(Struct, frozen=True):
    """The answer of `lore list posts`."""

    items: list[ListedPost]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class ListRequest(ListFilter, frozen=True, kw_only=True):
    """The filters of a list; `project` is a path or an unambiguous ending."""

    project: str | None = None


class PostRequest(PostFilter, frozen=True, kw_only=True):
    """The filters of a list of posts."""


def list_issues(app: App, request: ListRequest) -> IssueList:
    """Return one page of issues."""
    rows, total, token = _list(app, ISSUES, request)
    return IssueList([ListedIssue(**_shared(row), status=row.status_name) for row in rows], total, token)


def list_merge_requests(app: App, request: ListRequest) -> MergeRequestList:
    """Return one page of merge requests."""
    rows, total, token = _list(app, MERGE_REQUESTS, request)
    items = [
        ListedMergeRequest(
            **_shared(row), draft=bool(row.draft), source_branch=row.source_branch, target_branch=row.target_branch
        )
        for row in rows
    ]
    return MergeRequestList(items, total, token)


def list_posts(app: App, request: PostRequest) -> PostPage:
    """Return one page of posts."""
    with app.reading() as database:
        found = posts.list_posts(database, request)
    return PostPage([listed_post(row) for row in found.items], found.total, page_token(found.next))


def _list(app: App, family: Family, request: ListRequest) -> tuple[list[ListedParent], int, str | None]:
    with app.reading() as database:
        if request.project:
            request = replace(request, project_id=match_project(database, request.project).id)
        found = list_parents(database, family, request)
    return found.items, found.total, page_token(found.next)


def _shared(row: ListedParent) -> dict[str, Any]:
    return {
        "project": row.project,
        "iid": row.iid,
        "title": row.title,
        "state": row.state,
        "author": row.author_username,
        "milestone": row.milestone_title,
        "labels": row.labels,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "deleted_at": instant(row.deleted_at),
        "web_url": row.web_url,
        **row.talk._asdict(),
    }


def listed_post(row: PostRow) -> ListedPost:
    """Return a stored post as an item of an answer."""
    return ListedPost(
        uri=row.uri,
        kind=row.kind,
        author=row.author,
        author_did=row.author_did,
        text=row.text,
        langs=row.langs.split("\n") if row.langs else [],
        alt_text=row.alt_text.split("\n") if row.alt_text else [],
        labels=row.labels.split("\n") if row.labels else [],
        tags=row.tags.split("\n") if row.tags else [],
        reply_to=row.reply_parent,
        quotes=row.quoted_uri,
        repeats=row.subject_uri,
        created_at=instant(row.created_at),
        listed_at=instant(row.sort_at),
        edited_at=instant(row.edited_at),
        deleted_at=instant(row.deleted_at),
        web_url=row.url,
    )


class ItemCount(Struct, frozen=True):
    """A count of issues or merge requests."""

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


def _count_posts(database: Database) -> PostCount:
    found = posts.count_posts(database)
    return PostCount(sum(found.values()), found, posts.count_deleted_posts(database), posts.count_links(database))


_COUNTERS: dict[str, Callable[[Database, Sequence[Kind], int | None], Any]] = {
    "issues": lambda database, _kinds, project_id: _count_items(database, "issues", project_id),
    "mrs": lambda database, _kinds, project_id: _count_items(database, "merge_requests", project_id),
    "discussions": _count_discussions,
    "notes": _count_notes,
    "events": _count_events,
    "files": lambda database, _kinds, project_id: FileCount(count_files(database, project_id)),
    "posts": lambda database, _kinds, _project_id: _count_posts(database),
}
