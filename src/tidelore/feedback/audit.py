"""Compare every tracked thread on the server with the stored events, and repair what is missing.

A comment that qualifies but has no event with its text is missing. An event whose comment was deleted on the server is
reported but is not an error. Nothing is changed here. A pull request that was closed and resumed is compared from where
it was read again; one that was merged or closed is compared up to that time, unless that is longer ago than the safe
backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from tidelore.core.config import RepoSettings
from tidelore.core.errors import IntegrityError, PartialSuccess, TideloreError
from tidelore.core.model import NOTE, CommentRecord, Item, Version
from tidelore.engine.ports import Pages
from tidelore.engine.whole import read_all
from tidelore.feedback.context import Context, read_context
from tidelore.feedback.events import event_key, own_tokens, qualifies, taken_version
from tidelore.feedback.tokens import find_markers
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import ActionToken, find_tokens
from tidelore.store.work.effects import body_digest, thread_comments
from tidelore.store.work.events import FOLLOWUPS, EventRow, list_events
from tidelore.store.work.tracked_pull_requests import (
    AWAITING,
    CLOSED,
    MERGED,
    TERMINAL,
    TrackedPr,
    find_tracked,
    history,
    list_tracked,
)

SURFACES: Mapping[str, str] = {
    "pr_issue_comments": "issue_comment",
    "pr_review_comments": "review_comment",
    "pr_review_summaries": "review_summary",
    "mr_notes": NOTE,
}
"""The lists of a pull request that are read, and the kind of comment in each."""


class Missing(Struct, frozen=True):
    """A comment version that should have an event but has none."""

    event_key: str
    item: Item[CommentRecord]


class SurfaceAudit(Struct):
    """One list of one thread: its comments, how many of them qualify, and the differences from the stored events."""

    surface: str
    items: list[Item[CommentRecord]] = field(default_factory=list)
    unreadable: int = 0
    qualifying: int = 0
    ingested: int = 0
    missing: list[Missing] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class ThreadAudit(Struct):
    """One pull request. If it could not be fetched, `error` says why and it is not compared."""

    number: int
    surfaces: list[SurfaceAudit] = field(default_factory=list)
    error: TideloreError | None = None


class RepoAudit(Struct):
    """One repository. `sign` precedes the number of a pull request, `error` is why it could not be read at all."""

    source: str
    repo: str
    sign: str
    threads: list[ThreadAudit] = field(default_factory=list)
    error: TideloreError | None = None

    @property
    def surfaces(self) -> list[SurfaceAudit]:
        return [surface for thread in self.threads for surface in thread.surfaces]


class FeedbackAuditReport(Struct):
    """The result of a comparison."""

    repos: list[RepoAudit] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0

    @property
    def missing(self) -> int:
        return sum(len(surface.missing) for repo in self.repos for surface in repo.surfaces)


@runtime_checkable
class ThreadSource(Protocol):
    """A source whose comments can be read thread by thread."""

    def comment_lists(self, remote_id: int, number: int) -> Mapping[str, Pages[CommentRecord]]:
        """Return all comments of one pull request, by the names in `SURFACES`."""
        ...


async def scan(source: ThreadSource, repo: int, number: int) -> list[SurfaceAudit]:
    """Read all comments of one pull request."""
    found = []
    for surface, pages in source.comment_lists(repo, number).items():
        children = await read_all(pages)
        found.append(SurfaceAudit(surface, list(children.items), len(children.rejected)))
    return found


def followed(database: Database, project: ProjectRow, settings: RepoSettings, now_ms: int) -> list[TrackedPr]:
    """Return the pull requests to compare: those awaiting feedback, and those merged or closed recently."""
    since = now_ms - round(settings.comment_fetch_safe_backfill_seconds * 1000)
    rows = list_tracked(database, project_id=project.id, statuses=(AWAITING, MERGED, CLOSED))
    return [row for row in rows if row.status == AWAITING or row.entered_at >= since]


def compare(database: Database, project: ProjectRow, settings: RepoSettings, thread: ThreadAudit) -> None:
    """Compare the comments read from a thread with its stored events."""
    context = read_context(database, project, settings, ending={thread.number})
    events = list_events(database, project.id, thread.number)
    from_at, to_at = _compared_span(database, project, settings, thread.number)
    judged = thread_comments(database.read, project.id, thread.number, on=None if settings.shares_numbers else "mr")
    for surface in thread.surfaces:
        kind = SURFACES[surface.surface]
        known = _by_comment(event for event in events if event.kind == kind)
        stored = {one.record.remote_id: one.judged for one in judged if one.record.kind == kind}
        ids = [item.record.remote_id for item in surface.items]
        within = [item for item in surface.items if from_at <= item.record.updated_at <= to_at]
        due = [item for item in within if _is_due(item, context, _signed(database, project, item))]
        surface.qualifying = len(due)
        surface.missing = [
            Missing(event_key(item.record, taken_version(item.record, events)), item)
            for item in due
            if not _is_ingested(item.record, known.get(item.record.remote_id, ()), stored.get(item.record.remote_id))
        ]
        surface.ingested = surface.qualifying - len(surface.missing)
        surface.gone = sorted(
            event.event_key for key in known.keys() - set(ids) for event in known[key] if event.kind != FOLLOWUPS
        )


def audit_error(report: FeedbackAuditReport, forge: str) -> TideloreError | None:
    """Return the error of a comparison: an integrity error if events are missing, a lesser one if reads failed."""
    if report.missing:
        return IntegrityError(
            f"{report.missing:,} comments have no event",
            fix=f"run `lore poll {forge}`; `lore audit {forge} --repair` adds what is still missing",
            missing=report.missing,
        )
    errors = [repo.error for repo in report.repos if repo.error is not None]
    errors += [thread.error for repo in report.repos for thread in repo.threads if thread.error is not None]
    if errors and all(repo.error is not None for repo in report.repos):
        return errors[0]
    if errors:
        return PartialSuccess(
            "some threads could not be read; no events are missing in the others", fix="run the command again"
        )
    return None


def _is_due(item: Item[CommentRecord], context: Context, signed: Mapping[str, ActionToken]) -> bool:
    ours = own_tokens(item.record, context, signed)
    return (
        context.role(item.record.number, item.record.on) == "awaiting" and not ours and qualifies(item.record, context)
    )


def _signed(database: Database, project: ProjectRow, item: Item[CommentRecord]) -> Mapping[str, ActionToken]:
    return find_tokens(database, project.id, find_markers(item.record.body))


def _by_comment(events: Iterable[EventRow]) -> dict[int, list[EventRow]]:
    found: dict[int, list[EventRow]] = {}
    for event in events:
        found.setdefault(event.comment_id, []).append(event)
    return found


def _is_ingested(record: CommentRecord, events: Sequence[EventRow], stored: Version | None) -> bool:
    """Return whether a version has an event: same body and time, or the same body if only its time changed since."""
    untouched = stored is not None and stored.digest == body_digest(record.body)
    return any(event.body == record.body and (untouched or event.updated_at == record.updated_at) for event in events)


def _compared_span(database: Database, project: ProjectRow, settings: RepoSettings, number: int) -> tuple[int, float]:
    """Return the time span in which every comment must have an event: from where a resumed thread was read again, up
    to the last change of a merged or closed pull request.
    """
    row = find_tracked(database, project.id, number)
    steps = [] if row is None else history(database, row.id)
    resumed_at = max((step.at for step in steps if step.from_status == CLOSED), default=None)
    backfill_ms = round(settings.comment_fetch_safe_backfill_seconds * 1000)
    ended_at = row.pull_updated_at if row is not None and row.status in TERMINAL else None
    return 0 if resumed_at is None else resumed_at - backfill_ms, inf if ended_at is None else ended_at
