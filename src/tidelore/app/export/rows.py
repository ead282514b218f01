"""Read issues, merge requests, notes, topics and posts as rows for files, a page at a time.

Items come in the order of their creation, notes in the order in which they were stored: a sync that runs meanwhile
moves no row from one page to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, copy_fields, means
from tidelore.app.listing import (
    ListedIssue,
    ListedMergeRequest,
    ListedPost,
    ListedTopic,
    ListRequest,
    PostRequest,
    TopicRequest,
    listed_parent,
    listed_post,
    topic_answer,
)
from tidelore.app.wiring import App
from tidelore.core.references import Kind, sign_of
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading import posts, topics
from tidelore.store.reading.lists import (
    ListedNoteRow,
    ListedParent,
    NoteFilter,
    list_notes,
    list_parents,
    read_descriptions,
)

PAGE = 1000


class ExportedIssue(ListedIssue, frozen=True, kw_only=True):
    """An issue in a file."""

    description: Annotated[str | None, means("its Markdown source, or null", untrusted=True)]


class ExportedMergeRequest(ListedMergeRequest, frozen=True, kw_only=True):
    """A merge request in a file."""

    description: Annotated[str | None, means("its Markdown source, or null", untrusted=True)]


class ExportedTopic(ListedTopic, frozen=True, kw_only=True):
    """A topic in a file."""

    body: Annotated[str | None, means("its Markdown source, or null", untrusted=True)]


class ExportedNote(Struct, frozen=True, kw_only=True):
    """A note in a file."""

    project: Annotated[str, means("the project's path")]
    reference: Annotated[str, means("the issue or merge request it belongs to")]
    item: Annotated[str, means("issue or mr")]
    title: Annotated[str, means("the title of that item", untrusted=True)]
    thread: Annotated[str, means("id of its discussion on the server")]
    id: Annotated[int, means("its id on the server, unique for each kind")]
    kind: Annotated[str, means("note, issue_comment, review_comment or review_summary")]
    author: Annotated[str | None, means("who wrote it")]
    association: Annotated[str | None, means("the author's relation to the repository, or null")]
    body: Annotated[str, means("its Markdown source", untrusted=True)]
    path: Annotated[str | None, means("the file it is about, or null", untrusted=True)]
    line: Annotated[int | None, means("the line after the change, or before it, or null")]
    resolvable: Annotated[bool, means("whether it can be resolved")]
    resolved: Annotated[bool | None, means("whether it is; null if unknown")]
    review_state: Annotated[str | None, means("the state of its review, or null")]
    system: Annotated[bool, means("whether the server wrote it")]
    internal: Annotated[bool, means("whether only members of the project see it")]
    created_at: Annotated[Instant, means("when it was written")]
    updated_at: Annotated[Instant, means("when it was last changed")]
    web_url: Annotated[str | None, means("its address, or null")]


class NoteRequest(NoteFilter, frozen=True, kw_only=True):
    """The filters of notes; `project` is a path or an unambiguous ending."""

    project: str | None = None


ExportRequest = ListRequest | NoteRequest | TopicRequest | PostRequest
SHAPES: dict[str, type[Struct]] = {
    "issues": ExportedIssue,
    "mrs": ExportedMergeRequest,
    "notes": ExportedNote,
    "topics": ExportedTopic,
    "posts": ListedPost,
}
"""What can be exported, with the fields of a row."""


def export_rows(app: App, what: str, request: ExportRequest) -> Iterator[Struct]:
    """Yield the rows of one kind; reads a page at a time."""
    with app.reading() as database:
        project = getattr(request, "project", None)
        if project is not None:
            request = replace(request, project_id=match_project(database, project).id)
        yield from _READERS[what](database, request)


def _issues(database: Database, request: Any) -> Iterator[Struct]:
    for row, description in _parents(database, ISSUE, request):
        yield listed_parent(ExportedIssue, row, "issue", description=description)


def _merge_requests(database: Database, request: Any) -> Iterator[Struct]:
    for row, description in _parents(database, MERGE_REQUEST, request):
        yield listed_parent(ExportedMergeRequest, row, "mr", description=description)


def _parents(
    database: Database, parents: ParentKind, request: ListRequest
) -> Iterator[tuple[ListedParent, str | None]]:
    wanted = replace(request, sort="created", ascending=True, limit=PAGE, with_talk=True)
    while True:
        found = list_parents(database, parents, wanted)
        texts = read_descriptions(database, parents, [row.id for row in found.items])
        yield from ((row, texts.get(row.id)) for row in found.items)
        if found.next is None:
            return
        wanted = replace(wanted, after=found.next)


def _topics(database: Database, request: TopicRequest) -> Iterator[Struct]:
    wanted = replace(request, sort="created", ascending=True, limit=PAGE)
    while True:
        found = topics.list_topics(database, wanted)
        yield from (topic_answer(ExportedTopic, row) for row in found.items)
        if found.next is None:
            return
        wanted = replace(wanted, after=found.next)


def _posts(database: Database, request: PostRequest) -> Iterator[Struct]:
    wanted = replace(request, limit=PAGE)
    while True:
        found = posts.list_posts(database, wanted)
        yield from map(listed_post, found.items)
        if found.next is None:
            return
        wanted = replace(wanted, after=found.next)


def _notes(database: Database, request: NoteRequest) -> Iterator[Struct]:
    wanted = replace(request, limit=PAGE)
    while rows := list_notes(database, wanted):
        yield from map(_note, rows)
        wanted = replace(wanted, after=rows[-1].id)


def _note(row: ListedNoteRow) -> ExportedNote:
    kind: Kind = "issue" if row.item == "issue" else "mr"
    reference = f"{row.project}{sign_of(kind, row.references_short)}{row.iid}"
    return copy_fields(ExportedNote, row, reference=reference, item=kind, id=row.remote_id, web_url=row.url)


_READERS: dict[str, Callable[[Database, Any], Iterator[Struct]]] = {
    "issues": _issues,
    "mrs": _merge_requests,
    "notes": _notes,
    "topics": _topics,
    "posts": _posts,
}
