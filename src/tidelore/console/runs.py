"""The ledger of runs: how each ended, what failed in it, and what to run next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from tidelore.console.browsing import BrowseScreen
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import fields, moment, remote, since, span, state
from tidelore.pipeline.surgical_report import read_outcomes
from tidelore.service.recovery import recovery_actions
from tidelore.store import pulse
from tidelore.store.database import Database
from tidelore.store.runs import RunRecord

RUNS = (
    Column("RUN", right=True, descending=True),
    Column("COMMAND"),
    Column("STATUS"),
    Column("AGE", right=True),
    Column("TOOK", right=True, descending=True),
    Column("STORED", right=True, descending=True),
    Column("ASKED", right=True, descending=True),
    Column("WARN", right=True, descending=True),
)
_MOST = 300


class RunsScreen(BrowseScreen):
    """The newest runs; `f` leaves those that did not reach their end."""

    PLACE = "runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "failed", "Failed"),
        Binding("x", "recover", "Copy fix"),
        Binding("r", "retry", "Retry"),
    ]
    unfinished = False

    def tables(self) -> Iterable[RowTable]:
        yield RowTable(RUNS, id="runs", title="Runs")

    def question(self, database: Database, now_ms: int) -> list[RunRecord]:  # noqa: ARG002
        return pulse.newest_unfinished(database, _MOST) if self.unfinished else pulse.newest_runs(database, _MOST)

    def show(self, answer: list[RunRecord], now_ms: int) -> None:
        table = self.query_one("#runs", RowTable)
        table.border_title = "Runs that did not reach their end" if self.unfinished else "Runs"
        table.set_lines([ledger_line(run, now_ms) for run in answer])
        self.tell_detail()

    def detail(self, line: Line) -> Text:
        run: RunRecord = line.record
        told = fields(_facts(run))
        if run.error:
            told.append("\nError\n", "bold")
            told.append(f"{remote(run.error, 2000)}\n")
        failures = [failure for outcome in read_outcomes(run.outcomes_json) for failure in outcome.failures]
        if failures:
            told.append(f"\nFailures ({len(failures):,})\n", "bold")
            for failure in failures:
                told.append(f"✖ {failure.reference} {failure.stage}: {failure.code} {remote(failure.message, 300)}\n")
        actions = recovery_actions(run)
        if actions:
            told.append("\nWhat to run next\n", "bold")
            told.append("\n".join(f"  {action}" for action in actions))
        return told

    def reference(self, line: Line) -> str | None:
        return f"lore sync-runs show {line.record.id}"

    def action_failed(self) -> None:
        """Show only runs that did not reach their end, or all."""
        self.unfinished = not self.unfinished
        self.look_again()

    def action_recover(self) -> None:
        """Copy the command that brings about what the selected run did not."""
        line = self.table.line
        actions = [] if line is None else recovery_actions(line.record)
        self.copy_text(actions[-1] if actions else None)

    def action_retry(self) -> None:
        """Repeat what the selected run left."""
        line = self.table.line
        again = [] if line is None else [a for a in recovery_actions(line.record) if "--retry-failed" in a]
        if line is None or not again:
            self.notify("This run has no single items to retry; x copies what to run.", severity="warning")
            return
        run_id, hands = line.record.id, self.desk.hands
        self.change(
            f"Retry what run {run_id} left?",
            f"As `{again[0]}` does: its hosts are asked, and what they answer is stored.",
            lambda: "" if hands is None else hands.retry_run(run_id),
        )


def ledger_line(run: RunRecord, now_ms: int) -> Line:
    """Return a run as a row."""
    word, tone = state(run.status)
    took = None if run.finished_at is None else (run.finished_at - run.started_at) / 1000
    stored = run.issues_ingested + run.mrs_ingested
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(word, tone),
        Cell(since(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(span(took) if took is None or took >= 10 else f"{took:.1f}s", "", took or 0.0),
        Cell(f"{stored:,}", "" if stored else "dim", stored),
        Cell(f"{run.requests:,}", "" if run.requests else "dim", run.requests),
        Cell(f"{run.warnings_count:,}", "warn" if run.warnings_count else "dim", run.warnings_count),
    )
    return Line(str(run.id), cells, run)


def _facts(run: RunRecord) -> list[tuple[str, str | None]]:
    return [
        ("Run", str(run.id)),
        ("Command", run.command),
        ("Mode", run.mode),
        ("Status", f"{state(run.status)[0]}, {run.phase}"),
        ("Started", moment(run.started_at)),
        ("Finished", moment(run.finished_at)),
        ("Alive", moment(run.heartbeat_at) if run.finished_at is None else None),
        ("Fetched", f"{run.issues_fetched:,} issues, {run.mrs_fetched:,} merge requests"),
        ("Stored", f"{run.issues_ingested:,} issues, {run.mrs_ingested:,} merge requests"),
        ("Documents", f"{run.docs_regenerated:,} made, {run.docs_embedded:,} with vectors"),
        ("Quarantined", f"{run.quarantined:,}" if run.quarantined else None),
        ("Requests", f"{run.requests:,}"),
        ("Warnings", f"{run.warnings_count:,}" if run.warnings_count else None),
        ("Note", remote(run.note)),
        ("Process", f"{run.holder_pid} on {run.holder_host}"),
    ]
