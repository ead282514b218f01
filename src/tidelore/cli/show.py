"""`lore show`: shows one issue or merge request with its discussions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidelore.cli.face import LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.render import Answer
from tidelore.cli.show_post import post_command
from tidelore.cli.table import page_columns
from tidelore.core.errors import UserError
from tidelore.core.references import Kind, parse_reference
from tidelore.store.reading.conversations import read_conversation, resolve


@click.group(
    "show",
    cls=LoreGroup,
    help="Show one issue, merge request or post.",
    no_args_is_help=True,
    params=global_options(),
    example="lore show mr 12",
)
def command() -> None:
    pass


command.add_command(post_command)


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


@command.command("issue", cls=LoreCommand, example="lore show issue 'group/project#12'")
@_shared_options
@click.pass_context
def issue_command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """Show an issue with its discussions.

    REF is a number, '#12', 'group/project#12' or a URL. A number that exists in several projects means the one in
    default_project.
    """
    return _show(ctx, "issue", files=False, **wanted)


@command.command("mr", cls=LoreCommand, example="lore show mr 'group/project!12' --files")
@click.option("--files", is_flag=True, help="Include the changed files.")
@_shared_options
@click.pass_context
def mr_command(ctx: click.Context, /, **wanted: Any) -> Answer:
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
) -> Answer:
    from tidelore.cli.conversation_data import conversation_data
    from tidelore.cli.conversation_text import View, conversation_lines

    face = face_of(ctx)
    face.choices.robot |= as_json
    meant = parse_reference(reference, kind)
    default = face.app().config.default_project
    database = face.open_store()
    try:
        parent_id = resolve(database, kind, meant, project=project, default=default)
        talk = read_conversation(database, kind, parent_id)
    finally:
        database.close()
    view = View(system=system, files=files, last=last, columns=page_columns())
    data = _chosen(conversation_data(talk, view), fields)
    if in_browser:
        from tidelore.cli.browser import open_page

        open_page(talk.parent.web_url)
    return Answer(data, () if face.choices.robot else conversation_lines(talk, view))


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
