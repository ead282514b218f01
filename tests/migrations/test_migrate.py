"""The schema grows step by step, each step once and whole, on both databases."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.databases.catalogue import columns_of, indexes_of, schema_of
from tests.databases.racing import race
from tests.databases.samples import CREATED, NUMBERED, TABLES, add_older_project, add_project, dump, issue, scope_of

from tidelore.core.errors import DatabaseUnusable, NotFound, SchemaTooNew
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database import migrate as module
from tidelore.store.database.migrate import migrate, migrations
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES

VIEWS = {
    *("sync_cursors", "github_comment_poll_cursors", "poll_state"),
    *("v_issues", "v_merge_requests", "v_threads", "v_notes", "v_posts", "v_topics"),
}
"""Of views only the names of their columns are compared."""
EXTRA = (
    "CREATE TABLE extra (\n    id INTEGER PRIMARY KEY,\n    size REAL\n) STRICT;"
    " ALTER TABLE projects ADD COLUMN extra TEXT;"
    " UPDATE projects SET extra = path;"
)


@pytest.fixture
def with_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], int]:
    """Let the program ship one more step than it does."""
    shipped = Path(module.__file__).parent / "schema"

    def ship(sql: str) -> int:
        number = max(step.version for step in migrations("sqlite")) + 1
        shutil.copytree(shipped, tmp_path / "migrations")
        (tmp_path / "migrations" / f"{number:04d}_one_more_step.sql").write_text(sql)
        monkeypatch.setattr(module, "_folder", lambda: str(tmp_path / "migrations"))
        return number

    return ship


def versions(database: Database) -> list[int]:
    return [row[0] for row in database.read("SELECT version FROM schema_version ORDER BY version")]


def test_migrations_are_numbered_without_gaps_and_alike_in_both_dialects(dialect: str) -> None:
    steps = migrations(dialect)
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    assert [step.description for step in steps] == [step.description for step in migrations("sqlite")]


def test_opening_an_empty_database_for_reading_creates_nothing(connect: Callable[[], Database]) -> None:
    database = connect()
    for _ in range(2):
        with pytest.raises(NotFound, match="empty"):
            migrate(database, 77, create=False)
    assert schema_of(database) == []
    assert migrate(database, 77) != []
    assert migrate(database, 78, create=False) == []


def test_a_fresh_database_gets_every_migration_with_a_record(connect: Callable[[], Database], dialect: str) -> None:
    database = connect()
    assert migrate(database, 77) == [step.version for step in migrations(dialect)]
    recorded = database.read("SELECT version, description, checksum, applied_at FROM schema_version ORDER BY version")
    assert recorded == [(step.version, step.description, step.checksum, 77) for step in migrations(dialect)]
    assert set(TABLES) | NUMBERED | VIEWS | {"schema_version"} == columns_of(database).keys()


def test_a_database_migrated_stepwise_has_the_schema_of_a_fresh_one(
    connect: Callable[[], Database], with_step: Callable[[str], int], tmp_path_factory: pytest.TempPathFactory,
    dialect: str, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    last = with_step(EXTRA)
    stepped = connect()
    for version in range(1, last + 1):
        assert migrate(stepped, version, upto=version) == [version]
    if dialect == "sqlite":
        _compare(str(tmp_path_factory.mktemp("fresh") / "lore.db"), stepped)
    else:
        with request.getfixturevalue("postgres_server").fresh_database() as address:
            _compare(address, stepped)


def _compare(address: str, stepped: Database) -> None:
    with closing(open_database(address)) as fresh:
        migrate(fresh, 1)
        assert len(schema_of(fresh)) > 40
        assert schema_of(fresh) == schema_of(stepped)
        assert versions(fresh) == versions(stepped)


def test_migrating_again_changes_nothing(database: Database) -> None:
    project = add_project(database)
    before = schema_of(database), dump(database), database.read("SELECT * FROM schema_version")
    assert migrate(database, 999) == []
    assert migrate(database, 999, upto=1) == []
    assert (schema_of(database), dump(database), database.read("SELECT * FROM schema_version")) == before
    assert before[1]["projects"][0][0] == project.id


def test_a_later_migration_is_applied_to_existing_rows(database: Database, with_step: Callable[[str], int]) -> None:
    add_project(database)
    last = with_step(EXTRA)
    assert migrate(database, 5) == [last]
    assert database.read("SELECT extra FROM projects") == [("port/harbour",)]


def test_migration_7_drops_indexes_and_keeps_every_row(connect: Callable[[], Database]) -> None:
    database = connect()
    migrate(database, 5, upto=6)
    project = add_older_project(database)
    writer = PageWriter(database, scope_of(project, "gitlab.issues"), ISSUES, lambda: CREATED)
    writer.commit(Batch([issue(1, CREATED, labels=("bug",)), issue(2, CREATED + 1)], Cursor()))
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET status_name = 'Ready' WHERE iid = 1")
    rows, indexes = dump(database), indexes_of(database)
    assert migrate(database, 5, upto=7) == [7]
    assert dump(database) == rows
    assert {name for name, _ in indexes - indexes_of(database)} == {
        *("idx_changes_project", "idx_issue_labels_label", "idx_mr_labels_label")
    }
    assert database.read("SELECT iid FROM issues WHERE project_id = 1 AND status_name = 'Ready'") == [(1,)]


@pytest.mark.parametrize(
    "broken",
    [
        "CREATE TABLE half (x BIGINT); INSERT INTO half VALUES (1); INSERT INTO absent VALUES (1);",
        "CREATE TABLE half (x BIGINT); ALTER TABLE projects ADD COLUMN half TEXT; UPDATE projects SET id = NULL;",
        "CREATE TABLE half (x BIGINT); this is no SQL",
    ],
    ids=["missing-table", "refused-row", "syntax"],
)
def test_a_migration_that_fails_half_way_is_rolled_back(
    database: Database, with_step: Callable[[str], int], broken: str
) -> None:
    add_project(database)
    before = schema_of(database), dump(database), versions(database)
    with_step(broken)
    with pytest.raises(Exception, match=r"absent|refused a row|no such|syntax|mismatch"):
        migrate(database, 5)
    assert (schema_of(database), dump(database), versions(database)) == before


def test_a_failed_first_migration_leaves_an_empty_database(
    connect: Callable[[], Database], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "0001_broken.sql").write_text("CREATE TABLE a (x BIGINT); no SQL")
    monkeypatch.setattr(module, "_folder", lambda: str(tmp_path))
    database = connect()
    with pytest.raises(Exception, match="syntax"):
        migrate(database, 5)
    assert schema_of(database) == []


def test_a_database_of_a_newer_version_is_refused_and_not_changed(database: Database) -> None:
    with database.transaction() as tx:
        tx.execute("INSERT INTO schema_version VALUES (99, 'from elsewhere', 'abc', 1)")
    before = schema_of(database), database.read("SELECT * FROM schema_version ORDER BY version")
    with pytest.raises(SchemaTooNew) as caught:
        migrate(database, 5)
    assert (caught.value.code, caught.value.exit_code) == ("SCHEMA_TOO_NEW", 8)
    assert caught.value.details == {"found": 99, "supported": max(step.version for step in migrations("sqlite"))}
    assert (schema_of(database), database.read("SELECT * FROM schema_version ORDER BY version")) == before


def test_a_database_of_the_development_line_is_refused_with_the_advice_to_sync_into_a_new_file(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    with database.transaction() as tx:
        tx.execute(
            "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, description TEXT NOT NULL,"
            " checksum TEXT NOT NULL, applied_at INTEGER NOT NULL)"
        )
        for version, words in enumerate(("foundation", "conversations", "documents"), 1):
            tx.execute(
                "INSERT INTO schema_version VALUES (:version, :words, 'abc', 1)", {"version": version, "words": words}
            )
    before = schema_of(database)
    for create in (True, False):
        with pytest.raises(DatabaseUnusable, match=r"development version before 0\.1\.0") as caught:
            migrate(database, 5, create=create)
        assert "new file" in (caught.value.fix or "")
    assert schema_of(database) == before


def test_views_show_readable_times_and_nothing_for_times_no_calendar_holds(database: Database) -> None:
    project = add_project(database)
    at = 1_772_442_000_007
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO cursors (source, surface, scope, project_id, watermark_at, watermark_id, updated_at)"
            " VALUES ('gh', 'github.pr_issue_comments', '1#12', :id, :at, '77', :at),"
            " ('gh', 'github.issue_comments', '1', :id, :never, 'x', :at)",
            {"id": project.id, "at": at, "never": 2**60},
        )
    shown = database.read("SELECT * FROM github_comment_poll_cursors ORDER BY scope_number")
    assert shown == [
        ("port/harbour", "issue_comments", 0, None, None, 0, "2026-03-02T09:00:00.007Z"),
        ("port/harbour", "pr_issue_comments", 12, "2026-03-02T09:00:00Z", 77, 0, "2026-03-02T09:00:00.007Z"),
    ]
    assert database.read("SELECT resource_type, tie_breaker_id FROM sync_cursors ORDER BY resource_type") == [
        ("issue_comments", None),
        ("pr_issue_comments", 77),
    ]


def test_no_migration_is_applied_to_a_database_with_different_migrations(
    database: Database, with_step: Callable[[str], int]
) -> None:
    with database.transaction() as tx:
        tx.execute("UPDATE schema_version SET checksum = 'forged' WHERE version = 1")
    with_step(EXTRA)
    before = schema_of(database)
    with pytest.raises(DatabaseUnusable) as caught:
        migrate(database, 5)
    assert caught.value.details["version"] == 1
    assert schema_of(database) == before


def test_a_schema_version_table_of_another_program_is_refused(postgres_address: str) -> None:
    """A SQLite file like this is refused earlier, when it is opened."""
    with closing(open_database(postgres_address)) as database:
        with database.transaction() as tx:
            tx.execute("CREATE TABLE schema_version (installed_rank INTEGER, version TEXT, checksum INTEGER)")
        before = schema_of(database)
        with pytest.raises(DatabaseUnusable):
            migrate(database, 5)
        assert schema_of(database) == before


PREPARE = (
    "from tidelore.store.database.opening import open_database\nfrom tidelore.store.database.migrate import migrate\n"
)
ACT = "database = open_database(sys.argv[1])\nprint(migrate(database, 5))\ndatabase.close()\n"


def test_concurrent_processes_apply_each_migration_once(address: str) -> None:
    """They open the database at once too: for SQLite that is the moment it becomes a WAL file."""
    every = [step.version for step in migrations("sqlite")]
    applied = [eval(output) for output in race(4, PREPARE, ACT, [address])]  # the lists our own script printed
    assert sorted(version for steps in applied for version in steps) == every
    with closing(open_database(address)) as database:
        assert versions(database) == every
        assert migrate(database, 9) == []


def test_both_databases_have_the_same_tables_columns_and_indexes(sqlite_address: str, postgres_address: str) -> None:
    with closing(open_database(sqlite_address)) as sqlite, closing(open_database(postgres_address)) as postgres:
        migrate(sqlite, 1)
        migrate(postgres, 1)
        ours, theirs = columns_of(sqlite), columns_of(postgres)
        assert ours.keys() == theirs.keys()
        for table in ours.keys() - VIEWS:
            assert ours[table] == theirs[table], table
        for view in VIEWS:
            assert [name for name, _ in ours[view]] == [name for name, _ in theirs[view]]
        assert indexes_of(sqlite) == indexes_of(postgres)
