"""Use-case of `lore move`: copies the database in use into an empty one, and compares every table.

The source is only read: in one read transaction, and once more, in a later one, for the comparison, so a write in
between is found. Nothing may write to it meanwhile, because what is sent after the first would be sent again from the
target: a held lease is refused before the first row and before the target becomes usable. No lease is taken, since that
would be a write to the source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import means
from tidelore.app.wiring import App
from tidelore.core.config_file import is_url
from tidelore.core.errors import DatabaseUnusable, IntegrityError, LockHeld, TideloreError, UserError
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.moving.copying import (
    Claim,
    Comparison,
    Target,
    begin,
    claim,
    compare_table,
    continue_numbers,
    copy_table,
    count_all,
    difference,
    empty_again,
    finish,
    look_at,
    mark_for_restart,
)
from tidelore.store.moving.tables import tables
from tidelore.store.reading.vector_models import has_vectors
from tidelore.store.work.leases import lease_names


class MovedTable(Struct, frozen=True):
    """One table of a move."""

    name: Annotated[
        str, means("the table; `vectors` compares the vectors where the two databases store them differently")
    ]
    rows: Annotated[int, means("rows in the source")]
    target_rows: Annotated[int | None, means("rows in the target; null with --dry-run")] = None
    sha256: Annotated[
        str | None, means("hash of the rows of the source in the order of their keys; null with --dry-run")
    ] = None
    equal: Annotated[bool | None, means("whether the target has the same rows; null with --dry-run")] = None


class MoveReport(Struct, frozen=True):
    """The answer of `lore move`."""

    source: Annotated[str, means("the database that was copied, without user and password")]
    target: Annotated[str, means("the database it was copied to, without user and password")]
    dry_run: Annotated[bool, means("whether nothing was written")]
    complete: Annotated[bool, means("whether the target equals the source and can be used")]
    resumed: Annotated[bool, means("whether an interrupted move was continued")]
    restarted: Annotated[bool, means("whether rows of an earlier move that differed were deleted first")]
    copied: Annotated[int, means("rows copied by this run")]
    rows: Annotated[int, means("rows of all tables in the source")]
    tables: list[MovedTable]


class _Pair(Struct, frozen=True):
    """The two databases of a move and what is said about them."""

    app: App
    source: Database
    target: Database
    names: tuple[str, str]
    on_progress: OnProgress

    @property
    def differs_in_form(self) -> bool:
        """Whether one database keeps its vectors in rows and there are vectors to convert or compare."""
        return (
            "postgres" in {self.source.dialect, self.target.dialect}
            and has_vectors(self.source)
            and (_in_rows(self.source) or _in_rows(self.target))
        )


def move_database(
    app: App, to: str, on_progress: OnProgress = silent, *, dry_run: bool = False
) -> tuple[MoveReport, TideloreError | None]:
    """Copy the database in use into the one at `to`; with an error if the two differ afterwards."""
    aim = replace(app, db=to)
    with ExitStack() as stack:
        source = stack.enter_context(app.store())
        _refuse_writers(app, source)
        _refuse_snapshot(app.address)
        names = (describe_address(app.address), describe_address(aim.address))
        if names[0] == names[1]:
            raise UserError("the target is the database in use", fix="name another database with --to", to=names[1])
        if dry_run and not is_url(aim.address) and not os.path.lexists(aim.address):
            return _planned(source, names, Target(empty=True)), None
        target = open_database(aim.address, create=not dry_run, patience=aim.new_patience())
        stack.callback(target.close)
        return _move(_Pair(app, source, target, names, on_progress), dry_run=dry_run)


def describe_address(address: str) -> str:
    """Return an address that may be stored and shown: an absolute path, or server and name without user or password."""
    if not is_url(address):
        return os.path.realpath(address)
    parts = urlsplit(address)
    named = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    port = f":{named['port']}" if "port" in named else ""
    host = parts.netloc.rpartition("@")[2] or named.get("host", "")
    return f"postgresql://{host}{port}/{parts.path.lstrip('/') or named.get('dbname', '')}"


def _refuse_snapshot(address: str) -> None:
    """Raise UserError for a source that lacks what a move must keep."""
    from tidelore.store.database.snapshot import is_snapshot

    if not is_url(address) and is_snapshot(address):
        raise UserError(
            "the database in use is a snapshot, without secrets and pending answers",
            fix="move the database it was made from",
            path=address,
        )


def _move(pair: _Pair, *, dry_run: bool) -> tuple[MoveReport, TideloreError | None]:
    held = look_at(pair.target)
    if held.source not in (None, pair.names[0]):
        raise UserError(
            f"the target holds part of a move from {held.source}",
            fix=f"finish it with `lore move --db {held.source} --to …`, or name another database",
            source=held.source,
        )
    if not held.empty and held.source is None:
        return replace(_already_moved(pair), dry_run=dry_run), None
    if dry_run:
        return _planned(pair.source, pair.names, held), None
    if held.empty:
        begin(pair.target, pair.names[0], pair.app.clock.now_ms())
    taken = claim(pair.target, pair.app.clock.now_ms())
    if held.restart:
        taken = empty_again(pair.target, taken)
    copied = _copy(pair, taken)
    pair.app.seam(Seam.BEFORE_FINISH)
    _refuse_writers(pair.app, pair.source)
    compared = list(_compare(pair))
    wrong = [one.table for one in compared if not one.equal]
    if wrong:
        mark_for_restart(pair.target, taken)
    else:
        _refuse_writers(pair.app, pair.source)
        continue_numbers(pair.source, pair.target)
        finish(pair.target, taken)
        pair.app.seam(Seam.AFTER_FINISH)
    report = _report(pair, compared, copied=copied, resumed=taken.rows > 0, restarted=held.restart)
    return report, difference(wrong) if wrong else None


def _copy(pair: _Pair, taken: Claim) -> int:
    """Copy what the target does not have yet; return how many rows that were."""
    with pair.source.one_state():
        counts = count_all(pair.source)
        steps = _Steps(pair.on_progress, "copying", sum(counts.values()), taken.rows)
        copied = 0
        try:
            for table in tables():
                copied += copy_table(pair.source, pair.target, table, taken, pair.app.seam, steps.of(table.name))
                pair.app.seam(Seam.SCOPE_DONE)
            if pair.differs_in_form:
                from tidelore.store.moving.vectors import place_vectors

                place_vectors(pair.source, pair.target, taken, pair.app.seam)
        except DatabaseUnusable:
            raise
        except IntegrityError as error:
            # Rows that an earlier run copied may have changed in the source since, so that later ones do not fit.
            mark_for_restart(pair.target, taken)
            raise IntegrityError(
                f"the target refused rows of the source: {error.message}",
                fix="run the command again, it empties the target first; if that fails, run `lore check` on the source",
            ) from error
    if _in_rows(pair.target) and has_vectors(pair.target):
        from tidelore.store.reading.vector_rows import build_graphs

        build_graphs(pair.target)
    return copied


def _compare(pair: _Pair) -> Generator[Comparison]:
    """Yield every table as both databases have it now."""
    with pair.source.one_state(), pair.target.one_state():
        differs = pair.differs_in_form
        layout = not differs or _in_rows(pair.target)
        steps = _Steps(pair.on_progress, "comparing", len(tables()))
        for table in tables():
            found = compare_table(pair.source, pair.target, table, layout=layout)
            steps.of(table.name)(1)
            if found is not None:
                yield found
        if differs:
            from tidelore.store.moving.vectors import compare_vectors

            yield compare_vectors(pair.source, pair.target)


def _already_moved(pair: _Pair) -> MoveReport:
    """Return the report for a target that equals the source; raise UserError for one that holds something else."""
    compared = []
    with closing(_compare(pair)) as tables_in_turn:
        for one in tables_in_turn:
            compared.append(one)
            if not one.equal:
                raise UserError(
                    f"the target is not empty, and its table {one.table} differs from the source",
                    fix="name an empty database, or a file that does not exist yet",
                    to=pair.names[1],
                    table=one.table,
                )
    return _report(pair, compared, copied=0, resumed=False, restarted=False)


def _report(pair: _Pair, compared: list[Comparison], *, copied: int, resumed: bool, restarted: bool) -> MoveReport:
    found = [MovedTable(one.table, one.source.rows, one.target.rows, one.source.sha256, one.equal) for one in compared]
    rows = sum(one.rows for one in found if one.name != "vectors")
    equal = all(one.equal for one in found)
    return MoveReport(*pair.names, False, equal, resumed, restarted, copied, rows, found)


def _planned(source: Database, names: tuple[str, str], held: Target) -> MoveReport:
    with source.one_state():
        counts = count_all(source)
    found = [MovedTable(name, rows) for name, rows in counts.items()]
    resumed = held.source is not None and not held.restart
    return MoveReport(*names, True, False, resumed, held.restart, 0, sum(counts.values()), found)


def _refuse_writers(app: App, source: Database) -> None:
    """Raise LockHeld if a process holds a lease of the source."""
    from tidelore.store.work.session import refuse_held

    shop = app.workshop(source, "move")
    for name in lease_names(source):
        try:
            refuse_held(shop, force=False, name=name)
        except LockHeld as held:
            held.fix = "stop it (the service too) until the move is complete, then run the command again"
            raise


def _in_rows(database: Database) -> bool:
    from tidelore.store.reading.vector_models import in_rows

    if not in_rows(database):
        return False
    from tidelore.core.extras import require

    require("vectors", "moving vectors from or to rows of PostgreSQL", ("numpy",))
    return True


class _Steps:
    """Reports the progress of one stage."""

    def __init__(self, on_progress: OnProgress, stage: str, total: int, done: int = 0) -> None:
        self._on_progress = on_progress
        self._stage = stage
        self._total = total
        self._done = done

    def of(self, table: str) -> Callable[[int], None]:
        """Return what counts the rows of a table."""

        def counted(rows: int) -> None:
            self._done += rows
            self._on_progress(Progress("move", self._stage, self._done, self._total, table))

        return counted
