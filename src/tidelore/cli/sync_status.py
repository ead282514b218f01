"""`lore sync-status`: how far every list has been read, what is in quarantine, the last runs."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer, ago, instant, plural, table
from tidelore.service.status import Status, read_status
from tidelore.store.cursors import CursorRow
from tidelore.store.runs import RunView


@click.command("sync-status", cls=LoreCommand)
@click.option("--runs", type=click.IntRange(0, 1000), default=5, show_default=True, help="How many runs to show.")
@click.pass_context
def command(ctx: click.Context, runs: int) -> Answer:
    """Show how far every list has been read, what is in quarantine, and the last runs.

    A list's watermark is the position up to which it is known to be complete.
    """
    database = face_of(ctx).open_store()
    try:
        status = read_status(database, runs)
    finally:
        database.close()
    return Answer(_data(status), _lines(status))


def cursor_data(cursor: CursorRow) -> dict[str, Any]:
    """Return a cursor for programs."""
    return {
        "source": cursor.source,
        "surface": cursor.surface,
        "scope": cursor.scope,
        "project": cursor.project,
        "watermark_at": instant(cursor.watermark_at),
        "watermark_id": cursor.watermark_id,
        "complete": bool(cursor.bootstrap_complete),
        "gaps": cursor.gaps,
        "polled_at": instant(cursor.polled_at),
        "verified_at": instant(cursor.verified_at),
        "etag": cursor.etag,
        "url": cursor.url,
        "reading": cursor.reading,
        "set_aside": cursor.set_aside,
        "set_aside_at": instant(cursor.set_aside_at),
    }


def cursor_table(cursors: list[CursorRow]) -> list[str]:
    """Return the cursors as a table."""
    rows = [
        [
            cursor.surface,
            cursor.project or cursor.scope,
            instant(cursor.watermark_at) or "(empty)",
            "complete" if cursor.bootstrap_complete else "first read under way",
            ago(cursor.polled_at),
            instant(cursor.verified_at) or "not yet",
        ]
        for cursor in cursors
    ]
    return table(["LIST", "SCOPE", "WATERMARK", "STATE", "READ", "VERIFIED"], rows)


def _data(status: Status) -> dict[str, Any]:
    return {
        "projects": [{"source": p.source, "path": p.path, "remote_id": p.remote_id} for p in status.projects],
        "cursors": [cursor_data(cursor) for cursor in status.cursors],
        "quarantine": [
            {
                "surface": entry.surface,
                "scope": entry.scope,
                "remote_key": entry.remote_key,
                "error": entry.error,
                "attempts": entry.attempts,
                "first_seen_at": instant(entry.first_seen_at),
                "next_attempt_at": instant(entry.next_attempt_at),
            }
            for entry in status.quarantine
        ],
        "oldest_verification": instant(status.oldest_verification),
        "runs": [_run(run) for run in status.runs],
    }


def _run(run: RunView) -> dict[str, Any]:
    data = {name: getattr(run, name) for name in run.__struct_fields__}
    return {**data, "started_at": instant(run.started_at), "finished_at": instant(run.finished_at)}


def _lines(status: Status) -> list[str]:
    if not status.cursors:
        return ["Nothing has been mirrored yet. Run `lore ingest --type issues`."]
    lines = cursor_table(status.cursors)
    lines += ["", f"Quarantine: {len(status.quarantine):,}"]
    lines += [
        f"  {entry.surface} {entry.remote_key}: {entry.error} ({plural(entry.attempts, 'attempt')})"
        for entry in status.quarantine[:10]
    ]
    oldest = status.oldest_verification
    lines.append(f"Oldest verification: {instant(oldest) or 'some lists have not been verified yet'}")
    if status.runs:
        lines += ["", "Last runs"]
        rows = [
            [
                str(run.id),
                run.command,
                run.status + (f" ({plural(run.warnings_count, 'warning')})" if run.warnings_count else ""),
                f"{run.issues_ingested + run.mrs_ingested:,}",
                f"{run.requests:,}",
                ago(run.started_at),
            ]
            for run in status.runs
        ]
        lines += table(["RUN", "COMMAND", "STATUS", "STORED", "REQUESTS", "STARTED"], rows, right=(3, 4))
    return lines
