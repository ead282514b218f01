"""The jobs of one source, in a window over the overview: which are due, which failed, and what they met.

Owns no data: the overview tells it what it has read. Where the service is in this process, a job can be run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import remote, since, state
from tidelore.service.panels import SourcePanel
from tidelore.store.work.service_records import JobRow

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
        Binding("r", "run_now", "Run now"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "dismiss", "Close", priority=True),
        Binding("q,enter", "dismiss", "Close", show=False, priority=True),
    ]

    def __init__(self, source: SourcePanel, now_ms: int, run: Callable[[JobRow], None] | None = None) -> None:
        super().__init__()
        self._source = source
        self._now_ms = now_ms
        self._run = run

    def compose(self) -> ComposeResult:
        title = f"{self._source.name} {f'({self._source.kind})' if self._source.kind else ''}".strip()
        with Vertical(id="window") as window:
            window.border_title = title
            if self._source.jobs:
                yield RowTable(JOBS, id="jobs")
            else:
                yield Static("No service runs this source. It is updated when you run `lore sync`.")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.tell([self._source], self._now_ms)

    def tell(self, sources: Iterable[SourcePanel], now_ms: int) -> None:
        """Show how the jobs stand now; of a source that is gone, how they stood."""
        source = next((one for one in sources if one.name == self._source.name), None)
        table = self.query(RowTable)
        if source is not None and table:
            table.first().set_lines([job_line(job, now_ms) for job in source.jobs])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where no service can be asked there is no such key."""
        if action == "run_now":
            return self._run is not None and bool(self._source.jobs)
        return super().check_action(action, parameters)

    def action_run_now(self) -> None:
        """Let the selected job run at once."""
        line = self.query_one(RowTable).line
        if self._run is not None and line is not None:
            self._run(line.record)

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
