"""The overview screen: state and jobs of every source, active and recent runs, activity of the last hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import DataTable, Sparkline, Static

from tidelore.app.console import ConsoleViews
from tidelore.app.positions import MOST, ActiveRun, SourceOverview, SourcesOverview
from tidelore.app.status import JobEntry, RateLimit, ShownRun
from tidelore.console.runs import RUNNING, RUNS, ledger_line, run_line
from tidelore.console.screen import KeyBar, ListScreen, filter_line
from tidelore.console.style import age, capped_count, clean_text, duration, state_label
from tidelore.console.table import Cell, RowTable, TableColumn, TableRow

JOBS = (
    TableColumn("JOB"),
    TableColumn("STATE"),
    TableColumn("DUE", right=True),
    TableColumn("DONE", right=True),
    TableColumn("FAILED", right=True, descending=True),
    TableColumn("REQUESTS", right=True, descending=True),
    TableColumn("ERROR"),
)


class JobsScreen(ModalScreen[None]):
    """The jobs of one source, in a dialog over the overview."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run_now", "Run now"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "dismiss", "Close", priority=True),
        Binding("q,enter", "dismiss", "Close", show=False, priority=True),
    ]

    def __init__(self, source: SourceOverview, now_ms: int, run: Callable[[JobEntry], None] | None = None) -> None:
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
        yield KeyBar()

    def on_mount(self) -> None:
        self.tell([self._source], self._now_ms)

    def tell(self, sources: Iterable[SourceOverview], now_ms: int) -> None:
        """Show the current jobs; if the source is gone, keep the last ones."""
        source = next((one for one in sources if one.name == self._source.name), None)
        table = self.query(RowTable)
        if source is not None and table:
            table.first().set_lines([job_line(job, now_ms) for job in source.jobs])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key `run_now` if no service runs in this process or the source has no jobs."""
        if action == "run_now":
            return self._run is not None and bool(self._source.jobs)
        return super().check_action(action, parameters)

    def action_run_now(self) -> None:
        """Run the selected job now."""
        line = self.query_one(RowTable).line
        if self._run is not None and line is not None:
            self._run(line.record)

    def action_sort(self) -> None:
        """Sort by the next column."""
        if self._source.jobs:
            self.query_one(RowTable).sort_next()


def job_line(job: JobEntry, now_ms: int) -> TableRow:
    """Return a job as a row."""
    word, tone = state_label(job.state)
    due = "—" if job.due_at is None else "now" if job.due_at <= now_ms else age(job.due_at, now_ms)
    cells = (
        Cell(job.name, "strong"),
        Cell(word, tone),
        Cell(due, "warn" if due == "now" else "", job.due_at or 0),
        Cell(age(job.succeeded_at, now_ms), "", job.succeeded_at or 0),
        Cell(f"{job.failures:,}", "bad" if job.failures else "dim", job.failures),
        Cell(f"{job.requests:,}", "", job.requests),
        Cell(clean_text(job.last_error, 160), "bad" if job.failures else "dim"),
    )
    return TableRow(job.name, cells, job)


SOURCES = (
    TableColumn("SOURCE"),
    TableColumn("STATE"),
    TableColumn("LAG", right=True, descending=True),
    TableColumn("MAX LAG", right=True, spare=2),
    TableColumn("DUE", right=True, descending=True),
    TableColumn("BEHIND", right=True, descending=True),
    TableColumn("LEFT", right=True),
    TableColumn("REQUESTS", right=True, descending=True, spare=1),
    TableColumn("ERROR"),
)


class ActivityChart(Vertical):
    """A sparkline of the last hour; its frame shows the sum and the current minute."""

    def __init__(self, title: str, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(Sparkline([0.0, 0.0], summary_function=max), id=id, classes="pulse")
        self._title = title
        self.border_title = title

    def tell(self, amounts: Sequence[float]) -> None:
        """Draw the amounts per minute."""
        self.query_one(Sparkline).data = list(amounts)
        self.border_title = f"{self._title} · {amounts[-1]:,.0f}/min"
        self.border_subtitle = f"{sum(amounts):,.0f} in the last hour"


class SourceTable(RowTable):
    """The sources; Enter shows the jobs of one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Jobs")]


class OverviewScreen(ListScreen):
    """The state of all sources, runs and pending work."""

    PLACE = "overview"
    AUTO_FOCUS = "#sources"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "run_now", "Run now")]

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        yield SourceTable(SOURCES, id="sources", title="Sources", empty="No sources configured. Run `lore init`.")
        yield Container(ActivityChart("Requests", "asked"), ActivityChart("New items", "stored"), id="pulses")
        yield RowTable(RUNNING, id="running", title="Running", empty="No active runs.")
        yield RowTable(RUNS, id="newest", title="Recent runs", empty="No runs yet.")
        yield Static("", id="waiting")

    def question(self, views: ConsoleViews, now_ms: int) -> SourcesOverview:
        return views.sources(now_ms)

    def show(self, answer: SourcesOverview, now_ms: int) -> None:
        self.query_one("#sources", RowTable).set_lines([source_line(source) for source in answer.sources])
        self.query_one("#running", RowTable).set_lines([run_line(run, now_ms) for run in answer.running])
        self.query_one("#newest", RowTable).set_lines([ledger_line(run, now_ms) for run in answer.recent])
        self.query_one("#asked", ActivityChart).tell(answer.requests_by_minute)
        self.query_one("#stored", ActivityChart).tell(answer.items_by_minute)
        self.query_one("#waiting", Static).update(waiting_line(answer))
        if isinstance(self.app.screen, JobsScreen):
            self.app.screen.tell(answer.sources, now_ms)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key `open`, because no row has a web page."""
        return False if action == "open" else super().check_action(action, parameters)

    def update_detail(self) -> None:
        """Do nothing: the jobs of a source are shown in a dialog."""

    def reference(self, line: TableRow) -> str | None:
        return f"lore sync-runs show {line.key}" if isinstance(line.record, ShownRun | ActiveRun) else line.key

    @on(DataTable.RowSelected, "#sources")
    def _show_jobs(self) -> None:
        line = self.query_one("#sources", RowTable).line
        if line is not None:
            run = (lambda job: self.ask_to_run([job], job.name)) if self.served else None
            self.app.push_screen(JobsScreen(line.record, self.backend.now_ms, run))

    def action_run_now(self) -> None:
        """Run the jobs of the selected source now."""
        line = self.query_one("#sources", RowTable).line
        if line is None or not self.query_one("#sources").has_focus:
            self.notify("Select a source first.", severity="warning")
        elif not line.record.jobs:
            self.notify("The service has no jobs for this source.", severity="warning")
        else:
            self.ask_to_run(line.record.jobs, line.record.name)


def source_line(source: SourceOverview) -> TableRow:
    """Return a source as a row."""
    word, tone = state_label(source.state)
    lag = duration(source.lag_seconds)
    cells = (
        Cell(source.name, "strong"),
        Cell(word, tone),
        Cell(lag if source.fresh else f"▲ {lag}", "" if source.fresh else "bad", source.lag_seconds or 0.0),
        Cell(duration(source.bound_seconds), "dim", source.bound_seconds or 0.0),
        Cell(f"{source.due}/{source.scopes}", "warn" if source.due else "", source.due),
        Cell(capped_count(source.behind, MOST), "warn" if source.behind else "", source.behind),
        left_cell(source),
        Cell(f"{source.requests:,}", "", source.requests),
        Cell(clean_text(source.error, 120), "bad" if source.error else "dim"),
    )
    return TableRow(source.name, cells, source)


def left_cell(limit: RateLimit) -> Cell:
    """Return the remaining requests of a rate limit; an unknown limit is not coloured as a problem."""
    left = limit.requests_left
    if left is None:
        return Cell("—", "dim", inf)
    of_all = "" if limit.requests_allowed is None else f"/{limit.requests_allowed:,}"
    return Cell(f"{left:,}{of_all}", "warn" if limit.is_low else "", left)


def waiting_line(answer: SourcesOverview) -> str:
    """Return the pending work on one line."""
    work = answer.waiting
    found = (
        (work.events, "event pending", "events pending", "$text-warning"),
        (work.answers, "answer being sent", "answers being sent", "$text-warning"),
        (work.blocked, "pull request blocked", "pull requests blocked", "$text-error"),
        (work.documents, "document to generate", "documents to generate", "$text-muted"),
        (work.quarantined, "in quarantine", "in quarantine", "$text-warning"),
    )
    parts = [
        f"[{tone}]{capped_count(count, MOST)} {one if count == 1 else several}[/]"
        for count, one, several, tone in found
        if count
    ]
    return " [$text-muted]·[/] ".join(parts) or "[$text-muted]Nothing pending.[/]"
