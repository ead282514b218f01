"""A migrated SQLite file, made once for each process that runs tests and then written wherever one is needed."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database


@cache
def migrated() -> bytes:
    """Return an empty database as the migrations leave it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        database = open_database(str(path))
        migrate(database, 0)
        database.close()
        return path.read_bytes()


def lay_out(path: Path) -> None:
    """Put an empty database there, unless there is one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(migrated())
        path.chmod(0o600)
