"""Show who changed a file and which links are shared: `lore file-history`, `lore trending`.

Reads the local database only.
"""

from __future__ import annotations

from typing import Any

import click

from tidelore.app.listing import (
    FileDiscussion,
    FileRequest,
    FileStory,
    SharedLink,
    TrendingLinks,
    file_history,
    trending_links,
)
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import item_fields, json_option, project_option
from tidelore.cli.output.render import Output, ago, plural, when
from tidelore.cli.output.table import Column, line_columns, table_of
from tidelore.core.text import one_line, shorten


@lore_command("file-history", example="lore file-history src/auth/login.ts --discussions", answer=FileStory)
@click.argument("path", metavar="PATH")
@click.option("--discussions", is_flag=True, help="Include review discussions on its lines.")
@click.option("--merged", is_flag=True, help="Only merged merge requests.")
@click.option("--no-follow-renames", "alone", is_flag=True, help="Do not follow renames.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show.")
@project_option
@item_fields
@json_option
def file_history_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """List merge requests that changed a file, newest first.

    PATH is relative to the root of the repository, or an unambiguous ending such as 'auth/login.ts'. Renames are
    followed in both directions.
    """
    request = FileRequest(follow=not wanted.pop("alone"), **wanted)
    story = file_history(invocation.app(), request)
    return Output(story, () if invocation.choices.robot else _story_lines(story, discussions=request.discussions))


def _thread_state(one: FileDiscussion) -> str:
    if not one.resolvable:
        return "-"
    return "unknown" if one.resolved is None else "resolved" if one.resolved else "open"


def _story_lines(story: FileStory, *, discussions: bool) -> list[str]:
    lines = [one_line(f"{story.path} ({story.project})")]
    if len(story.names) > 1:
        more = ", and more" if story.names_cut else ""
        lines.append(f"Names: {one_line(story.lineage)}{more}")
    lines += ["", f"Merge Requests (showing {len(story.items):,} of {story.total:,})"]
    if story.items:
        lines += table_of(
            story.items,
            Column("NUMBER", lambda one: one.reference.removeprefix(story.project), colour="cyan"),
            Column("STATE", lambda one: one.state, state=True),
            Column("AUTHOR", lambda one: _name(one.author), optional=True),
            Column("UPDATED", lambda one: when(one.merged_at or one.updated_at)),
            Column("CHANGE", lambda one: ", ".join(dict.fromkeys(edit.change for edit in one.changes)), optional=True),
            Column("TITLE", lambda one: one.title, shrinks=True),
            always_headings=True,
        )
    if discussions:
        lines += ["", f"Discussions (showing {len(story.discussions):,} of {story.discussions_total:,})"]
    if discussions and story.discussions:
        lines += table_of(
            story.discussions,
            Column("NUMBER", lambda one: one.reference.removeprefix(story.project), colour="cyan"),
            Column("PLACE", lambda one: one.path + ("" if one.line is None else f":{one.line}"), path=True),
            Column("AUTHOR", lambda one: _name(one.author), optional=True),
            Column("STARTED", lambda one: when(one.created_at)),
            Column("STATE", _thread_state, state=True),
            Column("FIRST NOTE", lambda one: one.body, shrinks=True),
            always_headings=True,
        )
    return lines


def _name(author: str | None) -> str:
    return f"@{author}" if author else "-"


_STEP = "  "
_SHOWN_SHARERS = 5


@lore_command("trending", example="lore trending --hours 48", answer=TrendingLinks)
@click.option("--hours", type=click.FloatRange(0.1, 24 * 3660), default=24, help="Time span in hours.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=50, help="Number of links to show.")
@click.option(
    "--min-shares", type=click.IntRange(1), default=1, help="Minimum number of accounts that shared the link."
)
@click.option("--link", default="", metavar="TEXT", help="Links with a text, such as a host, in their address.")
@json_option
def trending_command(invocation: Invocation, /, hours: float, limit: int, min_shares: int, link: str) -> Output:
    """List the most shared links.

    Each account counts once per link. Reposts count, deleted posts do not.
    """
    found = trending_links(invocation.app(), hours, limit, min_shares, link)
    return Output(found, () if invocation.choices.robot else _link_lines(found.items, hours))


def _link_lines(found: list[SharedLink], hours: float) -> list[str]:
    if not found:
        return [f"No links shared in the last {hours:g} hours."]
    columns = line_columns()
    lines: list[str] = []
    for trend in found:
        head = f"{plural(trend.shares, 'share')}, last {ago(trend.last_shared_at)}"
        title = shorten(one_line(trend.title or _host(trend.url)), max(columns - len(head) - len(_STEP), 20))
        # The address stays whole, so that it can be opened from the terminal.
        lines += [f"{head}{_STEP}{click.style(title, bold=True)}", _STEP + one_line(trend.url)]
        lines.append(shorten(_STEP + _names(trend), columns))
    return lines


def _host(address: str) -> str:
    """Return the host of an address, or what stands for one."""
    return address.partition("://")[2].partition("/")[0] or address


def _names(trend: SharedLink) -> str:
    names = [f"@{one_line(sharer.handle or sharer.did)}" for sharer in trend.sharers[:_SHOWN_SHARERS]]
    left = len(trend.sharers) - len(names)
    return ", ".join(names) + (f" and {left:,} more" if left else "")
