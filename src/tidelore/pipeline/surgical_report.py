"""What became of each item a surgical run was asked for. Owns the shape of outcomes, and the verdict over them.

Pure. An outcome is written into the ledger and read back from there: what is left to be done is told by it alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from tidelore.core.errors import PartialSuccess, SurgicalPreflightFailed
from tidelore.core.references import SIGNS, Kind
from tidelore.pipeline.report import DocumentReport, EmbedReport

EntityType = Literal["issue", "merge_request"]
Completion = Literal["running", "succeeded", "succeeded_with_warnings", "failed", "cancelled"]

ENTITY_TYPES: dict[Kind, EntityType] = {"issue": "issue", "mr": "merge_request"}
KINDS: dict[EntityType, Kind] = {entity_type: kind for kind, entity_type in ENTITY_TYPES.items()}
FETCH = "fetch"
"""The stage of what fails before anything is written."""


class EntityFailure(Struct, frozen=True):
    """One thing that failed for one item, in which stage and why. `held`: the copy has the item all the same."""

    entity_type: EntityType
    iid: int
    reference: str
    source: str
    stage: str
    code: str
    message: str
    held: bool = False


class EntityOutcome(Struct):
    """One item that was asked for. It is `completed` when nothing is left to be done of it."""

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
        """Note that something failed for this item."""
        failure = EntityFailure(self.entity_type, self.iid, self.reference, self.source, stage, code, message, held)
        if stage == FETCH:
            self.fetch_failure = failure
        else:
            self.dependent_failures.append(failure)
        return failure


class SurgicalReport(Struct):
    """One surgical run, while it goes on and after it."""

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
        """How many are stored, with everything that belongs to them."""
        return sum(outcome.ingested and not outcome.dependent_failures for outcome in self.entity_outcomes)

    @property
    def skipped_stale_iids(self) -> list[tuple[str, int]]:
        return [(outcome.entity_type, outcome.iid) for outcome in self.entity_outcomes if outcome.stale_skipped]

    @property
    def entity_failures(self) -> list[EntityFailure]:
        return [failure for outcome in self.entity_outcomes for failure in outcome.failures]

    @property
    def recovery_actions(self) -> list[str]:
        """The commands that bring about what this run did not."""
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
    """Return what to run after a run that did not bring everything; nothing where nothing is left."""
    actions = [f"lore sync --retry-failed {run_id}"] if to_retry(outcomes, failed=failed) else []
    refused = [outcome for outcome in outcomes if outcome.fetch_failure is not None]
    sound = [outcome for outcome in outcomes if outcome.fetched and outcome.fetch_failure is None]
    if refused and sound:
        actions.append(f"lore sync {' '.join(map(_flag, sound))}")
    if any(failure.held and failure.code == "NOT_FOUND" for outcome in outcomes for failure in outcome.failures):
        actions += ["lore scrub", "lore audit"]
    return actions


def to_retry(outcomes: Sequence[EntityOutcome], *, failed: bool) -> list[EntityOutcome]:
    """Return what to repeat: what failed; and of a run that did not reach its end, what it did not get to.

    Where something could not be fetched, only that: the others wait for nothing but a run without it.
    """
    refused = [outcome for outcome in outcomes if outcome.fetch_failure is not None]
    if refused:
        return refused
    return [outcome for outcome in outcomes if not outcome.completed and (failed or outcome.failures)]


def write_outcomes(outcomes: Sequence[EntityOutcome]) -> str:
    """Return outcomes as the ledger keeps them."""
    return msgspec.json.encode(outcomes).decode()


def read_outcomes(text: str | None) -> list[EntityOutcome]:
    """Return outcomes as the ledger has them; none for a run that kept none."""
    return [] if text is None else msgspec.json.decode(text, type=list[EntityOutcome])


def write_iids(outcomes: Iterable[EntityOutcome]) -> str:
    """Return the numbers that were asked for, as the ledger keeps them."""
    numbers: dict[str, list[int]] = {"issues": [], "mrs": []}
    for outcome in outcomes:
        numbers[f"{KINDS[outcome.entity_type]}s"].append(outcome.iid)
    return msgspec.json.encode(numbers).decode()


def plain(value: Struct) -> dict[str, Any]:
    """Return an outcome or a failure as programs get it."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def preflight_error(report: SurgicalReport) -> SurgicalPreflightFailed:
    """Return the error of a run some of whose items could not be fetched."""
    failures = report.entity_failures
    told = ", ".join(f"{failure.reference} {failure.code}" for failure in failures)
    return SurgicalPreflightFailed(
        f"failed to fetch {len(failures)} of {report.requested_count} items, nothing was stored: {told}",
        run_id=report.run_id,
        total=report.requested_count,
        failures=[plain(failure) for failure in failures],
        entity_outcomes=[plain(outcome) for outcome in report.entity_outcomes],
        recovery_actions=report.recovery_actions,
        fix=f"fix or omit the failed items; retry later with: lore sync --retry-failed {report.run_id}",
    )


def verdict(report: SurgicalReport) -> PartialSuccess | None:
    """Return the error of a run whose items are stored, and not all that belongs to them."""
    failures = report.entity_failures
    if not failures:
        return None
    return PartialSuccess(
        f"failed to fetch {len(failures)} lists of these items; will retry",
        fix=f"lore sync --retry-failed {report.run_id}",
        failed=[plain(failure) for failure in failures],
    )


def _flag(outcome: EntityOutcome) -> str:
    # Quoted, because shells take `#` and `!` for themselves.
    return f"--{KINDS[outcome.entity_type]} '{outcome.reference}'"


def reference_of(path: str, kind: Kind, iid: int) -> str:
    """Return how people write it."""
    return f"{path}{SIGNS[kind]}{iid}"
