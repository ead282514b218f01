"""The first screen: how every source stands, what is being done, and how busy it has been for an hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import DataTable, Sparkline, Static

from tidelore.console.browsing import BrowseScreen, filter_line
from tidelore.console.jobs import JobsScreen
from tidelore.console.running import RUNNING, run_line
from tidelore.console.runs import RUNS, ledger_line
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import many, remote, span, state
from tidelore.service.panels import Dashboard, SourcePanel, read_dashboard
from tidelore.store.database.port import Database
from tidelore.store.work.activity import MOST
from tidelore.store.work.runs import RunRecord
from tidelore.store.work.service_records import BudgetRow

SOURCES = (
    Column("SOURCE"),
    Column("STATE"),
    Column("LAG", right=True, descending=True),
    Column("BOUND", right=True, spare=2),
    Column("DUE", right=True, descending=True),
    Column("BEHIND", right=True, descending=True),
    Column("LEFT", right=True),
    Column("ASKED", right=True, descending=True, spare=1),
    Column("LAST ERROR"),
)


class Pulse(Vertical):
    """A sparkline of the last hour; its frame tells the sum and the present minute."""

    def __init__(self, title: str, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(Sparkline([0.0], summary_function=max), id=id, classes="pulse")
        self._title = title
        self.border_title = title

    def tell(self, amounts: Sequence[float]) -> None:
        """Draw the amounts of the minutes."""
        self.query_one(Sparkline).data = list(amounts)
        self.border_title = f"{self._title} · {amounts[-1]:,.0f}/min"
        self.border_subtitle = f"{sum(amounts):,.0f} in the last hour"


class SourceTable(RowTable):
    """The sources; behind each are its jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Jobs")]


class OverviewScreen(BrowseScreen):
    """Everything at a glance."""

    PLACE = "overview"
    AUTO_FOCUS = "#sources"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "run_now", "Run now")]

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        yield SourceTable(SOURCES, id="sources", title="Sources", empty="No sources configured. Run `lore init`.")
        yield Container(Pulse("Requests", "asked"), Pulse("New items", "stored"), id="pulses")
        yield RowTable(RUNNING, id="running", title="Running", empty="No active runs.")
        yield RowTable(RUNS, id="newest", title="Recent runs", empty="No runs yet.")
        yield Static("", id="waiting")

    def question(self, database: Database, now_ms: int) -> Dashboard:
        return read_dashboard(database, self.desk.app.config, now_ms)

    def show(self, answer: Dashboard, now_ms: int) -> None:
        self.query_one("#sources", RowTable).set_lines([source_line(source) for source in answer.sources])
        self.query_one("#running", RowTable).set_lines([run_line(run, now_ms) for run in answer.runs])
        self.query_one("#newest", RowTable).set_lines([ledger_line(run, now_ms) for run in answer.newest])
        self.query_one("#asked", Pulse).tell(answer.requests)
        self.query_one("#stored", Pulse).tell(answer.items)
        self.query_one("#waiting", Static).update(waiting_line(answer))
        if isinstance(self.app.screen, JobsScreen):
            self.app.screen.tell(answer.sources, now_ms)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing here has a page."""
        return False if action == "open" else super().check_action(action, parameters)

    def tell_detail(self) -> None:
        """There is nothing behind these rows but the jobs, which have a window of their own."""

    def reference(self, line: Line) -> str | None:
        return f"lore sync-runs show {line.key}" if isinstance(line.record, RunRecord) else line.key

    @on(DataTable.RowSelected, "#sources")
    def _show_jobs(self) -> None:
        line = self.query_one("#sources", RowTable).line
        if line is not None:
            run = (lambda job: self.ask_to_run([job], job.name)) if self.served else None
            self.app.push_screen(JobsScreen(line.record, self.desk.now_ms, run))

    def action_run_now(self) -> None:
        """Let the jobs of the selected source run at once."""
        line = self.query_one("#sources", RowTable).line
        if line is None or not self.query_one("#sources").has_focus:
            self.notify("Select a source first.", severity="warning")
        elif not line.record.jobs:
            self.notify("The service has no jobs for this source.", severity="warning")
        else:
            self.ask_to_run(line.record.jobs, line.record.name)


def source_line(source: SourcePanel) -> Line:
    """Return a source as a row."""
    word, tone = state(source.state)
    lag = span(source.lag_seconds)
    cells = (
        Cell(source.name, "strong"),
        Cell(word, tone),
        Cell(lag if source.fresh else f"▲ {lag}", "" if source.fresh else "bad", source.lag_seconds or 0.0),
        Cell(span(source.bound_seconds), "dim", source.bound_seconds or 0.0),
        Cell(f"{source.due}/{source.scopes}", "warn" if source.due else "", source.due),
        Cell(many(source.behind, MOST), "warn" if source.behind else "", source.behind),
        left_cell(source.left),
        Cell(f"{source.requests:,}", "", source.requests),
        Cell(remote(source.error, 120), "bad" if source.error else "dim"),
    )
    return Line(source.name, cells, source)


def left_cell(left: BudgetRow | None) -> Cell:
    """Return what is left of a rate limit; what nobody tells is no reason to worry."""
    if left is None:
        return Cell("—", "dim", inf)
    of_all = "" if left.allowed is None else f"/{left.allowed:,}"
    return Cell(f"{left.remaining:,}{of_all}", "warn" if left.is_low else "", left.remaining)


def waiting_line(answer: Dashboard) -> str:
    """Return what waits for somebody, on one line."""
    found = (
        (answer.events, "event pending", "events pending", "$text-warning"),
        (answer.answers, "answer being sent", "answers being sent", "$text-warning"),
        (answer.blocked, "pull request blocked", "pull requests blocked", "$text-error"),
        (answer.documents, "document to generate", "documents to generate", "$text-muted"),
        (answer.quarantined, "in quarantine", "in quarantine", "$text-warning"),
    )
    parts = [
        f"[{tone}]{many(count, MOST)} {one if count == 1 else several}[/]"
        for count, one, several, tone in found
        if count
    ]
    return " [$text-muted]·[/] ".join(parts) or "[$text-muted]Nothing pending.[/]"
