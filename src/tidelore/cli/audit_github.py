"""`lore audit github`: compares events with the comments on GitHub; `--repair` ingests missing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelore.cli.feedback_data import error_data
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural
from tidelore.cli.table import Column, table

if TYPE_CHECKING:
    from tidelore.app.feedback_polling import AuditOutcome
    from tidelore.cli.face import Face
    from tidelore.feedback.audit import RepoAudit, SurfaceAudit, ThreadAudit

COUNTS = ("comments", "qualifying", "ingested", "missing", "gone", "unreadable")


def run(face: Face, repo: str | None, *, repair: bool, force: bool, shadow: bool, limit: int) -> Answer:
    """Compare, repair if requested, and report."""
    from tidelore.app.feedback_polling import audit_github
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.audit import audit_error

    app = face.app()
    with progress(face) as on_progress:
        from tidelore.core.progress import Progress

        def on_thread(name: str, done: int, total: int) -> None:
            on_progress(Progress(name, "threads", done, total, f"{done:,} of {total:,}"))

        work = audit_github(app, repo, repair=repair, force=force, on_thread=on_thread)
        outcome = run_until_signalled(work, "nothing was lost")
    return Answer(_data(outcome), _lines(outcome, limit, shadow=shadow), audit_error(outcome.report))


def _data(outcome: AuditOutcome) -> dict[str, Any]:
    report = outcome.report
    threads = [(repo, thread) for repo in report.repos for thread in repo.threads]
    repair = None if outcome.mended is None else {"found": outcome.found, "mended": outcome.mended}
    return {
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
        "repos": [
            {"source": repo.source, "repo": repo.repo, "threads": len(repo.threads), "error": error_data(repo.error)}
            for repo in report.repos
        ],
        "threads": [
            {
                "repo": repo.repo,
                "pr_number": thread.number,
                "error": error_data(thread.error),
                "surfaces": [{"surface": one.surface, **counts_of([one])} for one in thread.surfaces],
            }
            for repo, thread in threads
        ],
        "missing": [entry for repo, thread in threads for entry in _missing(repo, thread)],
        "gone": [
            {"repo": repo.repo, "pr_number": thread.number, "surface": one.surface, "event_key": key}
            for repo, thread in threads
            for one in thread.surfaces
            for key in one.gone
        ],
        "repair": repair,
    }


def _missing(repo: RepoAudit, thread: ThreadAudit) -> list[dict[str, Any]]:
    return [
        {
            "repo": repo.repo,
            "pr_number": thread.number,
            "surface": one.surface,
            "event_key": found.event_key,
            "author": found.item.record.author,
            "url": found.item.record.url,
        }
        for one in thread.surfaces
        for found in one.missing
    ]


def counts_of(surfaces: list[SurfaceAudit]) -> dict[str, int]:
    """Return the totals of several lists."""
    return {
        "comments": sum(len(one.items) for one in surfaces),
        "qualifying": sum(one.qualifying for one in surfaces),
        "ingested": sum(one.ingested for one in surfaces),
        "missing": sum(len(one.missing) for one in surfaces),
        "gone": sum(len(one.gone) for one in surfaces),
        "unreadable": sum(one.unreadable for one in surfaces),
    }


def _lines(outcome: AuditOutcome, limit: int, *, shadow: bool) -> list[str]:
    from tidelore.feedback.audit import SURFACES

    report = outcome.report
    lines = []
    if outcome.mended is not None:
        lines.append(f"Repaired: {plural(outcome.mended, 'event')} added of {outcome.found:,} missing")
    for repo in report.repos:
        told = repo.error.message if repo.error is not None else plural(len(repo.threads), "thread") + " compared"
        lines.append(f"{repo.repo}: {told}")
        lines += [
            f"  #{thread.number} could not be read: {thread.error.message}"
            for thread in repo.threads
            if thread.error is not None
        ]
    if shadow:
        every = [one for repo in report.repos for one in repo.surfaces]
        rows = [
            [name, *(f"{count:,}" for count in counts_of([one for one in every if one.surface == name]).values())]
            for name in SURFACES
        ]
        heads = [Column("SURFACE"), *(Column(name.upper(), right=True) for name in COUNTS)]
        lines += ["", *table(heads, rows, always_headings=True), ""]
    lines += _listed(outcome, limit)
    total = counts_of([one for repo in report.repos for one in repo.surfaces])
    lines.append(
        f"{plural(total['qualifying'], 'matching comment')}, {total['missing']:,} without an event, "
        f"{plural(total['gone'], 'event')} of deleted comments; "
        f"{plural(report.requests, 'request')} in {report.seconds:.1f} s"
    )
    return lines


def _listed(outcome: AuditOutcome, limit: int) -> list[str]:
    found = [
        (verdict, f"{repo.repo}#{thread.number}", key)
        for repo in outcome.report.repos
        for thread in repo.threads
        for one in thread.surfaces
        for verdict, keys in (("missing", [entry.event_key for entry in one.missing]), ("gone", one.gone))
        for key in keys
    ]
    found.sort(key=lambda entry: entry[0] != "missing")
    lines = table(["VERDICT", "THREAD", "EVENT KEY"], found[:limit], always_headings=True) if found[:limit] else []
    if len(found) > limit:
        lines.append(f"... and {len(found) - limit:,} more; use --limit or --robot to see more")
    return lines
