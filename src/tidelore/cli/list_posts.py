"""`lore list posts`: lists stored posts."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.browser import open_page
from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.post_text import post_item, post_row
from tidelore.cli.render import Answer
from tidelore.cli.table import Column, on_terminal, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.references import parse_since
from tidelore.store.reading.posts import KINDS, PostFilter, PostList, PostRow, list_posts

_NO_POST = PostRow(
    0, "", "", "", "", None, "", "", None, None, None, None, 0, None, 0, None, None, None, None, "", "", ""
)
_FIELDS = tuple(post_item(_NO_POST))


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
def posts_command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """List Bluesky posts, newest first.

    Includes replies, quotes and reposts. A repost is listed under the account that reposted, at the time of the repost.
    """
    face = face_of(ctx)
    face.choices.robot |= wanted.pop("as_json")
    chosen, in_browser = _chosen(wanted.pop("fields")), wanted.pop("in_browser")
    wanted["since"] = parse_since(wanted["since"], SystemClock().now_ms()) if wanted["since"] else None
    wanted["after"] = _parse_token(wanted["after"]) if wanted["after"] else None
    database = face.open_store()
    try:
        found = list_posts(database, PostFilter(**wanted))
    finally:
        database.close()
    if in_browser:
        open_page(found.items[0].url if found.items else None)
    items = [{name: value for name, value in post_item(row).items() if name in chosen} for row in found.items]
    token = None if found.next is None else f"{found.next[0]}-{found.next[1]}"
    return Answer({"items": items, "total": found.total, "next": token}, _lines(found))


def _lines(found: PostList) -> list[str]:
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


def _chosen(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset(_FIELDS)
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - set(_FIELDS):
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - set(_FIELDS))) or 'no field given'}",
            fix="use any of: " + ", ".join(_FIELDS),
            fields=text,
        )
    return chosen


def _parse_token(text: str) -> tuple[int, int]:
    at, _, row_id = text.partition("-")
    if not (at.isascii() and at.isdecimal() and row_id.isascii() and row_id.isdecimal()):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    return int(at), int(row_id)
