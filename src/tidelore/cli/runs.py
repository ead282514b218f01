"""Renders the report of a run as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelore.cli.render import plural

if TYPE_CHECKING:
    from tidelore.sync.report import ChildReport, RunReport, ScopeReport

NOUNS = {"issues": "issue", "merge_requests": "MR"}
EXTRAS = {
    "events": "event",
    "statuses": "status",
    "closed_issues": "closed issue",
    "files": "file",
    "reviewers": "verified reviewer",
}

_PARENTS = {"issues": "issue", "merge_requests": "merge request"}
CHILD_NAMES = {"closes_issues": "closing issues", "resource_events": "events", "diffs": "changed files"}


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
    lines += [f"  run {run_id}: marked as crashed, its process is gone" for run_id in report.crashed_runs]
    lines += [f"  {scope.project}: {_found(scope, noun)}" for scope in report.scopes]
    lines += _children_lines(report.scopes, noun)
    tallies = [scope.tally for scope in report.scopes]
    seen = seen_of(report.scopes)
    fetched = sum(t.created + t.changed for t in tallies)
    system = seen["system_notes"]
    lines.append(
        f"Total: {plural(fetched, noun)}, {plural(seen['discussions'], 'discussion')}, {plural(seen['notes'], 'note')} "
        f"(excluding {plural(system, 'system note')})"
    )
    unchanged = sum(scope.children["discussions"].unchanged for scope in report.scopes if scope.children)
    if unchanged:
        lines.append(f"Skipped discussion sync for {unchanged:,} unchanged {noun if unchanged == 1 else noun + 's'}.")
    lines.append(
        f"{plural(sum(t.created for t in tallies), f'new {noun}')}, {sum(t.changed for t in tallies):,} changed, "
        f"{sum(t.replayed for t in tallies):,} already stored; "
        f"{plural(report.requests, 'request')} in {report.seconds:.1f} s"
    )
    return lines + [line for line in scrub_lines(report) if report.scrubbed]


def _children_lines(scopes: Sequence[ScopeReport], noun: str) -> list[str]:
    """Return what was fetched for changed items."""
    due = sum(scope.children["discussions"].due for scope in scopes if scope.children)
    lines = [f"Fetching discussions ({plural(due, noun)} with updates)..."] if due else []
    for scope in scopes:
        done = scope.children.get("discussions")
        seen, behind = seen_of([scope]), _behind(scope)
        if done is not None and (any(seen.values()) or done.tally.fetched):
            diffs = f" ({plural(seen['diff_notes'], 'DiffNote')})" if seen["diff_notes"] else ""
            parts = [plural(seen["discussions"], "discussion"), plural(seen["notes"], "note") + diffs]
            parts += [plural(seen[key], word) for key, word in EXTRAS.items() if seen[key]]
            lines.append(f"  {scope.project}: {plural(done.tally.fetched, noun)} -> {', '.join(parts)}")
        lines += [f"  {scope.project}: {line}" for line in behind]
    return lines


def trouble_lines(scopes: Sequence[ScopeReport]) -> list[str]:
    """Return what was skipped, what failed and what is due."""
    lines = []
    for scope in scopes:
        name = f"  {scope.project} {scope.surface.rpartition('.')[2].replace('_', ' ')}"
        if scope.error is not None or scope.skipped is not None:
            lines.append(f"{name}: {_found(scope, '')}")
        lines += [f"{name}: {line}" for line in _behind(scope)]
    return lines


def _behind(scope: ScopeReport) -> list[str]:
    """Return which details of a list's items failed, are in quarantine, or are fetched again later."""
    noun = _PARENTS.get(scope.surface.rpartition(".")[2], "item")
    lines = []
    for child in scope.children.values():
        word = CHILD_NAMES.get(child.kind, child.kind.replace("_", " "))
        if child.unavailable is not None:
            lines.append(f"{word}: unavailable in this project ({child.unavailable}); `lore sync-status` shows more")
        if child.tally.failed:
            lines.append(f"{plural(child.tally.failed, noun)}: failed to fetch {word}; will retry")
        if child.tally.quarantined:
            lines.append(f"{child.tally.quarantined:,} {word} in quarantine; stored versions are kept")
        if child.tally.waiting:
            told = f"{word} changed just now; will be fetched again after the settle time"
            lines.append(f"{plural(child.tally.waiting, noun)}: {told}")
    return lines


def seen_of(scopes: Sequence[ScopeReport]) -> Counter[str]:
    total: Counter[str] = Counter()
    for scope in scopes:
        for child in scope.children.values():
            total.update(child.seen)
    return total


def scrub_lines(report: RunReport) -> list[str]:
    """Return the summary of a verification."""
    if not report.scrubbed:
        return ["Nothing to verify yet; run `lore sync` or `lore poll bluesky` first"]
    verified = sum(scope.tally.fetched for scope in report.scrubbed)
    changed = sum(scope.tally.created + scope.tally.changed for scope in report.scrubbed)
    gone = sum(scope.tally.gone for scope in report.scrubbed)
    lines = []
    if verified or any(scope.tally.pages for scope in report.scrubbed):
        lists = plural(sum(1 for scope in report.scrubbed if scope.tally.pages), "list")
        lines.append(
            f"Verified {plural(verified, 'stored item')} in {lists}: {changed:,} corrected, {gone:,} deleted remotely"
        )
    children = [child.tally for scope in report.scrubbed for child in scope.children.values()]
    read = sum(tally.fetched for tally in children)
    if read:
        corrected = sum(tally.changed for tally in children)
        lines.append(f"Verified the children of {plural(read, 'item')}: {corrected:,} corrected")
    lines += [
        f"  {scope.project}: {_found(scope, '')}"
        for scope in report.scrubbed
        if scope.error is not None or scope.skipped is not None
    ]
    return lines


def _found(scope: ScopeReport, noun: str) -> str:
    if scope.error is not None:
        return f"failed: {scope.error.message}"
    if scope.skipped is not None:
        return f"skipped: {scope.skipped}"
    tally = scope.tally
    parts = [f"{plural(tally.created + tally.changed, noun)} fetched"]
    if tally.changed:
        parts.append(f"{tally.changed:,} of them updated")
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
        "children": [_child(child) for child in scope.children.values()],
        "skipped": scope.skipped,
        "warnings": scope.warnings,
        "error": error,
    }


def _child(child: ChildReport) -> dict[str, Any]:
    tally = {name: getattr(child.tally, name) for name in child.tally.__struct_fields__}
    known = {"kind": child.kind, "due": child.due, "unchanged": child.unchanged}
    return {**known, **tally, "unavailable": child.unavailable, "seen": dict(child.seen)}
