"""The jobs of one source, in a window over the overview: which are due, which failed, and what they met."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import remote, since, state
from tidelore.service.panels import SourcePanel
from tidelore.store.service_jobs import JobRow

JOBS = (
    Column("JOB"),
    Column("STATE"),
    Column("DUE", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True, descending=True),
    Column("ASKED", right=True, descending=True),
    Column("LAST ERROR"),
)


class JobsScreen(ModalScreen[None]):
    """What is done for one source."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Close", priority=True),
        Binding("s", "sort", "Sort"),
    ]

    def __init__(self, source: SourcePanel, now_ms: int) -> None:
        super().__init__()
        self._source = source
        self._now_ms = now_ms

    def compose(self) -> ComposeResult:
        title = f"{self._source.name} {f'({self._source.kind})' if self._source.kind else ''}".strip()
        with Vertical(id="window") as window:
            window.border_title = title
            if self._source.jobs:
                yield RowTable(JOBS, id="jobs")
            else:
                yield Static("No service has taken this source up: it is read when somebody runs `lore sync`.")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        if self._source.jobs:
            self.query_one(RowTable).set_lines([job_line(job, self._now_ms) for job in self._source.jobs])

    def action_sort(self) -> None:
        """Sort by the next column."""
        if self._source.jobs:
            self.query_one(RowTable).sort_next()


def job_line(job: JobRow, now_ms: int) -> Line:
    """Return a job as a row."""
    word, tone = state(job.state)
    due = "—" if job.due_at is None else "now" if job.due_at <= now_ms else since(job.due_at, now_ms)
    cells = (
        Cell(job.name, "strong"),
        Cell(word, tone),
        Cell(due, "warn" if due == "now" else "", job.due_at or 0),
        Cell(since(job.succeeded_at, now_ms), "", job.succeeded_at or 0),
        Cell(f"{job.failures:,}", "bad" if job.failures else "dim", job.failures),
        Cell(f"{job.requests:,}", "", job.requests),
        Cell(remote(job.last_error, 160), "bad" if job.failures else "dim"),
    )
    return Line(job.name, cells, job)
