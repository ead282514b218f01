"""How far a run is, for people. Owns the words; what a crashed run said last is where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelore.cli.render import plural
from tidelore.core.text import block, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelore.store.work.runs import RunRecord, RunView


def headway(run: RunView | RunRecord) -> str | None:
    """Return how far a run is, or where it stopped; None when it has said nothing of it."""
    if run.progress_done is None:
        return None
    of_all = "" if run.progress_total is None else f" of {run.progress_total:,}"
    about = f" ({one_line(run.progress_note)})" if run.progress_note else ""
    return f"{run.phase if run.status == 'running' else 'stopped at'} {run.progress_done:,}{of_all}{about}"


def running_lines(runs: Iterable[RunView], columns: int) -> list[str]:
    """Return how far each run is that is under way."""
    lines = []
    for run in runs:
        if run.status == "running":
            told = f"{headway(run) or run.phase}, {plural(run.requests, 'request')}"
            lines += block(f"run {run.id} {one_line(run.command.removeprefix('lore '))}: {told}", columns)
    return lines
