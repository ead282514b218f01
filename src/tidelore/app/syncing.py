"""Use-cases that update the local copy: sync, ingest, generate documents, compute embeddings.

A sync polls GitHub and Bluesky and mirrors projects, or refreshes named items only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from tidelore.app.accounts import AccountsPoll, follows_accounts, plan_followed, poll_followed
from tidelore.app.answers import copy_fields, means
from tidelore.app.feedback_polling import (
    FeedbackPollRequest,
    PolledRepos,
    ReposPlan,
    act_on_run,
    plan_repositories,
)
from tidelore.app.mirroring import document, embed, mirror, surgical_sync, sync
from tidelore.app.reading.own_logins import learn_logins
from tidelore.app.reports import (
    AccountsPlan,
    DocumentCounts,
    EmbedCounts,
    MirrorRun,
    PolledAccounts,
    RefreshedItems,
    document_counts,
    embed_counts,
    mirror_run,
    refreshed_items,
)
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import Config, feedback_hosts, forge_hosts, override_sync
from tidelore.core.errors import BudgetSpent, Cancelled, PartialSuccess, TideloreError
from tidelore.core.progress import OnProgress, silent
from tidelore.core.references import KINDS
from tidelore.feedback.repositories import expects_feedback
from tidelore.store.work.last_sync import last_success_at

if TYPE_CHECKING:
    from tidelore.feedback.report import RepoReport
    from tidelore.sync.report import RunReport
    from tidelore.sync.surgical_preflight import RequestedItem, SurgicalFlags

FORGES = ("github", "gitlab")
"""The forges whose comments become events."""
STAGES = ("ingest", "dependents", "scrub", "docs", "embed")
"""The stages of a sync."""
ITEM_STAGES = ("preflight", "ingest", "dependents", "docs", "embed")
"""The stages of a sync of named items."""
_LEFT_OUT = ("events", "file_changes", "status", "docs", "embed")


class Polls(Struct, frozen=True, kw_only=True):
    """The polls of a sync; null for one that failed."""

    github: Annotated[PolledRepos | UnsetType | None, means("the data of lore poll github, or null if it failed")] = (
        UNSET
    )
    gitlab: Annotated[
        PolledRepos | UnsetType | None, means("the data of lore poll gitlab, where feedback is configured")
    ] = UNSET
    bluesky: Annotated[
        PolledAccounts | UnsetType | None, means("the data of lore poll bluesky, or null if it failed")
    ] = UNSET


class SyncRun(MirrorRun, frozen=True, kw_only=True):
    """The answer of `lore sync`.

    Where GitHub repositories or Bluesky accounts are polled, `polled` is present; without projects to mirror the only
    other field is `embeddings`. Fields marked *items* belong to a sync with `--issue`, `--mr` or `--retry-failed`.
    """

    documents: Annotated[DocumentCounts | None, means("null with --no-docs, otherwise the result")]
    embeddings: Annotated[EmbedCounts | None, means("null with --no-embed or without a provider, otherwise the result")]
    stage_timings_ms: Annotated[
        dict[str, int],
        means("duration of each stage: preflight (items), ingest, dependents, scrub, docs, embed"),
    ]
    polled: Polls | UnsetType = UNSET
    budget: Annotated[
        SyncBudget | UnsetType, means("with --max-requests or --reserve-rate-limit: what was used and left")
    ] = UNSET


class SyncBudget(Struct, frozen=True, kw_only=True):
    """What a sync with --max-requests or --reserve-rate-limit used, and what is left for the next one."""

    max_requests: Annotated[int | None, means("the most requests that were allowed, or null")]
    reserve_rate_limit: Annotated[int | None, means("what each rate limit was to keep, or null")]
    requests: Annotated[int, means("requests sent, including retries")]
    spent: Annotated[
        list[str], means("why no more requests were sent, one entry for each server; empty if all is read")
    ]
    lists_left: Annotated[list[str], means("lists, or lists with items, that are not read to their end")]
    accounts_left: Annotated[int, means("Bluesky accounts that are not read yet")]


class PollRun(Struct, frozen=True, kw_only=True):
    """The answer of `lore sync` if there is nothing to mirror, or if mirroring failed."""

    polled: Polls
    embeddings: Annotated[
        EmbedCounts | UnsetType | None,
        means("null with --no-embed or without a provider, otherwise the result"),
    ] = UNSET
    budget: Annotated[
        SyncBudget | UnsetType, means("with --max-requests or --reserve-rate-limit: what was used and left")
    ] = UNSET


class PlannedHost(Struct, frozen=True, kw_only=True):
    """A host that a sync would read."""

    source: Annotated[str, means("--dry-run: the configured host")]
    base_url: Annotated[str, means("--dry-run: its address")]
    projects: Annotated[list[str], means("--dry-run: its configured projects")]
    groups: Annotated[list[str], means("--dry-run: its configured groups")]


class PlannedPolls(Struct, frozen=True, kw_only=True):
    """The polls that a sync would run."""

    github: ReposPlan | UnsetType = UNSET
    gitlab: ReposPlan | UnsetType = UNSET
    bluesky: AccountsPlan | UnsetType = UNSET


class SyncPlan(Struct, frozen=True, kw_only=True):
    """The answer of `lore sync --dry-run`."""

    dry_run: Annotated[bool, means("--dry-run: true")] = True
    hosts: list[PlannedHost] | UnsetType = UNSET
    project: Annotated[str | UnsetType | None, means("--dry-run: the only project, or null for all")] = UNSET
    stages: Annotated[list[str] | UnsetType, means("--dry-run: the stages that would run")] = UNSET
    left_out: Annotated[list[str] | UnsetType, means("--dry-run: what would be skipped")] = UNSET
    polled: PlannedPolls | UnsetType = UNSET


class PlannedItem(Struct, frozen=True, kw_only=True):
    """An item that a sync would refresh."""

    entity_type: Annotated[str, means("--dry-run: issue or merge_request")]
    iid: Annotated[int, means("--dry-run: its number")]
    reference: Annotated[str, means("--dry-run: its full reference")]
    source: Annotated[str, means("--dry-run: the host")]


class ItemsPlan(Struct, frozen=True, kw_only=True):
    """The answer of `lore sync --dry-run` with `--issue` or `--mr`."""

    dry_run: Annotated[bool, means("--dry-run: true")] = True
    targets: list[PlannedItem]
    stages: Annotated[list[str], means("--dry-run: the stages that would run")]
    left_out: Annotated[list[str], means("--dry-run: what would be skipped")]


class SyncRequest(Struct, frozen=True, kw_only=True):
    """The options of `lore sync`."""

    project: str | None = None
    issue: tuple[str, ...] = ()
    mr: tuple[str, ...] = ()
    preflight_only: bool = False
    retry_failed: int | None = None
    full: bool = False
    force: bool = False
    wait: float = 0.0
    no_events: bool = False
    no_file_changes: bool = False
    no_status: bool = False
    no_docs: bool = False
    no_embed: bool = False
    dry_run: bool = False
    max_requests: int | None = None
    reserve_rate_limit: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the number of requests is limited."""
        return self.max_requests is not None or self.reserve_rate_limit is not None

    def left_out(self, config: Config) -> set[str]:
        """Return what is skipped."""
        off = {"embed"} if config.embedding.provider == "none" else set()
        return off | {name for name in _LEFT_OUT if getattr(self, f"no_{name}")}

    @property
    def names_items(self) -> bool:
        """Whether only named items are refreshed."""
        return bool(self.issue or self.mr) or self.retry_failed is not None


class SyncOutcome(Struct, frozen=True, kw_only=True):
    """What a sync did, its error, and why polls or the mirroring failed as a whole, by their names."""

    answer: SyncRun | PollRun | RefreshedItems
    error: TideloreError | None = None
    failed: dict[str, str] = {}


def plan_sync(app: App, request: SyncRequest) -> SyncPlan | ItemsPlan:
    """Return what a sync would do, without lock, database or network."""
    asked, flags = _read_request(request)
    left_out = request.left_out(app.config)
    if request.names_items:
        return _plan_items(app, asked, flags, left_out)
    polled = [] if request.project else _polled_sources(app)
    plan = _plan_mirror(app.config, request.project, left_out) if _mirrors(app.config) or not polled else SyncPlan()
    if not polled:
        return plan
    return replace(
        plan,
        polled=PlannedPolls(
            **{kind: plan_repositories(app, FeedbackPollRequest(kind=kind)) for kind in FORGES if kind in polled},
            bluesky=plan_followed(app, AccountsPoll()) if "bluesky" in polled else UNSET,
        ),
    )


def run_sync(app: App, request: SyncRequest, on_progress: OnProgress) -> SyncOutcome:
    """Sync projects and poll Bluesky, or refresh named items; a failing part does not stop the others.

    With a limit of requests, the outcome says what it left for the next sync. The first complete sync also asks each
    host for our login: `lore doctor`, which is run before it, has no database to store it in.
    """
    # A limit of requests is kept: the login is asked for by `lore doctor` or the service then.
    is_first = not request.names_items and not request.is_limited and not _has_synced(app)
    outcome = _run_within_limits(app, request, on_progress)
    if is_first and outcome.error is None and forge_hosts(app.config):
        run_until_signalled(learn_logins(app))
    return outcome


def _has_synced(app: App) -> bool:
    try:
        with app.store() as database:
            return last_success_at(database) is not None
    except TideloreError:
        # The sync itself reports what is wrong with the database.
        return False


def _run_within_limits(app: App, request: SyncRequest, on_progress: OnProgress) -> SyncOutcome:
    if not request.is_limited:
        return _run_sync(app, request, on_progress)
    from tidelore.http.limits import RequestAllowance

    allowance = RequestAllowance(request.max_requests, request.reserve_rate_limit)
    outcome = _run_sync(replace(app, allowance=allowance), request, on_progress)
    answer = outcome.answer
    if isinstance(answer, RefreshedItems):
        return outcome
    lists = [] if isinstance(answer, PollRun) else [f"{one.project} {one.surface}" for one in answer.scopes if one.left]
    polled = answer.polled.bluesky if answer.polled is not UNSET else UNSET
    refusals = allowance.refusals
    budget = SyncBudget(
        max_requests=request.max_requests,
        reserve_rate_limit=request.reserve_rate_limit,
        requests=allowance.sent,
        spent=[f"{origin}: {error.message}" for origin, error in refusals.items()],
        lists_left=lists,
        accounts_left=polled.left if isinstance(polled, PolledAccounts) else 0,
    )
    error = outcome.error
    if error is None and (lists or refusals):
        error = _spent(budget, next(iter(refusals.values()), None))
    return replace(outcome, answer=replace(answer, budget=budget), error=error)


def _spent(budget: SyncBudget, refusal: BudgetSpent | None) -> BudgetSpent:
    """Return the error of a sync that used up its requests."""
    parts = [f"{len(budget.lists_left):,} lists"] if budget.lists_left else []
    parts += [f"{budget.accounts_left:,} accounts"] if budget.accounts_left else []
    why = "the requests of --max-requests are used up" if refusal is None else refusal.message
    return BudgetSpent(
        f"{why}; not read to the end: {' and '.join(parts) or 'a part of the verification'}; the rest is stored",
        fix="run `lore sync` again: it continues there",
        reason="budget",
        requests=budget.requests,
    )


def _run_sync(app: App, request: SyncRequest, on_progress: OnProgress) -> SyncOutcome:
    asked, flags = _read_request(request)
    left_out = request.left_out(app.config)
    polled = [] if request.names_items or request.project else _polled_sources(app)
    selective = replace(app, config=_without(app.config, left_out))
    if request.names_items:
        flags = replace(flags, no_embed="embed" in left_out)
        return _refresh_items(selective, asked, flags, request, on_progress)
    if not polled:
        run, error, _ = _mirror_projects(selective, request, left_out, on_progress)
        return SyncOutcome(answer=run, error=error)
    accounts = [name for name in polled if name == "bluesky"]
    with _half_for(app, _mirrors(app.config)):
        polls, errors, failed = _run_polls(app, request, accounts, left_out, on_progress)
    if not _mirrors(app.config):
        made = compute_embeddings(app)[0] if "bluesky" in polled and "embed" not in left_out else None
        app.note_synced()
        return SyncOutcome(
            answer=PollRun(polled=polls, embeddings=made), error=errors[0] if errors else None, failed=failed
        )
    feedback: dict[int, RepoReport] = {}
    try:
        run, error, ran = _mirror_projects(selective, request, left_out, on_progress, feedback)
        for kind in (kind for kind in FORGES if kind in polled):
            # What the repositories led to: commands are applied, replies sent and handlers run.
            acted, troubles = act_on_run(app, ran, feedback, kind)
            polls = replace(polls, **{kind: acted})
            errors += [] if troubles is None else [troubles]
    except TideloreError as stopped:
        if isinstance(stopped, Cancelled) or errors:
            raise
        return SyncOutcome(
            answer=PollRun(polled=polls), error=_combined([stopped]), failed=failed | {"mirror": stopped.message}
        )
    found = [*([] if error is None else [error]), *errors[:1]]
    combined = _combined(found) if accounts else next(iter(found), None)
    return SyncOutcome(answer=replace(run, polled=polls), error=combined, failed=failed)


@contextmanager
def _half_for(app: App, others: bool) -> Iterator[None]:  # noqa: FBT001
    """Leave half of the requests to what comes after the block, if there is anything."""
    allowance = app.allowance
    if allowance is None or allowance.max_requests is None or not others:
        yield
        return
    whole = allowance.max_requests
    allowance.max_requests = (whole + 1) // 2
    try:
        yield
    finally:
        allowance.max_requests = whole


def ingest(
    app: App,
    resource: str,
    on_progress: OnProgress,
    *,
    project: str | None = None,
    full: bool = False,
    force: bool = False,
    statuses: bool = True,
) -> tuple[MirrorRun, TideloreError | None]:
    """Fetch issues or merge requests with their children; also return the error of a run that is not complete."""
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    request = MirrorRequest((resource,), project, full=full, force=force, statuses=statuses)
    report = run_until_signalled(mirror(app, request, f"lore ingest --type {resource}", on_progress))
    app.note_synced()
    return mirror_run(report), run_verdict(report.scopes, report.scrubbed)


def generate_documents(
    app: App, on_progress: OnProgress, *, full: bool = False, force: bool = False
) -> tuple[DocumentCounts, TideloreError | None]:
    """Update the search documents of changed items; also return the error of items that could not be converted."""
    made = run_until_signalled(document(app, full=full, force=force, on_progress=on_progress))
    app.note_synced()
    error = None
    if made.failed:
        sources = "1 source" if made.failed == 1 else f"{made.failed:,} sources"
        error = PartialSuccess(
            f"{sources} could not be converted to a document; will retry",
            fix="run `lore check` and report its output",
            failed=made.failed,
        )
    return copy_fields(DocumentCounts, made), error


def compute_embeddings(
    app: App, on_progress: OnProgress = silent, *, full: bool = False
) -> tuple[EmbedCounts, TideloreError | None]:
    """Compute missing embeddings; also return the error if none can be computed."""
    fate = "embeddings computed so far are stored"
    made = run_until_signalled(embed(app, full=full, on_progress=on_progress), fate)
    app.note_synced()
    return embed_counts(made), made.error


def _read_request(request: SyncRequest) -> tuple[list[RequestedItem], SurgicalFlags]:
    from tidelore.sync.surgical_preflight import SurgicalFlags, check_flags, read_asked

    asked = [read_asked(text, kind) for kind in KINDS for text in getattr(request, kind)]
    flags = copy_fields(SurgicalFlags, request)
    check_flags(flags, asked)
    return asked, flags


def _mirrors(config: Config) -> bool:
    """Return whether a project or group of a forge is configured to be mirrored."""
    return bool(forge_hosts(config))


def _polled_sources(app: App) -> list[str]:
    hosts = [host for host in feedback_hosts(app.config) if host.configured and expects_feedback(host)]
    found = [kind for kind in FORGES if any(host.kind == kind for host in hosts)]
    return [*found, "bluesky"] if follows_accounts(app) else found


def _run_polls(
    app: App, request: SyncRequest, sources: Sequence[str], left_out: set[str], on_progress: OnProgress
) -> tuple[Polls, list[TideloreError], dict[str, str]]:
    """Poll each source; return what was read, the errors, and why polls failed as a whole."""
    accounts = AccountsPoll(full=request.full, force=request.force, documents="docs" not in left_out)
    polls: dict[str, Callable[[], tuple[Any, TideloreError | None]]] = {
        "bluesky": lambda: poll_followed(app, accounts, on_progress),
    }
    found: dict[str, Any] = {}
    errors: list[TideloreError] = []
    failed: dict[str, str] = {}
    for name in sources:
        try:
            found[name], error = polls[name]()
        except Cancelled:
            raise
        except TideloreError as stopped:
            found[name], error = None, stopped
            failed[name] = stopped.message
        errors += [] if error is None else [error]
    return Polls(**found), errors, failed


def _mirror_projects(
    app: App,
    request: SyncRequest,
    left_out: set[str],
    on_progress: OnProgress,
    feedback: dict[int, RepoReport] | None = None,
) -> tuple[SyncRun, TideloreError | None, RunReport]:
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    wanted = MirrorRequest(
        RESOURCES,
        request.project,
        full=request.full,
        force=request.force,
        wait_seconds=request.wait,
        statuses="status" not in left_out,
        documents="docs" not in left_out,
        allowance=app.allowance,
    )
    work = sync(app, wanted, embedding="embed" not in left_out, on_progress=on_progress, feedback=feedback)
    report, made = run_until_signalled(work)
    app.note_synced()
    run = copy_fields(
        SyncRun,
        mirror_run(report),
        documents=document_counts(report.documents),
        embeddings=None if made is None else embed_counts(made),
        stage_timings_ms={name: round(seconds * 1000) for name, seconds in report.stage_seconds.items()},
        polled=UNSET,
        budget=UNSET,
    )
    return run, run_verdict(report.scopes, report.scrubbed), report


def _refresh_items(
    app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags, request: SyncRequest, on_progress: OnProgress
) -> SyncOutcome:
    """Refresh the named items, or those that an earlier run left."""
    from tidelore.sync.report import SurgicalReport, surgical_verdict

    report = SurgicalReport()
    error: TideloreError | None = None
    try:
        work = surgical_sync(
            app, asked, flags, report, force=request.force, wait_seconds=request.wait, on_progress=on_progress
        )
        run_until_signalled(work, "stored data is kept")
        error = surgical_verdict(report)
    except TideloreError as stopped:
        if report.run_id is None:
            raise
        error = stopped
        error.details.setdefault("run_id", report.run_id)
    app.note_synced()
    return SyncOutcome(answer=refreshed_items(report), error=error)


def _plan_items(app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags, left_out: set[str]) -> ItemsPlan:
    from tidelore.sync.projects import check_configured
    from tidelore.sync.surgical_preflight import select

    check_configured(app.config)
    # Without the database, groups and renamed projects are not known, so names are used as given.
    choices = select(app.config, [], asked, flags.project)
    skipped = {"ingest", "dependents", "docs", "embed"} if flags.preflight_only else left_out
    return ItemsPlan(
        targets=[copy_fields(PlannedItem, choice.begin()) for choice in choices],
        stages=[name for name in ITEM_STAGES if name not in skipped],
        left_out=sorted(left_out),
    )


def _plan_mirror(config: Config, project: str | None, left_out: set[str]) -> SyncPlan:
    from tidelore.sync.projects import check_configured

    check_configured(config)
    return SyncPlan(
        hosts=[
            PlannedHost(
                source=host.name, base_url=host.base_url, projects=list(host.projects), groups=list(host.groups)
            )
            for host in forge_hosts(config)
        ],
        project=project,
        stages=[name for name in STAGES if name not in left_out],
        left_out=sorted(left_out),
    )


def _without(config: Config, left_out: set[str]) -> Config:
    """Return the settings with some kinds of child items disabled for every project."""
    names = {"events": "fetch_resource_events", "file_changes": "fetch_mr_diffs"}
    off: dict[str, Any] = {names[name]: False for name in left_out & names.keys()}
    return override_sync(config, **off) if off else config


def _combined(errors: Sequence[TideloreError]) -> TideloreError | None:
    """Return the error of a sync of several sources: a partial success if one failed and the others were synced."""
    if len(errors) != 1 or isinstance(errors[0], PartialSuccess):
        return errors[0] if errors else None
    error = errors[0]
    return PartialSuccess(
        f"{error.message}; the other sources are synced",
        fix=error.fix,
        failed=[{"code": error.code, "message": error.message, **error.details}],
    )
