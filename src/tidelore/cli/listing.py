"""`lore list`: issues, merge requests and posts of the copy, filtered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from tidelore.cli.browser import open_page
from tidelore.cli.face import LoreCommand, face_of, global_options
from tidelore.cli.list_posts import posts_command
from tidelore.cli.render import Answer, ago, instant, table
from tidelore.clock import SystemClock
from tidelore.errors import UserError
from tidelore.remote_text import one_line, shorten
from tidelore.since import parse_since
from tidelore.store.family import Family
from tidelore.store.issues import ISSUES
from tidelore.store.listing import ListedParent, ListFilter, Listing, Talk, list_parents
from tidelore.store.merge_requests import MERGE_REQUESTS
from tidelore.store.projects import match_project

_TITLE_WIDTH = 60
_DRAFT_MARK = re.compile(r"^(\[draft\]|\(draft\)|draft:|wip:|\[wip\])\s*", re.IGNORECASE)


@click.group(
    "list", help="List issues, merge requests or posts of the copy.", no_args_is_help=True, params=global_options()
)
def command() -> None:
    pass


command.add_command(posts_command)


def _shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--author", metavar="USER", help="Written by this user."),
        click.option("--assignee", metavar="USER", help="Assigned to this user."),
        click.option("--label", "labels", multiple=True, metavar="NAME", help="Carrying this label (repeatable)."),
        click.option("--milestone", metavar="TITLE", help="In this milestone."),
        click.option("-p", "--project", metavar="PATH", help="Only this project (a path, or an ending of one)."),
        click.option("--since", metavar="WHEN", help="Updated since 7d, 2w, 12h, or 2026-03-01."),
        click.option("--sort", type=click.Choice(["updated", "created"]), default="updated", help="Newest first by."),
        click.option("--asc", "ascending", is_flag=True, help="Oldest first."),
        click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="How many to show."),
        click.option("--after", metavar="TOKEN", help="Go on after the page whose `data.next` this was."),
        click.option("--deleted", is_flag=True, help="The deleted ones instead."),
        click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON."),
        click.option("--json", "as_json", is_flag=True, help="The same as --robot."),
        click.option("--open", "in_browser", is_flag=True, help="Open the first one in the browser."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command.command("issues", cls=LoreCommand)
@click.option("--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="In this state.")
@click.option("--status", metavar="NAME", help="With this work item status.")
@_shared_options
@click.pass_context
def issues_command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """List issues, the most recently updated first."""
    return _list(ctx, ISSUES, wanted)


@command.command("mrs", cls=LoreCommand)
@click.option(
    "--state", type=click.Choice(["opened", "merged", "closed", "locked", "all"]), default="all", help="In this state."
)
@click.option("--draft/--no-draft", default=None, help="Only drafts, or no drafts.")
@click.option("--reviewer", metavar="USER", help="To be reviewed by this user.")
@click.option("--target-branch", metavar="NAME", help="Into this branch.")
@click.option("--source-branch", metavar="NAME", help="From this branch.")
@_shared_options
@click.pass_context
def mrs_command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """List merge requests, the most recently updated first."""
    return _list(ctx, MERGE_REQUESTS, wanted)


def _list(ctx: click.Context, family: Family[Any], wanted: dict[str, Any]) -> Answer:
    face = face_of(ctx)
    face.choices.robot |= wanted.pop("as_json")
    fields, in_browser, project = wanted.pop("fields"), wanted.pop("in_browser"), wanted.pop("project")
    chosen = _fields(fields, family)
    wanted["state"] = None if wanted["state"] == "all" else wanted["state"]
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    wanted["after"] = _parse_token(wanted["after"]) if wanted["after"] else None
    # Only programs are told how much is said, so only they wait for the count.
    wanted["with_talk"] = face.choices.robot and not chosen.isdisjoint(Talk._fields)
    database = face.open_store()
    try:
        project_id = match_project(database, project).id if project else None
        found = list_parents(database, family, ListFilter(**wanted, project_id=project_id))
    finally:
        database.close()
    if in_browser:
        open_page(found.items[0].web_url if found.items else None)
    items = [{name: value for name, value in _item(row, family).items() if name in chosen} for row in found.items]
    token = None if found.next is None else f"{found.next[0]}-{found.next[1]}"
    return Answer({"items": items, "total": found.total, "next": token}, _lines(found, family))


def _item(row: ListedParent, family: Family[Any]) -> dict[str, Any]:
    item = {
        "project": row.project,
        "iid": row.iid,
        "title": row.title,
        "state": row.state,
        "author": row.author_username,
        "milestone": row.milestone_title,
        "labels": row.labels,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "deleted_at": instant(row.deleted_at),
        "web_url": row.web_url,
        **row.talk._asdict(),
    }
    if family is MERGE_REQUESTS:
        item |= {"draft": bool(row.draft), "source_branch": row.source_branch, "target_branch": row.target_branch}
    else:
        item |= {"status": row.status_name}
    return item


def _fields(text: str | None, family: Family[Any]) -> set[str]:
    known = set(_item(ListedParent(0, "", 0, "", "", None, None, 0, 0, None, None, 0, None, None, None), family))
    if text is None:
        return known
    chosen = {name.strip() for name in text.split(",") if name.strip()}
    if not chosen or chosen - known:
        raise UserError(
            f"--fields names no field: {', '.join(sorted(chosen - known)) or 'nothing'}",
            fix="the fields are: " + ", ".join(sorted(known)),
            fields=text,
        )
    return chosen


def _parse_token(text: str) -> tuple[int, int]:
    at, _, row_id = text.partition("-")
    if not (at.isascii() and at.isdecimal() and row_id.isascii() and row_id.isdecimal()):
        raise UserError(f"--after {text!r} is no token", fix="use `data.next` of the page before", after=text)
    return int(at), int(row_id)


def _lines(found: Listing, family: Family[Any]) -> list[str]:
    title = "Merge Requests" if family is MERGE_REQUESTS else "Issues"
    if not found.items:
        return [f"{title}: nothing matches"]
    rows = [_row(row, family) for row in found.items]
    head = f"{title} (showing {len(rows):,} of {found.total:,})"
    several = len({row.project for row in found.items}) > 1
    shown = [cells if several else cells[1:] for cells in rows]
    return [head, *table([""] * len(shown[0]), shown)[1:]]


def _row(row: ListedParent, family: Family[Any]) -> list[str]:
    title = one_line(row.title)
    if row.draft:
        title = f"[DRAFT] {_DRAFT_MARK.sub('', title)}"
    short = shorten(title, _TITLE_WIDTH)
    author = f"@{one_line(row.author_username)}" if row.author_username else "-"
    if family is MERGE_REQUESTS:
        middle = one_line(f"{row.target_branch} <- {row.source_branch}")
        return [row.project, f"!{row.iid}", short, row.state, author, middle, ago(row.updated_at)]
    return [row.project, f"#{row.iid}", short, row.state, author, one_line(", ".join(row.labels)), ago(row.updated_at)]
