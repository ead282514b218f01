"""What a run did, scope by scope. Owns the shape of reports, of progress, and the verdict over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from tidelore.core.errors import CredentialsRejected, PartialSuccess, RateLimited, TideloreError
from tidelore.engine.dependents import DependentTally
from tidelore.engine.intake import Tally
from tidelore.http.limits import Budget
from tidelore.pipeline.slices import ScopeKey
from tidelore.store.mirror.parents import LinkCounts
from tidelore.store.mirror.projects import ProjectRow


class Progress(Struct, frozen=True):
    """How far one stage of one project is; without a total nobody knows how much there is."""

    project: str
    stage: str
    done: int
    total: int | None
    note: str


OnProgress = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Watch nothing."""


class ChildReport(Struct):
    """One kind of children of one scope. `unchanged` parents were not asked for.

    What is not `vital` may be missing: then it is a warning, and the run succeeded all the same. `unavailable`: why the
    server refuses this kind for the whole project, which is no failure of the run.
    """

    kind: str
    due: int = 0
    unchanged: int = 0
    tally: DependentTally = field(default_factory=DependentTally)
    seen: Counter[str] = field(default_factory=Counter)
    vital: bool = True
    unavailable: str | None = None


class ScopeReport(Struct):
    """One scope of a run. `home` is the project's row once it is known, `server_at` the forge's clock.

    When time was up before its list, or the children of what is in it, were read to the end, something was left.
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
    list_left: bool = False
    children_left: bool = False

    @property
    def key(self) -> ScopeKey:
        return self.source, self.configured, self.surface

    @property
    def is_left(self) -> bool:
        return self.list_left or self.children_left

    @property
    def had_turn(self) -> bool:
        """Whether something was tried about all there was to do: of its list, and of the children if any were due."""
        if self.list_left:
            return self.tally.pages > 0
        tried = (child.tally.fetched + child.tally.failed + child.tally.quarantined for child in self.children.values())
        return not self.children_left or any(tried)


class DocumentReport(Struct):
    """What became of the marked sources. `document_ids` were written anew: what has to be embedded."""

    regenerated: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    document_ids: list[int] = field(default_factory=list)


class EmbedReport(Struct):
    """What became of the documents without vectors. `failed` still have none; `error` says why the stage stopped."""

    model: str | None = None
    embedded: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    notice: str | None = None
    error: TideloreError | None = None
    seconds: float = 0.0


class RunReport(Struct):
    """One whole run. `asked` are the requests for each source, `budgets` what each says is left of them."""

    run_id: int
    scopes: list[ScopeReport] = field(default_factory=list)
    scrubbed: list[ScopeReport] = field(default_factory=list)
    documents: DocumentReport | None = None
    embeddings: EmbedReport | None = None
    stage_seconds: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    seconds: float = 0.0
    taken_over: str | None = None
    crashed_runs: list[int] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """How many scopes were not read to the end because time was up."""
        return sum(scope.is_left for scope in self.scopes)


def verdict(scopes: Sequence[ScopeReport], scrubbed: Sequence[ScopeReport] = ()) -> TideloreError | None:
    """Return the error a run as a whole ends with, if any.

    A source that rejects the credentials or limits the rate stops: when that holds for every source, it is the error of
    the run, whatever was stored before. When no list could be read, the first error is. Everything else is partial.
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
