"""Tells when the copy was last brought up to date, from the run ledger.

Apart from `runs`, because every command that reads asks this, and nothing else about runs.
"""

from __future__ import annotations

from tidelore.store.database.port import Database

_WALKS = ("lore sync", "lore ingest", "lore demo")
WALKED = " OR ".join(f"command LIKE '{command}%'" for command in _WALKS)
"""The condition that a run is of a command that walks the lists."""
LEFT_OFF = "left off"
"""The prefix of the note of a run that succeeded but left work for the next one."""


def last_success_at(database: Database) -> int | None:
    """Return when the copy was last brought up to date by a run that walked all lists, not only a part.

    What the run did after that, with documents and vectors, does not matter. For runs that did not record this time,
    use their end if they succeeded and left nothing for the next run.
    """
    rows = database.read(
        "SELECT MAX(COALESCE(mirrored_at, finished_at)) FROM sync_runs"
        " WHERE (mirrored_at IS NOT NULL"
        f" OR (status = 'succeeded' AND COALESCE(note, '') NOT LIKE '{LEFT_OFF} %'))"
        f" AND mode = 'standard' AND ({WALKED})"
    )
    return None if rows[0][0] is None else int(rows[0][0])
