"""The runs screen: progress of active runs, how each run ended, what failed, and the command that recovers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from tidelore.app.console import PHASES, ConsoleViews, jobs_again
from tidelore.app.positions import ActiveRun
from tidelore.app.status import ShownRun
from tidelore.console.screen import ListScreen, copy_text
from tidelore.console.style import age, clean_text, duration, fields, state_label, timestamp
from tidelore.console.table import Cell, RowTable, TableColumn, TableRow

RUNNING = (
    TableColumn("RUN", right=True, descending=True),
    TableColumn("COMMAND"),
    TableColumn("PHASE", spare=1),
    TableColumn("PROGRESS"),
    TableColumn("REQUESTS", right=True, descending=True),
    TableColumn("FOR", right=True, descending=True),
    TableColumn("HEARTBEAT", right=True, spare=2),
    TableColumn("WORKING ON", yields="beginning"),
)
_BAR = 8
_SILENT_MS = 120_000
"""A run without a heartbeat for longer than this is highlighted."""


def run_line(run: ActiveRun, now_ms: int) -> TableRow:
    """Return an active run as a row."""
    silent = now_ms - run.heartbeat_at
    cells = (
        Cell(str(run.id), "strong", run.id),
        Cell(run.command.removeprefix("lore ")),
        Cell(run.phase),
        Cell(progress_cell(run.phase, run.done, run.total), "", how_far(run.phase, run.done, run.total)),
        Cell(f"{run.requests:,}", "" if run.requests else "dim", run.requests),
        Cell(age(run.started_at, now_ms), "", now_ms - run.started_at),
        Cell(age(run.heartbeat_at, now_ms), "warn" if silent > _SILENT_MS else "dim", silent),
        Cell(work_text(run.note, run.stored), "dim"),
    )
    return TableRow(str(run.id), cells, run)


def how_far(phase: str, done: int | None, total: int | None) -> float:
    """Return the share that is done: of the current phase if its total is known, else of all phases."""
    return min((done or 0) / total, 1.0) if total else _step(phase) / len(PHASES)


def progress_cell(phase: str, done: int | None, total: int | None) -> str:
    """Return the progress of a run as a bar with numbers."""
    if total:
        told = f"{done or 0:,}/{total:,}"
    elif done:
        told = f"{done:,} read"
    else:
        told = f"phase {_step(phase)}/{len(PHASES)}"
    # Rounded down, so that only a finished phase has a full bar.
    full = int(_BAR * how_far(phase, done, total))
    return f"{'█' * full}{'░' * (_BAR - full)} {told}"


def work_text(note: str | None, stored: int) -> str:
    """Return what a run is working on, or else how much it has stored so far."""
    if note:
        return clean_text(note, 120)
    return f"{stored:,} stored" if stored else "—"


def _progress(run: ShownRun) -> str:
    done = progress_cell(run.phase, run.progress_done, run.progress_total)
    return f"{done} · {work_text(run.progress_note, run.stored)}"


def _step(phase: str) -> int:
    return PHASES.index(phase) + 1 if phase in PHASES else 1


RUNS = (
    TableColumn("RUN", right=True, descending=True),
    TableColumn("COMMAND"),
    TableColumn("STATUS"),
    TableColumn("AGE", right=True),
    TableColumn("TOOK", right=True, descending=True),
    TableColumn("STORED", right=True, descending=True),
    TableColumn("REQUESTS", right=True, descending=True),
    TableColumn("WARN", right=True, descending=True, spare=2),
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

    def question(self, views: ConsoleViews, now_ms: int) -> list[ShownRun]:  # noqa: ARG002
        return views.runs(_MOST, unfinished=self.unfinished)

    def show(self, answer: list[ShownRun], now_ms: int) -> None:
        table = self.query_one("#runs", RowTable)
        table.border_title = "Unsuccessful runs" if self.unfinished else "Runs"
        table.empty = "No unsuccessful runs." if self.unfinished else "No runs yet. Start one with `lore sync`."
        table.set_lines([ledger_line(run, now_ms) for run in answer])
        self.update_detail()

    def detail(self, line: TableRow) -> Text:
        run: ShownRun = line.record
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
        actions = [] if line is None else line.record.recovery_actions
        copy_text(self, actions[-1] if actions else None)

    def action_retry(self) -> None:
        """Retry the unfinished work of the selected run."""
        line = self.table.line
        actions = [] if line is None else line.record.recovery_actions
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

    def _run_again(self, run: ShownRun, command: str) -> None:
        """Run the jobs that complete a run, if the service runs in this process."""
        jobs = [] if self.standing is None else self.standing.jobs
        names = jobs_again(run, jobs) if self.served else []
        if names:
            why = f"Same as `{command}`, to finish the work of run {run.id}."
            self.ask_to_run([job for job in jobs if job.name in names], f"{len(names)} jobs", why)
        else:
            self.notify(
                f"No job of this service repeats it. Press x to copy `{command}`.", severity="warning", markup=False
            )


def ledger_line(run: ShownRun, now_ms: int) -> TableRow:
    """Return a run as a row."""
    word, tone = state_label(run.status)
    took, stored = run.seconds, run.stored
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


def _trouble(run: ShownRun) -> Text:
    """Return the problems of a run and their remedy; empty for a complete run."""
    failures = [failure for outcome in run.entity_outcomes or () for failure in outcome.failures]
    parts = {
        "Error": [clean_text(run.error, 2000)] if run.error else [],
        f"Failures ({len(failures):,})": [
            f"✖ {failure.reference} {failure.stage}: {failure.code} {clean_text(failure.message, 300)}"
            for failure in failures
        ],
        "Next steps": [f"  {action}" for action in run.recovery_actions],
    }
    told = [Text.assemble((f"{name}\n", "bold"), "\n".join([*lines, ""])) for name, lines in parts.items() if lines]
    return Text("\n").join(told)


def _head(run: ShownRun) -> list[tuple[str, str | None]]:
    word = state_label(run.status)[0]
    return [
        ("Run", f"{run.id}, {run.mode}" if run.mode != "standard" else str(run.id)),
        ("Command", run.command),
        ("Status", f"{word}, {run.phase}" if run.phase in PHASES else word),
    ]


def _facts(run: ShownRun) -> list[tuple[str, str | None]]:
    return [
        ("Started", timestamp(run.started_at)),
        ("Finished", timestamp(run.finished_at)),
        ("Progress", _progress(run) if run.progress_done is not None else None),
        ("Heartbeat", timestamp(run.heartbeat_at) if run.finished_at is None else None),
        ("Fetched", _counts(run.issues_fetched, run.mrs_fetched)),
        ("Stored", _counts(run.issues_ingested, run.mrs_ingested)),
        ("Documents", f"{run.docs_regenerated:,} made, {run.docs_embedded:,} with vectors"),
        ("Quarantined", f"{run.quarantined:,}" if run.quarantined else None),
        ("Requests", f"{run.requests:,}"),
        ("Warnings", f"{run.warnings_count:,}" if run.warnings_count else None),
        ("Note", clean_text(run.note)),
        ("Process", f"{run.holder_pid} on {run.holder_host}"),
    ]


def _counts(issues: int, requests: int) -> str:
    return f"{issues:,} issue{'' if issues == 1 else 's'}, {requests:,} merge request{'' if requests == 1 else 's'}"
