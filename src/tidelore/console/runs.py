"""The runs screen: progress of active runs, how each run ended, what failed, and the command that recovers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from tidelore.console.screen import ListScreen
from tidelore.console.style import age, clean_text, duration, fields, state_label, timestamp
from tidelore.console.table import Cell, RowTable, TableColumn, TableRow
from tidelore.engine.ledger import PHASES
from tidelore.service.status import jobs_again, recovery_actions
from tidelore.store.database.port import Database
from tidelore.store.work import activity
from tidelore.store.work.runs import RunRecord
from tidelore.sync.report import read_outcomes

RUNNING = (
    TableColumn("RUN", right=True, descending=True),
    TableColumn("COMMAND"),
    TableColumn("PHASE", spare=1),
    TableColumn("PROGRESS"),
    TableColumn("ASKED", right=True, descending=True),
    TableColumn("FOR", right=True, descending=True),
    TableColumn("ALIVE", right=True, spare=2),
    TableColumn("WORKING ON", yields="beginning"),
)
_BAR = 8
_SILENT_MS = 120_000
"""A run without a heartbeat for longer than this is highlighted."""


def run_line(run: RunRecord, now_ms: int) -> TableRow:
    """Return an active run as a row."""
    silent = now_ms - run.heartbeat_at
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(run.phase),
        Cell(progress_cell(run), "", how_far(run)),
        Cell(f"{run.requests:,}", "" if run.requests else "dim", run.requests),
        Cell(age(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(age(run.heartbeat_at, now_ms), "warn" if silent > _SILENT_MS else "dim", silent),
        Cell(work_text(run), "dim"),
    )
    return TableRow(str(run.id), cells, run)


def how_far(run: RunRecord) -> float:
    """Return the share that is done: of the current phase if its total is known, else of all phases."""
    if run.progress_total:
        return min((run.progress_done or 0) / run.progress_total, 1.0)
    return _step(run) / len(PHASES)


def progress_cell(run: RunRecord) -> str:
    """Return the progress of a run as a bar with numbers."""
    if run.progress_total:
        told = f"{run.progress_done or 0:,}/{run.progress_total:,}"
    elif run.progress_done:
        told = f"{run.progress_done:,} read"
    else:
        told = f"phase {_step(run)}/{len(PHASES)}"
    # Rounded down, so that only a finished phase has a full bar.
    full = int(_BAR * how_far(run))
    return f"{'█' * full}{'░' * (_BAR - full)} {told}"


def work_text(run: RunRecord) -> str:
    """Return what a run is working on, or else how much it has stored so far."""
    if run.progress_note:
        return clean_text(run.progress_note, 120)
    stored = run.issues_ingested + run.mrs_ingested
    return f"{stored:,} stored" if stored else "—"


def _step(run: RunRecord) -> int:
    return PHASES.index(run.phase) + 1 if run.phase in PHASES else 1


RUNS = (
    TableColumn("RUN", right=True, descending=True),
    TableColumn("COMMAND"),
    TableColumn("STATUS"),
    TableColumn("AGE", right=True),
    TableColumn("TOOK", right=True, descending=True),
    TableColumn("STORED", right=True, descending=True),
    TableColumn("ASKED", right=True, descending=True),
    TableColumn("WARN", right=True, descending=True),
    TableColumn("WHY", spare=1),
)
_MOST = 300


class RunsScreen(ListScreen):
    """The newest runs; `f` shows only unsuccessful ones."""

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
        self.update_detail()

    def detail(self, line: TableRow) -> Text:
        run: RunRecord = line.record
        trouble = _trouble(run)
        if not trouble:
            return fields([*_head(run), *_facts(run)], self.room)
        return Text("\n").join([fields(_head(run), self.room), trouble, fields(_facts(run), self.room)])

    def reference(self, line: TableRow) -> str | None:
        return f"lore sync-runs show {line.record.id}"

    def action_failed(self) -> None:
        """Show only unsuccessful runs, or all."""
        self.unfinished = not self.unfinished
        self.reload_now()

    def action_recover(self) -> None:
        """Copy the command that completes the selected run."""
        line = self.table.line
        actions = [] if line is None else recovery_actions(line.record)
        self.copy_text(actions[-1] if actions else None)

    def action_retry(self) -> None:
        """Retry the unfinished work of the selected run."""
        line = self.table.line
        actions = [] if line is None else recovery_actions(line.record)
        if line is None or not actions:
            self.notify("Nothing to retry in this run.", severity="warning")
            return
        again = [action for action in actions if "--retry-failed" in action]
        if not again:
            self._run_again(line.record, actions[-1])
            return
        run_id, own_actions = line.record.id, self.backend.actions
        self.change(
            f"Retry the failed items of run {run_id}?",
            f"Same as `{again[0]}`: fetches the items from their servers again.",
            lambda: "" if own_actions is None else own_actions.retry_run(run_id),
        )

    def _run_again(self, run: RunRecord, command: str) -> None:
        """Run the jobs that complete a run, if the service runs in this process."""
        jobs = [] if self.standing is None else self.standing.service.jobs
        names = jobs_again(run, jobs) if self.served else []
        if names:
            why = f"Same as `{command}`, to finish the work of run {run.id}."
            self.ask_to_run([job for job in jobs if job.name in names], f"{len(names)} jobs", why)
        else:
            self.notify(
                f"No job of this service repeats it. Press x to copy `{command}`.", severity="warning", markup=False
            )


def ledger_line(run: RunRecord, now_ms: int) -> TableRow:
    """Return a run as a row."""
    word, tone = state_label(run.status)
    took = None if run.finished_at is None else (run.finished_at - run.started_at) / 1000
    stored = run.issues_ingested + run.mrs_ingested
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(word, tone),
        Cell(age(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(duration(took) if took is None or took >= 10 else f"{took:.1f}s", "", took or 0.0),
        Cell(f"{stored:,}", "" if stored else "dim", stored),
        Cell(f"{run.requests:,}", "" if run.requests else "dim", run.requests),
        Cell(f"{run.warnings_count:,}", "warn" if run.warnings_count else "dim", run.warnings_count),
        Cell(clean_text(run.error or run.note, 160), "bad" if run.error else "dim"),
    )
    return TableRow(str(run.id), cells, run)


def _trouble(run: RunRecord) -> Text:
    """Return the problems of a run and their remedy; empty for a complete run."""
    failures = [failure for outcome in read_outcomes(run.outcomes_json) for failure in outcome.failures]
    parts = {
        "Error": [clean_text(run.error, 2000)] if run.error else [],
        f"Failures ({len(failures):,})": [
            f"✖ {failure.reference} {failure.stage}: {failure.code} {clean_text(failure.message, 300)}"
            for failure in failures
        ],
        "Next steps": [f"  {action}" for action in recovery_actions(run)],
    }
    told = [Text.assemble((f"{name}\n", "bold"), "\n".join([*lines, ""])) for name, lines in parts.items() if lines]
    return Text("\n").join(told)


def _head(run: RunRecord) -> list[tuple[str, str | None]]:
    word = state_label(run.status)[0]
    return [
        ("Run", f"{run.id}, {run.mode}" if run.mode != "standard" else str(run.id)),
        ("Command", run.command),
        ("Status", f"{word}, {run.phase}" if run.phase in PHASES else word),
    ]


def _facts(run: RunRecord) -> list[tuple[str, str | None]]:
    return [
        ("Started", timestamp(run.started_at)),
        ("Finished", timestamp(run.finished_at)),
        ("Progress", f"{progress_cell(run)} · {work_text(run)}" if run.progress_done is not None else None),
        ("Alive", timestamp(run.heartbeat_at) if run.finished_at is None else None),
        ("Fetched", f"{run.issues_fetched:,} issues, {run.mrs_fetched:,} merge requests"),
        ("Stored", f"{run.issues_ingested:,} issues, {run.mrs_ingested:,} merge requests"),
        ("Documents", f"{run.docs_regenerated:,} made, {run.docs_embedded:,} with vectors"),
        ("Quarantined", f"{run.quarantined:,}" if run.quarantined else None),
        ("Requests", f"{run.requests:,}"),
        ("Warnings", f"{run.warnings_count:,}" if run.warnings_count else None),
        ("Note", clean_text(run.note)),
        ("Process", f"{run.holder_pid} on {run.holder_host}"),
    ]
