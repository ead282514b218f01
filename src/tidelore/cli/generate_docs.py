"""`lore generate-docs`: updates search documents."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural


@click.command("generate-docs", cls=LoreCommand, example="lore generate-docs --full")
@click.option("--full", is_flag=True, help="Check every item, not only changed ones.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def command(ctx: click.Context, full: bool, force: bool) -> Answer:  # noqa: FBT001
    """Update the search documents of changed items.

    `lore sync` does this too. Unchanged documents are not rewritten.
    """
    from tidelore.app.documents import document
    from tidelore.app.wiring import run_until_signalled
    from tidelore.core.errors import PartialSuccess

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    with progress(face) as on_progress:
        made = run_until_signalled(document(app, full=full, force=force, on_progress=on_progress))
    face.open_store().close()
    data = {name: getattr(made, name) for name in ("regenerated", "unchanged", "removed", "failed")}
    line = f"{plural(made.regenerated, 'document')} written, {made.unchanged:,} unchanged, {made.removed:,} removed"
    error = None
    if made.failed:
        error = PartialSuccess(
            f"{plural(made.failed, 'source')} could not be converted to a document; will retry",
            fix="run `lore check` and report its output",
            failed=made.failed,
        )
    return Answer(data, [line], error)
