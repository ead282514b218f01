"""Verify the local copy against the server: `lore scrub`, `lore audit`.

`lore audit` only compares; `--repair` runs a sync with a full verification and compares again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelore.cli.command import Invocation, LoreCommand, invocation_of
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.runs import progress, report_data, scrub_lines
from tidelore.cli.output.table import Column, table
from tidelore.core.errors import TideloreError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.app.feedback_polling import AuditOutcome
    from tidelore.feedback.audit import RepoAudit, SurfaceAudit, ThreadAudit
    from tidelore.sync.audit import AuditReport, ScopeAudit
    from tidelore.sync.report import PollReport, RunReport


EVERYTHING = 1_000_000_000


@click.command("scrub", cls=LoreCommand, example="lore scrub --budget 50")
@click.option("--all", "everything", is_flag=True, help="Verify every item and its children once.")
@click.option("--budget", type=click.IntRange(1), default=10, show_default=True, help="Number of requests to spend.")
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def scrub_command(ctx: click.Context, everything: bool, budget: int, project: str | None, force: bool) -> Output:  # noqa: FBT001
    """Verify stored items against the server and correct them.

    Starts with the least recently verified items. Finds deletions and changes that the incremental lists do not show.
    One request verifies up to 100 items. `lore sync`, `lore ingest` and `lore poll` spend a small share of their
    requests on the same check.

    Verifies GitLab projects and Bluesky accounts. If both are configured, each gets half of the budget, and what one
    of them does not need goes to the other. A post is marked as deleted only if the account's own server says that it
    does not exist; an account that cannot be reached keeps its posts.
    """
    from tidelore.app.mirroring import scrub
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.report import run_verdict

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    report = run_until_signalled(scrub(app, project, EVERYTHING if everything else budget, force=force))
    invocation.open_store().close()  # reads the time of the last sync for the output
    return Output(report_data(report), scrub_lines(report), run_verdict(report.scrubbed))


COUNTS = ("comments", "qualifying", "ingested", "missing", "gone", "unreadable")


def run_github_audit(
    invocation: Invocation, repo: str | None, *, repair: bool, force: bool, shadow: bool, limit: int
) -> Output:
    """Compare, repair if requested, and report."""
    from tidelore.app.feedback_polling import audit_github
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.audit import audit_error

    app = invocation.app()
    with progress(invocation) as on_progress:
        from tidelore.core.progress import Progress

        def on_thread(name: str, done: int, total: int) -> None:
            on_progress(Progress(name, "threads", done, total, f"{done:,} of {total:,}"))

        work = audit_github(app, repo, repair=repair, force=force, on_thread=on_thread)
        outcome = run_until_signalled(work, "nothing was lost")
    return Output(_github_data(outcome), _github_lines(outcome, limit, shadow=shadow), audit_error(outcome.report))


def _github_data(outcome: AuditOutcome) -> dict[str, Any]:
    from tidelore.cli.output.feedback import error_data

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


def _github_lines(outcome: AuditOutcome, limit: int, *, shadow: bool) -> list[str]:
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


SOURCES = ("gitlab", "github", "bluesky")


@click.command("audit", cls=LoreCommand, example="lore audit gitlab group/project")
@click.argument("source")
@click.argument("project", required=False, metavar="[PROJECT|REPO|ACCOUNT]")
@click.option("--repair", is_flag=True, help="Correct differences, then compare again.")
@click.option("--force", is_flag=True, help="With --repair: take over the lock from another process.")
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=50, show_default=True, help="Number of differences to print."
)
@click.option("--shadow", is_flag=True, help="github only: print the comparison of each list.")
@click.pass_context
def audit_command(ctx: click.Context, /, source: str, project: str | None, **wanted: Any) -> Output:
    """Check the local copy against the server.

    SOURCE is gitlab, github or bluesky; the second argument limits the audit to one project, repository or account.
    Prints every missing, extra and different item and changes nothing. Changes made on the server since the last sync
    count as differences. Exits with 8 if there are any.

    With --repair, corrects differences with a sync and a full verification, then compares again.
    """
    if source not in SOURCES:
        raise UserError(f"cannot audit {source!r}", fix=f"use one of: {', '.join(SOURCES)}", source=source)
    if wanted["shadow"] and source != "github":
        raise UserError("--shadow is only valid for github", fix="remove --shadow")
    invocation = invocation_of(ctx)
    repair, force, limit = wanted["repair"], wanted["force"], wanted["limit"]
    set_up_logging(
        invocation.app().config,
        verbose=invocation.choices.verbose,
        quiet=invocation.choices.quiet or invocation.choices.robot,
    )
    if source == "github":
        return run_github_audit(invocation, project, **wanted)
    doing = ACCOUNTS if source == "bluesky" else PROJECTS
    report = doing.compare(invocation, project)
    if not (repair and report.differences):
        return _output(invocation, report, None, limit, doing)
    before = report
    run = doing.mend(invocation, project, force)
    return _output(invocation, doing.compare(invocation, project), (run, before), limit, doing)


def _compare(invocation: Invocation, project: str | None) -> AuditReport:
    from tidelore.app.mirroring import audit
    from tidelore.app.wiring import run_until_signalled

    with progress(invocation) as on_progress:
        return run_until_signalled(audit(invocation.app(), project, on_progress), "nothing was changed")


def _repair(invocation: Invocation, project: str | None, force: bool) -> RunReport:  # noqa: FBT001 - a command flag
    from tidelore.app.mirroring import mirror
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest

    request = MirrorRequest(RESOURCES, project, force=force, scrub_budget=EVERYTHING)
    with progress(invocation) as on_progress:
        return run_until_signalled(mirror(invocation.app(), request, "lore audit --repair", on_progress))


def _judge(report: AuditReport) -> TideloreError | None:
    from tidelore.sync.audit import audit_verdict

    return audit_verdict(report)


def _compare_accounts(invocation: Invocation, account: str | None) -> AuditReport:
    from tidelore.app.accounts import audit_accounts
    from tidelore.app.wiring import run_until_signalled

    with progress(invocation) as on_progress:
        return run_until_signalled(audit_accounts(invocation.app(), account, on_progress), "nothing was changed")


def _repair_accounts(invocation: Invocation, account: str | None, force: bool) -> PollReport:  # noqa: FBT001
    from tidelore.app.accounts import poll_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.account_poll import PollRequest

    named = () if account is None else (account,)
    request = PollRequest(named, everyone=account is None, force=force, verify=True)
    with progress(invocation) as on_progress:
        return run_until_signalled(poll_accounts(invocation.app(), request, on_progress))


def _judge_accounts(report: AuditReport) -> TideloreError | None:
    from tidelore.sync.account_verification import account_audit_verdict

    return account_audit_verdict(report)


class SourceAudit(NamedTuple):
    """How one kind of source is compared and repaired, and which error its result is."""

    compare: Callable[[Invocation, str | None], AuditReport]
    mend: Callable[[Invocation, str | None, bool], RunReport | PollReport]
    judge: Callable[[AuditReport], TideloreError | None]


PROJECTS = SourceAudit(_compare, _repair, _judge)
ACCOUNTS = SourceAudit(_compare_accounts, _repair_accounts, _judge_accounts)


def _output(
    invocation: Invocation,
    report: AuditReport,
    repair: tuple[RunReport | PollReport, AuditReport] | None,
    limit: int,
    doing: SourceAudit,
) -> Output:
    invocation.choices.synced_at = report.synced_at
    data, lines = _data(report), _lines(report, limit)
    data["repair"] = None
    if repair is not None:
        run, before = repair
        found, mended = len(before.differences), len(set(before.differences) - set(report.differences))
        data["repair"] = {"run_id": run.run_id, "requests": run.requests, "found": found, "mended": mended}
        lines.insert(0, f"Repaired by run {run.run_id}: {mended:,} of {plural(found, 'difference')} corrected")
    return Output(data, lines, doing.judge(report))


def _data(report: AuditReport) -> dict[str, Any]:
    return {
        "synced_at": instant(report.synced_at),
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
        "scopes": [_scope(scope) for scope in report.scopes],
        "differences": [
            {name: getattr(found, name) for name in found.__struct_fields__} for found in report.differences
        ],
        "unread": [
            {"kind": entry.kind, "project": entry.project, "reference": entry.reference, "error": entry.error.message}
            for entry in report.unread
        ],
    }


def _scope(scope: ScopeAudit) -> dict[str, Any]:
    from tidelore.sync.audit import VERDICTS

    error = scope.error
    return {
        "source": scope.source,
        "surface": scope.surface,
        "project": scope.project,
        "synced_at": instant(scope.synced_at),
        "items": scope.items,
        "children": scope.children,
        **{verdict: scope.counts[verdict] for verdict in VERDICTS},
        "unread": len(scope.unread),
        "skipped": scope.skipped,
        "error": error and {"code": error.code, "message": error.message, "retryable": error.retryable},
    }


def _lines(report: AuditReport, limit: int) -> list[str]:
    synced = instant(report.synced_at)
    since = f"last synced {synced} ({ago(report.synced_at)})" if synced else "never fully synced"
    lines = [f"Local copy: {since}. Later changes on the server count as differences."]
    lines += [f"  {scope.project} {_list(scope)}: {_found(scope)}" for scope in report.scopes]
    shown = report.differences[:limit]
    if shown:
        rows = [[found.verdict, found.kind, found.reference, found.key] for found in shown]
        lines += ["", *table(["VERDICT", "KIND", "ITEM", "KEY"], rows, always_headings=True)]
    if len(report.differences) > limit:
        more = len(report.differences) - limit
        lines.append(f"... and {more:,} more; use --limit or --robot to see more")
    lines += [f"{entry.reference} {entry.kind} could not be read: {entry.error.message}" for entry in report.unread]
    compared = sum(scope.items + scope.children for scope in report.scopes)
    lines.append(
        f"Compared {compared:,} items and children: {plural(len(report.differences), 'difference')}; "
        f"{plural(report.requests, 'request')} in {report.seconds:.1f} s"
    )
    return lines


def _list(scope: ScopeAudit) -> str:
    return scope.surface.rpartition(".")[2].replace("_", " ")


def _found(scope: ScopeAudit) -> str:
    from tidelore.sync.audit import describe

    if scope.error is not None:
        return f"failed: {scope.error.message}"
    if scope.skipped is not None:
        return f"skipped: {scope.skipped}"
    told = describe(scope.counts) or "no difference"
    children = "1 child" if scope.children == 1 else f"{scope.children:,} children"
    return f"{plural(scope.items, 'item')} and {children} compared, {told}"
