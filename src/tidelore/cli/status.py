"""Show what runs and what ran: `lore status`, `lore sync-runs`, `lore metrics`, `lore check`.

Reads the local database only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.render import Output, ago, instant, plural, when
from tidelore.cli.output.runs import describe_progress, running_lines
from tidelore.cli.output.table import Column, fields, line_columns, on_terminal, page_columns, table
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import IntegrityError, UserError
from tidelore.core.text import block, one_line, shorten
from tidelore.store.work.runs import RunRecord, find_record, list_records

if TYPE_CHECKING:
    from tidelore.service.status import Overview, ServiceStatus, SourceHealth
    from tidelore.store.reading.totals import Totals
    from tidelore.store.work.runs import RunView
    from tidelore.store.work.service_records import BudgetRow, JobRow


_JOB_INSTANTS = ("due_at", "started_at", "finished_at", "succeeded_at", "updated_at")
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
def status_command(ctx: click.Context, watch: bool, every: float, runs: int) -> Output:  # noqa: FBT001
    """Show the service, its jobs, pending work and recent runs.

    Reads the local database only.
    """
    invocation = invocation_of(ctx)
    if watch and invocation.choices.robot:
        raise UserError("--watch cannot be used with --robot", fix="run `lore status --robot` repeatedly instead")
    if watch:
        _watch(invocation, every, runs)
    overview = _read(invocation, runs)
    return Output(overview_data(overview), overview_lines(overview, SystemClock().now_ms()))


def overview_data(overview: Overview) -> dict[str, Any]:
    """Return the overview as data."""
    return {
        "service": _service_data(overview.service),
        "healthy": overview.is_healthy,
        "sources": [_source_data(source, overview.service) for source in overview.service.health.sources],
        "jobs": [job_data(job) for job in overview.service.jobs],
        "waiting": _totals_data(overview.totals),
        "runs": [_run_data(run) for run in overview.runs],
    }


def job_data(job: JobRow) -> dict[str, Any]:
    """Return a job as data."""
    data = {name: getattr(job, name) for name in job.__struct_fields__}
    return data | {name: instant(getattr(job, name)) for name in _JOB_INSTANTS}


def overview_lines(overview: Overview, now_ms: int) -> list[str]:
    """Return the overview as text, within the width of the terminal."""
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


def _read(invocation: Invocation, runs: int) -> Overview:
    from tidelore.service.status import read_overview

    database = invocation.open_store()
    try:
        return read_overview(database, SystemClock().now_ms(), runs)
    finally:
        database.close()


def _watch(invocation: Invocation, every: float, runs: int) -> None:
    """Redraw the page until it is interrupted; the rest of a longer previous line is cleared."""
    import asyncio

    clock = SystemClock()

    async def draw() -> None:
        while True:
            lines = overview_lines(_read(invocation, runs), clock.now_ms())
            click.echo(_CLEAR + "\n".join(lines) if invocation.interactive else "\n".join(lines))
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
    """Return the remaining requests of a source's rate limit as data."""
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
    """Return the rate limits that sources reported."""
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


_LARGEST_ID = 2**63 - 1
_RUN_INSTANTS = ("started_at", "heartbeat_at", "finished_at", "cancelled_at", "mirrored_at")
_HIDDEN_IN_LISTS = (
    *("heartbeat_at", "cancelled_at", "mirrored_at", "surgical_iids_json", "outcomes_json"),
    *("holder_host", "holder_pid", "holder_started"),
)


@click.group(
    "sync-runs",
    cls=LoreGroup,
    invoke_without_command=True,
    params=[
        click.Option(["--failed"], is_flag=True, help="Only runs that failed, crashed or were cancelled."),
        click.Option(["-n", "--limit"], type=click.IntRange(1, 10000), default=20, help="Number of items to show."),
        *global_options(),
    ],
    example="lore sync-runs --failed",
)
@click.pass_context
def sync_runs_command(ctx: click.Context, failed: bool, limit: int) -> Output | None:  # noqa: FBT001
    """List sync runs, newest first.

    `lore sync-runs show ID` shows one run.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_list_options(ctx)
        return None
    database = invocation_of(ctx).open_store()
    try:
        runs, total = list_records(database, limit, unfinished=failed)
    finally:
        database.close()
    items = [
        {name: value for name, value in _record_data(run).items() if name not in _HIDDEN_IN_LISTS}
        | {"seconds": _seconds(run)}
        for run in runs
    ]
    return Output({"items": items, "total": total, "next": None}, _list_lines(runs, total, failed=failed))


@sync_runs_command.command("show", cls=LoreCommand, example="lore sync-runs show 12")
@click.argument("run_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))
@click.pass_context
def show_run_command(ctx: click.Context, run_id: int) -> Output:
    """Show one run and how to continue it."""
    from tidelore.service.status import recovery_actions

    database = invocation_of(ctx).open_store()
    try:
        run = find_record(database, run_id)
    finally:
        database.close()
    data = _record_data(run)
    targets, outcomes = data.pop("surgical_iids_json"), data.pop("outcomes_json")
    data |= {
        "surgical_iids": None if targets is None else msgspec.json.decode(targets),
        "entity_outcomes": None if outcomes is None else msgspec.json.decode(outcomes),
        "seconds": _seconds(run),
        "recovery_actions": recovery_actions(run),
    }
    return Output(data, _record_lines(data, _outcome_lines(run)))


def _outcome_lines(run: RunRecord) -> list[str]:
    """Return the outcome of each requested item, and the failures."""
    if run.outcomes_json is None:
        return []
    from tidelore.cli.output.runs import failure_lines, outcome_line
    from tidelore.sync.report import read_outcomes

    outcomes = read_outcomes(run.outcomes_json)
    told = [line for outcome in outcomes for line in (f"  {outcome_line(outcome)}", *failure_lines([outcome]))]
    return ["", "Items:", *told]


def _refuse_list_options(ctx: click.Context) -> None:
    given = [
        name for name in ("failed", "limit") if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise UserError(f"--{given[0]} goes with the list of runs", fix=f"leave out --{given[0]}")


def _record_data(run: RunRecord) -> dict[str, Any]:
    data = {name: getattr(run, name) for name in run.__struct_fields__}
    return data | {name: instant(data[name]) for name in _RUN_INSTANTS}


def _seconds(run: RunRecord) -> float | None:
    return None if run.finished_at is None else (run.finished_at - run.started_at) / 1000


def _list_lines(runs: list[RunRecord], total: int, *, failed: bool) -> list[str]:
    if not runs:
        return ["No unsuccessful runs." if failed else "No runs yet."]
    rows = [
        [
            str(run.id),
            run.command.removeprefix("lore "),
            run.mode,
            run.status,
            run.phase,
            when(run.started_at).removesuffix(" ago"),
            "-" if run.finished_at is None else f"{_seconds(run):,.1f} s",
            f"{run.issues_ingested + run.mrs_ingested:,}",
            f"{run.requests:,}",
            f"{run.warnings_count:,}",
        ]
        for run in runs
    ]
    columns = [
        Column("RUN", right=True),
        Column("COMMAND", shrinks=True),
        Column("MODE", optional=True),
        Column("STATUS", state=True),
        Column("PHASE"),
        Column("AGE" if on_terminal() else "STARTED"),
        Column("TOOK", right=True),
        Column("STORED", right=True),
        *(Column(name, right=True, optional=True) for name in ("REQUESTS", "WARNINGS")),
    ]
    if not on_terminal():
        notes = [[describe_progress(run) or "", run.error or ""] for run in runs]
        return table([*columns, "PROGRESS", "ERROR"], [row + more for row, more in zip(rows, notes, strict=True)])
    head, *body = table(columns, rows)
    lines = [f"Runs (showing {len(runs):,} of {total:,})", head]
    for run, line in zip(runs, body, strict=True):
        lines.append(line)
        for told in (describe_progress(run), run.error):
            lines += [] if told is None else block(one_line(told), page_columns(), "     ")
    return lines


def _record_lines(data: dict[str, Any], outcomes: list[str]) -> list[str]:
    plain = {name: value for name, value in data.items() if name not in {"recovery_actions", "entity_outcomes"}}
    lines = [*fields({name: _shown(value) for name, value in plain.items()}), *outcomes]
    actions = data["recovery_actions"]
    return [*lines, "", "Next steps:", *(f"  {action}" for action in actions)] if actions else lines


def _shown(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


@click.command("metrics", cls=LoreCommand, example="lore metrics")
@click.pass_context
def metrics_command(ctx: click.Context) -> Output:
    """Print metrics in the Prometheus text format.

    Same as /metrics of the service. Reads the local database only.
    """
    from tidelore.service.metrics import collect_all, export_all

    database = invocation_of(ctx).open_store()
    try:
        now_ms = SystemClock().now_ms()
        found, text = collect_all(database, now_ms), export_all(database, now_ms)
    finally:
        database.close()
    metrics: list[dict[str, Any]] = [
        {
            "name": metric.name,
            "kind": metric.kind,
            "help": metric.help,
            "samples": [{"labels": dict(sample.labels), "value": sample.value} for sample in samples],
        }
        for metric, samples in found
    ]
    return Output({"metrics": metrics}, text.splitlines())


@click.command("check", cls=LoreCommand, example="lore check")
@click.pass_context
def check_command(ctx: click.Context) -> Output:
    """Check the database for inconsistencies.

    Reads the whole database and changes nothing. Exits with 8 if a check fails.
    """
    from tidelore.store.mirror.check import check_database

    database = invocation_of(ctx).open_store()
    try:
        findings = check_database(database, SystemClock().now_ms())
    finally:
        database.close()
    broken = [finding for finding in findings if not finding.ok]
    width = max(len(finding.check) for finding in findings)
    lines = [f"{'ok ' if f.ok else 'BAD'} {f.check:<{width}}  {f.detail}" for f in findings]
    data = {"checks": [{"check": f.check, "ok": f.ok, "detail": f.detail, "count": f.count} for f in findings]}
    error = None
    if broken:
        error = IntegrityError(
            f"{len(broken)} of {len(findings)} checks failed: {', '.join(f.check for f in broken)}",
            fix="keep this database, sync into a new one with --db, and report the output of `lore check`",
        )
    return Output(data, lines, error)
