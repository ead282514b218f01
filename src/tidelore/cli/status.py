"""Show what runs and what ran: `lore status`, `lore sync-runs`, `lore metrics`, `lore check`.

Reads the local database only.
"""

from __future__ import annotations

from typing import Any

import click
import msgspec
from msgspec import Struct

from tidelore.app.status import (
    CheckResults,
    FinishedRun,
    JobEntry,
    ListedRun,
    Metrics,
    PendingWork,
    RunList,
    ServiceOverview,
    ShownRun,
    SourceLimit,
    check,
    list_runs,
    overview,
    read_metrics,
    show_run,
)
from tidelore.cli.command import Invocation, LoreGroup, global_options, invocation_of, lore_command
from tidelore.cli.output.render import Output, ago, plural, when
from tidelore.cli.output.runs import describe_progress, failure_lines, outcome_line, running_lines
from tidelore.cli.output.table import Column, fields, line_columns, on_terminal, page_columns, table_of
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import UserError
from tidelore.core.text import block, one_line, shorten

_CLEAR = "\x1b[H\x1b[J"


@lore_command("status", example="lore status --watch", answer=ServiceOverview)
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
def status_command(invocation: Invocation, watch: bool, every: float, runs: int) -> Output:  # noqa: FBT001
    """Show the service, pending work and recent runs.

    Reads the local database only.
    """
    if watch and invocation.choices.robot:
        raise UserError("--watch cannot be used with --robot", fix="run `lore status --robot` repeatedly instead")
    if watch:
        _watch(invocation, every, runs)
    found = overview(invocation.app(), runs)
    return Output(found, overview_lines(found, SystemClock().now_ms()))


def overview_lines(found: ServiceOverview, now_ms: int) -> list[str]:
    """Return the overview as text, within the width of the terminal."""
    lines = [*_worker_lines(found, now_ms)] if found.workers else [_service_line(found, now_ms)]
    if found.jobs:
        lines += ["", *_job_lines(found, now_ms)]
        for job in found.jobs:
            if job.last_error is not None:
                lines.append(_cut(f"  {job.name}: {one_line(job.last_error)}"))
    lines += ["", *_limit_lines(found.limits, now_ms), *_pending_lines(found.waiting)]
    if found.runs:
        lines += ["", *_run_lines(found.runs), *running_lines(found.runs, page_columns())]
    return lines


def _watch(invocation: Invocation, every: float, runs: int) -> None:
    """Redraw the page until it is interrupted; the rest of a longer previous line is cleared."""
    import asyncio

    clock = SystemClock()

    async def draw() -> None:
        while True:
            lines = overview_lines(overview(invocation.app(), runs), clock.now_ms())
            click.echo(_CLEAR + "\n".join(lines) if invocation.interactive else "\n".join(lines))
            await clock.sleep(every)

    asyncio.run(draw())


def _worker_lines(found: ServiceOverview, now_ms: int) -> list[str]:
    """Return who works on what since when, and what waits."""
    queue = found.queue
    lines = [f"{plural(len(found.workers), 'worker')} running."]
    if queue is not None:
        late = f"; the oldest is due for {describe_age(queue.late_seconds)}" if queue.late_seconds else ""
        lines = [f"{plural(len(found.workers), 'worker')} running, {plural(queue.waiting, 'scope')} waiting{late}."]
    for worker in found.workers:
        held = ", ".join(f"{one.name} ({describe_age((now_ms - one.since) / 1000)})" for one in worker.holds)
        since = describe_age((now_ms - worker.since) / 1000)
        lines.append(_cut(f"  pid {worker.pid} on {worker.host}, for {since}: {held or 'idle'}"))
    return lines


def _service_line(found: ServiceOverview, now_ms: int) -> str:
    service = found.service
    if service is None:
        return "No service is running on this database. Start one with `lore service`."
    since = describe_age((now_ms - service.since) / 1000)
    behind = [source.source for source in found.sources if not source.ok]
    failing = [source.source for source in found.sources if source.error is not None]
    told = "all sources up to date"
    if behind:
        told = f"behind: {', '.join(behind)}"
    elif failing:
        told = f"errors: {', '.join(failing)}"
    return f"Service running for {since} (pid {service.pid} on {service.host}); {told}."


def _job_lines(found: ServiceOverview, now_ms: int) -> list[str]:
    def last_success(job: JobEntry) -> str:
        return "never" if job.succeeded_at is None else f"{_short((now_ms - job.succeeded_at) / 1000)} ago"

    return table_of(
        found.jobs,
        Column("JOB", lambda job: job.name),
        Column("STATE", lambda job: _state(job, found), state=True),
        Column("LAST SUCCESS", last_success, right=True),
        Column(
            "NEXT IN",
            lambda job: "" if job.due_at is None else _short(max(job.due_at - now_ms, 0) / 1000),
            right=True,
        ),
        Column("FAILURES", lambda job: f"{job.failures:,}", right=True),
        Column("REQUESTS", lambda job: f"{job.requests:,}", right=True),
        always_headings=True,
    )


def _state(job: JobEntry, found: ServiceOverview) -> str:
    return job.state.replace("_", " ") if found.service is not None else "stopped"


def _limit_lines(limits: list[SourceLimit], now_ms: int) -> list[str]:
    """Return the rate limits that sources reported."""
    told = []
    for limit in limits:
        of_all = "" if limit.requests_allowed is None else f" of {limit.requests_allowed:,}"
        full = "" if limit.refilled_at is None else f" for {_short((limit.refilled_at - now_ms) / 1000)}"
        told.append(f"{limit.source} {limit.requests_left:,}{of_all}{full}")
    return [_cut(f"Requests left: {', '.join(told)}")] if told else []


def _pending_lines(work: PendingWork) -> list[str]:
    pulls = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in work.pulls.items())
    accounts = ", ".join(f"{count:,} {name}" for name, count in work.accounts.items())
    waiting = [
        (work.events_waiting, "event"),
        (work.commands_waiting, "command"),
        (work.answers_waiting, "answer"),
        (work.accounts_due, "account"),
        (work.documents_waiting, "document"),
        (work.children_failing, "child list"),
    ]
    told = ", ".join(plural(count, noun) for count, noun in waiting if count)
    lines = [f"Pending: {told or 'nothing'}"]
    if work.events_of_closed:
        lines.append(f"Not delivered: {plural(work.events_of_closed, 'event')} of merged and closed pull requests")
    lines += [f"Pull requests: {pulls}"] if pulls else []
    lines += [f"Accounts: {accounts}"] if accounts else []
    lines += [f"Quarantine: {work.quarantined:,}"] if work.quarantined else []
    return lines


def _run_lines(runs: list[ListedRun]) -> list[str]:
    return table_of(
        runs,
        Column("RUN", lambda run: str(run.id)),
        Column("COMMAND", lambda run: run.command, shrinks=True),
        Column("STATUS", lambda run: run.status, state=True),
        Column("PHASE", lambda run: run.phase, optional=True),
        Column("REQUESTS", lambda run: f"{run.requests:,}", right=True),
        Column("STARTED", lambda run: ago(run.started_at)),
        always_headings=True,
    )


def _short(seconds: float) -> str:
    """Return a duration in few characters."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _cut(line: str) -> str:
    return shorten(line, line_columns())


_LARGEST_ID = 2**63 - 1


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
    answer=RunList,
)
@click.pass_context
def sync_runs_command(ctx: click.Context, failed: bool, limit: int) -> Output | None:  # noqa: FBT001
    """List sync runs, newest first.

    `lore sync-runs show ID` shows one run.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_list_options(ctx)
        return None
    found = list_runs(invocation_of(ctx).app(), limit, failed=failed)
    return Output(found, _list_lines(found.items, found.total, failed=failed))


@sync_runs_command.command("show", example="lore sync-runs show 12", answer=ShownRun)
@click.argument("run_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))
def show_run_command(invocation: Invocation, run_id: int) -> Output:
    """Show one run and how to continue it."""
    run = show_run(invocation.app(), run_id)
    return Output(run, _record_lines(run))


def _refuse_list_options(ctx: click.Context) -> None:
    given = [
        name for name in ("failed", "limit") if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise UserError(f"--{given[0]} goes with the list of runs", fix=f"leave out --{given[0]}")


def _list_lines(runs: list[FinishedRun], total: int, *, failed: bool) -> list[str]:
    if not runs:
        return ["No unsuccessful runs." if failed else "No runs yet."]
    columns: list[Column[FinishedRun]] = [
        Column("RUN", lambda run: str(run.id), right=True),
        Column("COMMAND", lambda run: run.command.removeprefix("lore "), shrinks=True),
        Column("MODE", lambda run: run.mode, optional=True),
        Column("STATUS", lambda run: run.status, state=True),
        Column("PHASE", lambda run: run.phase, optional=True),
        Column("AGE" if on_terminal() else "STARTED", lambda run: when(run.started_at).removesuffix(" ago")),
        Column("TOOK", lambda run: "-" if run.seconds is None else f"{run.seconds:,.1f} s", right=True),
        Column("STORED", lambda run: f"{run.stored:,}", right=True),
        Column("REQUESTS", lambda run: f"{run.requests:,}", right=True, optional=True),
        Column("WARNINGS", lambda run: f"{run.warnings_count:,}", right=True, optional=True),
    ]
    if not on_terminal():
        columns.append(Column("PROGRESS", lambda run: describe_progress(run) or ""))
        return table_of(runs, *columns, Column("ERROR", lambda run: run.error or ""))
    head, *body = table_of(runs, *columns)
    lines = [f"Runs (showing {len(runs):,} of {total:,})", head]
    for run, line in zip(runs, body, strict=True):
        lines.append(line)
        for told in (describe_progress(run), run.error):
            lines += [] if told is None else block(one_line(told), page_columns(), "     ")
    return lines


def _record_lines(run: ShownRun) -> list[str]:
    names = [name for name in run.__struct_fields__ if name not in {"recovery_actions", "entity_outcomes"}]
    lines = fields({name: _shown(getattr(run, name)) for name in names})
    if run.entity_outcomes is not None:
        lines += ["", "Items:"]
        for outcome in run.entity_outcomes:
            lines += [f"  {outcome_line(outcome)}", *failure_lines([outcome])]
    actions = run.recovery_actions
    return [*lines, "", "Next steps:", *(f"  {action}" for action in actions)] if actions else lines


def _shown(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, Struct) else value


@lore_command("metrics", example="lore metrics", answer=Metrics)
def metrics_command(invocation: Invocation) -> Output:
    """Print metrics in the Prometheus text format.

    Same as /metrics of the service. Reads the local database only.
    """
    metrics, text = read_metrics(invocation.app())
    return Output(metrics, text.splitlines(), verbatim=True)


@lore_command("check", example="lore check", answer=CheckResults)
def check_command(invocation: Invocation) -> Output:
    """Check the database for inconsistencies.

    Reads the whole database and changes nothing. Exits with 8 if a check fails.
    """
    found = check(invocation.app())
    width = max(len(result.check) for result in found.checks)
    lines = [f"{'ok ' if one.ok else 'BAD'} {one.check:<{width}}  {one.detail}" for one in found.checks]
    return Output(found, lines, found.error)
