"""How many pages a connection to a SQLite file keeps in memory."""

from __future__ import annotations

from pathlib import Path

from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.sqlite import READER_CACHE_KB


def test_a_reader_keeps_more_pages_than_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    writer = open_database(str(path))
    migrate(writer, 1)
    assert writer.read("PRAGMA cache_size") == [(-2000,)]
    writer.close()
    with App(Config(), {}, db=str(path)).reading() as reader:
        assert reader.read("PRAGMA cache_size") == [(-READER_CACHE_KB,)]
