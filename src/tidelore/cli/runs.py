"""A run's report for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelore.cli.render import plural

if TYPE_CHECKING:
    from tidelore.pipeline.report import RunReport, ScopeReport

NOUNS = {"issues": "issue", "merge_requests": "MR"}


def report_data(report: RunReport) -> dict[str, Any]:
    """Return a report as data."""
    return {
        "run_id": report.run_id,
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
        "crashed_runs_closed": report.crashed_runs,
        "lease": report.taken_over,
        "scopes": [_scope(scope) for scope in report.scopes],
        "scrubbed": [_scope(scope) for scope in report.scrubbed],
    }


def report_lines(report: RunReport, resource: str) -> list[str]:
    """Return the summary of an ingestion."""
    noun = NOUNS.get(resource, resource)
    lines = [f"Ingesting {resource.replace('_', ' ')}..."]
    lines += [f"  closed run {run_id}: its process was gone" for run_id in report.crashed_runs]
    for scope in report.scopes:
        if scope.error is not None:
            lines.append(f"  {scope.project}: failed: {scope.error.message}")
            continue
        lines.append(f"  {scope.project}: {_found(scope, noun)}")
    tallies = [scope.tally for scope in report.scopes]
    lines.append(
        f"Total: {sum(t.created for t in tallies):,} new, {sum(t.changed for t in tallies):,} changed, "
        f"{sum(t.replayed for t in tallies):,} already stored; "
        f"{plural(report.requests, 'request')} in {report.seconds:.1f} s"
    )
    return lines + [line for line in scrub_lines(report) if report.scrubbed]


def scrub_lines(report: RunReport) -> list[str]:
    """Return the summary of a verification."""
    if not report.scrubbed:
        return ["Verified: nothing to verify yet; run `lore ingest` first"]
    verified = sum(scope.tally.fetched for scope in report.scrubbed)
    changed = sum(scope.tally.created + scope.tally.changed for scope in report.scrubbed)
    gone = sum(scope.tally.gone for scope in report.scrubbed)
    lists = plural(len(report.scrubbed), "list")
    return [f"Verified {verified:,} stored items in {lists}: {changed:,} corrected, {gone:,} gone"]


def _found(scope: ScopeReport, noun: str) -> str:
    tally = scope.tally
    parts = [f"{plural(tally.created + tally.changed, noun)} fetched"]
    if tally.changed:
        parts.append(f"{tally.changed:,} of them changed")
    if scope.links.labels_created:
        parts.append(f"{plural(scope.links.labels_created, 'new label')}")
    if scope.links.assignees:
        parts.append(plural(scope.links.assignees, "assignee"))
    if scope.links.reviewers:
        parts.append(plural(scope.links.reviewers, "reviewer"))
    if tally.quarantined:
        parts.append(f"{tally.quarantined:,} in quarantine")
    if tally.cursor_reset:
        parts.append(f"cursor reset ({tally.cursor_reset})")
    return ", ".join(parts)


def _scope(scope: ScopeReport) -> dict[str, Any]:
    tally = {name: getattr(scope.tally, name) for name in scope.tally.__struct_fields__}
    links = {name: getattr(scope.links, name) for name in scope.links.__struct_fields__}
    error = None
    if scope.error is not None:
        error = {"code": scope.error.code, "message": scope.error.message, "retryable": scope.error.retryable}
    return {
        "source": scope.source,
        "surface": scope.surface,
        "project": scope.project,
        **tally,
        **links,
        "error": error,
    }
