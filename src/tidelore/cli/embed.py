"""`lore embed`: computes missing embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural

if TYPE_CHECKING:
    from tidelore.core.progress import EmbedReport

_COUNTS = ("embedded", "chunks", "unchanged", "removed", "failed")


@click.command("embed", cls=LoreCommand, example="lore embed")
@click.option("--full", is_flag=True, help="Recompute all embeddings.")
@click.pass_context
def command(ctx: click.Context, full: bool) -> Answer:  # noqa: FBT001
    """Compute missing embeddings of search documents.

    `lore sync` does this too. Takes no lock, so other commands may run at the same time.
    """
    from tidelore.app.documents import embed
    from tidelore.app.wiring import run_until_signalled

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    with progress(face) as on_progress:
        made = run_until_signalled(
            embed(app, full=full, on_progress=on_progress), "embeddings computed so far are stored"
        )
    face.open_store().close()
    lines = [f"{embed_line(made)} in {made.seconds:.1f} s"] if made.model else []
    lines += [f"note: {made.notice}"] if made.notice and made.error is None else []
    return Answer(embed_data(made), lines, made.error)


def embed_data(made: EmbedReport) -> dict[str, Any]:
    """Return what the stage did as data."""
    counts = {name: getattr(made, name) for name in _COUNTS}
    return {"model": made.model, **counts, "notice": made.notice}


def embed_line(made: EmbedReport) -> str:
    """Return what the stage did on one line."""
    parts = [f"{plural(made.embedded, 'document')} embedded ({plural(made.chunks, 'embedding')})"]
    parts.append(f"{made.unchanged:,} unchanged")
    if made.removed:
        parts.append(f"{plural(made.removed, 'old embedding')} removed")
    if made.failed:
        parts.append(f"{made.failed:,} failed")
    return ", ".join(parts)
