"""`lore move`: every table in both directions, continued after a kill, and every difference found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.databases.feedback_samples import add_events, comment, followed
from tests.databases.letters import document, embedded, titles_near
from tests.databases.migrated_file import lay_out
from tests.databases.postgres_server import PostgresServer
from tests.databases.samples import add_project, issue
from tests.databases.sound_copy import fill
from tests.databases.talk import keep
from tests.support.deep import deep
from tests.support.manual_clock import ManualClock

from tidelore.app.storage.moving import MoveReport, describe_address, move_database
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.core.errors import IntegrityError, LeaseLost, LockHeld, MoveIncomplete, TideloreError, UserError
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.core.progress import Progress
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import acquire
from tidelore.store.database.migrate import Migration, migrate, migrations
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Params, Row, Transaction
from tidelore.store.database.snapshot import SnapshotPlan, write_snapshot
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.moving import tables as schema
from tidelore.store.reading.vector_models import in_rows
from tidelore.store.work.action_tokens import signing_secret
from tidelore.store.work.leases import LeaseTable

OTHER_ROWS = (
    "dirty_sources (source_type, source_id, queued_at) VALUES ('issue', 1, 1), ('post', 1, 1)",
    "metric_counters (name, labels, value) VALUES ('n', '{}', 9223372036854775807)",
    (
        "service_jobs (name, source, kind, scope, state, staleness_bound_seconds, updated_at) VALUES"
        " ('j', 's', 'k', 'x', 'idle', 0.1, 1)"
    ),
    "source_budgets (source, remaining, updated_at) VALUES ('s', -1, 1)",
    "source_pauses (source, until_at, updated_at) VALUES ('s', 1, 1)",
    "source_access (source, fingerprint, updated_at) VALUES ('s', '00ff', 1)",
    "rate_budgets VALUES ('s', NULL, NULL, NULL, 0, 0, 0, 0, 1, 1)",
    (
        "action_tokens (repo_full_name, token, project_id, scope_kind, scope_number, source, status, created_at,"
        " updated_at) VALUES ('r', 't', 1, 'pr', 1, 's', 'planned', 1, 1)"
    ),
    "hook_deliveries (id, source, delivery_id, project_id, received_at) VALUES (70, 's', 'd', 1, 1)",
    "hook_projects (project_id, first_at, last_at, checked_until) VALUES (1, 1, 1, 1)",
    (
        "issue_comment_cursors (repo_full_name, issue_number, project_id, followed_at, entered_at, updated_at) VALUES"
        " ('r', 1, 1, 1, 1, 1)"
    ),
    (
        "operator_commands (command_key, project_id, repo_full_name, issue_number, comment_id, command, args_json,"
        " body, status, commented_at, ingested_at) VALUES ('k', 1, 'r', 1, 1, 'pause', '[]', '/lore', 'expired', 1, 1)"
    ),
    (
        "outbox (project_id, repo_full_name, token, scope_kind, scope_number, body, source, status, created_at,"
        " updated_at) VALUES (1, 'r', 't', 'pr', 12, 'Done.', 'reply', 'planned', 1, 1)"
    ),
    "poll_costs (project_id, mode, feed_requests, updated_at) VALUES (1, 'repo', 2.0, 1), (2, 'thread', 0.3, 1)",
    "project_members (project_id, username, access_level, updated_at) VALUES (1, 'Mira', 30, 1), (1, 'mira', 50, 1)",
    (
        "refused_children (project_id, parent_kind, kind, parents, error, first_refused_at) VALUES"
        " (1, 'issues', 'status', '[1]', 'no', 1)"
    ),
    "issue_followups (project_id, issue_number, comment_id, body, created_at, updated_at) VALUES (1, 1, 1, '', 1, 1)",
    "issue_assignees (issue_id, username) VALUES (1, 'mira')",
    "mr_assignees (merge_request_id, username) VALUES (1, 'mira')",
    "mr_reviewers (merge_request_id, username) VALUES (1, 'mira')",
    "mr_closes_issues (merge_request_id, issue_key, content_hash) VALUES (1, 'k', x'00ff')",
    (
        "timeline_events (event_key, project_id, issue_id, action, created_at, content_hash) VALUES"
        " ('7', 1, 1, 'assigned', 1, x'00ff')"
    ),
)
"""Rows of the tables that nothing else here fills."""
IN_ROWS = "ALTER TABLE embeddings ADD COLUMN vector halfvec"


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SQLite database with rows in every table."""
    path = tmp_path_factory.mktemp("full") / "full.db"
    lay_out(path)
    with closing(open_database(str(path))) as database:
        fill(database, ManualClock())
        signing_secret(database, 1)
        project = add_project(database, 1, "port/harbour")
        followed(database, project, 12)
        add_events(database, project, [comment(number) for number in (5, 6)])
        with database.transaction() as tx:
            # Keys that collations order in different ways, and a text with everything that needs care.
            for name in ("a", "B", "b", "Ä", "ä", "z", "\U0001f980", "a b", "a%b", "it's"):
                tx.execute(
                    "INSERT INTO own_logins (source, login, updated_at) VALUES (:name, :login, 1)",
                    {"name": name, "login": f'{name}\t:x "%s" \\'},
                )
        document(database)
        embedded(database)
        with database.transaction() as tx:
            tx.execute("DELETE FROM documents WHERE id = (SELECT MIN(id) FROM documents)")
            for row in OTHER_ROWS:
                tx.execute(f"INSERT INTO {row}")
            for table in schema.tables():
                add_any_row(tx, table.name)
    return path.read_bytes()


def add_any_row(tx: Transaction, table: str) -> None:
    """Give a table that has no row yet one of simple values; a table with stricter rules needs a row in OTHER_ROWS."""
    if not tx.execute(f"SELECT 1 FROM {table} LIMIT 1"):
        values = {"TEXT": "'x'", "INTEGER": "1", "BLOB": "x'00ff'", "REAL": "0.5"}
        kinds = tx.execute("SELECT type FROM pragma_table_info(:table)", {"table": table})
        tx.execute(f"INSERT INTO {table} VALUES ({', '.join(values[kind] for (kind,) in kinds)})")


@pytest.fixture
def origin(tmp_path: Path, full: bytes) -> str:
    """The address of a database to move."""
    path = tmp_path / "origin.db"
    path.write_bytes(full)
    return str(path)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are copied three at a time."""
    monkeypatch.setattr(schema, "BATCH", 3)


def move(source: str, target: str, seam: Crashpoint = no_seam) -> tuple[MoveReport, TideloreError | None]:
    return move_database(App(Config(), {}, db=source, clock=ManualClock(), seam=seam), target)


def moved(source: str, target: str) -> MoveReport:
    """Move and expect success."""
    report, error = move(source, target)
    assert error is None
    assert report.complete
    return report


@contextmanager
def opened(address: str) -> Iterator[Database]:
    """Open a database as commands do."""
    database = App(Config(), {}, db=address).open_store()
    try:
        yield database
    finally:
        database.close()


def content(address: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, with the columns that both dialects have."""
    with opened(address) as database:
        return {
            table.name: sorted(database.read(f"SELECT {', '.join(table.columns)} FROM {table.name}"), key=repr)
            for table in schema.tables()
        }


@contextmanager
def with_vectors_in_rows(server: PostgresServer) -> Iterator[str]:
    """An empty database that keeps vectors in its rows, as before migration 3."""
    with server.fresh_database() as address:
        with closing(open_database(address)) as database:
            migrate(database, 0)
            with database.transaction():
                database.script(IN_ROWS)
        yield address


@pytest.mark.parametrize("rows", [True, deep(False)])
def test_a_database_moved_to_postgres_and_back_equals_the_original_and_can_be_searched(
    origin: str, tmp_path: Path, postgres_server: PostgresServer, rows: bool
) -> None:
    back, before = str(tmp_path / "back.db"), content(origin)
    assert [name for name, rows in before.items() if not rows] == []
    with with_vectors_in_rows(postgres_server) if rows else postgres_server.fresh_database() as address:
        with opened(origin) as database:
            expected = seen(database)
        report = moved(origin, address)
        assert (report.copied, report.resumed, report.restarted) == (report.rows, False, False)
        assert content(address) == before
        assert (moved(address, back).copied, content(back)) == (report.rows, before)
        for place in (address, back):
            with opened(place) as database:
                assert in_rows(database) == (rows and place == address)
                assert seen(database) == expected
                found = add_project(database, 99, "port/new")
                assert found.id == max(row[0] for row in before["projects"]) + 1
                keep(database, found, ISSUES, [issue(990, title="After the move")])
                document(database)
                embedded(database)


def seen(database: Database) -> tuple[list[tuple[str, int]], list[str]]:
    """Return what `lore check` finds wrong, and what a search by meaning finds."""
    findings = check_database(database, ManualClock().now_ms())
    return [(one.check, one.count) for one in findings if not one.ok], titles_near(database, "long long")


@pytest.mark.deep
def test_vectors_written_after_the_move_come_back_into_blocks(
    origin: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    back = str(tmp_path / "back.db")
    with with_vectors_in_rows(postgres_server) as address, with_vectors_in_rows(postgres_server) as other:
        moved(origin, address)
        with opened(origin) as database:
            findings = seen(database)[0]
        with opened(address) as database:
            keep(database, add_project(database, 99, "port/new"), ISSUES, [issue(990, title="zzzz qqqq")])
            document(database)
            embedded(database)
            near = titles_near(database, "zzzz qqqq")
        moved(address, other)
        assert content(other) == content(address)
        compared = {table.name for table in moved(address, back).tables}
        assert "vectors" in compared
        assert "embedding_blocks" not in compared
        for place in (other, back):
            with opened(place) as database:
                assert titles_near(database, "zzzz qqqq") == near
                assert seen(database)[0] == findings


@pytest.mark.deep
def test_a_document_too_long_for_the_index_of_postgres_is_moved_with_its_beginning(
    origin: str, postgres_address: str
) -> None:
    change(
        origin,
        "UPDATE documents SET content = replace(hex(zeroblob(60000)), '00', 'crane ')"
        " WHERE id = (SELECT MAX(id) FROM documents)",
    )
    moved(origin, postgres_address)
    with opened(postgres_address) as database:
        assert database.read("SELECT MAX(length(content)) FROM documents") == [(250_000,)]


def killing(seam: Seam, visit: int) -> Crashpoint:
    """Return a crashpoint that ends the move at the n-th visit of a seam."""
    visits = 0

    def passing(here: Seam) -> None:
        nonlocal visits
        visits += here is seam
        if here is seam and visits == visit:
            raise Killed

    return passing


SEAMS = (
    (Seam.BEFORE_COMMIT, 1), (Seam.INSIDE_COMMIT, 9), (Seam.AFTER_COMMIT, 1), (Seam.AFTER_COMMIT, 12),
    (Seam.SCOPE_DONE, 8), (Seam.BEFORE_FINISH, 1), (Seam.AFTER_FINISH, 1),
)  # fmt: skip


@pytest.mark.usefixtures("small_batches")
def test_a_move_killed_at_each_seam_continues_where_it_stopped_and_copies_each_row_once(
    origin: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "target.db")
    for seam, visit in SEAMS[:-1]:
        with pytest.raises(Killed):
            move(origin, target, killing(seam, visit))
        with pytest.raises(MoveIncomplete, match="not complete") as refused, opened(target):
            pass
        assert f"lore move --db {origin}" in str(refused.value.fix)
    with closing(open_database(target)) as database:
        ((done,),) = database.read("SELECT SUM(copied) FROM move_progress")
    with pytest.raises(Killed):
        move(origin, target, killing(*SEAMS[-1]))
    report = moved(origin, target)
    assert (report.rows, report.copied, report.restarted) == (done, 0, False)
    assert content(target) == content(origin)


@pytest.mark.deep
@pytest.mark.usefixtures("small_batches")
def test_a_move_to_postgres_killed_again_and_again_copies_every_row(origin: str, postgres_address: str) -> None:
    for round_ in range(500):
        try:
            move(origin, postgres_address, killing((Seam.AFTER_COMMIT, Seam.INSIDE_COMMIT)[round_ % 2], 7))
        except Killed:
            continue
        break
    assert round_ > 5
    assert content(postgres_address) == content(origin)


def test_of_two_moves_at_once_the_newer_goes_on_and_the_older_writes_nothing_more(origin: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    for last in (Seam.AFTER_COMMIT, Seam.BEFORE_FINISH):
        stop = killing(last, 1)

        def passing(here: Seam, stop: Crashpoint = stop) -> None:
            try:
                stop(here)
            except Killed:
                moved(origin, target)

        with pytest.raises(LeaseLost, match="another `lore move`"):
            move(origin, target, passing)
        assert content(target) == content(origin)
        Path(target).unlink()


def change(address: str, sql: str) -> None:
    with closing(open_database(address)) as database, database.transaction() as tx:
        assert tx.change(sql) == 1


@pytest.mark.parametrize("changed", ["target", "source"])
def test_a_row_changed_during_the_move_is_found_and_the_next_move_starts_again(
    origin: str, tmp_path: Path, changed: str
) -> None:
    target = str(tmp_path / "target.db")

    def passing(here: Seam) -> None:
        if here is Seam.BEFORE_FINISH:
            place = target if changed == "target" else origin
            change(place, "UPDATE notes SET body = body || '!' WHERE id = (SELECT MAX(id) FROM notes)")

    report, error = move(origin, target, passing)
    assert isinstance(error, IntegrityError)
    assert (error.exit_code, error.details["tables"], report.complete) == (8, ["notes"], False)
    assert [table.name for table in report.tables if not table.equal] == ["notes"]
    with pytest.raises(MoveIncomplete), opened(target):
        pass
    again = moved(origin, target)
    assert (again.restarted, again.copied) == (True, again.rows)
    assert content(target) == content(origin)


def test_rows_of_a_source_that_changed_between_two_runs_are_copied_anew(origin: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    with pytest.raises(Killed):
        move(origin, target, killing(Seam.BEFORE_FINISH, 1))
    change(origin, "DELETE FROM own_logins WHERE source = 'B'")
    change(origin, "INSERT INTO own_logins (source, login, updated_at) VALUES ('\U0001f981', 'new', 1)")
    report, error = move(origin, target)
    assert (report.copied, str(error).partition(":")[0]) == (1, "the target differs from the source in own_logins")
    assert moved(origin, target).restarted


def test_a_target_that_holds_something_else_is_refused_and_left_as_it_is(
    origin: str, tmp_path: Path, sqlite_address: str
) -> None:
    with closing(open_database(sqlite_address)) as database:
        migrate(database, 0)
        add_project(database, 7, "other/project")
    before = content(sqlite_address)
    with pytest.raises(UserError, match="not empty, and its table accounts differs"):
        move(origin, sqlite_address)
    assert content(sqlite_address) == before
    with pytest.raises(UserError, match="is the database in use"):
        move(origin, str(Path(origin).parent / "." / "origin.db"))
    change(sqlite_address, "UPDATE schema_version SET version = 97 WHERE version = 1")
    with pytest.raises(UserError, match="another version of this program"):
        move(origin, sqlite_address)
    change(sqlite_address, "UPDATE schema_version SET version = 1 WHERE version = 97")
    snapshot = str(tmp_path / "snapshot.db")
    write_snapshot(SnapshotPlan(source=origin, target=snapshot))
    with pytest.raises(UserError, match="is a snapshot"):
        move(snapshot, str(tmp_path / "third.db"))
    half = str(tmp_path / "half.db")
    with pytest.raises(Killed):
        move(origin, half, killing(Seam.AFTER_COMMIT, 2))
    with pytest.raises(UserError, match=f"part of a move from {origin}"):
        move(sqlite_address, half)
    with pytest.raises(MoveIncomplete):
        move(half, str(tmp_path / "third.db"))
    assert not (tmp_path / "third.db").exists()


def test_tables_of_another_program_on_a_server_are_refused(origin: str, postgres_address: str) -> None:
    with closing(open_database(postgres_address)) as database, database.transaction():
        database.script("CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(UserError, match="another program, such as invoices"):
        move(origin, postgres_address)


def test_a_source_whose_lease_is_held_is_refused_before_and_after_copying(origin: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")

    def hold() -> None:
        with closing(open_database(origin)) as database:
            me, now = ProcessIdentity.current(), ManualClock()
            acquire(LeaseTable(database), "stream", me, "lore stream", now, stale_after_ms=1, is_dead=is_dead)

    hold()
    with pytest.raises(LockHeld, match="lore stream"):
        move(origin, target)
    assert not Path(target).exists()
    change(origin, "UPDATE leases SET holder_host = NULL WHERE name = 'stream'")

    def passing(here: Seam) -> None:
        if here is Seam.BEFORE_FINISH:
            hold()

    with pytest.raises(LockHeld) as held:
        move(origin, target, passing)
    assert "stop it" in str(held.value.fix)
    with pytest.raises(MoveIncomplete), opened(target):
        pass


def test_a_dry_run_counts_every_table_and_creates_nothing(origin: str, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    app = App(Config(), {}, db=origin, clock=ManualClock())
    report, error = move_database(app, str(target), dry_run=True)
    assert (error, report.dry_run, report.complete, target.exists()) == (None, True, False, False)
    assert {table.name: table.rows for table in report.tables} == {
        name: len(rows) for name, rows in content(origin).items()
    }


def test_a_table_that_a_later_migration_adds_is_moved_after_the_table_it_refers_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = "CREATE TABLE aaa (number INTEGER REFERENCES notes (id), word TEXT, PRIMARY KEY (word, number)) STRICT;"
    steps = [*migrations("sqlite"), Migration(99, "more", sql)]
    monkeypatch.setattr(schema, "migrations", lambda _dialect: steps)
    schema.tables.cache_clear()
    try:
        names = [table.name for table in schema.tables()]
        (added,) = [table for table in schema.tables() if table.name == "aaa"]
    finally:
        schema.tables.cache_clear()
    assert names.index("aaa") > names.index("notes") > names.index("discussions") > names.index("issues")
    assert (added.columns, added.key, added.texts) == (("number", "word"), ("word", "number"), frozenset({"word"}))


def test_every_table_that_the_two_dialects_share_is_moved(database: Database) -> None:
    query = (
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
        if database.dialect == "sqlite"
        else "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    assert {name for (name,) in database.read(query)} - {"schema_version"} == {one.name for one in schema.tables()}
    assert all(table.key for table in schema.tables())


def test_progress_counts_every_row_also_when_a_move_is_continued(origin: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    with pytest.raises(Killed):
        move(origin, target, killing(Seam.AFTER_COMMIT, 9))
    told: list[Progress] = []
    report, _ = move_database(App(Config(), {}, db=origin, clock=ManualClock()), target, told.append)
    copying = [one for one in told if one.stage == "copying"]
    assert 0 < report.copied < report.rows == copying[-1].done == copying[-1].total
    assert copying[0].done > report.rows - report.copied
    assert told[-1].stage == "comparing"
    assert told[-1].done == told[-1].total == len(schema.tables())


def test_postgres_orders_texts_byte_by_byte_in_every_locale() -> None:
    asked: list[str] = []

    class Server:
        """Only takes the query: the server of the tests knows no locale that orders in another way."""

        dialect = "postgres"

        def rows(self, sql: str, _params: Params, _size: int) -> Iterator[list[Row]]:
            asked.append(sql)
            yield from ()

    (members,) = [table for table in schema.tables() if table.name == "project_members"]
    assert list(schema.read_rows(cast("Database", Server()), members, (1, "mira"))) == []
    assert 'WHERE ("project_id", "username" COLLATE "C") > (:k0, :k1)' in asked[0]
    assert asked[0].endswith('ORDER BY "project_id", "username" COLLATE "C"')


def test_an_address_is_shown_without_user_and_password() -> None:
    assert describe_address("postgresql://me:secret@db.example:5433/lore?sslmode=require") == (
        "postgresql://db.example:5433/lore"
    )
    assert describe_address("postgresql://me@/lore?host=/run/pg") == "postgresql:///run/pg/lore"
    assert describe_address("postgres://db?port=5433&dbname=lore&password=x") == "postgresql://db:5433/lore"
