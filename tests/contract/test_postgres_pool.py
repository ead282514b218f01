"""A borrowed database looks like a new one, whatever the test before did to it."""

from __future__ import annotations

from contextlib import suppress

from tests.databases.catalogue import schema_of
from tests.databases.postgres_pool import PooledDatabase, PostgresPool
from tests.databases.postgres_server import PostgresServer
from tests.databases.samples import add_project

from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database

SPARE = "SELECT 1 FROM pg_attribute WHERE attrelid = 'embeddings'::regclass AND attname = 'spare'"
CHANGES = (
    "CREATE TABLE extra (id BIGINT)",
    "DROP TABLE labels CASCADE",
    "ALTER TABLE projects ADD COLUMN extra TEXT",
    "ALTER TABLE projects ALTER COLUMN name DROP NOT NULL",
    "ALTER TABLE projects DISABLE TRIGGER ALL",
    "CREATE INDEX extra ON projects (name)",
    "CREATE VIEW extra AS SELECT 1",
    "CREATE FUNCTION extra() RETURNS INTEGER LANGUAGE SQL AS 'SELECT 1'",
    "CREATE SCHEMA extra",
    "UPDATE schema_version SET checksum = 'forged' WHERE version = 1",
    "DELETE FROM schema_version WHERE version = 1",
)


def lose(lent: PooledDatabase, server: PostgresServer) -> None:
    assert server.cut(lent.address) >= 1


def begin_and_leave(lent: PooledDatabase) -> None:
    lent.database.script("BEGIN; DELETE FROM projects")


def refuse(lent: PooledDatabase) -> None:
    with suppress(Exception):
        lent.database.script("BEGIN; SELECT nothing FROM nowhere")


def settings(lent: PooledDatabase) -> None:
    lent.database.script("SET session_replication_role = replica; SET search_path = pg_catalog")


def close(lent: PooledDatabase) -> None:
    lent.database.close()


def test_a_returned_test_database_is_reset_before_reuse(
    postgres_pool: PostgresPool, postgres_server: PostgresServer
) -> None:
    first = None
    for harm in (begin_and_leave, refuse, settings, close, lambda lent: lose(lent, postgres_server)):
        with postgres_pool.lent() as lent:
            first = first or lent
            assert lent is first
            assert_new(lent.database)
            assert add_project(lent.database).id == 1
            for _ in range(8):
                lent.database.read("SELECT * FROM projects")
            harm(lent)
    with postgres_pool.lent() as lent:
        assert lent is first
        assert_new(lent.database)


def test_a_lock_left_by_another_connection_does_not_block_the_next_test(postgres_pool: PostgresPool) -> None:
    with postgres_pool.lent() as lent:
        add_project(lent.database)
        other = open_database(lent.address)
        other.script("BEGIN; LOCK TABLE projects")
    other.close()
    with postgres_pool.lent() as lent:
        assert_new(lent.database)


def assert_new(database: Database) -> None:
    assert database.read("SELECT COUNT(*) FROM projects") == [(0,)]
    assert database.read("SELECT COUNT(*) FROM pg_prepared_statements") == [(0,)]
    assert database.read("SHOW session_replication_role") == [("origin",)]
    assert migrate(database, 1) == []


def test_a_database_whose_schema_was_changed_is_dropped(postgres_pool: PostgresPool) -> None:
    with postgres_pool.lent() as lent:
        before = schema_of(lent.database)
        lent.database.script("ALTER TABLE projects ADD COLUMN extra TEXT")
    with postgres_pool.lent() as again:
        assert again.address != lent.address
        assert schema_of(again.database) == before


def test_every_kind_of_schema_change_is_detected(postgres_pool: PostgresPool) -> None:
    unnoticed = []
    with postgres_pool.lent() as lent:
        for change in CHANGES:
            lent.database.script(f"BEGIN; {change}")
            if not lent.is_changed():
                unnoticed.append(change)
            lent.database.script("ROLLBACK")
        assert not lent.is_changed()
    assert unnoticed == []


def test_schema_variants_have_separate_pools(postgres_pool: PostgresPool) -> None:
    change = "ALTER TABLE embeddings ADD COLUMN spare BIGINT"
    for _ in range(2):
        with postgres_pool.lent() as plain, postgres_pool.lent(change) as changed:
            assert plain.database.read(SPARE) == []
            assert len(changed.database.read(SPARE)) == 1
