"""Progress bars on a terminal, one per list that is being read. Silent elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelore.cli.face import Face

if TYPE_CHECKING:
    from tidelore.core.progress import OnProgress
    from tidelore.core.progress import Progress as Stage


@contextmanager
def progress(face: Face) -> Iterator[OnProgress]:
    """Draw progress while the block runs; yields a callable that takes progress reports."""
    if not face.interactive:
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    # None, not False: the library then asks NO_COLOR itself.
    console = Console(stderr=True, no_color=None if face.choices.color else True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(pulse_style="cyan"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[tuple[str, str], TaskID] = {}

        def on_progress(news: Stage) -> None:
            key = (news.project, news.stage)
            if key not in tasks:
                title = f"{news.project} {news.stage.replace('_', ' ')}"
                tasks[key] = bars.add_task(title, total=news.total, note=news.note)
            completed = news.done if news.total is not None else None
            bars.update(tasks[key], note=news.note, completed=completed)

        yield on_progress
