"""Runs that are under way, as rows: how far each is, what it is at, and whether it still gives signs of life; pure."""

from __future__ import annotations

from tidelore.console.table import Cell, Column, Line
from tidelore.console.words import remote, since
from tidelore.engine.ledger import PHASES
from tidelore.store.work.runs import RunRecord

RUNNING = (
    Column("RUN", right=True, descending=True),
    Column("COMMAND"),
    Column("PHASE", spare=1),
    Column("PROGRESS"),
    Column("ASKED", right=True, descending=True),
    Column("FOR", right=True, descending=True),
    Column("ALIVE", right=True, spare=2),
    Column("WORKING ON", yields="beginning"),
)
_BAR = 8
_SILENT_MS = 120_000
"""How long a run that works may give no sign of life."""


def run_line(run: RunRecord, now_ms: int) -> Line:
    """Return a run that is under way as a row."""
    silent = now_ms - run.heartbeat_at
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(run.phase),
        Cell(progress(run), "", how_far(run)),
        Cell(f"{run.requests:,}", "" if run.requests else "dim", run.requests),
        Cell(since(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(since(run.heartbeat_at, now_ms), "warn" if silent > _SILENT_MS else "dim", silent),
        Cell(work(run), "dim"),
    )
    return Line(str(run.id), cells, run)


def how_far(run: RunRecord) -> float:
    """Return the share that is done: of what there is to do in the phase where that is known, else of the phases."""
    if run.progress_total:
        return min((run.progress_done or 0) / run.progress_total, 1.0)
    return _step(run) / len(PHASES)


def progress(run: RunRecord) -> str:
    """Return how far a run is: a bar, and the numbers behind it."""
    if run.progress_total:
        told = f"{run.progress_done or 0:,}/{run.progress_total:,}"
    elif run.progress_done:
        told = f"{run.progress_done:,} read"
    else:
        told = f"phase {_step(run)}/{len(PHASES)}"
    # Only what is done to the end looks like it.
    full = int(_BAR * how_far(run))
    return f"{'█' * full}{'░' * (_BAR - full)} {told}"


def work(run: RunRecord) -> str:
    """Return what a run is at, or else what it has stored so far."""
    if run.progress_note:
        return remote(run.progress_note, 120)
    stored = run.issues_ingested + run.mrs_ingested
    return f"{stored:,} stored" if stored else "—"


def _step(run: RunRecord) -> int:
    return PHASES.index(run.phase) + 1 if run.phase in PHASES else 1
