"""Progress on a terminal: one line per list that is being read. Silent everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelore.cli.face import Face

if TYPE_CHECKING:
    from tidelore.engine.intake import Tally
    from tidelore.pipeline.ingest import Target


@contextmanager
def progress(face: Face) -> Iterator[Callable[[Target, Tally], None]]:
    """Draw progress while the block runs; the callable is told of every page."""
    if not face.interactive:
        yield lambda _target, _tally: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # None, not False: the library then asks NO_COLOR itself.
    console = Console(stderr=True, no_color=None if face.choices.color else True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(pulse_style="cyan"),
        TextColumn("{task.fields[found]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[tuple[str, str], object] = {}

        def on_page(target: Target, tally: Tally) -> None:
            key = (target.surface, target.configured)
            found = f"{tally.created + tally.changed:,} new or changed, {tally.pages:,} pages"
            if key not in tasks:
                tasks[key] = bars.add_task(f"{target.configured} {target.resource}", total=None, found=found)
            bars.update(tasks[key], found=found)  # type: ignore[arg-type]

        yield on_page
