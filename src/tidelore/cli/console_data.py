"""What the first screen of the console shows, for programs: the same read model, told once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelore.cli.render import Answer, instant
from tidelore.cli.status import budget_data

if TYPE_CHECKING:
    from tidelore.cli.face import Face
    from tidelore.service.panels import Dashboard, SourcePanel
    from tidelore.store.work.runs import RunRecord


def tell_once(face: Face) -> Answer:
    """Return the overview as data; nothing is served, and nobody is asked."""
    from tidelore.service.panels import read_dashboard

    app = face.app()
    database = face.open_store()
    try:
        return Answer(glance_data(read_dashboard(database, app.config, app.clock.now_ms())))
    finally:
        database.close()


def glance_data(glance: Dashboard) -> dict[str, Any]:
    """Return the overview as data."""
    row = glance.service.holder
    holder = None if row is None else row.holder
    served = row is not None and holder is not None
    return {
        "read_at": instant(glance.now_ms),
        "service": {
            "running": served,
            "host": holder.host if holder is not None else None,
            "pid": holder.pid if holder is not None else None,
            "command": row.command if row is not None else None,
            "since": instant(row.acquired_at) if row is not None else None,
        },
        "sources": [_source(source) for source in glance.sources],
        "running": [_run(run) for run in glance.runs],
        "requests_by_minute": [round(amount, 3) for amount in glance.requests],
        "items_by_minute": [round(amount, 3) for amount in glance.items],
        "waiting": {
            "events": glance.events,
            "answers": glance.answers,
            "blocked": glance.blocked,
            "documents": glance.documents,
            "quarantined": glance.quarantined,
        },
    }


def _source(source: SourcePanel) -> dict[str, Any]:
    names = ("name", "kind", "state", "lag_seconds", "bound_seconds", "fresh", "due", "scopes", "behind", "requests")
    return {name: getattr(source, name) for name in (*names, "error")} | budget_data(source.left)


def _run(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "command": run.command,
        "phase": run.phase,
        "started_at": instant(run.started_at),
        "heartbeat_at": instant(run.heartbeat_at),
        "stored": run.issues_ingested + run.mrs_ingested,
        "requests": run.requests,
        "done": run.progress_done,
        "total": run.progress_total,
        "note": run.progress_note,
    }
