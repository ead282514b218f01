"""`lore sync --issue|--mr|--retry-failed`: refreshes named items and renders the report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from tidelore.cli.embed import embed_data, embed_line
from tidelore.cli.render import Answer, plural
from tidelore.cli.stages import CHILDREN, STAGES, documents_data, documents_line, notice_lines, stage_line
from tidelore.core.errors import TideloreError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelore.app.wiring import App
    from tidelore.cli.face import Face
    from tidelore.sync.report import EntityOutcome, SurgicalReport
    from tidelore.sync.surgical_preflight import RequestedItem, SurgicalFlags

_STAGES: Mapping[str, str] = {"preflight": "preflight", **STAGES, "ingest": "items"}


def plan(app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags, left_out: Collection[str]) -> Answer:
    """Return what would be fetched, without database and network."""
    from tidelore.sync.projects import check_configured
    from tidelore.sync.surgical_preflight import select

    check_configured(app.config)
    # What the copy knows of groups and renamed projects is not known here: names are taken as they were written.
    choices = select(app.config, [], asked, flags.project)
    skipped = {"ingest", "dependents", "docs", "embed"} if flags.preflight_only else set(left_out)
    stages = [name for name in _STAGES if name not in {*skipped, "scrub"}]
    targets = [
        {
            "entity_type": outcome.entity_type,
            "iid": outcome.iid,
            "reference": outcome.reference,
            "source": outcome.source,
        }
        for outcome in (choice.begin() for choice in choices)
    ]
    lines = ["Dry run. Would fetch:"]
    lines += [f"  {target['reference']} from {target['source']}" for target in targets]
    lines.append(f"  stages: {', '.join(_STAGES[name] for name in stages)}")
    return Answer({"dry_run": True, "targets": targets, "stages": stages, "left_out": sorted(left_out)}, lines)


def run(
    face: Face, app: App, asked: Sequence[RequestedItem], flags: SurgicalFlags, *, force: bool, wait_seconds: float
) -> Answer:
    """Refresh the named items, or those that an earlier run left."""
    from tidelore.app.mirroring import surgical_sync
    from tidelore.app.wiring import run_until_signalled
    from tidelore.cli.progress import progress
    from tidelore.sync.report import SurgicalReport, surgical_verdict

    report = SurgicalReport()
    error: TideloreError | None = None
    try:
        with progress(face) as on_progress:
            work = surgical_sync(
                app, asked, flags, report, force=force, wait_seconds=wait_seconds, on_progress=on_progress
            )
            run_until_signalled(work, "stored data is kept")
        error = surgical_verdict(report)
    except TideloreError as stopped:
        if report.run_id is None:
            raise
        error = stopped
        error.details.setdefault("run_id", report.run_id)
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(report_data(report), _lines(report, flags), error)


def report_data(report: SurgicalReport) -> dict[str, Any]:
    """Return a report as data."""
    from tidelore.sync.report import plain

    return {
        "run_id": report.run_id,
        "completion_status": report.completion_status,
        "preflight_only": report.preflight_only,
        "requested_count": report.requested_count,
        "fetched_count": report.fetched_count,
        "processed_count": report.processed_count,
        "skipped_stale": len(report.skipped_stale_iids),
        "skipped_stale_iids": report.skipped_stale_iids,
        "entity_failures": [plain(failure) for failure in report.entity_failures],
        "entity_outcomes": [plain(outcome) for outcome in report.entity_outcomes],
        "children": dict(report.children),
        "documents": documents_data(report.documents),
        "embeddings": None if report.embeddings is None else embed_data(report.embeddings),
        "stage_timings_ms": report.stage_timings_ms,
        "recovery_actions": report.recovery_actions,
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
    }


def outcome_line(outcome: EntityOutcome) -> str:
    """Return the outcome of one item."""
    if outcome.stale_skipped:
        fate = "skipped: the stored version is newer"
    elif outcome.ingested:
        fate = "stored" if not outcome.dependent_failures else "stored, but incomplete"
    else:
        fate = "fetched, not stored" if outcome.fetched else "not fetched"
    return f"{outcome.reference}: {fate}"


def failure_lines(outcomes: Sequence[EntityOutcome]) -> list[str]:
    """Return one line for each failure."""
    return [
        f"  {failure.reference} {failure.stage}: {failure.code}, {one_line(failure.message)}"
        for outcome in outcomes
        for failure in outcome.failures
    ]


def _lines(report: SurgicalReport, flags: SurgicalFlags) -> list[str]:
    """Return one line per stage, then failures and how to continue, then the cost."""
    if report.run_id is None:
        return [f"Run {flags.retry_failed}: nothing to retry."]
    told, troubled = _told(report), _troubled(report)
    lines = [
        stage_line(_STAGES[name], told[name], took / 1000, troubled=troubled[name])
        for name, took in report.stage_timings_ms.items()
    ]
    lines += failure_lines(report.entity_outcomes)
    lines += [f"  {outcome_line(outcome)}" for outcome in report.entity_outcomes if outcome.stale_skipped]
    lines += notice_lines(report.embeddings)
    lines += [f"{'or' if place else 'To retry'}: {action}" for place, action in enumerate(report.recovery_actions)]
    lines.append(f"Run {report.run_id}: {plural(report.requests, 'request')} in {report.seconds:.1f} s")
    return lines


def _told(report: SurgicalReport) -> dict[str, str]:
    outcomes = report.entity_outcomes
    stale = len(report.skipped_stale_iids)
    seen = [plural(report.children[key], word) for key, word in CHILDREN.items() if report.children[key]]
    return {
        "preflight": f"{_items([one for one in outcomes if one.fetched])} fetched",
        "ingest": f"{_items([one for one in outcomes if one.ingested])} stored"
        + (f", {stale} skipped" if stale else ""),
        "dependents": ", ".join(seen) or "none",
        "docs": "none made" if report.documents is None else documents_line(report.documents),
        "embed": "none made"
        if report.embeddings is None or not report.embeddings.model
        else embed_line(report.embeddings),
    }


def _troubled(report: SurgicalReport) -> dict[str, bool]:
    outcomes = report.entity_outcomes
    return {
        "preflight": any(outcome.fetch_failure for outcome in outcomes),
        "ingest": not any(outcome.ingested or outcome.stale_skipped for outcome in outcomes),
        "dependents": any(outcome.dependent_failures for outcome in outcomes),
        "docs": report.documents is None or report.documents.failed > 0,
        "embed": report.embeddings is None or report.embeddings.notice is not None,
    }


def _items(outcomes: Sequence[EntityOutcome]) -> str:
    issues = sum(outcome.entity_type == "issue" for outcome in outcomes)
    parts = [plural(issues, "issue")] if issues or not outcomes else []
    return ", ".join([*parts, *([plural(len(outcomes) - issues, "MR")] if len(outcomes) > issues else [])])
