"""The first screen: how every source stands, what is being done, and how busy it has been for an hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import DataTable, Sparkline, Static

from tidelore.console.browsing import BrowseScreen, filter_line
from tidelore.console.jobs import JobsScreen
from tidelore.console.runs import RUNS as LEDGER
from tidelore.console.runs import ledger_line
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import many, remote, since, span, state
from tidelore.engine.ledger import PHASES
from tidelore.service.panels import Glance, SourcePanel, read_glance
from tidelore.store.database import Database
from tidelore.store.pulse import MOST
from tidelore.store.runs import RunRecord

SOURCES = (
    Column("SOURCE"),
    Column("STATE"),
    Column("LAG", right=True, descending=True),
    Column("BOUND", right=True),
    Column("DUE", right=True, descending=True),
    Column("BEHIND", right=True, descending=True),
    Column("ASKED", right=True, descending=True),
    Column("LAST ERROR"),
)
RUNS = (
    Column("RUN", right=True, descending=True),
    Column("COMMAND"),
    Column("PHASE"),
    Column("PROGRESS"),
    Column("FOR", right=True, descending=True),
    Column("ALIVE", right=True),
)
_BAR = 6


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


class OverviewScreen(BrowseScreen):
    """Everything at a glance."""

    PLACE = "overview"
    AUTO_FOCUS = "#sources"

    def body(self) -> Iterable[Widget]:
        yield filter_line()
        yield RowTable(SOURCES, id="sources", title="Sources")
        yield Container(Pulse("Requests", "asked"), Pulse("New items", "stored"), id="pulses")
        yield RowTable(RUNS, id="running", title="Running")
        yield RowTable(LEDGER, id="newest", title="Newest runs")
        yield Static("", id="waiting")

    def question(self, database: Database, now_ms: int) -> Glance:
        return read_glance(database, self.desk.app.config, now_ms)

    def show(self, answer: Glance, now_ms: int) -> None:
        self.query_one("#sources", RowTable).set_lines([source_line(source) for source in answer.sources])
        self.query_one("#running", RowTable).set_lines([run_line(run, now_ms) for run in answer.runs])
        self.query_one("#newest", RowTable).set_lines([ledger_line(run, now_ms) for run in answer.newest])
        self.query_one("#asked", Pulse).tell(answer.requests)
        self.query_one("#stored", Pulse).tell(answer.items)
        self.query_one("#waiting", Static).update(waiting_line(answer))

    def tell_detail(self) -> None:
        """There is nothing behind these rows but the jobs, which have a window of their own."""

    def reference(self, line: Line) -> str | None:
        return f"lore sync-runs show {line.key}" if isinstance(line.record, RunRecord) else line.key

    @on(DataTable.RowSelected, "#sources")
    def _show_jobs(self) -> None:
        line = self.query_one("#sources", RowTable).line
        if line is not None:
            self.app.push_screen(JobsScreen(line.record, self.desk.now_ms))


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
        Cell(f"{source.requests:,}", "", source.requests),
        Cell(remote(source.error, 120), "bad" if source.error else "dim"),
    )
    return Line(source.name, cells, source)


def run_line(run: RunRecord, now_ms: int) -> Line:
    """Return a run that is under way as a row."""
    silent = now_ms - run.heartbeat_at
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(run.phase),
        Cell(progress(run)),
        Cell(since(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(since(run.heartbeat_at, now_ms), "warn" if silent > 120_000 else "dim", silent),
    )
    return Line(str(run.id), cells, run)


def progress(run: RunRecord) -> str:
    """Return how far a run is: through its phases, and what it has written down of its work."""
    at = PHASES.index(run.phase) if run.phase in PHASES else 0
    done = round(_BAR * (at + 1) / len(PHASES))
    stored = run.issues_ingested + run.mrs_ingested
    told = f" {stored:,} stored" if stored else ""
    return f"{'█' * done}{'░' * (_BAR - done)} {at + 1}/{len(PHASES)}{told}"


def waiting_line(answer: Glance) -> str:
    """Return what waits for somebody, on one line."""
    found = (
        (answer.events, "event pending", "events pending", "$text-warning"),
        (answer.answers, "answer on its way", "answers on their way", "$text-warning"),
        (answer.blocked, "pull request blocked", "pull requests blocked", "$text-error"),
        (answer.documents, "document to be made", "documents to be made", "$text-muted"),
        (answer.quarantined, "in quarantine", "in quarantine", "$text-warning"),
    )
    parts = [
        f"[{tone}]{many(count, MOST)} {one if count == 1 else several}[/]"
        for count, one, several, tone in found
        if count
    ]
    return " [$text-muted]·[/] ".join(parts) or "[$text-muted]Nothing waits for anybody.[/]"
