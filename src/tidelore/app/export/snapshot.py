"""Write a snapshot of the copy: one SQLite file for reading only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, instant, means
from tidelore.app.wiring import App
from tidelore.core.config_file import is_url
from tidelore.core.errors import UserError
from tidelore.store.mirror.projects import match_project
from tidelore.store.work.last_sync import last_success_at


class SnapshotCounts(Struct, frozen=True):
    """How many rows a snapshot has."""

    issues: Annotated[int, means("number of issues, deleted ones included")]
    merge_requests: Annotated[int, means("number of merge requests, deleted ones included")]
    discussions: Annotated[int, means("number of discussions")]
    notes: Annotated[int, means("number of notes")]
    topics: Annotated[int, means("number of topics")]
    posts: Annotated[int, means("number of posts")]
    documents: Annotated[int, means("number of searchable documents")]
    raw_payloads: Annotated[int, means("number of payloads as they were received; 0 with --no-payloads")]


class Snapshot(Struct, frozen=True, kw_only=True):
    """The answer of `lore snapshot`."""

    path: Annotated[str, means("the file that was written")]
    size_bytes: Annotated[int, means("its size in bytes")]
    project: Annotated[str | None, means("the project it is limited to, or null")]
    synced_at: Annotated[Instant | None, means("when the copy was last brought up to date, or null")]
    counts: SnapshotCounts


def make_snapshot(
    app: App, path: str, project: str | None = None, *, payloads: bool = True, replace: bool = False
) -> Snapshot:
    """Write the copy, or one project of it, into one file."""
    from tidelore.store.database.snapshot import SnapshotPlan, write_snapshot

    if is_url(app.address):
        raise UserError(
            "a snapshot can be made of a SQLite database only",
            fix="use pg_dump, or run `lore --db FILE sync` and make the snapshot of that file",
        )
    with app.reading() as database:
        chosen = match_project(database, project) if project else None
        synced_at = last_success_at(database)
    target = str(Path(path).expanduser().absolute())
    plan = SnapshotPlan(
        source=app.address,
        target=target,
        project_id=None if chosen is None else chosen.id,
        payloads=payloads,
        replace=replace,
    )
    written = write_snapshot(plan)
    rows = written.rows | ({} if payloads else {"raw_payloads": 0})
    return Snapshot(
        path=target,
        size_bytes=written.size,
        project=None if chosen is None else chosen.path,
        synced_at=instant(synced_at),
        counts=SnapshotCounts(**rows),
    )
