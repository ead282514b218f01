"""Vectors on PostgreSQL: in blocks, also without pgvector, and in the rows and the graph of an older database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from tests.databases.letters import TITLES, Words, document, embedded, index_of, titles_near, vector_of
from tests.databases.postgres_server import PostgresServer
from tests.databases.samples import add_older_project, add_project, issue
from tests.databases.talk import keep

from tidelore.search.find import MODES, SearchRequest, find
from tidelore.search.query import parse_query
from tidelore.search.similarity import MeaningRanker
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.reading import vector_rows
from tidelore.store.reading.vector_models import in_rows
from tidelore.store.reading.vector_rows import build_graph, has_graph

GRAPHS = "SELECT c.relname FROM pg_class c WHERE c.relname LIKE 'idx_embeddings_graph_%' ORDER BY 1"


@pytest.fixture
def dialect() -> str:
    return "postgres"


@pytest.fixture
def postgres_change() -> str:
    """The schema of a database that had vectors before migration 3."""
    return "ALTER TABLE embeddings ADD COLUMN vector halfvec"


@pytest.fixture
def copy(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A copy with eight documents and vectors in rows, in which five vectors are many."""
    monkeypatch.setattr(vector_rows, "GRAPH_FROM", 5)
    return filled(database)


def filled(database: Database, add: Callable[[Database], ProjectRow] = add_project) -> Database:
    project = add(database)
    keep(database, project, ISSUES, [issue(number, title=title) for number, title in enumerate(TITLES, 1)])
    document(database)
    return database


def test_many_vectors_get_a_graph_that_finds_the_nearest(copy: Database) -> None:
    embedded(copy)
    index = index_of(copy)
    assert has_graph(copy, index.model)
    copy.script("SET enable_seqscan = off; SET enable_sort = off")
    for title in TITLES:
        assert titles_near(copy, title, 1) == [title]
    near = index.nearest_passing(copy, vector_of("bbbb"), 3, lambda ids: set(ids))
    assert near is None, "there are fewer than enough: all that pass are compared one by one"
    found = index.nearest(copy, vector_of("the crane"), 100)
    assert len(found) == len(TITLES), "where the graph has too few, all are compared"


def test_few_vectors_get_no_graph(copy: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_rows, "GRAPH_FROM", len(TITLES))
    embedded(copy)
    assert copy.read(GRAPHS) == []
    assert titles_near(copy, "bbbb", 1) == ["bbbb"]


def test_a_graph_left_incomplete_and_that_of_a_former_model_are_replaced(copy: Database) -> None:
    embedded(copy)
    first = index_of(copy).model
    # As an interrupted CREATE INDEX CONCURRENTLY leaves it.
    copy.script(
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_embeddings_graph_{first.id}'::regclass"
    )
    assert not has_graph(copy, first)
    assert build_graph(copy, first)
    assert has_graph(copy, first)
    embedded(copy, Words("2"))
    second = index_of(copy, "2").model
    assert copy.read(GRAPHS) == [(f"idx_embeddings_graph_{second.id}",)]


@pytest.fixture(params=["absent", "not allowed"])
def poor_address(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[str]:
    """A database of a server without pgvector, or of a role that may not install it."""
    with postgres_server.fresh_database() as address, psycopg.connect(address, autocommit=True) as connection:
        name = postgres_server.name_of(address)
        if request.param == "absent":
            if connection.info.server_version < 180000:
                pytest.skip("extensions can be hidden since PostgreSQL 18")
            connection.execute(f"ALTER DATABASE {name} SET extension_control_path = '/nowhere'")
            yield address
            return
        connection.execute("CREATE ROLE plain LOGIN")
        try:
            connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO plain")
            yield address.replace("//postgres@", "//plain@")
        finally:
            connection.execute("DROP OWNED BY plain")
            connection.execute("DROP ROLE plain")


def test_without_pgvector_vectors_are_kept_in_blocks_and_found(poor_address: str) -> None:
    database = open_database(poor_address)
    try:
        migrate(database, 0)
        assert not in_rows(database)
        filled(database)
        assert embedded(database).embedded == len(TITLES)
        assert titles_near(database, "cccc", 1) == ["cccc"]
        assert database.read("SELECT COUNT(*) FROM embedding_blocks") == [(1,)]
    finally:
        database.close()


def test_without_pgvector_a_search_finds_in_every_mode(poor_address: str) -> None:
    with closing(open_database(poor_address)) as database:
        migrate(database, 0)
        embedded(filled(database))
        ranker = MeaningRanker(index_of(database), vector_of("cccc"), 1.0, 10, 0.0)
        for mode in MODES:
            request = SearchRequest(query=parse_query("cccc"), mode=mode)
            found = find(database, request, None if mode == "lexical" else ranker)
            assert (found.mode, found.threads[0].title) == (mode, "cccc")


@pytest.mark.parametrize("has_vectors", [False, True])
def test_migration_3_keeps_vectors_in_rows_where_there_are_any(
    postgres_server: PostgresServer, has_vectors: bool
) -> None:
    with postgres_server.fresh_database() as address, closing(open_database(address)) as database:
        migrate(database, 0, upto=2)
        if has_vectors:
            filled(database, add_older_project)
            embedded(database)
            assert in_rows(database)
        migrate(database, 0)
        assert in_rows(database) == has_vectors
        if has_vectors:
            assert titles_near(database, "cccc", 1) == ["cccc"]
