"""`lore audit`: checks the local copy against the server; `--repair` corrects differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, ago, instant, plural
from tidelore.cli.scrub import EVERYTHING
from tidelore.cli.table import table
from tidelore.core.errors import TideloreError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.sync.audit import AuditReport, ScopeAudit
    from tidelore.sync.report import PollReport, RunReport

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
def command(ctx: click.Context, /, source: str, project: str | None, **wanted: Any) -> Answer:
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
    face = face_of(ctx)
    repair, force, limit = wanted["repair"], wanted["force"], wanted["limit"]
    set_up_logging(face.app().config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    if source == "github":
        from tidelore.cli.audit_github import run as audit_github

        return audit_github(face, project, **wanted)
    doing = ACCOUNTS if source == "bluesky" else PROJECTS
    report = doing.compare(face, project)
    if not (repair and report.differences):
        return _answer(face, report, None, limit, doing)
    before = report
    run = doing.mend(face, project, force)
    return _answer(face, doing.compare(face, project), (run, before), limit, doing)


def _compare(face: Face, project: str | None) -> AuditReport:
    from tidelore.app.mirroring import audit
    from tidelore.app.wiring import run_until_signalled

    with progress(face) as on_progress:
        return run_until_signalled(audit(face.app(), project, on_progress), "nothing was changed")


def _mend(face: Face, project: str | None, force: bool) -> RunReport:  # noqa: FBT001 - the operator's own word
    from tidelore.app.mirroring import mirror
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest

    request = MirrorRequest(RESOURCES, project, force=force, scrub_budget=EVERYTHING)
    with progress(face) as on_progress:
        return run_until_signalled(mirror(face.app(), request, "lore audit --repair", on_progress))


def _judge(report: AuditReport) -> TideloreError | None:
    from tidelore.sync.audit import audit_verdict

    return audit_verdict(report)


def _compare_accounts(face: Face, account: str | None) -> AuditReport:
    from tidelore.app.bluesky import audit_accounts
    from tidelore.app.wiring import run_until_signalled

    with progress(face) as on_progress:
        return run_until_signalled(audit_accounts(face.app(), account, on_progress), "nothing was changed")


def _mend_accounts(face: Face, account: str | None, force: bool) -> PollReport:  # noqa: FBT001
    from tidelore.app.bluesky import poll_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.account_poll import PollRequest

    named = () if account is None else (account,)
    request = PollRequest(named, everyone=account is None, force=force, verify=True)
    with progress(face) as on_progress:
        return run_until_signalled(poll_accounts(face.app(), request, on_progress))


def _judge_accounts(report: AuditReport) -> TideloreError | None:
    from tidelore.sync.account_verification import account_audit_verdict

    return account_audit_verdict(report)


class Doing(NamedTuple):
    """How one kind of source is compared, repaired and judged."""

    compare: Callable[[Face, str | None], AuditReport]
    mend: Callable[[Face, str | None, bool], RunReport | PollReport]
    judge: Callable[[AuditReport], TideloreError | None]


PROJECTS = Doing(_compare, _mend, _judge)
ACCOUNTS = Doing(_compare_accounts, _mend_accounts, _judge_accounts)


def _answer(
    face: Face,
    report: AuditReport,
    repair: tuple[RunReport | PollReport, AuditReport] | None,
    limit: int,
    doing: Doing,
) -> Answer:
    face.choices.synced_at = report.synced_at
    data, lines = _data(report), _lines(report, limit)
    data["repair"] = None
    if repair is not None:
        run, before = repair
        found, mended = len(before.differences), len(set(before.differences) - set(report.differences))
        data["repair"] = {"run_id": run.run_id, "requests": run.requests, "found": found, "mended": mended}
        lines.insert(0, f"Repaired by run {run.run_id}: {mended:,} of {plural(found, 'difference')} corrected")
    return Answer(data, lines, doing.judge(report))


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
