"""`lore sync-runs`: the ledger of runs, and what to do about one that did not reach its end."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from tidelore.cli.face import LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.render import Answer, instant, when
from tidelore.cli.run_progress import headway
from tidelore.cli.table import Column, fields, on_terminal, page_columns, table
from tidelore.core.errors import UserError
from tidelore.core.text import block, one_line
from tidelore.service.status import recovery_actions
from tidelore.store.work.runs import RunRecord, find_record, list_records

_LARGEST_ID = 2**63 - 1
_INSTANTS = ("started_at", "heartbeat_at", "finished_at", "cancelled_at", "mirrored_at")
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
def command(ctx: click.Context, failed: bool, limit: int) -> Answer | None:  # noqa: FBT001
    """List sync runs, newest first.

    `lore sync-runs show ID` shows one run.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_list_options(ctx)
        return None
    database = face_of(ctx).open_store()
    try:
        runs, total = list_records(database, limit, unfinished=failed)
    finally:
        database.close()
    items = [
        {name: value for name, value in _data(run).items() if name not in _HIDDEN_IN_LISTS} | {"seconds": _seconds(run)}
        for run in runs
    ]
    return Answer({"items": items, "total": total, "next": None}, _list_lines(runs, total, failed=failed))


@command.command("show", cls=LoreCommand, example="lore sync-runs show 12")
@click.argument("run_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))
@click.pass_context
def show_command(ctx: click.Context, run_id: int) -> Answer:
    """Show one run and how to continue it."""
    database = face_of(ctx).open_store()
    try:
        run = find_record(database, run_id)
    finally:
        database.close()
    data = _data(run)
    targets, outcomes = data.pop("surgical_iids_json"), data.pop("outcomes_json")
    data |= {
        "surgical_iids": None if targets is None else msgspec.json.decode(targets),
        "entity_outcomes": None if outcomes is None else msgspec.json.decode(outcomes),
        "seconds": _seconds(run),
        "recovery_actions": recovery_actions(run),
    }
    return Answer(data, _record_lines(data, _outcome_lines(run)))


def _outcome_lines(run: RunRecord) -> list[str]:
    """Return what became of each item a run was asked for, and what failed."""
    if run.outcomes_json is None:
        return []
    from tidelore.cli.surgical import failure_lines, outcome_line
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


def _data(run: RunRecord) -> dict[str, Any]:
    data = {name: getattr(run, name) for name in run.__struct_fields__}
    return data | {name: instant(data[name]) for name in _INSTANTS}


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
        notes = [[headway(run) or "", run.error or ""] for run in runs]
        return table([*columns, "PROGRESS", "ERROR"], [row + more for row, more in zip(rows, notes, strict=True)])
    head, *body = table(columns, rows)
    lines = [f"Runs (showing {len(runs):,} of {total:,})", head]
    for run, line in zip(runs, body, strict=True):
        lines.append(line)
        for told in (headway(run), run.error):
            lines += [] if told is None else block(one_line(told), page_columns(), "     ")
    return lines


def _record_lines(data: dict[str, Any], outcomes: list[str]) -> list[str]:
    plain = {name: value for name, value in data.items() if name not in {"recovery_actions", "entity_outcomes"}}
    lines = [*fields({name: _shown(value) for name, value in plain.items()}), *outcomes]
    actions = data["recovery_actions"]
    return [*lines, "", "Next steps:", *(f"  {action}" for action in actions)] if actions else lines


def _shown(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value
