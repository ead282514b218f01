"""Show one stored issue, merge request or post: `lore show`.

Reads the local database only; `--open` starts the browser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidelore.cli.command import LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.posts import post_data, post_lines
from tidelore.cli.output.render import Output
from tidelore.cli.output.table import page_columns
from tidelore.core.errors import UserError
from tidelore.core.references import Kind, parse_post_reference, parse_reference
from tidelore.store.reading.conversations import read_conversation, resolve
from tidelore.store.reading.posts import read_post, resolve_post


@click.command("post", cls=LoreCommand, example="lore show post https://bsky.app/profile/alice.bsky.social/post/3kabc")
@click.argument("reference", metavar="REF")
@click.option("--fields", metavar="A,B", help="Only these fields in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Also open it in the browser.")
@click.pass_context
def post_command(
    ctx: click.Context, /, reference: str, *, fields: str | None, as_json: bool, in_browser: bool
) -> Output:
    """Show a Bluesky post with its links and replies.

    REF is an at:// URI or the URL of the post on bsky.app.
    """
    invocation = invocation_of(ctx)
    invocation.choices.robot |= as_json
    meant = parse_post_reference(reference)
    database = invocation.open_store()
    try:
        view = read_post(database, resolve_post(database, meant))
    finally:
        database.close()
    if in_browser:
        from tidelore.cli.output.render import open_page

        open_page(view.post.url)
    data = post_data(view)
    names = list(data) if fields is None else [name.strip() for name in fields.split(",") if name.strip()]
    unknown = [name for name in names if name not in data]
    if unknown or not names:
        raise UserError(
            f"invalid value for --fields: {', '.join(unknown) or 'no field given'}",
            fix="use any of: " + ", ".join(data),
            fields=fields,
        )
    lines = () if invocation.choices.robot else post_lines(view, page_columns())
    return Output({name: data[name] for name in data if name in names}, lines)


@click.group(
    "show",
    cls=LoreGroup,
    help="Show one issue, merge request or post.",
    no_args_is_help=True,
    params=global_options(),
    example="lore show mr 12",
)
def show_command() -> None:
    pass


show_command.add_command(post_command)


def _shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument("reference", metavar="REF"),
        click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending)."),
        click.option("--system", is_flag=True, help="Include system notes."),
        click.option("--notes", "last", type=click.IntRange(0), metavar="N", help="Show only the last N discussions."),
        click.option("--fields", metavar="A,B", help="Only these fields in JSON."),
        click.option("--json", "as_json", is_flag=True, help="Same as --robot."),
        click.option("--open", "in_browser", is_flag=True, help="Also open it in the browser."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@show_command.command("issue", cls=LoreCommand, example="lore show issue 'group/project#12'")
@_shared_options
@click.pass_context
def issue_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """Show an issue with its discussions.

    REF is a number, '#12', 'group/project#12' or a URL. A number that exists in several projects means the one in
    default_project.
    """
    return _show(ctx, "issue", files=False, **wanted)


@show_command.command("mr", cls=LoreCommand, example="lore show mr 'group/project!12' --files")
@click.option("--files", is_flag=True, help="Include the changed files.")
@_shared_options
@click.pass_context
def mr_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """Show a merge request with its discussions.

    REF is a number, '!12', 'group/project!12' or a URL. A number that exists in several projects means the one in
    default_project.
    """
    return _show(ctx, "mr", **wanted)


def _show(
    ctx: click.Context,
    kind: Kind,
    *,
    reference: str,
    project: str | None,
    system: bool,
    files: bool,
    last: int | None,
    fields: str | None,
    as_json: bool,
    in_browser: bool,
) -> Output:
    from tidelore.cli.output.conversations import ShownParts, conversation_data, conversation_lines

    invocation = invocation_of(ctx)
    invocation.choices.robot |= as_json
    meant = parse_reference(reference, kind)
    default = invocation.app().config.default_project
    database = invocation.open_store()
    try:
        parent_id = resolve(database, kind, meant, project=project, default=default)
        talk = read_conversation(database, kind, parent_id)
    finally:
        database.close()
    view = ShownParts(system=system, files=files, last=last, columns=page_columns())
    data = _chosen(conversation_data(talk, view), fields)
    if in_browser:
        from tidelore.cli.output.render import open_page

        open_page(talk.parent.web_url)
    return Output(data, () if invocation.choices.robot else conversation_lines(talk, view))


def _chosen(data: dict[str, Any], fields: str | None) -> dict[str, Any]:
    if fields is None:
        return data
    names = [name.strip() for name in fields.split(",") if name.strip()]
    unknown = [name for name in names if name not in data]
    if unknown or not names:
        raise UserError(
            f"invalid value for --fields: {', '.join(unknown) or 'no field given'}",
            fix="use any of: " + ", ".join(data),
            fields=fields,
        )
    return {name: data[name] for name in data if name in names}
