"""`lore status`: the service, its sources and jobs, what waits and the newest runs; read from the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.render import Answer, ago, instant, plural
from tidelore.cli.run_progress import running_lines
from tidelore.cli.table import Column, line_columns, page_columns, table
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import UserError
from tidelore.core.text import one_line, shorten

if TYPE_CHECKING:
    from tidelore.service.status import Overview, ServiceStatus, SourceHealth
    from tidelore.store.reading.totals import Totals
    from tidelore.store.work.runs import RunView
    from tidelore.store.work.service_records import BudgetRow, JobRow

_INSTANTS = ("due_at", "started_at", "finished_at", "succeeded_at", "updated_at")
_CLEAR = "\x1b[H\x1b[J"


@click.command("status", cls=LoreCommand, example="lore status --watch")
@click.option("--watch", is_flag=True, help="Refresh until interrupted.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Refresh interval for --watch.",
)
@click.option("--runs", type=click.IntRange(0, 1000), default=5, show_default=True, help="Number of runs to show.")
@click.pass_context
def command(ctx: click.Context, watch: bool, every: float, runs: int) -> Answer:  # noqa: FBT001
    """Show the service, its jobs, pending work and recent runs.

    Reads the local database only.
    """
    face = face_of(ctx)
    if watch and face.choices.robot:
        raise UserError("--watch is for people", fix="run `lore status --robot` as often as you like")
    if watch:
        _watch(face, every, runs)
    overview = _read(face, runs)
    return Answer(overview_data(overview), overview_lines(overview, SystemClock().now_ms()))


def overview_data(overview: Overview) -> dict[str, Any]:
    """Return the overview for programs."""
    return {
        "service": _service_data(overview.service),
        "healthy": overview.is_healthy,
        "sources": [_source_data(source, overview.service) for source in overview.service.health.sources],
        "jobs": [job_data(job) for job in overview.service.jobs],
        "waiting": _totals_data(overview.totals),
        "runs": [_run_data(run) for run in overview.runs],
    }


def job_data(job: JobRow) -> dict[str, Any]:
    """Return a job for programs."""
    data = {name: getattr(job, name) for name in job.__struct_fields__}
    return data | {name: instant(getattr(job, name)) for name in _INSTANTS}


def overview_lines(overview: Overview, now_ms: int) -> list[str]:
    """Return the overview for people, within the width of the terminal."""
    service = overview.service
    lines = [_service_line(service, now_ms)]
    if service.jobs:
        lines += ["", *_job_lines(service, now_ms)]
        for job in service.jobs:
            if job.last_error is not None:
                lines.append(_cut(f"  {job.name}: {one_line(job.last_error)}"))
    lines += ["", *_budget_lines(service, now_ms), *_totals_lines(overview.totals)]
    if overview.runs:
        lines += ["", *_run_lines(overview.runs), *running_lines(overview.runs, page_columns())]
    return lines


def _read(face: Face, runs: int) -> Overview:
    from tidelore.service.status import read_overview

    database = face.open_store()
    try:
        return read_overview(database, SystemClock().now_ms(), runs)
    finally:
        database.close()


def _watch(face: Face, every: float, runs: int) -> None:
    """Draw until somebody interrupts; what a line leaves of the one before it is wiped."""
    import asyncio

    clock = SystemClock()

    async def draw() -> None:
        while True:
            lines = overview_lines(_read(face, runs), clock.now_ms())
            click.echo(_CLEAR + "\n".join(lines) if face.interactive else "\n".join(lines))
            await clock.sleep(every)

    asyncio.run(draw())


def _service_data(service: ServiceStatus) -> dict[str, Any] | None:
    lease = service.holder
    if lease is None or lease.holder is None:
        return None
    return {
        "host": lease.holder.host,
        "pid": lease.holder.pid,
        "command": lease.command,
        "since": instant(lease.acquired_at),
        "heartbeat_at": instant(lease.heartbeat_at),
    }


def _source_data(source: SourceHealth, service: ServiceStatus) -> dict[str, Any]:
    data = {name: getattr(source, name) for name in source.__struct_fields__}
    return data | budget_data(service.budgets.get(source.source))


def budget_data(left: BudgetRow | None) -> dict[str, Any]:
    """Return what is left of a source's rate limit for programs."""
    return {
        "requests_left": None if left is None else left.remaining,
        "requests_allowed": None if left is None else left.allowed,
        "refilled_at": None if left is None else instant(left.reset_at),
    }


def _totals_data(totals: Totals) -> dict[str, Any]:
    data = {name: getattr(totals, name) for name in totals.__struct_fields__}
    return data | {"pulls": dict(totals.pulls), "accounts": dict(totals.accounts)}


def _run_data(run: RunView) -> dict[str, Any]:
    names = (
        *("id", "command", "status", "phase", "requests", "warnings_count"),
        *("progress_done", "progress_total", "progress_note", "error"),
    )
    data = {name: getattr(run, name) for name in names}
    return {**data, "started_at": instant(run.started_at), "finished_at": instant(run.finished_at)}


def _service_line(service: ServiceStatus, now_ms: int) -> str:
    lease = service.holder
    if lease is None or lease.holder is None:
        return "No service is running on this database. Start one with `lore service`."
    since = describe_age((now_ms - lease.acquired_at) / 1000)
    behind = [source.source for source in service.health.sources if not source.ok]
    failing = [source.source for source in service.health.sources if source.error is not None]
    told = "all sources up to date"
    if behind:
        told = f"behind: {', '.join(behind)}"
    elif failing:
        told = f"errors: {', '.join(failing)}"
    return f"Service running for {since} (pid {lease.holder.pid} on {lease.holder.host}); {told}."


def _job_lines(service: ServiceStatus, now_ms: int) -> list[str]:
    rows = [
        [
            job.name,
            _state(job, service),
            "never" if job.succeeded_at is None else f"{_short((now_ms - job.succeeded_at) / 1000)} ago",
            "" if job.due_at is None else _short(max(job.due_at - now_ms, 0) / 1000),
            f"{job.failures:,}",
            f"{job.requests:,}",
        ]
        for job in service.jobs
    ]
    numbers = [Column(name, right=True) for name in ("LAST SUCCESS", "NEXT IN", "FAILURES", "REQUESTS")]
    return table(["JOB", Column("STATE", state=True), *numbers], rows, always_headings=True)


def _state(job: JobRow, service: ServiceStatus) -> str:
    return job.state.replace("_", " ") if service.holder is not None else "stopped"


def _budget_lines(service: ServiceStatus, now_ms: int) -> list[str]:
    """Return what sources said is left of their rate limits."""
    told = []
    for name, left in service.budgets.items():
        of_all = "" if left.allowed is None else f" of {left.allowed:,}"
        full = "" if left.reset_at is None else f" for {_short((left.reset_at - now_ms) / 1000)}"
        told.append(f"{name} {left.remaining:,}{of_all}{full}")
    return [_cut(f"Requests left: {', '.join(told)}")] if told else []


def _totals_lines(totals: Totals) -> list[str]:
    pulls = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in totals.pulls.items())
    accounts = ", ".join(f"{count:,} {name}" for name, count in totals.accounts.items())
    waiting = [
        (totals.events_waiting, "event"),
        (totals.commands_waiting, "command"),
        (totals.answers_waiting, "answer"),
        (totals.accounts_due, "account"),
        (totals.documents_waiting, "document"),
        (totals.children_failing, "child list"),
    ]
    told = ", ".join(plural(count, noun) for count, noun in waiting if count)
    lines = [f"Pending: {told or 'nothing'}"]
    if totals.events_of_closed:
        lines.append(f"Not delivered: {plural(totals.events_of_closed, 'event')} of merged and closed pull requests")
    lines += [f"Pull requests: {pulls}"] if pulls else []
    lines += [f"Accounts: {accounts}"] if accounts else []
    lines += [f"Quarantine: {totals.quarantined:,}"] if totals.quarantined else []
    return lines


def _run_lines(runs: list[RunView]) -> list[str]:
    rows = [[str(run.id), run.command, run.status, run.phase, f"{run.requests:,}", ago(run.started_at)] for run in runs]
    columns = [
        Column("RUN"),
        Column("COMMAND", shrinks=True),
        Column("STATUS", state=True),
        Column("PHASE"),
        Column("REQUESTS", right=True),
        Column("STARTED"),
    ]
    return table(columns, rows, always_headings=True)


def _short(seconds: float) -> str:
    """Return a duration in few characters."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _cut(line: str) -> str:
    return shorten(line, line_columns())
