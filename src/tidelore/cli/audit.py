"""Verify the local copy against the server: `lore scrub`, `lore audit`.

`lore audit` only compares; `--repair` runs a sync with a full verification and compares again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tidelore.app.auditing import (
    VERDICTS,
    CommentCounts,
    ComparedEvents,
    ComparedList,
    Comparison,
    EventComparison,
    UnreadList,
    audit_followed,
    audit_mirror,
    audit_repositories,
    scrub,
)
from tidelore.app.reports import CHILD_NAMES, MirrorRun
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.runs import progress, scrub_lines
from tidelore.cli.output.table import Column, table
from tidelore.core.errors import UserError


@lore_command("scrub", example="lore scrub --budget 50", answer=MirrorRun)
@click.option("--all", "everything", is_flag=True, help="Verify every item and its children once.")
@click.option("--budget", type=click.IntRange(1), default=10, show_default=True, help="Number of requests to spend.")
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def scrub_command(invocation: Invocation, everything: bool, budget: int, project: str | None, force: bool) -> Output:  # noqa: FBT001
    """Verify stored items against the server and correct them.

    Starts with the least recently verified items. Finds deletions and changes that the incremental lists do not show.
    One request verifies up to 100 items. `lore sync`, `lore ingest` and `lore poll` spend a small share of their
    requests on the same check.

    Verifies the mirrored projects and the Bluesky accounts. If there are both, each gets half of the budget, and what
    one of them does not need goes to the other. A post is marked as deleted only if the account's own server says that
    it does not exist; an account that cannot be reached keeps its posts.
    """
    app = invocation.logged_app()
    run, error = scrub(app, budget=None if everything else budget, project=project, force=force)
    return Output(run, scrub_lines(run), error)


SOURCES = ("gitlab", "github", "bluesky")


@lore_command("audit", example="lore audit gitlab group/project", answer=(Comparison, EventComparison))
@click.argument("source")
@click.argument("project", required=False, metavar="[PROJECT|REPO|ACCOUNT]")
@click.option("--repair", is_flag=True, help="Correct differences, then compare again.")
@click.option("--force", is_flag=True, help="With --repair: take over the lock from another process.")
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=50, show_default=True, help="Number of differences to print."
)
@click.option("--shadow", is_flag=True, help="github only: print the comparison of each list.")
def audit_command(invocation: Invocation, /, source: str, project: str | None, **wanted: Any) -> Output:
    """Check the local copy against the server.

    SOURCE is gitlab, github or bluesky; the second argument limits the audit to one project, repository or account.
    Prints every missing, extra and different item and changes nothing. Changes made on the server since the last sync
    count as differences. Exits with 8 if there are any.

    With --repair, corrects differences with a sync and a full verification, then compares again.
    """
    app = invocation.logged_app()
    sources = tuple(dict.fromkeys((*SOURCES, *(host.kind for host in app.config.others))))
    if source not in sources:
        raise UserError(f"cannot audit {source!r}", fix=f"use one of: {', '.join(sources)}", source=source)
    if wanted["shadow"] and source != "github":
        raise UserError("--shadow is only valid for github", fix="remove --shadow")
    repair, force, limit = wanted["repair"], wanted["force"], wanted["limit"]
    with progress(invocation) as on_progress:
        if source == "github":
            events, error = audit_repositories(app, project, on_progress, repair=repair, force=force)
            lines = _lines(events.mirrored, limit) if events.mirrored is not None else []
            return Output(events, [*lines, *_event_lines(events, limit, shadow=wanted["shadow"])], error)
        if source == "bluesky":
            found, error = audit_followed(app, project, on_progress, repair=repair, force=force)
        else:
            found, error = audit_mirror(app, source, project, on_progress, repair=repair, force=force)
    lines = _event_lines(found.events, limit) if found.events is not None else []
    return Output(found, [*_lines(found, limit), *lines], error)


def _event_lines(found: ComparedEvents, limit: int, *, shadow: bool = False) -> list[str]:
    lines = []
    if found.repair is not None:
        lines.append(f"Repaired: {plural(found.repair.mended, 'event')} added of {found.repair.found:,} missing")
    for repo in found.repos:
        told = repo.error.message if repo.error is not None else plural(repo.threads, "thread") + " compared"
        lines.append(f"{repo.repo}: {told}")
        lines += [
            f"  {thread.reference} could not be read: {thread.error.message}"
            for thread in found.threads
            if thread.error is not None and thread.repo == repo.repo
        ]
    if shadow:
        names = list(dict.fromkeys(one.surface for thread in found.threads for one in thread.surfaces))
        counts = CommentCounts.__struct_fields__
        rows = [[name, *(f"{getattr(found.totals(name), count):,}" for count in counts)] for name in names]
        heads: list[Column[Any]] = [Column("SURFACE"), *(Column(name.upper(), right=True) for name in counts)]
        lines += ["", *table(heads, rows, always_headings=True), ""]
    lines += _listed(found, limit)
    total = found.totals()
    lines.append(
        f"{plural(total.qualifying, 'matching comment')}, {total.missing:,} without an event, "
        f"{plural(total.gone, 'event')} of deleted comments; "
        f"{plural(found.requests, 'request')} in {found.seconds:.1f} s"
    )
    return lines


def _listed(found: ComparedEvents, limit: int) -> list[str]:
    rows = [["missing", one.reference, one.event_key] for one in found.missing]
    rows += [["gone", one.reference, one.event_key] for one in found.gone]
    lines = table(["VERDICT", "THREAD", "EVENT KEY"], rows[:limit], always_headings=True) if rows[:limit] else []
    if len(rows) > limit:
        lines.append(f"... and {len(rows) - limit:,} more; use --limit or --robot to see more")
    return lines


def _lines(found: Comparison, limit: int) -> list[str]:
    lines = []
    if (repair := found.repair) is not None:
        told = f"{repair.mended:,} of {plural(repair.found, 'difference')} corrected"
        lines.append(f"Repaired by run {repair.run_id}: {told}")
    synced = instant(found.synced_at)
    since = f"last synced {synced} ({ago(found.synced_at)})" if synced else "never fully synced"
    lines.append(f"Local copy: {since}. Later changes on the server count as differences.")
    lines += [
        f"  {one.project} {one.surface.rpartition('.')[2].replace('_', ' ')}: {_told(one)}" for one in found.scopes
    ]
    shown = found.differences[:limit]
    if shown:
        rows = [[one.verdict, one.kind, one.reference, one.key] for one in shown]
        lines += ["", *table(["VERDICT", "KIND", "ITEM", "KEY"], rows, always_headings=True)]
    if len(found.differences) > limit:
        more = len(found.differences) - limit
        lines.append(f"... and {more:,} more; use --limit or --robot to see more")
    lines += _unread_lines(found.unread)
    compared = sum(scope.items + scope.children for scope in found.scopes)
    lines.append(
        f"Compared {compared:,} items and children: {plural(len(found.differences), 'difference')}; "
        f"{plural(found.requests, 'request')} in {found.seconds:.1f} s"
    )
    return lines


def _unread_lines(unread: Sequence[UnreadList]) -> list[str]:
    """Return a line for each kind and error: a token that may not read a kind may not read it of any item."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for entry in unread:
        groups.setdefault((entry.project, entry.kind, entry.error), []).append(entry.reference)
    lines = []
    for (_, kind, error), references in sorted(groups.items()):
        first = min(references, key=lambda reference: (len(reference), reference))
        more = f" and {len(references) - 1:,} more" if len(references) > 1 else ""
        name = CHILD_NAMES.get(kind, kind.replace("_", " "))
        lines.append(f"{first}{more}: {name} could not be read: {error}")
    return lines


def _told(scope: ComparedList) -> str:
    if scope.error is not None:
        return f"failed: {scope.error.message}"
    if scope.skipped is not None:
        return f"skipped: {scope.skipped}"
    counts = [(getattr(scope, verdict), verdict) for verdict in VERDICTS]
    told = ", ".join(f"{count:,} {verdict}" for count, verdict in counts if count) or "no difference"
    children = "1 child" if scope.children == 1 else f"{scope.children:,} children"
    return f"{plural(scope.items, 'item')} and {children} compared, {told}"
