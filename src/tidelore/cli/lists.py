"""List stored issues, merge requests and posts: `lore list`.

Reads the local database only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from tidelore.cli.command import LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.posts import post_item, post_row
from tidelore.cli.output.render import Output, instant, open_page, when
from tidelore.cli.output.table import Column, on_terminal, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.references import parse_since
from tidelore.core.text import one_line
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.lists import DiscussionCounts, ListedParent, ListFilter, Listing, list_parents
from tidelore.store.reading.posts import KINDS, PostFilter, PostList, PostRow, list_posts

_NO_POST = PostRow(
    0, "", "", "", "", None, "", "", None, None, None, None, 0, None, 0, None, None, None, None, "", "", ""
)
_POST_FIELDS = tuple(post_item(_NO_POST))


@click.command("posts", cls=LoreCommand, example="lore list posts --author alice.bsky.social --since 7d")
@click.option("--author", metavar="HANDLE", help="Only posts of this account (handle or DID).")
@click.option("--kind", type=click.Choice(KINDS), help="Only posts of this kind.")
@click.option("--since", metavar="WHEN", help="Only posts since: 12h, 7d, 2w or 2026-03-01.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show.")
@click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`.")
@click.option("--deleted", is_flag=True, help="Show deleted items instead.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser.")
@click.pass_context
def posts_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """List Bluesky posts, newest first.

    Includes replies, quotes and reposts. A repost is listed under the account that reposted, at the time of the repost.
    """
    invocation = invocation_of(ctx)
    invocation.choices.robot |= wanted.pop("as_json")
    chosen, in_browser = _post_fields(wanted.pop("fields")), wanted.pop("in_browser")
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    wanted["after"] = _parse_token(wanted["after"]) if wanted["after"] else None
    database = invocation.open_store()
    try:
        found = list_posts(database, PostFilter(**wanted))
    finally:
        database.close()
    if in_browser:
        open_page(found.items[0].url if found.items else None)
    items = [{name: value for name, value in post_item(row).items() if name in chosen} for row in found.items]
    token = None if found.next is None else f"{found.next[0]}-{found.next[1]}"
    return Output({"items": items, "total": found.total, "next": token}, _post_lines(found))


def _post_lines(found: PostList) -> list[str]:
    if not found.items:
        return ["Posts: no matches"]
    rows = [post_row(row) for row in found.items]
    columns = [
        Column("LISTED"),
        Column("KIND"),
        Column("AUTHOR", colour="cyan"),
        Column("TEXT", shrinks=True),
        Column("URI", optional=True),
    ]
    head = [f"Posts (showing {len(rows):,} of {found.total:,})"] if on_terminal() else []
    return [*head, *table(columns, rows)]


def _post_fields(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset(_POST_FIELDS)
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - set(_POST_FIELDS):
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - set(_POST_FIELDS))) or 'no field given'}",
            fix="use any of: " + ", ".join(_POST_FIELDS),
            fields=text,
        )
    return chosen


def _parse_token(text: str) -> tuple[int, int]:
    at, _, row_id = text.partition("-")
    if not (at.isascii() and at.isdecimal() and row_id.isascii() and row_id.isdecimal()):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    return int(at), int(row_id)


_DRAFT_MARK = re.compile(r"^(\[draft\]|\(draft\)|draft:|wip:|\[wip\])\s*", re.IGNORECASE)


@click.group(
    "list",
    cls=LoreGroup,
    help="List issues, merge requests or posts.",
    no_args_is_help=True,
    params=global_options(),
    example="lore list issues --state opened",
)
def list_command() -> None:
    pass


list_command.add_command(posts_command)


def _shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--author", metavar="USER", help="Only items written by this user."),
        click.option("--assignee", metavar="USER", help="Only items assigned to this user."),
        click.option(
            "--label", "labels", multiple=True, metavar="NAME", help="Only items with this label (repeatable)."
        ),
        click.option("--milestone", metavar="TITLE", help="Only items in this milestone."),
        click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending)."),
        click.option("--since", metavar="WHEN", help="Only items updated since: 12h, 7d, 2w or 2026-03-01."),
        click.option("--sort", type=click.Choice(["updated", "created"]), default="updated", help="Sort by this time."),
        click.option("--asc", "ascending", is_flag=True, help="Show the oldest items first."),
        click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show."),
        click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`."),
        click.option("--deleted", is_flag=True, help="Show deleted items instead."),
        click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON."),
        click.option("--json", "as_json", is_flag=True, help="Same as --robot."),
        click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@list_command.command("issues", cls=LoreCommand, example="lore list issues --state opened --label bug --since 2w")
@click.option(
    "--state", type=click.Choice(["opened", "closed", "all"]), default="all", help="Only items in this state."
)
@click.option("--status", metavar="NAME", help="Only issues with this work item status.")
@_shared_options
@click.pass_context
def issues_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """List issues, most recently updated first."""
    return _list(ctx, ISSUES, wanted)


@list_command.command("mrs", cls=LoreCommand, example="lore list mrs --state opened --reviewer alice")
@click.option(
    "--state",
    type=click.Choice(["opened", "merged", "closed", "locked", "all"]),
    default="all",
    help="Only items in this state.",
)
@click.option("--draft/--no-draft", default=None, help="Only drafts, or only non-drafts.")
@click.option("--reviewer", metavar="USER", help="Only merge requests with this reviewer.")
@click.option("--target-branch", metavar="NAME", help="Only merge requests into this branch.")
@click.option("--source-branch", metavar="NAME", help="Only merge requests from this branch.")
@_shared_options
@click.pass_context
def mrs_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """List merge requests, most recently updated first.

    The state `locked` means that a merge is in progress.
    """
    return _list(ctx, MERGE_REQUESTS, wanted)


def _list(ctx: click.Context, family: Family, wanted: dict[str, Any]) -> Output:
    invocation = invocation_of(ctx)
    invocation.choices.robot |= wanted.pop("as_json")
    fields, in_browser, project = wanted.pop("fields"), wanted.pop("in_browser"), wanted.pop("project")
    chosen = _fields(fields, family)
    wanted["state"] = None if wanted["state"] == "all" else wanted["state"]
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    wanted["after"] = _parse_token(wanted["after"]) if wanted["after"] else None
    # Only robot output contains the counts of discussions, so only it reads them.
    wanted["with_talk"] = invocation.choices.robot and not chosen.isdisjoint(DiscussionCounts._fields)
    database = invocation.open_store()
    try:
        project_id = match_project(database, project).id if project else None
        found = list_parents(database, family, ListFilter(**wanted, project_id=project_id))
    finally:
        database.close()
    if in_browser:
        open_page(found.items[0].web_url if found.items else None)
    items = [{name: value for name, value in _item(row, family).items() if name in chosen} for row in found.items]
    token = None if found.next is None else f"{found.next[0]}-{found.next[1]}"
    return Output({"items": items, "total": found.total, "next": token}, _lines(found, family))


def _item(row: ListedParent, family: Family) -> dict[str, Any]:
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


def _fields(text: str | None, family: Family) -> set[str]:
    known = set(_item(ListedParent(0, "", 0, "", "", None, None, 0, 0, None, None, 0, None, None, None), family))
    if text is None:
        return known
    chosen = {name.strip() for name in text.split(",") if name.strip()}
    if not chosen or chosen - known:
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - known)) or 'no field given'}",
            fix="use any of: " + ", ".join(sorted(known)),
            fields=text,
        )
    return chosen


def _lines(found: Listing, family: Family) -> list[str]:
    title = "Merge Requests" if family is MERGE_REQUESTS else "Issues"
    if not found.items:
        return [f"{title}: no matches"]
    middle = "BRANCHES" if family is MERGE_REQUESTS else "LABELS"
    columns = [
        Column("PROJECT", path=True),
        Column("NUMBER", colour="cyan"),
        Column("TITLE", shrinks=True),
        Column("STATE", state=True),
        Column("AUTHOR"),
        Column(middle, shrinks=True, optional=True),
        Column("UPDATED"),
    ]
    rows = [_row(row, family) for row in found.items]
    if not on_terminal():
        return table(columns, rows)
    # If all rows are of one project, its name is not repeated on every line.
    first = 0 if len({row.project for row in found.items}) > 1 else 1
    head = f"{title} (showing {len(rows):,} of {found.total:,})"
    return [head, *table(columns[first:], [row[first:] for row in rows])]


def _row(row: ListedParent, family: Family) -> list[str]:
    title = one_line(row.title) if row.deleted_at is None else "(deleted)"
    if row.draft:
        title = f"[DRAFT] {_DRAFT_MARK.sub('', title)}"
    author = f"@{row.author_username}" if row.author_username else "-"
    if family is MERGE_REQUESTS:
        sign, middle = "!", f"{row.target_branch} <- {row.source_branch}"
    else:
        sign, middle = "#", ", ".join(row.labels)
    return [row.project, f"{sign}{row.iid}", title, row.state, author, middle, when(row.updated_at)]
