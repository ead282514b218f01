"""Show one stored issue, merge request, topic or post: `lore show`.

Reads the local database only; `--open` starts the browser.
"""

from __future__ import annotations

from typing import Any

import click

from tidelore.app.showing import (
    ShownIssue,
    ShownMergeRequest,
    ShownPost,
    ShownTopic,
    ShowRequest,
    show_item,
    show_post,
    show_topic,
)
from tidelore.cli import options
from tidelore.cli.command import Invocation, LoreGroup, lore_command, lore_group
from tidelore.cli.output.conversations import item_lines, post_lines, topic_lines
from tidelore.cli.output.render import Output, open_page, prose_block
from tidelore.cli.output.table import page_columns
from tidelore.core.errors import UserError
from tidelore.core.references import KINDS, Kind, read_reference

_OUTPUT = options.combine(
    options.max_tokens_option,
    options.lockdown_option,
    options.fields_option,
    options.json_option,
    click.option("--open", "in_browser", is_flag=True, help="Also open it in the browser."),
)


@lore_command(
    "post",
    example="lore show post https://bsky.app/profile/alice.bsky.social/post/3kabc",
    answer=ShownPost,
)
@click.argument("reference", metavar="REF")
@_OUTPUT
def post_command(invocation: Invocation, /, reference: str, *, max_tokens: int | None, in_browser: bool) -> Output:
    """Show a Bluesky post with its links and replies.

    REF is an at:// URI or the URL of the post on bsky.app.
    """
    post = show_post(invocation.app(), reference, max_tokens if invocation.choices.robot else None)
    if in_browser:
        open_page(post.web_url)
    lines = () if invocation.choices.robot else post_lines(post, page_columns())
    return Output(post, lines, paged=True)


@lore_command("topic", example="lore show topic 'owner/repo#12'", answer=ShownTopic)
@click.argument("reference", metavar="REF")
@options.project_option
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out the first comments (see `data.next`).")
@_OUTPUT
def topic_command(
    invocation: Invocation,
    /,
    reference: str,
    *,
    project: str | None,
    skip: int,
    max_tokens: int | None,
    in_browser: bool,
) -> Output:
    """Show a topic (a GitHub Discussion) with its comments.

    REF is a number, '#12', 'owner/repo#12' or the URL of the discussion. A number that exists in several projects
    means the one in default_project.
    """
    budget = max_tokens if invocation.choices.robot else None
    topic = show_topic(invocation.app(), reference, project, skip=skip, max_tokens=budget)
    if in_browser:
        open_page(topic.web_url)
    lines = topic_lines(topic, page_columns(), prose_block(invocation.choices))
    return Output(topic, lines, paged=True)


class _ShowGroup(LoreGroup):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = read_reference(args[0])
        if found is not None:
            kinds = KINDS if found[0] is None else (found[0],)
            fix = " or ".join(f"`lore show {kind} '{args[0]}'`" for kind in kinds)
            raise UserError(f"{args[0]} is a reference, not a kind of item", fix=f"use {fix}", reference=args[0])
        return super().resolve_command(ctx, args)


show_command = lore_group(
    "show", "Show one issue, merge request, topic or post.", example="lore show mr 12", cls=_ShowGroup
)


show_command.add_command(post_command)
show_command.add_command(topic_command)


_ITEM_OPTIONS = options.combine(
    click.argument("reference", metavar="REF"),
    options.project_option,
    click.option("--system", is_flag=True, help="Include system notes."),
    click.option(
        "--skip", type=click.IntRange(0), default=0, help="Leave out the newest discussions (see `data.next`)."
    ),
    options.freshness_options,
    click.option("--notes", "last", type=click.IntRange(0), metavar="N", help="Show only the last N discussions."),
    _OUTPUT,
)


@show_command.command("issue", example="lore show issue 'group/project#12'", answer=ShownIssue)
@_ITEM_OPTIONS
def issue_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Show an issue with its discussions.

    REF is a number, '#12', 'group/project#12' or a URL. A number that exists in several projects means the one in
    default_project.
    """
    return _show(invocation, "issue", files=False, **wanted)


@show_command.command("mr", example="lore show mr 'group/project!12' --files", answer=ShownMergeRequest)
@click.option("--files", is_flag=True, help="Include the changed files.")
@_ITEM_OPTIONS
def mr_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Show a merge request with its discussions.

    REF is a number, '!12', 'group/project!12' or a URL. A number that exists in several projects means the one in
    default_project.
    """
    return _show(invocation, "mr", **wanted)


def _show(invocation: Invocation, kind: Kind, *, files: bool, in_browser: bool, **wanted: Any) -> Output:
    options.refresh_first(invocation, wanted, wanted["reference"], wanted["project"])
    robot = invocation.choices.robot
    budget = wanted.pop("max_tokens")
    request = ShowRequest(kind=kind, max_tokens=budget if robot else None, **wanted)
    item = show_item(invocation.app(), request)
    if in_browser:
        open_page(item.web_url)
    if robot:
        return Output(item)
    lines = item_lines(item, page_columns(), with_files=files, prose=prose_block(invocation.choices))
    return Output(item, lines, paged=True)
