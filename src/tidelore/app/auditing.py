"""Use-cases that compare the local copy with the servers: verify and correct (`lore scrub`), compare (`lore audit`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app import mirroring
from tidelore.app.accounts import audit_accounts, poll_accounts
from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.feedback_polling import AuditOutcome, audit_feedback
from tidelore.app.mirroring import audit, mirror
from tidelore.app.reports import MirrorRun, ReportedError, mirror_run, reported_error
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import forge_hosts, only_forge
from tidelore.core.errors import ConfigError, NotFound, TideloreError
from tidelore.core.progress import OnProgress, Progress
from tidelore.feedback.repositories import ConfiguredRepo, choose_repos

if TYPE_CHECKING:
    from tidelore.feedback.audit import RepoAudit, SurfaceAudit, ThreadAudit
    from tidelore.sync.audit import AuditReport, ScopeAudit
    from tidelore.sync.report import RunReport

EVERYTHING = 1_000_000_000
"""A budget of requests that verifies every item."""
VERDICTS = ("missing", "extra", "different", "unreadable")
"""How an item differs, in the order in which the counts are shown."""


class ComparedList(Struct, frozen=True, kw_only=True):
    """The comparison of one list."""

    source: Annotated[str, means("the configured host")]
    surface: Annotated[
        str, means("the list: gitlab.issues, github.merge_requests, bluesky.author_feed or bluesky.records")
    ]
    project: Annotated[str, means("the project's path, or the account's handle")]
    synced_at: Annotated[Instant | None, means("when this list was last read, or null")]
    items: Annotated[int, means("items of the list that were compared")]
    children: Annotated[int, means("children that were compared")]
    missing: Annotated[int, means("on the server only")]
    extra: Annotated[int, means("in the local copy only")]
    different: Annotated[int, means("in both, with different content")]
    unreadable: Annotated[int, means("on the server, could not be parsed")]
    unread: Annotated[int, means("lists of child items that could not be fetched")]
    skipped: Annotated[str | None, means("why the project was skipped, or null")]
    error: Annotated[ReportedError | None, means("null, or why the list could not be read")]


class FoundDifference(Struct, frozen=True, kw_only=True):
    """An item that differs."""

    verdict: Annotated[str, means("missing, extra, different or unreadable")]
    kind: Annotated[str, means("issues, merge_requests, a kind of children such as discussions; posts or reposts")]
    project: Annotated[str, means("the project's path, or the account's handle")]
    iid: Annotated[int | None, means("the number of the issue or merge request, or null")]
    reference: Annotated[
        str,
        means("the same as a reference: group/project#12 or group/project!12; a post's address"),
    ]
    key: Annotated[str, means("its id or path")]


class UnreadList(Struct, frozen=True, kw_only=True):
    """Children that could not be compared."""

    kind: Annotated[str, means("the children that could not be read")]
    project: Annotated[str, means("the project's path")]
    reference: Annotated[str, means("the item they belong to")]
    error: Annotated[str, means("what happened")]


class Repair(Struct, frozen=True, kw_only=True):
    """What a repair did."""

    run_id: Annotated[int, means("the run; see lore sync-runs")]
    requests: Annotated[int, means("requests sent by that run")]
    found: Annotated[int, means("number of differences before the repair")]
    mended: Annotated[int, means("number of corrected differences")]


class Comparison(Struct, frozen=True, kw_only=True):
    """The answer of `lore audit gitlab` and `lore audit bluesky`."""

    synced_at: Annotated[Instant | None, means("end of the last sync, or null")]
    requests: Annotated[int, means("requests sent for the comparison, including retries")]
    seconds: Annotated[float, means("duration of the comparison")]
    scopes: list[ComparedList]
    differences: list[FoundDifference]
    unread: list[UnreadList]
    repair: Annotated[Repair | None, means("null, or what --repair did")] = None
    events: Annotated[
        ComparedEvents | None, means("gitlab: the comparison of events; null without tracked merge requests")
    ] = None


class ComparedRepo(Struct, frozen=True, kw_only=True):
    """The comparison of one repository."""

    source: Annotated[str, means("events: the configured host")]
    repo: Annotated[str, means("events: the repository or project")]
    threads: Annotated[int, means("events: how many pull requests of it were compared")]
    error: Annotated[ReportedError | None, means("events: null, or why it could not be read")]


class CommentCounts(Struct, frozen=True, kw_only=True):
    """How many comments of a list are events."""

    comments: Annotated[int, means("events: comments there")]
    qualifying: Annotated[int, means("events: how many of them must be events")]
    ingested: Annotated[int, means("events: how many of those are")]
    missing: Annotated[int, means("events: how many are not")]
    gone: Annotated[int, means("events: events whose comment was deleted")]
    unreadable: Annotated[int, means("events: comments that could not be parsed")]


class ComparedSurface(CommentCounts, frozen=True, kw_only=True):
    """The comparison of one list of a thread."""

    surface: Annotated[str, means("events: pr_issue_comments, pr_review_comments, pr_review_summaries or mr_notes")]


class ComparedThread(Struct, frozen=True, kw_only=True):
    """The comparison of one pull request."""

    reference: Annotated[str, means("events: the same as a reference: owner/repo#12 or group/project!12")]
    repo: Annotated[str, means("events: the repository or project")]
    pr_number: Annotated[int, means("events: the pull request or merge request")]
    error: Annotated[ReportedError | None, means("events: null, or why it could not be read whole")]
    surfaces: list[ComparedSurface]


class GoneEvent(Struct, frozen=True, kw_only=True):
    """An event whose comment was deleted."""

    reference: Annotated[str, means("events: the same as a reference: owner/repo#12 or group/project!12")]
    repo: Annotated[str, means("events: the repository or project")]
    pr_number: Annotated[int, means("events: the pull request or merge request")]
    surface: Annotated[str, means("events: the list")]
    event_key: Annotated[str, means("events: the key of the event")]


class MissingEvent(GoneEvent, frozen=True, kw_only=True):
    """A comment without an event; `event_key` is the key the event would have."""

    author: Annotated[str | None, means("events: who wrote it")]
    url: Annotated[str | None, means("events: its web address")]


class EventRepair(Struct, frozen=True, kw_only=True):
    """What a repair of events did."""

    found: Annotated[int, means("number of differences before the repair")]
    mended: Annotated[int, means("number of corrected differences")]


class ComparedEvents(Struct, frozen=True, kw_only=True):
    """The comparison of events with the comments on the server."""

    requests: Annotated[int, means("requests sent for the comparison, including retries")]
    seconds: Annotated[float, means("duration of the comparison")]
    repos: list[ComparedRepo]
    threads: list[ComparedThread]
    missing: list[MissingEvent]
    gone: list[GoneEvent]
    repair: Annotated[EventRepair | None, means("null, or what --repair did")] = None

    def totals(self, surface: str | None = None) -> CommentCounts:
        """Return the counts of all threads, of one list if given."""
        found = [one for thread in self.threads for one in thread.surfaces if surface in (None, one.surface)]
        return CommentCounts(
            **{name: sum(getattr(one, name) for one in found) for name in CommentCounts.__struct_fields__}
        )


class EventComparison(ComparedEvents, frozen=True, kw_only=True):
    """The answer of `lore audit github`."""

    mirrored: Annotated[Comparison | None, means("github: the comparison of mirrored repositories, or null")] = None


def scrub(
    app: App, *, budget: int | None = None, project: str | None = None, force: bool = False
) -> tuple[MirrorRun, TideloreError | None]:
    """Verify stored items and correct them, all of them without a budget; also return the error of the run."""
    from tidelore.sync.report import run_verdict

    spend = EVERYTHING if budget is None else budget
    report = run_until_signalled(mirroring.scrub(app, project, spend, force=force))
    app.note_synced()
    return mirror_run(report), run_verdict(report.scrubbed)


def audit_projects(
    app: App, forge: str, project: str | None, on_progress: OnProgress, *, repair: bool = False, force: bool = False
) -> tuple[Comparison, TideloreError | None]:
    """Compare projects of a forge with their hosts, and repair differences if asked; also return the error."""
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.audit import audit_verdict
    from tidelore.sync.mirror import MirrorRequest

    app = replace(app, config=only_forge(app.config, forge))

    def compare() -> AuditReport:
        return run_until_signalled(audit(app, project, on_progress), "nothing was changed")

    before = compare()
    if not (repair and before.differences):
        return _compared(app, before), audit_verdict(before)
    request = MirrorRequest(RESOURCES, project, force=force, scrub_budget=EVERYTHING)
    run = run_until_signalled(mirror(app, request, "lore audit --repair", on_progress))
    after = compare()
    return _compared(app, after, _repaired(run, before, after)), audit_verdict(after)


def audit_followed(
    app: App, account: str | None, on_progress: OnProgress, *, repair: bool = False, force: bool = False
) -> tuple[Comparison, TideloreError | None]:
    """Compare accounts with the network, and repair differences if asked; also return the error of the result."""
    from tidelore.sync.account_poll import PollRequest
    from tidelore.sync.account_verification import account_audit_verdict

    def compare() -> AuditReport:
        return run_until_signalled(audit_accounts(app, account, on_progress), "nothing was changed")

    before = compare()
    if not (repair and before.differences):
        return _compared(app, before), account_audit_verdict(before)
    named = () if account is None else (account,)
    request = PollRequest(named, everyone=account is None, force=force, verify=True)
    run = run_until_signalled(poll_accounts(app, request, on_progress))
    after = compare()
    return _compared(app, after, _repaired(run, before, after)), account_audit_verdict(after)


def _repaired(run: RunReport, before: AuditReport, after: AuditReport) -> Repair:
    mended = len(set(before.differences) - set(after.differences))
    return Repair(run_id=run.run_id, requests=run.requests, found=len(before.differences), mended=mended)


def _compared(app: App, report: AuditReport, repair: Repair | None = None) -> Comparison:
    app.on_reading(report.synced_at)
    return Comparison(
        synced_at=instant(report.synced_at),
        requests=report.requests,
        seconds=round(report.seconds, 3),
        scopes=[_list(scope) for scope in report.scopes],
        differences=[copy_fields(FoundDifference, found) for found in report.differences],
        unread=[copy_fields(UnreadList, entry, error=entry.error.message) for entry in report.unread],
        repair=repair,
    )


def _list(scope: ScopeAudit) -> ComparedList:
    counts = {verdict: scope.counts[verdict] for verdict in VERDICTS}
    return copy_fields(ComparedList, scope, **counts, unread=len(scope.unread), error=reported_error(scope.error))


def audit_repositories(
    app: App, repo: str | None, on_progress: OnProgress, *, repair: bool = False, force: bool = False
) -> tuple[EventComparison, TideloreError | None]:
    """Compare mirrored repositories and events with GitHub, and repair if asked; also return the error."""
    places = choose_repos(app.config, repo, "github")
    found, error = audit_events(app, "github", places, on_progress, repair=repair, force=force)
    if not forge_hosts(only_forge(app.config, "github")):
        return copy_fields(EventComparison, found, mirrored=None), error
    mirrored, difference = audit_projects(app, "github", repo, on_progress, repair=repair, force=force)
    return copy_fields(EventComparison, found, mirrored=mirrored), difference or error


def audit_mirror(
    app: App, forge: str, project: str | None, on_progress: OnProgress, *, repair: bool = False, force: bool = False
) -> tuple[Comparison, TideloreError | None]:
    """Compare projects of a forge and the events of tracked merge requests, and repair; also return the error."""
    compared, difference = audit_projects(app, forge, project, on_progress, repair=repair, force=force)
    try:
        places = choose_repos(app.config, project, forge)
    except (ConfigError, NotFound):
        # Only projects that are configured by name can be followed.
        return compared, difference
    events, error = audit_events(app, forge, places, on_progress, repair=repair, force=force)
    return replace(compared, events=events if events.threads else None), difference or error


def audit_events(
    app: App,
    forge: str,
    places: Sequence[ConfiguredRepo],
    on_progress: OnProgress,
    *,
    repair: bool = False,
    force: bool = False,
) -> tuple[ComparedEvents, TideloreError | None]:
    """Compare events with the comments on the server, and add missing ones if asked; also return the error."""
    from tidelore.feedback.audit import audit_error

    def on_thread(name: str, done: int, total: int) -> None:
        on_progress(Progress(name, "threads", done, total, f"{done:,} of {total:,}"))

    work = audit_feedback(app, places, repair=repair, force=force, on_thread=on_thread)
    outcome = run_until_signalled(work, "nothing was lost")
    return _events(outcome), audit_error(outcome.report, forge)


def _events(outcome: AuditOutcome) -> ComparedEvents:
    report = outcome.report
    threads = [(repo, thread) for repo in report.repos for thread in repo.threads]
    lists = [(repo, thread, one) for repo, thread in threads for one in thread.surfaces]
    return ComparedEvents(
        requests=report.requests,
        seconds=round(report.seconds, 3),
        repos=[
            copy_fields(ComparedRepo, repo, threads=len(repo.threads), error=reported_error(repo.error))
            for repo in report.repos
        ],
        threads=[_thread(repo, thread) for repo, thread in threads],
        missing=[
            MissingEvent(
                reference=_reference(repo, thread),
                repo=repo.repo,
                pr_number=thread.number,
                surface=one.surface,
                event_key=found.event_key,
                author=found.item.record.author,
                url=found.item.record.url,
            )
            for repo, thread, one in lists
            for found in one.missing
        ],
        gone=[
            GoneEvent(
                reference=_reference(repo, thread),
                repo=repo.repo,
                pr_number=thread.number,
                surface=one.surface,
                event_key=key,
            )
            for repo, thread, one in lists
            for key in one.gone
        ],
        repair=None if outcome.mended is None else EventRepair(found=outcome.found, mended=outcome.mended),
    )


def _thread(repo: RepoAudit, thread: ThreadAudit) -> ComparedThread:
    return ComparedThread(
        reference=_reference(repo, thread),
        repo=repo.repo,
        pr_number=thread.number,
        error=reported_error(thread.error),
        surfaces=[_surface(one) for one in thread.surfaces],
    )


def _reference(repo: RepoAudit, thread: ThreadAudit) -> str:
    return f"{repo.repo}{repo.sign}{thread.number}"


def _surface(one: SurfaceAudit) -> ComparedSurface:
    counts = {"comments": len(one.items), "missing": len(one.missing), "gone": len(one.gone)}
    return copy_fields(ComparedSurface, one, **counts)
