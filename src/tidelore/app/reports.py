"""Answers about runs: what a sync, an ingestion, a verification, a poll, a stream and a surgical sync did.

Also converts the reports of these runs to answers. Nothing is read or requested here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, means
from tidelore.app.status import ItemFailure, ItemOutcome, item_outcomes

if TYPE_CHECKING:
    from tidelore.core.errors import TideloreError
    from tidelore.core.progress import DocumentReport, EmbedReport
    from tidelore.sync.account_stream import StreamReport
    from tidelore.sync.report import (
        AccountReport,
        ChildReport,
        PollReport,
        RunReport,
        ScopeReport,
        SurgicalReport,
    )


CHILD_NAMES = {
    "closes_issues": "closing issues",
    "resource_events": "events",
    "diffs": "changed files",
    "threads": "review threads",
}
"""The kinds of children that are called by another name."""


class ReportedError(Struct, frozen=True):
    """An error that did not stop the command."""

    code: Annotated[str, means("its code")]
    message: Annotated[str, means("what happened")]
    retryable: Annotated[bool, means("whether a retry can help")]


def reported_error(error: TideloreError | None) -> ReportedError | None:
    """Return an error as part of an answer."""
    return None if error is None else ReportedError(error.code, error.message, error.retryable)


class DocumentCounts(Struct, frozen=True):
    """The answer of `lore generate-docs`."""

    regenerated: Annotated[int, means("documents written")]
    unchanged: Annotated[int, means("documents that did not change")]
    removed: Annotated[int, means("documents removed because their item was deleted")]
    failed: Annotated[int, means("items whose document could not be updated; will retry")]


class EmbedCounts(Struct, frozen=True, kw_only=True):
    """The answer of `lore embed`."""

    model: Annotated[str | None, means("the model, or null if it was not available")]
    embedded: Annotated[int, means("documents embedded")]
    chunks: Annotated[int, means("embeddings computed, one per changed chunk")]
    unchanged: Annotated[int, means("documents that were already embedded")]
    removed: Annotated[int, means("outdated embeddings removed")]
    failed: Annotated[int, means("documents without embeddings; the next run retries")]
    notice: Annotated[str | None, means("null, or why documents failed")]
    fix: Annotated[str | None, means("what to do about it, or null")]
    seconds: Annotated[float, means("duration in seconds")]


def document_counts(made: DocumentReport | None) -> DocumentCounts | None:
    """Return the result of the document stage."""
    return None if made is None else copy_fields(DocumentCounts, made)


def embed_counts(made: EmbedReport) -> EmbedCounts:
    """Return the result of the embedding stage."""
    fix = None if made.error is None else made.error.fix
    return copy_fields(EmbedCounts, made, fix=fix, seconds=round(made.seconds, 3))


class ChildCounts(Struct, frozen=True, kw_only=True):
    """What happened to one kind of children of a list."""

    kind: Annotated[
        str, means("kind of child items: discussions, resource_events, closes_issues, diffs, reviewers, status")
    ]
    due: Annotated[int, means("items whose children were due")]
    unchanged: Annotated[int, means("items skipped because nothing changed")]
    fetched: Annotated[int, means("items whose children were read and stored")]
    settled: Annotated[int, means("items that need no second read")]
    waiting: Annotated[int, means("items that are read again later")]
    failed: Annotated[int, means("items whose children could not be fetched; will retry")]
    quarantined: Annotated[int, means("children that could not be parsed; stored data is kept")]
    unavailable: Annotated[str | None, means("why the server refuses this kind for the whole project, or null")]
    pages: Annotated[int, means("pages read")]
    changed: Annotated[int, means("children added, changed or removed")]
    seen: Annotated[
        dict[str, int],
        means("counts of what was on the pages: discussions, notes, system_notes, diff_notes, events, files, …"),
    ]


class ScopeCounts(Struct, frozen=True, kw_only=True):
    """What happened to one list."""

    source: Annotated[str, means("the configured host")]
    surface: Annotated[str, means("the list, such as gitlab.issues or gitlab.merge_requests")]
    project: Annotated[str, means("the project's path, or the handle of an account")]
    account: Annotated[
        str | None,
        means("the handle of an account (verification of Bluesky), or null for a list of a project"),
    ]
    pages: Annotated[int, means("pages read")]
    fetched: Annotated[int, means("items on these pages")]
    created: Annotated[int, means("items stored for the first time")]
    changed: Annotated[int, means("items stored in a new version")]
    replayed: Annotated[int, means("items that were stored already")]
    stale: Annotated[int, means("items older than what is stored")]
    quarantined: Annotated[int, means("items that could not be parsed")]
    released: Annotated[int, means("items that left the quarantine")]
    gone: Annotated[int, means("items found deleted")]
    not_modified: Annotated[bool, means("whether the server said that nothing changed")]
    cursor_reset: Annotated[str | None, means("why the position was reset, or null")]
    labels_created: Annotated[int, means("labels seen for the first time")]
    assignees: Annotated[int, means("assignees stored")]
    reviewers: Annotated[int, means("reviewers stored")]
    children: list[ChildCounts]
    skipped: Annotated[str | None, means("null, or why the project was skipped")]
    warnings: Annotated[list[str], means("what is missing although the run succeeded, such as issue statuses")]
    left: Annotated[bool, means("whether its items, or what belongs to them, are left for the next run")]
    error: Annotated[ReportedError | None, means("null, or why the list could not be read")]

    @property
    def conversation(self) -> ChildCounts | None:
        """The kind of children in which people talk: each forge has its own."""
        return next((child for child in self.children if child.kind in ("discussions", "comments")), None)


class MirrorRun(Struct, frozen=True, kw_only=True):
    """The answer of `lore ingest` and `lore scrub`; `scopes` is empty for `lore scrub`."""

    run_id: Annotated[int, means("the run; see lore sync-runs")]
    requests: Annotated[int, means("requests sent, including retries")]
    seconds: Annotated[float, means("duration in seconds")]
    crashed_runs_closed: Annotated[
        list[int], means("earlier runs marked as crashed because their process no longer exists")
    ]
    lease: Annotated[str | None, means("how the lock was taken: free, dead, stale or forced")]
    scopes: list[ScopeCounts]
    scrubbed: Annotated[list[ScopeCounts], means("verified lists")]


def mirror_run(report: RunReport) -> MirrorRun:
    """Return the report of a run as an answer."""
    return MirrorRun(
        run_id=report.run_id,
        requests=report.requests,
        seconds=round(report.seconds, 3),
        crashed_runs_closed=report.crashed_runs,
        lease=report.taken_over,
        scopes=[_scope(scope) for scope in report.scopes],
        scrubbed=[_scope(scope) for scope in report.scrubbed],
    )


def _scope(scope: ScopeReport) -> ScopeCounts:
    counts = {name: getattr(scope.tally, name) for name in scope.tally.__struct_fields__}
    counts |= {name: getattr(scope.links, name) for name in scope.links.__struct_fields__}
    return copy_fields(
        ScopeCounts,
        scope,
        **counts,
        children=[_child(child) for child in scope.children.values()],
        left=scope.is_left,
        error=reported_error(scope.error),
    )


def _child(child: ChildReport) -> ChildCounts:
    counts = {name: getattr(child.tally, name) for name in child.tally.__struct_fields__}
    return copy_fields(ChildCounts, child, **counts, seen=dict(child.seen))


def seen_children(scopes: Iterable[ScopeCounts]) -> Counter[str]:
    """Return how many children of each kind were on the pages of these lists."""
    total: Counter[str] = Counter()
    for scope in scopes:
        for child in scope.children:
            total.update(child.seen)
    return total


class PolledAccount(Struct, frozen=True, kw_only=True):
    """What a poll read of one account."""

    did: Annotated[str, means("its DID")]
    handle: Annotated[str, means("its handle")]
    mode: Annotated[str, means("how it was read: feed or records")]
    initial: Annotated[bool, means("whether its first poll is not complete or was just completed")]
    posts: Annotated[int, means("posts and reposts that are new or edited")]
    edited: Annotated[int, means("how many of them were edited")]
    urls: Annotated[int, means("links in them")]
    pages: Annotated[int, means("pages read")]
    gone: Annotated[int, means("posts found deleted")]
    quarantined: Annotated[int, means("posts that could not be parsed")]
    behind: Annotated[bool, means("whether there is more to read; the next poll continues")]
    unavailable: Annotated[str | None, means("null, or why it is unavailable")]
    renamed_from: Annotated[str | None, means("null, or the handle it had before")]
    next_poll_at: Annotated[Instant | None, means("next poll")]
    error: Annotated[ReportedError | None, means("null, or why it could not be read")]


class UnknownAccount(Struct, frozen=True):
    """A configured account that was not found."""

    account: Annotated[str, means("a configured account that was not found")]
    error: Annotated[str, means("why")]


class ServerOutage(Struct, frozen=True):
    """A server that does not answer."""

    server: Annotated[str, means("a server that is unavailable")]
    error: Annotated[str, means("why")]


class PolledAccounts(Struct, frozen=True, kw_only=True):
    """The answer of `lore poll bluesky`."""

    run_id: Annotated[int, means("the run; see lore sync-runs")]
    accounts: Annotated[int, means("accounts polled")]
    active: Annotated[int, means("accounts with new posts")]
    posts: Annotated[int, means("posts and reposts that are new or edited")]
    urls: Annotated[int, means("links in them")]
    pages: Annotated[int, means("pages read")]
    unavailable: Annotated[int, means("accounts refused by the network")]
    failed: Annotated[int, means("accounts that could not be read")]
    left: Annotated[int, means("accounts left for the next poll because their server is unavailable")]
    requests: Annotated[int, means("requests sent, including retries")]
    seconds: Annotated[float, means("duration in seconds")]
    crashed_runs_closed: Annotated[
        list[int], means("earlier runs marked as crashed because their process no longer exists")
    ]
    lease: Annotated[str | None, means("how the lock was taken: free, dead, stale or forced")]
    told: Annotated[list[PolledAccount], means("accounts with news or problems")]
    verified: Annotated[list[PolledAccount], means("accounts compared with their repositories")]
    unresolved: list[UnknownAccount]
    outages: list[ServerOutage]
    documents: Annotated[
        DocumentCounts | None,
        means("null with --no-docs or while another command updates them, otherwise the result"),
    ]


def polled_accounts(report: PollReport) -> PolledAccounts:
    """Return the report of a poll as an answer."""
    return copy_fields(
        PolledAccounts,
        report,
        seconds=round(report.seconds, 3),
        crashed_runs_closed=report.crashed_runs,
        lease=report.taken_over,
        told=[_account(account) for account in report.told],
        verified=[_account(account) for account in report.verified],
        unresolved=[UnknownAccount(name, error.message) for name, error in report.unresolved.items()],
        outages=[ServerOutage(name, error.message) for name, error in report.outages.items()],
        documents=document_counts(report.documents),
    )


def _account(account: AccountReport) -> PolledAccount:
    tally = account.tally
    return copy_fields(
        PolledAccount,
        account,
        edited=tally.changed,
        urls=account.links,
        pages=tally.pages,
        gone=tally.gone,
        quarantined=tally.quarantined,
        unavailable=account.refused,
        error=reported_error(account.error),
    )


class ChosenAccount(Struct, frozen=True, kw_only=True):
    """An account that a poll would read."""

    did: Annotated[str, means("with --dry-run: an account that would be polled")]
    handle: Annotated[str, means("its handle")]
    state: Annotated[str, means("its state")]
    mode: Annotated[str, means("how it would be read")]
    next_poll_at: Annotated[Instant, means("when it is due")]


class AccountsPlan(Struct, frozen=True, kw_only=True):
    """The answer of `lore poll bluesky --dry-run`."""

    dry_run: Annotated[bool, means("with --dry-run: true; the other fields are accounts and chosen[]")] = True
    accounts: Annotated[int, means("accounts polled")]
    chosen: list[ChosenAccount]


class StreamSummary(Struct, frozen=True, kw_only=True):
    """The answer of `lore stream bluesky`."""

    run_id: Annotated[int, means("the run; see lore sync-runs")]
    accounts: Annotated[int, means("followed accounts")]
    connections: Annotated[int, means("connections used")]
    events: Annotated[int, means("events received")]
    posts: Annotated[int, means("posts and reposts stored")]
    edited: Annotated[int, means("posts stored in another version")]
    deleted: Annotated[int, means("posts deleted")]
    replayed: Annotated[int, means("events that were stored already")]
    urls: Annotated[int, means("links in what was stored")]
    unreadable: Annotated[int, means("posts that could not be parsed; polls fetch them again")]
    holes: Annotated[int, means("interruptions that could not be replayed")]
    handed_over: Annotated[int, means("accounts that became due for a poll because of them")]
    renamed: Annotated[int, means("accounts with another handle")]
    documents: Annotated[int, means("documents written")]
    cursor: Annotated[str | None, means("position up to which everything is stored, or null")]
    seconds: Annotated[float, means("duration in seconds")]


def stream_summary(report: StreamReport) -> StreamSummary:
    """Return the report of a stream as an answer."""
    return copy_fields(StreamSummary, report, seconds=round(report.seconds, 3))


class RefreshedItems(Struct, frozen=True, kw_only=True):
    """The answer of a sync with `--issue`, `--mr` or `--retry-failed`; `run_id` is null if nothing was left to do."""

    run_id: Annotated[int | None, means("the run; see lore sync-runs")]
    requests: Annotated[int, means("requests sent, including retries")]
    seconds: Annotated[float, means("duration in seconds")]
    documents: Annotated[DocumentCounts | None, means("null with --no-docs, otherwise the result")]
    embeddings: Annotated[EmbedCounts | None, means("null with --no-embed or without a provider, otherwise the result")]
    stage_timings_ms: Annotated[
        dict[str, int],
        means("duration of each stage: preflight (items), ingest, dependents, scrub, docs, embed"),
    ]
    completion_status: Annotated[str, means("items: succeeded, succeeded_with_warnings, failed or cancelled")]
    preflight_only: Annotated[bool, means("items: whether --preflight-only was given")]
    requested_count: Annotated[int, means("items: number of requested items")]
    fetched_count: Annotated[int, means("items: number of fetched items")]
    processed_count: Annotated[int, means("items: number of items stored completely")]
    skipped_stale: Annotated[int, means("items: number of items skipped because the stored version is newer")]
    skipped_stale_iids: Annotated[
        list[tuple[str, int]], means("items: the skipped items as pairs of entity_type and number")
    ]
    entity_failures: Annotated[list[ItemFailure], means("items: all failures")]
    entity_outcomes: Annotated[list[ItemOutcome], means("items: the outcome of each")]
    children: Annotated[
        dict[str, int],
        means(
            "items: number of child items fetched: discussions, notes, system_notes, diff_notes, events,"
            " closed_issues, files, reviewers"
        ),
    ]
    recovery_actions: Annotated[list[str], means("items: commands that continue, in this order")]


def refreshed_items(report: SurgicalReport) -> RefreshedItems:
    """Return the report of a surgical sync as an answer."""
    outcomes = item_outcomes(report.entity_outcomes)
    return copy_fields(
        RefreshedItems,
        report,
        seconds=round(report.seconds, 3),
        documents=document_counts(report.documents),
        embeddings=None if report.embeddings is None else embed_counts(report.embeddings),
        skipped_stale=len(report.skipped_stale_iids),
        entity_outcomes=outcomes,
        entity_failures=[failure for outcome in outcomes for failure in outcome.failures],
        children=dict(report.children),
    )
