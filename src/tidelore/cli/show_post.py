"""`lore show post`: shows one post with its links, parent and replies."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.post_text import post_data, post_lines
from tidelore.cli.render import Answer
from tidelore.cli.table import page_columns
from tidelore.core.errors import UserError
from tidelore.core.references import parse_post_reference
from tidelore.store.reading.posts import read_post, resolve_post


@click.command("post", cls=LoreCommand, example="lore show post https://bsky.app/profile/alice.bsky.social/post/3kabc")
@click.argument("reference", metavar="REF")
@click.option("--fields", metavar="A,B", help="Only these fields in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Also open it in the browser.")
@click.pass_context
def post_command(
    ctx: click.Context, /, reference: str, *, fields: str | None, as_json: bool, in_browser: bool
) -> Answer:
    """Show a Bluesky post with its links and replies.

    REF is an at:// URI or the URL of the post on bsky.app.
    """
    face = face_of(ctx)
    face.choices.robot |= as_json
    meant = parse_post_reference(reference)
    database = face.open_store()
    try:
        view = read_post(database, resolve_post(database, meant))
    finally:
        database.close()
    if in_browser:
        from tidelore.cli.browser import open_page

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
    lines = () if face.choices.robot else post_lines(view, page_columns())
    return Answer({name: data[name] for name in data if name in names}, lines)
