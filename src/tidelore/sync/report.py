"""Reports of runs: what a sync, a poll of accounts and a surgical sync did, and the error each of them ends with.

Also counts requests and forwards progress to the ledger. Nothing is requested or stored here. A poll report keeps only
accounts worth reporting, so its size does not grow with the number of accounts. The outcomes of a surgical sync are
serialised for the ledger and parsed from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from tidelore.core.errors import (
    BudgetSpent,
    CredentialsRejected,
    PartialSuccess,
    RateLimited,
    SurgicalPreflightFailed,
    TideloreError,
)
from tidelore.core.progress import DocumentReport, EmbedReport, OnProgress, Progress
from tidelore.core.references import Kind
from tidelore.engine.child_sync import ChildTally
from tidelore.engine.intake import Tally
from tidelore.http.limits import Budget
from tidelore.store.mirror.accounts import SOURCE, SURFACES
from tidelore.store.mirror.parents import LinkCounts
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import Consumer

if TYPE_CHECKING:
    from tidelore.engine.cursor import Cursor
    from tidelore.http.response import RequestMetric
    from tidelore.store.work.session import Session


MakeDocuments = Callable[["Session", OnProgress], Awaitable[DocumentReport | None]]
"""Makes the documents of what a run stored; None if another process is doing that."""

ScopeKey = tuple[str, str, str]
"""Identifies a list across runs: its source, the configured name of its project, its surface."""


class RequestCount:
    """Counts sent requests, including retries, and keeps each server's remaining rate limit.

    `points` are the limits of GraphQL, where they are counted apart.
    """

    def __init__(self) -> None:
        self.total = 0
        self.of_source: Counter[str] = Counter()
        self.budgets: dict[str, Budget] = {}
        self.points: dict[str, Budget] = {}

    def __call__(self, metric: RequestMetric) -> None:
        self.total += 1
        self.of_source[metric.source] += 1
        if metric.budget.remaining is not None:
            self.budgets[metric.source] = metric.budget
        if metric.points.remaining is not None:
            self.points[metric.source] = metric.points


class RunConsumer(Consumer, Protocol):
    """Derives something from the copy during a run: in the transactions of the run, and before and after reading."""

    async def prepare(self, session: Session, project: ProjectRow, pulls: Cursor) -> None:
        """Called before a project is read; `pulls` is the position in its list of merge requests."""
        ...

    async def conclude(self, session: Session, project: ProjectRow) -> None:
        """Called after the lists and children of a project were read, as far as they were."""
        ...

    def note_mode(self, project_id: int, mode: str) -> None:
        """Take note of how a followed project is read."""
        ...

    def note_read(self, project_id: int, surface: str, requests: int, tally: Tally) -> None:
        """Take note of what reading a list cost and brought."""
        ...

    async def check_heads(self, session: Session, project: ProjectRow) -> None:
        """Called after the merge requests of a project were listed, and before their comments are read."""
        ...

    def threads_to_scan(self, session: Session, project_id: int, *, full: bool) -> list[int]:
        """Return the threads of a project whose comments are to be read from the beginning; with `full`, all."""
        ...

    def note_scan(self, session: Session, project_id: int, number: int, error: str | None) -> None:
        """Take note that a thread was read from the beginning, or why that failed."""
        ...


class ChildReport(Struct):
    """One kind of children of one scope. Children of `unchanged` parents were not requested.

    If a kind is not `vital`, failures are only warnings and the run still succeeds. `unavailable`: why the server
    refuses this kind for the whole project, which does not count as a failure of the run.
    """

    kind: str
    due: int = 0
    unchanged: int = 0
    tally: ChildTally = field(default_factory=ChildTally)
    seen: Counter[str] = field(default_factory=Counter)
    vital: bool = True
    unavailable: str | None = None


class ScopeReport(Struct):
    """One scope of a run. `home` is the project's row once it is known, `server_at` the forge's clock.

    `opened_at` is the forge's clock when its list was begun, `horizon` how far into the past the list is read.
    `list_left` and `children_left`: the time was up before the list, or the children of its items, were fully read.
    `requests` is what the list cost, `failures` are the errors of single threads that were read by themselves.
    `account` is the handle, if the scope is an account and not a list of a project. `absent`: the project has no such
    list and never had one, so there is nothing to report.
    """

    source: str
    surface: str
    configured: str
    project: str
    tally: Tally = field(default_factory=Tally)
    links: LinkCounts = field(default_factory=LinkCounts)
    children: dict[str, ChildReport] = field(default_factory=dict)
    error: TideloreError | None = None
    skipped: str | None = None
    warnings: list[str] = field(default_factory=list)
    home: ProjectRow | None = None
    server_at: int | None = None
    opened_at: int | None = None
    horizon: int = 0
    list_left: bool = False
    children_left: bool = False
    requests: int = 0
    failures: dict[str, TideloreError] = field(default_factory=dict)
    account: str | None = None
    absent: bool = False

    @property
    def key(self) -> ScopeKey:
        return self.source, self.configured, self.surface

    @property
    def is_left(self) -> bool:
        return self.list_left or self.children_left

    @property
    def had_turn(self) -> bool:
        """Whether work was attempted: a page of the list was read or, if only children are left, some were tried."""
        if self.list_left:
            return self.tally.pages > 0
        tried = (child.tally.fetched + child.tally.failed + child.tally.quarantined for child in self.children.values())
        return not self.children_left or any(tried)


class RunReport(Struct):
    """A whole run. `asked` is the number of requests to each source, `budgets` its remaining rate limit,
    `points` that of GraphQL where it is counted apart.
    """

    run_id: int
    scopes: list[ScopeReport] = field(default_factory=list)
    scrubbed: list[ScopeReport] = field(default_factory=list)
    documents: DocumentReport | None = None
    embeddings: EmbedReport | None = None
    stage_seconds: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    points: dict[str, Budget] = field(default_factory=dict)
    seconds: float = 0.0
    taken_over: str | None = None
    crashed_runs: list[int] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """How many scopes were not fully read because the time was up."""
        return sum(scope.is_left for scope in self.scopes)


def run_verdict(scopes: Sequence[ScopeReport], scrubbed: Sequence[ScopeReport] = ()) -> TideloreError | None:
    """Return the error of a whole run, if any.

    If every source rejected the credentials or limited the rate, that is the error of the run, whatever was stored
    before. If no list could be read, it is the first error. Any other failure makes the run a partial success.
    """
    failed = [(scope, scope.error) for scope in scopes if scope.error is not None]
    stopped = _stopped([*scopes, *scrubbed])
    if stopped is not None:
        return stopped
    if not failed:
        return _children_verdict(scopes)
    errors = [error for _, error in failed]
    if len(failed) == len(scopes):
        return errors[0]
    first = failed[0][0]
    name = f"{first.project} {first.surface.rpartition('.')[2].replace('_', ' ')}"
    more = "" if len(failed) == 1 else f" and {len(failed) - 1:,} more"
    return PartialSuccess(
        f"{len(failed):,} of {len(scopes):,} lists failed ({name}: {errors[0].message}{more}); the others are stored",
        fix=errors[0].fix or "run the command again; `lore sync-runs` shows the error",
        failed=[
            {"project": scope.project, "surface": scope.surface, "code": error.code, "message": error.message}
            for scope, error in failed
        ],
    )


def _stopped(scopes: Sequence[ScopeReport]) -> TideloreError | None:
    for kind in (CredentialsRejected, RateLimited):
        stopped = {scope.source: scope.error for scope in scopes if isinstance(scope.error, kind)}
        if stopped and stopped.keys() == {scope.source for scope in scopes}:
            return next(iter(stopped.values()))
    return None


def _children_verdict(scopes: Sequence[ScopeReport]) -> TideloreError | None:
    children = [(scope, child) for scope in scopes for child in scope.children.values() if child.vital]
    behind = [(scope, child) for scope, child in children if child.tally.failed]
    threads = [f"{scope.project}{what}: {error.message}" for scope in scopes for what, error in scope.failures.items()]
    if threads and not behind:
        more = "" if len(threads) == 1 else f" and {len(threads) - 1:,} more"
        return PartialSuccess(
            f"{len(threads):,} threads could not be read ({threads[0]}{more}); the others are stored",
            fix="run the command again; the next run continues",
        )
    if not behind:
        return None
    count = sum(child.tally.failed for _, child in behind)
    return PartialSuccess(
        f"failed to fetch the discussions or other details of {count:,} items; will retry",
        fix="run the command again; `lore sync-status` shows the errors",
        failed=[
            {"project": scope.project, "surface": scope.surface, "kind": child.kind, "failed": child.tally.failed}
            for scope, child in behind
        ],
    )


def also_to_ledger(session: Session, on_progress: OnProgress, asked: Callable[[], int] | None = None) -> OnProgress:
    """Return a progress callback that updates the ledger, then calls `on_progress`.

    If given, `asked` becomes the function that counts the requests of the run.
    """
    session.asked = session.asked if asked is None else asked

    def tell(progress: Progress) -> None:
        session.tell(progress.project, progress.stage, progress.done, progress.total, progress.note)
        on_progress(progress)

    return tell


async def embed_last(
    session: Session,
    embed: Callable[[EmbedReport, OnProgress], Awaitable[None]],
    made: EmbedReport,
    on_progress: OnProgress,
) -> None:
    """Compute embeddings as the last stage of a run; its counters and warnings follow the report."""

    def tell(progress: Progress) -> None:
        session.counters.docs_embedded = made.embedded
        on_progress(progress)

    await session.listen()
    try:
        await embed(made, tell)
    finally:
        session.counters.docs_embedded = made.embedded
    session.warnings += made.notice is not None


MOST_TOLD = 2000
"""How many accounts without errors a report keeps; the log contains all."""


class AccountReport(Struct):
    """One account of a poll. `initial`: its first read was not complete before; `behind`: more is left to read."""

    did: str
    handle: str
    mode: str
    initial: bool
    tally: Tally = field(default_factory=Tally)
    links: int = 0
    behind: bool = False
    refused: str | None = None
    error: TideloreError | None = None
    next_poll_at: int | None = None
    renamed_from: str | None = None

    @property
    def posts(self) -> int:
        return self.tally.created + self.tally.changed

    @property
    def is_troubled(self) -> bool:
        """Whether some of the account could not be fetched or parsed."""
        return bool(self.refused or self.error or self.tally.quarantined)

    @property
    def scope(self) -> ScopeReport:
        """The verification of this account, as a run of projects reports it."""
        surface, error, skipped = SURFACES["records"], self.error, self.refused
        return ScopeReport(
            SOURCE, surface, self.did, self.handle, self.tally, error=error, skipped=skipped, account=self.handle
        )

    @property
    def is_told(self) -> bool:
        """Whether the account is worth reporting."""
        return bool(self.initial or self.posts or self.behind or self.renamed_from or self.is_troubled)


class PollReport(RunReport):
    """A whole poll. `active` accounts had new posts; `left` accounts stay due because their server is out."""

    accounts: int = 0
    active: int = 0
    posts: int = 0
    urls: int = 0
    pages: int = 0
    unavailable: int = 0
    failed: int = 0
    left: int = 0
    told: list[AccountReport] = field(default_factory=list)
    verified: list[AccountReport] = field(default_factory=list)
    unresolved: dict[str, TideloreError] = field(default_factory=dict)
    outages: dict[str, TideloreError] = field(default_factory=dict)

    def add(self, account: AccountReport) -> None:
        """Add the report of one account."""
        self.accounts += 1
        self.active += account.posts > 0
        self.posts += account.posts
        self.urls += account.links
        self.pages += account.tally.pages
        self.unavailable += account.refused is not None
        self.failed += account.error is not None
        if account.is_told and (account.is_troubled or len(self.told) < MOST_TOLD):
            self.told.append(account)


def account_line(account: AccountReport) -> str | None:
    """Return the log line of an account; None if it was read before and has nothing new."""
    if account.refused is not None:
        return f"[SKIP] {account.handle}: Account unavailable (invalid/deleted/private): {account.refused}"
    if account.error is not None:
        return f"[ERROR] {account.handle}: {account.error.message}"
    if not account.initial and not account.posts:
        return None
    word = "INITIAL" if account.initial else "POLL"
    found = f"{account.posts} posts, {account.links} URLs across {account.tally.pages} pages"
    return f"[{word}] {account.handle}: {found}"


def volume_line(handle: str) -> str:
    """Return the log line for an account with more than one page of new posts."""
    return f"[POLL] {handle}: High volume detected, fetching more pages"


def poll_verdict(report: PollReport) -> TideloreError | None:
    """Return the error of a whole poll, if any. Unavailable accounts are reported but are not failures."""
    failed = [account for account in report.told if account.error is not None]
    errors: Sequence[TideloreError] = [
        *report.outages.values(),
        *(account.error for account in failed if account.error is not None),
        *report.unresolved.values(),
    ]
    # A server for which no request was left has not failed.
    errors = [error for error in errors if not isinstance(error, BudgetSpent)]
    if not errors:
        return None
    if report.accounts == report.failed and len({type(error) for error in errors}) == 1:
        return errors[0]
    parts = [f"{report.failed:,} of {report.accounts:,} accounts could not be read"] if report.failed else []
    parts += [f"{report.left:,} postponed to the next poll"] if report.left else []
    parts += [f"{len(report.unresolved):,} configured accounts were not found"] if report.unresolved else []
    return PartialSuccess(
        f"{', '.join(parts)}; everything else is stored",
        fix=errors[0].fix or "run the command again; `lore accounts list` shows the errors",
        failed=[
            {"account": account.handle, "code": account.error.code, "message": account.error.message}
            for account in failed
            if account.error is not None
        ],
        unresolved=sorted(report.unresolved) or None,
    )


EntityType = Literal["issue", "merge_request"]
Completion = Literal["running", "succeeded", "succeeded_with_warnings", "failed", "cancelled"]

ENTITY_TYPES: dict[Kind, EntityType] = {"issue": "issue", "mr": "merge_request"}
ENTITY_KINDS: dict[EntityType, Kind] = {entity_type: kind for kind, entity_type in ENTITY_TYPES.items()}
FETCH = "fetch"
"""The stage of failures that happen before anything is written."""


class EntityFailure(Struct, frozen=True):
    """A failure of one item: the stage and the reason. `held`: the item is stored in the copy nevertheless."""

    entity_type: EntityType
    iid: int
    reference: str
    source: str
    stage: str
    code: str
    message: str
    held: bool = False


class EntityOutcome(Struct):
    """The outcome of one requested item. It is `completed` when nothing is left to do for it."""

    entity_type: EntityType
    iid: int
    reference: str
    source: str
    project: str
    fetched: bool = False
    ingested: bool = False
    stale_skipped: bool = False
    completed: bool = False
    fetch_failure: EntityFailure | None = None
    dependent_failures: list[EntityFailure] = field(default_factory=list)

    @property
    def failures(self) -> list[EntityFailure]:
        return [*([] if self.fetch_failure is None else [self.fetch_failure]), *self.dependent_failures]

    def fail(self, stage: str, code: str, message: str, *, held: bool = False) -> EntityFailure:
        """Record a failure of this item."""
        failure = EntityFailure(self.entity_type, self.iid, self.reference, self.source, stage, code, message, held)
        if stage == FETCH:
            self.fetch_failure = failure
        else:
            self.dependent_failures.append(failure)
        return failure


class SurgicalReport(Struct):
    """A surgical run; updated while it is running."""

    run_id: int | None = None
    entity_outcomes: list[EntityOutcome] = field(default_factory=list)
    documents: DocumentReport | None = None
    embeddings: EmbedReport | None = None
    children: Counter[str] = field(default_factory=Counter)
    stage_timings_ms: dict[str, int] = field(default_factory=dict)
    completion_status: Completion = "running"
    preflight_only: bool = False
    requests: int = 0
    seconds: float = 0.0

    @property
    def requested_count(self) -> int:
        return len(self.entity_outcomes)

    @property
    def fetched_count(self) -> int:
        return sum(outcome.fetched for outcome in self.entity_outcomes)

    @property
    def processed_count(self) -> int:
        """How many items are stored, with all of their children."""
        return sum(outcome.ingested and not outcome.dependent_failures for outcome in self.entity_outcomes)

    @property
    def skipped_stale_iids(self) -> list[tuple[str, int]]:
        return [(outcome.entity_type, outcome.iid) for outcome in self.entity_outcomes if outcome.stale_skipped]

    @property
    def entity_failures(self) -> list[EntityFailure]:
        return [failure for outcome in self.entity_outcomes for failure in outcome.failures]

    @property
    def recovery_actions(self) -> list[str]:
        """Commands that complete what this run did not."""
        if self.run_id is None or self.completion_status in {"running", "succeeded"}:
            return []
        failed = self.completion_status != "succeeded_with_warnings"
        actions = suggest(self.run_id, self.entity_outcomes, failed=failed)
        if self.documents is not None and self.documents.failed:
            actions.append("lore generate-docs")
        if self.embeddings is not None and (failed or self.embeddings.notice is not None):
            actions.append("lore embed")
        return actions


def suggest(run_id: int, outcomes: Sequence[EntityOutcome], *, failed: bool) -> list[str]:
    """Return the commands to run after an incomplete run; empty if nothing is left."""
    actions = [f"lore sync --retry-failed {run_id}"] if to_retry(outcomes, failed=failed) else []
    refused = [outcome for outcome in outcomes if outcome.fetch_failure is not None]
    sound = [outcome for outcome in outcomes if outcome.fetched and outcome.fetch_failure is None]
    if refused and sound:
        actions.append(f"lore sync {' '.join(map(_flag, sound))}")
    if any(failure.held and failure.code == "NOT_FOUND" for outcome in outcomes for failure in outcome.failures):
        actions += ["lore scrub", "lore audit"]
    return actions


def to_retry(outcomes: Sequence[EntityOutcome], *, failed: bool) -> list[EntityOutcome]:
    """Return the items to retry: those that failed and, if the run did not finish, those it did not reach.

    If items could not be fetched, return only those: the others just need a run without them.
    """
    refused = [outcome for outcome in outcomes if outcome.fetch_failure is not None]
    if refused:
        return refused
    return [outcome for outcome in outcomes if not outcome.completed and (failed or outcome.failures)]


def write_outcomes(outcomes: Sequence[EntityOutcome]) -> str:
    """Serialise outcomes for the ledger."""
    return msgspec.json.encode(outcomes).decode()


def read_outcomes(text: str | None) -> list[EntityOutcome]:
    """Parse outcomes from the ledger; empty for a run without outcomes."""
    return [] if text is None else msgspec.json.decode(text, type=list[EntityOutcome])


def write_iids(outcomes: Iterable[EntityOutcome]) -> str:
    """Serialise the requested numbers for the ledger."""
    numbers: dict[str, list[int]] = {"issues": [], "mrs": []}
    for outcome in outcomes:
        numbers[f"{ENTITY_KINDS[outcome.entity_type]}s"].append(outcome.iid)
    return msgspec.json.encode(numbers).decode()


def plain(value: Struct) -> dict[str, Any]:
    """Return an outcome or a failure as plain data, for JSON output."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def preflight_error(report: SurgicalReport) -> SurgicalPreflightFailed:
    """Return the error of a run in which some items could not be fetched."""
    failures = report.entity_failures
    told = "; ".join(f"{failure.reference}: {failure.message}" for failure in failures)
    one = report.requested_count == 1
    counted = "the item" if one else f"{len(failures)} of {report.requested_count} items"
    return SurgicalPreflightFailed(
        f"failed to fetch {counted}, nothing was stored: {told}",
        run_id=report.run_id,
        total=report.requested_count,
        failures=[plain(failure) for failure in failures],
        entity_outcomes=[plain(outcome) for outcome in report.entity_outcomes],
        recovery_actions=report.recovery_actions,
        fix=f"fix or omit the failed items; retry later with: lore sync --retry-failed {report.run_id}",
    )


def surgical_verdict(report: SurgicalReport) -> PartialSuccess | None:
    """Return the error of a run whose items are stored but some of whose children could not be fetched."""
    failures = report.entity_failures
    if not failures:
        return None
    return PartialSuccess(
        f"failed to fetch {len(failures)} lists of these items; will retry",
        fix=f"lore sync --retry-failed {report.run_id}",
        failed=[plain(failure) for failure in failures],
    )


def _flag(outcome: EntityOutcome) -> str:
    # Quoted, because `#` and `!` are special in shells.
    return f"--{ENTITY_KINDS[outcome.entity_type]} '{outcome.reference}'"
