"""The ledger of runs: how each ended, what failed in it, and what to run next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from tidelore.console.browsing import BrowseScreen
from tidelore.console.running import progress, work
from tidelore.console.table import Cell, Column, Line, RowTable
from tidelore.console.words import fields, moment, remote, since, span, state
from tidelore.engine.ledger import PHASES
from tidelore.service.status import jobs_again, recovery_actions
from tidelore.store.database.port import Database
from tidelore.store.work import activity
from tidelore.store.work.runs import RunRecord
from tidelore.sync.report import read_outcomes

RUNS = (
    Column("RUN", right=True, descending=True),
    Column("COMMAND"),
    Column("STATUS"),
    Column("AGE", right=True),
    Column("TOOK", right=True, descending=True),
    Column("STORED", right=True, descending=True),
    Column("ASKED", right=True, descending=True),
    Column("WARN", right=True, descending=True),
    Column("WHY", spare=1),
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
        return activity.newest_unfinished(database, _MOST) if self.unfinished else activity.newest_runs(database, _MOST)

    def show(self, answer: list[RunRecord], now_ms: int) -> None:
        table = self.query_one("#runs", RowTable)
        table.border_title = "Unsuccessful runs" if self.unfinished else "Runs"
        table.empty = "No unsuccessful runs." if self.unfinished else "No runs yet. Start one with `lore sync`."
        table.set_lines([ledger_line(run, now_ms) for run in answer])
        self.tell_detail()

    def detail(self, line: Line) -> Text:
        run: RunRecord = line.record
        trouble = _trouble(run)
        if not trouble:
            return fields([*_head(run), *_facts(run)], self.room)
        return Text("\n").join([fields(_head(run), self.room), trouble, fields(_facts(run), self.room)])

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
        actions = [] if line is None else recovery_actions(line.record)
        if line is None or not actions:
            self.notify("Nothing to retry in this run.", severity="warning")
            return
        again = [action for action in actions if "--retry-failed" in action]
        if not again:
            self._run_again(line.record, actions[-1])
            return
        run_id, hands = line.record.id, self.desk.hands
        self.change(
            f"Retry the failed items of run {run_id}?",
            f"Same as `{again[0]}`: fetches the items from their servers again.",
            lambda: "" if hands is None else hands.retry_run(run_id),
        )

    def _run_again(self, run: RunRecord, command: str) -> None:
        """Let the jobs run that do what a run did not, where there is a service to ask."""
        jobs = [] if self.standing is None else self.standing.service.jobs
        names = jobs_again(run, jobs) if self.served else []
        if names:
            why = f"Same as `{command}`, to finish the work of run {run.id}."
            self.ask_to_run([job for job in jobs if job.name in names], f"{len(names)} jobs", why)
        else:
            self.notify(
                f"No job of this service repeats it. Press x to copy `{command}`.", severity="warning", markup=False
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
        Cell(remote(run.error or run.note, 160), "bad" if run.error else "dim"),
    )
    return Line(str(run.id), cells, run)


def _trouble(run: RunRecord) -> Text:
    """Return what went wrong and what helps; nothing of a run that left nothing."""
    failures = [failure for outcome in read_outcomes(run.outcomes_json) for failure in outcome.failures]
    parts = {
        "Error": [remote(run.error, 2000)] if run.error else [],
        f"Failures ({len(failures):,})": [
            f"✖ {failure.reference} {failure.stage}: {failure.code} {remote(failure.message, 300)}"
            for failure in failures
        ],
        "Next steps": [f"  {action}" for action in recovery_actions(run)],
    }
    told = [Text.assemble((f"{name}\n", "bold"), "\n".join([*lines, ""])) for name, lines in parts.items() if lines]
    return Text("\n").join(told)


def _head(run: RunRecord) -> list[tuple[str, str | None]]:
    word = state(run.status)[0]
    return [
        ("Run", f"{run.id}, {run.mode}" if run.mode != "standard" else str(run.id)),
        ("Command", run.command),
        ("Status", f"{word}, {run.phase}" if run.phase in PHASES else word),
    ]


def _facts(run: RunRecord) -> list[tuple[str, str | None]]:
    return [
        ("Started", moment(run.started_at)),
        ("Finished", moment(run.finished_at)),
        ("Progress", f"{progress(run)} · {work(run)}" if run.progress_done is not None else None),
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
