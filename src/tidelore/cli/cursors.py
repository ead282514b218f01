"""`lore cursors`: lists, shows and resets reading positions."""

from __future__ import annotations

import sys

import click

from tidelore.cli.face import Face, LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.render import Answer
from tidelore.cli.sync_status import cursor_data, cursor_table
from tidelore.cli.table import fields
from tidelore.core.errors import UserError
from tidelore.store.mirror.cursors import find_cursor, list_cursors, reset_cursor


@click.group(
    "cursors",
    cls=LoreGroup,
    help="List, show or reset reading positions.",
    no_args_is_help=True,
    params=global_options(),
    example="lore cursors list",
)
def command() -> None:
    pass


@command.command("list", cls=LoreCommand, example="lore cursors list")
@click.pass_context
def list_command(ctx: click.Context) -> Answer:
    """List all reading positions."""
    database = face_of(ctx).open_store()
    try:
        cursors = list_cursors(database)
    finally:
        database.close()
    items = [cursor_data(cursor) for cursor in cursors]
    lines = cursor_table(cursors) if cursors else ["No cursors yet."]
    return Answer({"items": items, "total": len(items), "next": None}, lines)


@command.command("show", cls=LoreCommand, example="lore cursors show gitlab.issues group/project")
@click.argument("surface")
@click.argument("scope")
@click.pass_context
def show_command(ctx: click.Context, surface: str, scope: str) -> Answer:
    """Show one reading position.

    SURFACE is a list such as gitlab.issues. SCOPE is a project path or number, or a Bluesky account.
    """
    database = face_of(ctx).open_store()
    try:
        data = cursor_data(find_cursor(database, surface, scope))
    finally:
        database.close()
    return Answer(data, fields(data))


@command.command("reset", cls=LoreCommand, example="lore cursors reset gitlab.issues group/project --yes")
@click.argument("surface")
@click.argument("scope")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def reset_command(ctx: click.Context, surface: str, scope: str, yes: bool, force: bool) -> Answer:  # noqa: FBT001
    """Reset a reading position.

    The next run reads the list from the beginning. Stored rows are kept. The reset is recorded in `lore sync-runs`.
    Asks for confirmation on a terminal; without a terminal --yes is required.
    """
    from tidelore.app.wiring import run_until_signalled
    from tidelore.store.work.session import Workshop, open_session

    face = face_of(ctx)
    app = face.app()
    database = face.open_store()
    try:
        cursor = find_cursor(database, surface, scope)
        name = f"{cursor.surface} {cursor.place}"
        if not yes and not _confirmed(face, name):
            raise UserError(
                f"reading position of {name} was not reset: confirmation required", fix="confirm with --yes"
            )

        async def reset() -> None:
            shop = Workshop(database, app.config, app.clock, app.seam, "lore cursors reset")
            async with open_session(shop, force=force, note=f"cursor reset by the operator: {name}"):
                with database.transaction() as tx:
                    reset_cursor(tx, cursor.source, cursor.surface, cursor.scope)

        run_until_signalled(reset())
    finally:
        database.close()
    return Answer({"reset": cursor_data(cursor)}, [f"Reset {name}; the next run reads it from the beginning."])


def _confirmed(face: Face, name: str) -> bool:
    """Ask for confirmation if there is a terminal."""
    asked = not face.choices.robot and sys.stdin is not None and sys.stdin.isatty()
    return asked and click.confirm(f"Reset {name}?", err=True)
