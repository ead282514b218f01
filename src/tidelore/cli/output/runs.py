"""Render runs as text: reports of sync, ingest and scrub, stages and progress.

Also draws progress bars on a terminal while a run goes on; elsewhere they are silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelore.app.reports import (
    CHILD_NAMES,
    DocumentCounts,
    EmbedCounts,
    MirrorRun,
    RefreshedItems,
    ScopeCounts,
    seen_children,
)
from tidelore.app.status import ItemOutcome, ListedRun
from tidelore.cli.command import Invocation
from tidelore.cli.output.render import plural
from tidelore.core.text import block, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelore.app.syncing import SyncRun
    from tidelore.core.progress import OnProgress
    from tidelore.core.progress import Progress as Stage


_ROOM_FOR_BARS = 100
"""On a narrower terminal, bars and times would cut the names and counts beside them."""
NOUNS = {"issues": "issue", "merge_requests": "MR"}
EXTRAS = {
    "events": "event",
    "statuses": "status",
    "closed_issues": "closed issue",
    "files": "file",
    "reviewers": "verified reviewer",
    "reviews": "review",
    "threads": "review thread",
}

_PARENTS = {"issues": "issue", "merge_requests": "merge request"}


def report_lines(report: MirrorRun, resource: str) -> list[str]:
    """Return the summary of an ingestion."""
    noun = NOUNS.get(resource, resource)
    lines = [f"Ingesting {resource.replace('_', ' ')}..."]
    lines += [f"  run {run_id}: marked as crashed, its process is gone" for run_id in report.crashed_runs_closed]
    lines += [f"  {scope.project}: {_found_line(scope, noun)}" for scope in report.scopes]
    lines += _children_lines(report.scopes, noun)
    seen = seen_children(report.scopes)
    fetched = sum(scope.created + scope.changed for scope in report.scopes)
    system = seen["system_notes"]
    lines.append(
        f"Total: {plural(fetched, noun)}, {plural(seen['discussions'], 'discussion')}, {plural(seen['notes'], 'note')} "
        f"(excluding {plural(system, 'system note')})"
    )
    unchanged = sum(talk.unchanged for scope in report.scopes if (talk := scope.conversation) is not None)
    if unchanged:
        lines.append(f"Skipped discussion sync for {unchanged:,} unchanged {noun if unchanged == 1 else noun + 's'}.")
    lines.append(
        f"{plural(sum(scope.created for scope in report.scopes), f'new {noun}')}, "
        f"{sum(scope.changed for scope in report.scopes):,} changed, "
        f"{sum(scope.replayed for scope in report.scopes):,} already stored; "
        f"{plural(report.requests, 'request')} in {report.seconds:.1f} s"
    )
    return lines + [line for line in scrub_lines(report) if report.scrubbed]


def _children_lines(scopes: Sequence[ScopeCounts], noun: str) -> list[str]:
    """Return what was fetched for changed items."""
    due = sum(talk.due for scope in scopes if (talk := scope.conversation) is not None)
    lines = [f"Fetching discussions ({plural(due, noun)} with updates)..."] if due else []
    for scope in scopes:
        done = scope.conversation
        seen, behind = seen_children([scope]), _behind(scope)
        if done is not None and (any(seen.values()) or done.fetched):
            diffs = f" ({plural(seen['diff_notes'], 'DiffNote')})" if seen["diff_notes"] else ""
            parts = [plural(seen["discussions"], "discussion"), plural(seen["notes"], "note") + diffs]
            parts += [plural(seen[key], word) for key, word in EXTRAS.items() if seen[key]]
            lines.append(f"  {scope.project}: {plural(done.fetched, noun)} -> {', '.join(parts)}")
        lines += [f"  {scope.project}: {line}" for line in behind]
    return lines


def trouble_lines(scopes: Sequence[ScopeCounts]) -> list[str]:
    """Return what was skipped, what failed and what is due."""
    lines = []
    for scope in scopes:
        name = f"  {scope.project} {scope.surface.rpartition('.')[2].replace('_', ' ')}"
        if scope.error is not None or scope.skipped is not None:
            lines.append(f"{name}: {_found_line(scope, '')}")
        lines += [f"{name}: {line}" for line in _behind(scope)]
    return lines


def _behind(scope: ScopeCounts) -> list[str]:
    """Return which details of a list's items failed, are in quarantine, or are fetched again later."""
    noun = _PARENTS.get(scope.surface.rpartition(".")[2], "item")
    lines = []
    for child in scope.children:
        word = CHILD_NAMES.get(child.kind, child.kind.replace("_", " "))
        if child.unavailable is not None:
            lines.append(f"{word}: unavailable in this project ({child.unavailable}); `lore sync-status` shows more")
        if child.failed:
            lines.append(f"{plural(child.failed, noun)}: failed to fetch {word}; will retry")
        if child.quarantined:
            lines.append(f"{child.quarantined:,} {word} in quarantine; stored versions are kept")
        if child.waiting:
            told = f"{word} changed just now; will be fetched again after the settle time"
            lines.append(f"{plural(child.waiting, noun)}: {told}")
    return lines


def scrub_lines(report: MirrorRun) -> list[str]:
    """Return the summary of a verification."""
    if not report.scrubbed:
        return ["Nothing to verify yet; run `lore sync` or `lore poll bluesky` first"]
    read_scopes = [scope for scope in report.scrubbed if scope.pages]
    lists = [scope for scope in read_scopes if scope.account is None]
    accounts = [scope for scope in read_scopes if scope.account is not None]
    lines = [_verified_line(lists, "stored item", f"in {plural(len(lists), 'list')}")] if lists else []
    lines += [_verified_line(accounts, "post", f"of {plural(len(accounts), 'account')}")] if accounts else []
    children = [child for scope in report.scrubbed for child in scope.children]
    read = sum(child.fetched for child in children)
    if read:
        corrected = sum(child.changed for child in children)
        lines.append(f"Verified the children of {plural(read, 'item')}: {corrected:,} corrected")
    lines += [
        f"  {scope.project}: {_found_line(scope, '')}"
        for scope in report.scrubbed
        if scope.error is not None or scope.skipped is not None
    ]
    return lines


def _verified_line(scopes: Sequence[ScopeCounts], noun: str, where: str) -> str:
    verified = sum(scope.fetched for scope in scopes)
    changed = sum(scope.created + scope.changed for scope in scopes)
    gone = sum(scope.gone for scope in scopes)
    return f"Verified {plural(verified, noun)} {where}: {changed:,} corrected, {gone:,} deleted remotely"


def _found_line(scope: ScopeCounts, noun: str) -> str:
    if scope.error is not None:
        return f"failed: {scope.error.message}"
    if scope.skipped is not None:
        return f"skipped: {scope.skipped}"
    parts = [f"{plural(scope.created + scope.changed, noun)} fetched"]
    if scope.changed:
        parts.append(f"{scope.changed:,} of them updated")
    if scope.replayed:
        parts.append(f"{scope.replayed:,} already stored")
    if scope.labels_created:
        parts.append(f"{plural(scope.labels_created, 'new label')}")
    if scope.assignees:
        parts.append(plural(scope.assignees, "assignee"))
    if scope.reviewers:
        parts.append(plural(scope.reviewers, "reviewer"))
    if scope.quarantined:
        parts.append(f"{scope.quarantined:,} in quarantine")
    if scope.cursor_reset:
        parts.append(f"cursor reset ({scope.cursor_reset})")
    return ", ".join(parts)


def describe_progress(run: ListedRun) -> str | None:
    """Return the progress of a run, or where it stopped; None if it has reported no progress."""
    if run.progress_done is None:
        return None
    of_all = "" if run.progress_total is None else f" of {run.progress_total:,}"
    about = f" ({one_line(run.progress_note)})" if run.progress_note else ""
    return f"{run.phase if run.status == 'running' else 'stopped at'} {run.progress_done:,}{of_all}{about}"


def running_lines(runs: Iterable[ListedRun], columns: int) -> list[str]:
    """Return the progress of each active run, one per line."""
    lines = []
    for run in runs:
        if run.status == "running":
            told = f"{describe_progress(run) or run.phase}, {plural(run.requests, 'request')}"
            lines += block(f"run {run.id} {one_line(run.command.removeprefix('lore '))}: {told}", columns)
    return lines


STAGE_NAMES = {
    "preflight": "preflight",
    "ingest": "lists",
    "dependents": "children",
    "scrub": "verification",
    "docs": "documents",
    "embed": "embeddings",
}
CHILDREN = {
    "discussions": "discussion",
    "notes": "note",
    "events": "event",
    "closed_issues": "closed issue",
    "files": "file",
    "statuses": "status",
}


def stage_line(name: str, told: str, seconds: float, *, troubled: bool) -> str:
    """Return the line of one stage."""
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    icon = ("!" if plain else "⚠") if troubled else ("+" if plain else "✓")
    return f"{icon} {name:<13} {told}  ({seconds:.1f} s)"


def documents_line(made: DocumentCounts) -> str:
    """Return the result of the document stage on one line."""
    return f"{made.regenerated:,} written, {made.unchanged:,} unchanged, {made.removed:,} removed"


def notice_lines(made: EmbedCounts | None) -> list[str]:
    """Return why embeddings are missing, and the remedy."""
    if made is None or made.notice is None:
        return []
    return [f"  {made.notice}", *([f"  {made.fix}"] if made.fix else [])]


@contextmanager
def progress(invocation: Invocation) -> Iterator[OnProgress]:
    """Draw progress while the block runs; yields a callable that takes progress reports."""
    if not invocation.interactive:
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

    # None, not False: then the library checks NO_COLOR itself.
    console = Console(stderr=True, no_color=None if invocation.choices.color else True)
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), TextColumn("{task.fields[note]}")]
    if console.width >= _ROOM_FOR_BARS:
        columns = [columns[0], BarColumn(pulse_style="cyan"), columns[1], TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[tuple[str, str], TaskID] = {}

        def on_progress(news: Stage) -> None:
            key = (news.project, news.stage)
            if key not in tasks:
                title = f"{news.project} {news.stage.replace('_', ' ')}"
                tasks[key] = bars.add_task(title, total=news.total, note=news.note)
            completed = news.done if news.total is not None else None
            bars.update(tasks[key], note=news.note, completed=completed)

        yield on_progress


def embed_line(made: EmbedCounts) -> str:
    """Return the result of the embedding stage on one line."""
    parts = [f"{plural(made.embedded, 'document')} embedded ({plural(made.chunks, 'embedding')})"]
    parts.append(f"{made.unchanged:,} unchanged")
    if made.removed:
        parts.append(f"{plural(made.removed, 'old embedding')} removed")
    if made.failed:
        parts.append(f"{made.failed:,} failed")
    return ", ".join(parts)


def outcome_line(outcome: ItemOutcome) -> str:
    """Return the outcome of one item."""
    if outcome.stale_skipped:
        fate = "skipped: the stored version is newer"
    elif outcome.ingested:
        fate = "stored" if not outcome.dependent_failures else "stored, but incomplete"
    else:
        fate = "fetched, not stored" if outcome.fetched else "not fetched"
    return f"{outcome.reference}: {fate}"


def failure_lines(outcomes: Sequence[ItemOutcome]) -> list[str]:
    """Return one line for each failure."""
    return [
        f"  {failure.reference} {failure.stage}: {failure.code}, {one_line(failure.message)}"
        for outcome in outcomes
        for failure in outcome.failures
    ]


def surgical_lines(report: RefreshedItems, retried: int | None) -> list[str]:
    """Return one line per stage, then failures and how to continue, then the cost."""
    if report.run_id is None:
        return [f"Run {retried}: nothing to retry."]
    told, troubled = _surgical_results(report), _surgical_troubles(report)
    names = STAGE_NAMES | {"ingest": "items"}
    lines = [
        stage_line(names[name], told[name], took / 1000, troubled=troubled[name])
        for name, took in report.stage_timings_ms.items()
    ]
    lines += failure_lines(report.entity_outcomes)
    lines += [f"  {outcome_line(outcome)}" for outcome in report.entity_outcomes if outcome.stale_skipped]
    lines += notice_lines(report.embeddings)
    lines += [f"{'or' if place else 'To retry'}: {action}" for place, action in enumerate(report.recovery_actions)]
    lines.append(f"Run {report.run_id}: {plural(report.requests, 'request')} in {report.seconds:.1f} s")
    return lines


def _surgical_results(report: RefreshedItems) -> dict[str, str]:
    outcomes = report.entity_outcomes
    stale = report.skipped_stale
    counts = [(report.children.get(key, 0), word) for key, word in CHILDREN.items()]
    seen = [plural(count, word) for count, word in counts if count]
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


def _surgical_troubles(report: RefreshedItems) -> dict[str, bool]:
    outcomes = report.entity_outcomes
    return {
        "preflight": any(outcome.fetch_failure for outcome in outcomes),
        "ingest": not any(outcome.ingested or outcome.stale_skipped for outcome in outcomes),
        "dependents": any(outcome.dependent_failures for outcome in outcomes),
        "docs": report.documents is None or report.documents.failed > 0,
        "embed": report.embeddings is None or report.embeddings.notice is not None,
    }


def _items(outcomes: Sequence[ItemOutcome]) -> str:
    issues = sum(outcome.entity_type == "issue" for outcome in outcomes)
    parts = [plural(issues, "issue")] if issues else []
    return ", ".join([*parts, *([plural(len(outcomes) - issues, "MR")] if len(outcomes) > issues else [])]) or "nothing"


def _children(report: SyncRun) -> str:
    """Return how many child items were fetched, and for how many items that failed or has to be repeated."""
    seen = seen_children(report.scopes)
    children = [child for scope in report.scopes for child in scope.children]
    parts = [plural(seen[key], word) for key, word in CHILDREN.items() if seen[key]]
    failed = sum(child.failed for child in children)
    waiting = sum(child.waiting for child in children)
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{waiting:,} not settled"] if waiting else []
    due = any(child.due for child in children if child.unavailable is None)
    return ", ".join(parts) or ("none found" if due else "none due")


def _unverified(scopes: Sequence[ScopeCounts]) -> str:
    """Return why nothing was verified: a project is not if one of its lists failed or is not read to its end."""
    return "skipped" if any(one.error is not None or one.left for one in scopes) else "no stored items yet"


def sync_lines(report: SyncRun) -> list[str]:
    """Return one line per stage, then the problems, then the cost."""
    scopes, vectors = report.scopes, report.embeddings
    told = {
        "ingest": f"{sum(one.created for one in scopes):,} new, {sum(one.changed for one in scopes):,} changed",
        "dependents": _children(report),
        "scrub": "; ".join(scrub_lines(report)) if report.scrubbed else _unverified(scopes),
    }
    if report.documents is not None:
        told["docs"] = documents_line(report.documents)
    if vectors is not None:
        told["embed"] = embed_line(vectors) if vectors.model else "none made"
    troubled = {
        "ingest": any(scope.error for scope in report.scopes),
        "dependents": any(child.failed for scope in report.scopes for child in scope.children),
        "scrub": any(scope.error for scope in report.scrubbed),
        "docs": report.documents is not None and report.documents.failed > 0,
        "embed": vectors is not None and vectors.notice is not None,
    }
    lines = [
        stage_line(STAGE_NAMES[name], told[name], took / 1000, troubled=troubled[name])
        for name, took in report.stage_timings_ms.items()
    ]
    lines += trouble_lines(report.scopes)
    lines += notice_lines(vectors)
    lines.append(f"Run {report.run_id}: {plural(report.requests, 'request')} in {report.seconds:.1f} s")
    return lines
