"""One issue or merge request as a page shows it: its conversation with events and diff hunks; and its refresh.

Also finds the item that a reference names, whatever its kind. Reads the local database only, except the refresh, which
asks the item's host.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, flag, means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.reports import RefreshedItems, refreshed_items
from tidelore.app.showing import ShownIssue, ShownMergeRequest, ShowRequest, read_item
from tidelore.app.wiring import App
from tidelore.core.errors import TideloreError
from tidelore.core.references import Kind, parse_reference
from tidelore.store.mirror.projects import list_projects
from tidelore.store.reading.changes import read_changed
from tidelore.store.reading.conversations import resolve
from tidelore.store.reading.item_events import ThreadContextRow, read_events, read_thread_contexts

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
    timeline = [copy_fields(TimelineEvent, row) for row in events]
    return ItemPage(item=item, timeline=timeline, threads=[_context(row) for row in contexts])


def _context(row: ThreadContextRow) -> ThreadContext:
    return copy_fields(ThreadContext, row, id=row.remote_id, outdated=flag(row.is_outdated))


def stored_projects(app: App) -> list[StoredProject]:
    """Return the projects of the local copy by path; two hosts may have projects with the same path."""
    with app.reading() as database:
        found = list_projects(database)
    return sorted((copy_fields(StoredProject, row) for row in found), key=lambda one: (one.path, one.source))


def locate(app: App, reference: str, project: str | None = None) -> Located:
    """Return the stored item that a reference names: an issue, merge request, topic or post."""
    meant = parse_any(reference)
    with app.reading() as database:
        found = find_thread(database, meant, project, app.config.default_project, first=True)
        row = read_changed(database, found.type, [found.id])[found.id]
    uri = row.references_full if found.type == "post" else None
    kind = "mr" if found.type == "merge_request" else found.type
    return Located(type=kind, project=row.project, iid=row.iid, uri=uri, web_url=row.web_url)


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
