"""How much of a SQLite file a connection keeps in memory."""

from __future__ import annotations

from pathlib import Path

from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.sqlite import MAPPED_BYTES, ROOMY_CACHE_KB
from tidelore.store.reading.fulltext import full_text


def test_only_a_roomy_connection_has_a_large_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    database = open_database(str(path))
    migrate(database, 1)
    database.close()
    app = App(Config(), {}, db=str(path))
    with app.reading() as reader:
        assert reader.read("PRAGMA cache_size") == [(-2000,)]
    kept = app.open_store(roomy=True)
    assert kept.read("PRAGMA cache_size") == [(-ROOMY_CACHE_KB,)]
    kept.close()


def test_only_a_connection_that_searches_maps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    database = open_database(str(path))
    migrate(database, 1)
    assert database.read("PRAGMA mmap_size") == [(0,)]
    full_text(database)
    assert database.read("PRAGMA mmap_size") == [(MAPPED_BYTES,)]
    database.close()
