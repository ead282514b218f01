"""Use-case of `lore init-db`: creates or migrates the database, and the queue of the workers on PostgreSQL.

Every command that writes does the same when it starts. On its own it serves installations whose workers may not change
the schema: an administrator's role prepares the database, the role of the workers only needs to write rows.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.storage.moving import describe_address
from tidelore.app.wiring import App
from tidelore.core.extras import EXTRAS, find_missing
from tidelore.store.database.migrate import migrate, own_versions
from tidelore.store.database.opening import open_database


class PreparedDatabase(Struct, frozen=True):
    """The answer of `lore init-db`."""

    database: Annotated[str, means("the database, without user and password")]
    version: Annotated[int, means("version of the schema")]
    applied: Annotated[list[int], means("migrations that were applied by this run")]
    queue: Annotated[str, means("queue of the workers: created, present, not installed, or not needed (SQLite)")]


def prepare_database(app: App) -> PreparedDatabase:
    """Create the database or bring its schema up to date; prepare the queue of the workers if they are installed."""
    database = open_database(app.address, create=True, patience=app.new_patience())
    try:
        applied = migrate(database, app.clock.now_ms())
        queue = "not needed"
        if database.dialect == "postgres":
            queue = "not installed"
            if find_missing(EXTRAS["worker"]) is None:
                from tidelore.app.workers.queue import prepare_queue

                queue = "created" if prepare_queue(database) else "present"
    finally:
        database.close()
    return PreparedDatabase(describe_address(app.address), max(own_versions()), applied, queue)
