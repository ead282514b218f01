"""When a connection to a SQLite file maps it into memory."""

from __future__ import annotations

from pathlib import Path

from tidelore.search.find import SearchRequest, find
from tidelore.search.query import parse_query
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.sqlite import MAPPED_BYTES


def test_only_a_connection_that_is_kept_for_searches_maps_the_file(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "lore.db"))
    migrate(database, 1)
    request = SearchRequest(query=parse_query("crane berth"), mode="lexical")
    find(database, request)
    assert database.read("PRAGMA mmap_size") == [(0,)]
    for _ in range(6):
        find(database, request)
    assert database.read("PRAGMA mmap_size") == [(MAPPED_BYTES,)]
    database.close()
