"""`lore feedback list|show`: shows tracked pull requests from the database."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.feedback_data import (
    answer_data,
    command_data,
    issue_data,
    position_data,
    pull_data,
    step_data,
    waiting_by_thread,
)
from tidelore.cli.feedback_threads import REPO, repo_and_number
from tidelore.cli.render import Answer, ago, plural
from tidelore.cli.table import Column, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import NotFound
from tidelore.core.text import one_line, shorten
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import list_poll_cursors
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import list_events, pending_counts
from tidelore.store.work.followed_issues import followed_issues
from tidelore.store.work.operator_commands import list_commands
from tidelore.store.work.outbox import list_outbox
from tidelore.store.work.tracked_pull_requests import STATUSES, TrackedPr, find_tracked, history, list_tracked

_LATEST = 20


@click.command("list", cls=LoreCommand, example="lore feedback list --status blocked")
@REPO
@click.option("--status", type=click.Choice(STATUSES), help="Only pull requests with this status.")
@click.pass_context
def list_command(ctx: click.Context, repo: str | None, status: str | None) -> Answer:
    """List tracked pull requests and source issues.

    Includes merged and closed ones. Reads the local copy only.
    """
    face = face_of(ctx)
    name = chosen_name(face, repo)
    database = face.open_store()
    try:
        rows = list_tracked(database, repo=name, statuses=None if status is None else (status,))
        issues = [] if status else [row for row in followed_issues(database) if name in (None, row.repo_full_name)]
        waiting = waiting_by_thread(pending_counts(database, SystemClock().now_ms()))
    finally:
        database.close()
    items = [pull_data(row, waiting) for row in rows]
    data = {"items": items, "total": len(items), "next": None, "issues": [issue_data(row) for row in issues]}
    lines = (
        _table(items)
        if items
        else ["No tracked pull requests." if not status else f"No pull requests with status {status}."]
    )
    for row in issues:
        leads = f"linked to #{row.pr_number}" if row.pr_number else "has no pull request yet"
        lines.append(f"{row.repo_full_name}#{row.issue_number}: source issue, {leads}")
    return Answer(data, lines)


@click.command("show", cls=LoreCommand, example="lore feedback show --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@click.pass_context
def show_command(ctx: click.Context, repo: str | None, pr: str) -> Answer:
    """Show the state of a tracked pull request.

    Prints its status history, reading positions, events, replies and operator commands.
    """
    from tidelore.app.sources import find_followed

    face = face_of(ctx)
    place, number = repo_and_number(face.app().config, repo, pr)
    database = face.open_store()
    try:
        project = find_followed(database, place)
        row = find_tracked(database, project.id, number)
        if row is None:
            raise NotFound(
                f"{project.path}#{number} is not tracked",
                fix=f"follow it with: lore feedback track --repo {project.path} --pr {number}",
                number=number,
            )
        data = _shown(database, project, row)
    finally:
        database.close()
    return Answer(data, _show_lines(data, row))


def chosen_name(face: Face, repo: str | None) -> str | None:
    """Return the stored name of the chosen repository; None for all."""
    if repo is None:
        return None
    from tidelore.feedback.repositories import choose_repo
    from tidelore.store.mirror.projects import find_configured

    place = choose_repo(face.app().config, repo)
    database = face.open_store()
    try:
        project = find_configured(database, place.host.name, place.name)
    finally:
        database.close()
    return place.name if project is None else project.path


def _shown(database: Database, project: ProjectRow, row: TrackedPr) -> dict[str, Any]:
    number = row.pr_number
    events = list_events(database, project.id, number)
    waiting = waiting_by_thread(pending_counts(database, SystemClock().now_ms()))
    answers = [sent for sent in list_outbox(database, project_ids=[project.id]) if sent.scope_number == number]
    commands = [
        found
        for found in list_commands(database, project_id=project.id, limit=1000)
        if number in (found.issue_number, found.pr_number)
    ]
    cursors = list_poll_cursors(database, project.source, project.path)
    return {
        "pull": pull_data(row, waiting),
        "events": len(events),
        "processed": sum(event.processed_at is not None for event in events),
        "history": [step_data(step) for step in history(database, row.id)],
        "cursors": [position_data(cursor) for cursor in cursors if cursor.scope_number == number],
        "answers": [answer_data(sent) for sent in answers[-_LATEST:]],
        "commands": [command_data(found) for found in commands[:_LATEST]],
    }


def _table(items: list[dict[str, Any]]) -> list[str]:
    rows = [
        [
            f"{item['repo']}#{item['pr_number']}",
            f"{item['status']}{' (paused)' if item['paused'] else ''}",
            f"{item['pending']:,}",
            f"{item['in_flight']:,}",
            item["title"] or "-",
        ]
        for item in items
    ]
    columns = [
        Column("PULL REQUEST", colour="cyan"),
        Column("STATUS", state=True),
        Column("PENDING", right=True),
        Column("IN PROGRESS", right=True),
        Column("TITLE", shrinks=True),
    ]
    return table(columns, rows)


def _show_lines(data: dict[str, Any], row: TrackedPr) -> list[str]:
    pull = data["pull"]
    lines = [f"{pull['repo']}#{pull['pr_number']} {one_line(pull['title'] or '')}".rstrip()]
    why = f" ({pull['blocked_reason']})" if pull["blocked_reason"] else ""
    paused = ", paused" if pull["paused"] else ""
    lines.append(f"  {pull['status']}{why}{paused}, {ago(row.entered_at)}; tracked by {pull['tracked_by']}")
    if pull["head_sha"]:
        lines.append(f"  head {pull['head_sha'][:12]} of {one_line(pull['branch'] or '-')}")
    if pull["issue_number"]:
        lines.append(f"  source issue #{pull['issue_number']}")
    told = f"{plural(data['events'], 'event')}, {data['processed']:,} done, {pull['in_flight']:,} in progress"
    lines.append(f"  {told}, {pull['pending'] - pull['in_flight']:,} pending")
    lines.append("History:")
    for step in data["history"]:
        detail = f": {shorten(one_line(step['detail']), 80)}" if step["detail"] else ""
        lines.append(f"  {step['at']} {step['from_status'] or '-'} -> {step['to_status']} ({step['reason']}){detail}")
    return lines + _talk_lines(data)


def _talk_lines(data: dict[str, Any]) -> list[str]:
    lines = ["Positions:"] if data["cursors"] else []
    for cursor in data["cursors"]:
        whole = "complete" if cursor["bootstrap_complete"] else "incomplete"
        lines.append(f"  {cursor['surface']}: {whole}, up to {cursor['last_updated_at'] or '-'}")
    lines += ["Answers:"] if data["answers"] else []
    for sent in data["answers"]:
        lines.append(f"  {sent['id']} {sent['source']}: {sent['status']}, comment {sent['comment_id'] or '-'}")
    lines += ["Commands:"] if data["commands"] else []
    for found in data["commands"]:
        lines.append(f"  {found['commented_at']} {found['command']} by {found['author']}: {found['status']}")
    return lines
