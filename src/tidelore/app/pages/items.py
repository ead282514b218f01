"""One issue or merge request as a page shows it: its conversation with events and diff hunks; and its refresh.

Also finds the item that a reference names, whatever its kind. Reads the local database only, except the refresh, which
asks the item's host.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, means
from tidelore.app.reports import RefreshedItems, refreshed_items
from tidelore.app.showing import ShownIssue, ShownMergeRequest, ShowRequest, read_item
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, TideloreError, UserError
from tidelore.core.references import (
    Kind,
    parse_post_reference,
    parse_reference,
    parse_topic_reference,
)
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import list_projects
from tidelore.store.reading.conversations import read_conversation, resolve
from tidelore.store.reading.item_events import EventRow, ThreadContextRow, read_events, read_thread_contexts
from tidelore.store.reading.posts import read_post, resolve_post
from tidelore.store.reading.topics import read_topic, resolve_topic

REFRESH_WAIT_SECONDS = 10.0
"""How long a refresh waits for another process that is writing."""


class TimelineEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to an item between its comments."""

    kind: Annotated[str, means("state, label, milestone or timeline")]
    action: Annotated[
        str, means("what happened: closed, merged, add or remove and the like, or the forge's name of it")
    ]
    subject: Annotated[
        str | None, means("label, milestone (null if deleted since) or what else it is about", untrusted=True)
    ]
    actor: Annotated[str | None, means("who did it, or null")]
    created_at: Annotated[Instant, means("when")]


class ThreadContext(Struct, frozen=True, kw_only=True):
    """What a review thread says beside its notes."""

    id: Annotated[str, means("the id of the discussion")]
    diff_hunk: Annotated[str | None, means("the lines of the diff it was written below, or null if unknown")]
    outdated: Annotated[bool | None, means("whether its lines have changed since, or null if unknown")]
    resolved_by: Annotated[str | None, means("who resolved it, or null")]


class ItemPage(Struct, frozen=True, kw_only=True):
    """An issue or merge request with its events and the context of its review threads."""

    item: ShownIssue | ShownMergeRequest
    timeline: Annotated[list[TimelineEvent], means("its events, the oldest first")]
    threads: Annotated[list[ThreadContext], means("the context of its review threads")]


class Located(Struct, frozen=True, kw_only=True):
    """The item that a reference names."""

    type: Annotated[str, means("issue, mr, topic or post")]
    project: Annotated[str | None, means("the project's path, or null for a post")]
    iid: Annotated[int | None, means("its number in the project, or null for a post")]
    uri: Annotated[str | None, means("the address of a post, otherwise null")]
    web_url: Annotated[str | None, means("its address on its host")]


class StoredProject(Struct, frozen=True, kw_only=True):
    """A project of the local copy."""

    source: Annotated[str, means("the configured host")]
    path: Annotated[str, means("the project's path")]


def read_item_page(app: App, request: ShowRequest) -> ItemPage:
    """Return an issue or merge request with its conversation, its events and the hunks of its review threads."""
    meant = parse_reference(request.reference, request.kind)
    with app.reading() as database:
        row_id = resolve(database, request.kind, meant, project=request.project, default=app.config.default_project)
        item = read_item(database, request.kind, row_id, system=request.system, last=request.last)
        events = read_events(database, request.kind, row_id)
        contexts = read_thread_contexts(database, request.kind, row_id)
    return ItemPage(item=item, timeline=[_event(row) for row in events], threads=[_context(row) for row in contexts])


def _event(row: EventRow) -> TimelineEvent:
    return copy_fields(TimelineEvent, row)


def _context(row: ThreadContextRow) -> ThreadContext:
    outdated = None if row.is_outdated is None else bool(row.is_outdated)
    return ThreadContext(id=row.remote_id, diff_hunk=row.diff_hunk, outdated=outdated, resolved_by=row.resolved_by)


def stored_projects(app: App) -> list[StoredProject]:
    """Return the projects of the local copy by path; two hosts may have projects with the same path."""
    with app.reading() as database:
        found = list_projects(database)
    return sorted((copy_fields(StoredProject, row) for row in found), key=lambda one: (one.path, one.source))


def locate(app: App, reference: str, project: str | None = None) -> Located:
    """Return the stored item that a reference names: an issue, merge request, topic or post."""
    default = app.config.default_project
    refused: UserError | None = None
    with app.reading() as database:
        for find in (_post, _issue, _merge_request, _topic):
            try:
                return find(database, reference, project, default)
            except NotFound as error:
                refused = refused if isinstance(refused, NotFound) else error
            except UserError as error:
                refused = refused or error
    assert refused is not None
    raise refused


def _post(database: Database, reference: str, _project: str | None, _default: str) -> Located:
    post = read_post(database, resolve_post(database, parse_post_reference(reference))).post
    return Located(type="post", project=None, iid=None, uri=post.uri, web_url=post.url)


def _issue(database: Database, reference: str, project: str | None, default: str) -> Located:
    return _parent(database, "issue", reference, project, default)


def _merge_request(database: Database, reference: str, project: str | None, default: str) -> Located:
    return _parent(database, "mr", reference, project, default)


def _parent(database: Database, kind: Kind, reference: str, project: str | None, default: str) -> Located:
    row_id = resolve(database, kind, parse_reference(reference, kind), project=project, default=default)
    talk = read_conversation(database, kind, row_id)
    return Located(type=kind, project=talk.project, iid=talk.parent.iid, uri=None, web_url=talk.parent.web_url)


def _topic(database: Database, reference: str, project: str | None, default: str) -> Located:
    row_id = resolve_topic(database, parse_topic_reference(reference), project=project, default=default)
    row, _ = read_topic(database, row_id)
    return Located(type="topic", project=row.project, iid=row.iid, uri=None, web_url=row.web_url)


async def refresh_item(app: App, kind: Kind, reference: str, project: str | None = None) -> RefreshedItems:
    """Fetch an issue or merge request and its conversation from its host, and store them.

    Runs in any thread with an event loop. Raises the error if nothing was stored; a run that was stored in part names
    its failures in the answer.
    """
    from tidelore.app.mirroring import surgical_sync
    from tidelore.sync.report import SurgicalReport
    from tidelore.sync.surgical_preflight import SurgicalFlags, read_asked

    report = SurgicalReport()
    flags = SurgicalFlags(project=project, no_embed=app.config.embedding.provider == "none")
    try:
        await surgical_sync(
            app, [read_asked(reference, kind)], flags, report, force=False, wait_seconds=REFRESH_WAIT_SECONDS
        )
    except TideloreError as error:
        if report.run_id is None:
            raise
        error.details.setdefault("run_id", report.run_id)
        raise
    return refreshed_items(report)
