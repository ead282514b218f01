"""`check_database` finds each kind of damage, names it, and accuses nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import pytest
import zstandard
from tests.databases.samples import dump
from tests.databases.sound_copy import fill
from tests.support.manual_clock import ManualClock

from tidelore.core.content import digest
from tidelore.core.process import ProcessIdentity
from tidelore.engine.cursor import SKEW_MS
from tidelore.engine.ledger import Run
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror import check
from tidelore.store.mirror.check import HOMES, LINKS, TIMES, CheckFinding, check_database
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.work.runs import RunTable

CHECKS = [
    "database", "schema", "payloads-intact", "windows", "runs", "vectors", "payloads-present", "content-hash",
    "note-payloads", "times", "watermarks", "children-watermarks", "children-progress",
    "discussions", "note-order", "children", "topic-replies", "topic-tombstones", "posts",
    "shares", "documents", "documents-of-nothing", "vector-owners", "vector-pieces", "vector-places", "labels",
    "quarantine", "gaps", "tracked-history", "event-versions", "events-in-flight", "followups", "outbox", "full-text",
]  # fmt: skip
FIRST = "WHERE id = (SELECT MIN(id) FROM {0})"
Execute = Callable[..., None]


@pytest.fixture
def filled(database: Database, clock: ManualClock) -> Database:
    """Two projects with something in every table, all of it sound."""
    fill(database, clock)
    return database


@pytest.fixture
def break_it(filled: Database) -> Execute:
    """Change the database in a way the program never would: constraints do not hold."""

    def execute(sql: str, **params: object) -> None:
        stop_constraints(filled)
        with filled.transaction() as tx:
            assert tx.change(sql, params) >= 1

    return execute


def stop_constraints(database: Database) -> None:
    database.read(
        "PRAGMA foreign_keys = OFF" if database.dialect == "sqlite" else "SET session_replication_role = replica"
    )


class Undone(Exception):
    """Ends a transaction whose changes are not kept."""


def found_after(database: Database, clock: ManualClock, sql: str, **params: object) -> dict[str, CheckFinding]:
    """Return what is found after a change, and take the change back."""
    stop_constraints(database)
    found: dict[str, CheckFinding] = {}
    with suppress(Undone), database.transaction() as tx:
        assert tx.change(sql, params) >= 1, sql
        found = failures(database, clock)
        raise Undone
    return found


def failures(database: Database, clock: ManualClock) -> dict[str, CheckFinding]:
    found = check_database(database, clock.now_ms())
    assert [finding.check for finding in found] == CHECKS
    for finding in found:
        assert finding.ok is (finding.count == 0)
        assert finding.detail
    return {finding.check: finding for finding in found if not finding.ok}


def only(database: Database, clock: ManualClock, name: str) -> CheckFinding:
    found = failures(database, clock)
    assert found.keys() == {name}
    return found[name]


def test_a_healthy_database_passes_every_check_unchanged(filled: Database, clock: ManualClock) -> None:
    before = dump(filled)
    assert failures(filled, clock) == {}
    assert dump(filled) == before


def test_an_empty_database_passes_every_check(database: Database, clock: ManualClock) -> None:
    assert failures(database, clock) == {}


def test_problems_found_by_the_database_engine_are_reported(
    filled: Database, clock: ManualClock, break_it: Execute
) -> None:
    if filled.dialect == "sqlite":
        break_it("UPDATE cursors SET project_id = 4711 WHERE surface = 'gitlab.issues' AND scope = '1'")
        assert "missing row of projects" in only(filled, clock, "database").detail
    else:
        filled.read("ALTER TABLE issues ADD CONSTRAINT never_checked CHECK (iid > 1000) NOT VALID")
        assert "never_checked" in only(filled, clock, "database").detail


def test_a_migration_with_a_wrong_checksum_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("UPDATE schema_version SET checksum = 'forged' WHERE version = 1")
    assert only(filled, clock, "schema").detail.endswith(": step 1")


@pytest.mark.parametrize("table", ["issues", "merge_requests", "discussions", "topics"])
def test_a_row_without_its_payload_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, table: str
) -> None:
    break_it(f"DELETE FROM raw_payloads WHERE id = (SELECT MIN(raw_payload_id) FROM {table})")
    found = failures(filled, clock)
    # SQLite itself sees the dangling reference as well.
    assert found.keys() == {"payloads-present"} | ({"database"} if filled.dialect == "sqlite" else set())
    assert found["payloads-present"].count == 1
    assert f"{table} " in found["payloads-present"].detail


@pytest.mark.parametrize(
    ("encoding", "damaged"),
    [("identity", b'{"title": "forged"}'), ("zstd", zstandard.compress(b"forged")), ("zstd", b"no zstd at all")],
    ids=["forged", "forged-and-compressed", "cannot-be-unpacked"],
)
def test_a_payload_with_a_wrong_hash_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, encoding: str, damaged: bytes
) -> None:
    (lowest,) = filled.read("SELECT MIN(id) FROM raw_payloads")[0]
    break_it(
        "UPDATE raw_payloads SET payload = :payload, encoding = :encoding WHERE id = :id",
        payload=damaged, encoding=encoding, id=lowest,
    )  # fmt: skip
    finding = only(filled, clock, "payloads-intact")
    assert finding.count == 1
    assert finding.detail.endswith(f": {lowest}")


def test_payloads_are_checked_in_every_batch(
    filled: Database, clock: ManualClock, break_it: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_BATCH", 3)
    (count,) = filled.read("SELECT COUNT(*) FROM raw_payloads")[0]
    assert count > 6
    break_it("UPDATE raw_payloads SET payload = :payload, encoding = 'identity'", payload=b"forged")
    finding = only(filled, clock, "payloads-intact")
    assert finding.count == count
    assert finding.detail.endswith(", ...")


@pytest.mark.parametrize("table", ["issues", "merge_requests"])
def test_a_row_whose_digest_differs_from_its_payload_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, table: str
) -> None:
    break_it(f"UPDATE {table} SET content_hash = :other {FIRST.format(table)}", other=digest(b"other"))
    assert f"{table} " in only(filled, clock, "content-hash").detail


def test_a_time_at_or_before_the_epoch_is_found_in_every_time_column(filled: Database, clock: ManualClock) -> None:
    missed = []
    for table, column, instant in product_of_times():
        # Its neighbour in time goes along, or it would be two kinds of damage.
        along = ", first_note_at = :instant" if column == "last_note_at" else ""
        sql = f"UPDATE {table} SET {column} = :instant{along} {FIRST.format(table)}"
        found = found_after(filled, clock, sql, instant=instant)
        # The version of a parent, and whether it is one, stand in its progress too.
        shared = {"children-progress"} if table in PARENT_KINDS and column in {"updated_at", "deleted_at"} else set()
        if found.keys() != {"times", *shared} or found["times"].count != 1:
            missed.append((table, column, instant, found))
    assert missed == []


def product_of_times() -> list[tuple[str, str, int]]:
    return [(table, column, instant) for table, columns in TIMES.items() for column in columns for instant in (0, -1)]


@pytest.mark.parametrize("offset", [None, SKEW_MS + 1], ids=["before-the-epoch", "in-the-future"])
def test_an_impossible_watermark_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, offset: int | None
) -> None:
    at = -1 if offset is None else clock.now_ms() + offset
    break_it("UPDATE cursors SET watermark_at = :at WHERE surface = 'gitlab.issues' AND scope = '2'", at=at)
    finding = only(filled, clock, "watermarks")
    assert (finding.count, finding.detail.endswith("gitlab gitlab.issues 2")) == (1, True)


@pytest.mark.parametrize("reading", ["{not json", "[]", '{"instant": "soon", "since": 1}', '{"since": 1}', ""])
def test_an_unreadable_window_is_found(filled: Database, clock: ManualClock, break_it: Execute, reading: str) -> None:
    break_it("UPDATE cursors SET reading = :reading WHERE surface = 'gitlab.issues' AND scope = '1'", reading=reading)
    assert only(filled, clock, "windows").detail.endswith("gitlab gitlab.issues 1")


@pytest.mark.parametrize(("link", "table", "column"), LINKS)
def test_a_link_to_a_label_of_another_project_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, link: str, table: str, column: str
) -> None:
    break_it(
        f"INSERT INTO {link} ({column}, label_id) SELECT r.id, l.id FROM {table} r, labels l, projects p"
        " WHERE r.remote_id = 10 AND l.name = 'port/quay' AND p.remote_id = 2 AND l.project_id = p.id"
    )
    finding = only(filled, clock, "labels")
    assert (finding.count, finding.detail.endswith("port/quay")) == (1, True)


def test_an_open_run_of_a_dead_process_is_reported_and_fails_no_check(filled: Database, clock: ManualClock) -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    here = ProcessIdentity.current().host
    run = Run.start(RunTable(filled), clock, "lore ingest", ProcessIdentity(here, child, "1"))
    findings = {finding.check: finding for finding in check_database(filled, clock.now_ms())}
    assert findings["runs"].detail == f"interrupted: run {run.id}; the next sync closes them"
    assert all(finding.ok for finding in findings.values())


def test_an_open_run_on_another_host_is_not_reported(filled: Database, clock: ManualClock) -> None:
    Run.start(RunTable(filled), clock, "lore ingest", ProcessIdentity("far away", 1, "1"))
    assert failures(filled, clock) == {}


def test_a_quarantined_entry_without_a_payload_is_found(
    filled: Database, clock: ManualClock, break_it: Execute
) -> None:
    break_it("UPDATE quarantine SET payload = :empty WHERE scope = '2'", empty=b"")
    assert only(filled, clock, "quarantine").detail.endswith("gitlab gitlab.issues 2 77")


def test_a_gap_with_its_floor_above_its_top_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("UPDATE gaps SET floor_at = top_at + 1 WHERE scope = '1' AND place = 0")
    assert only(filled, clock, "gaps").detail.endswith("gitlab gitlab.issues 1 0")


@pytest.mark.parametrize("kind", ["person", "placed", "placed by the system"])
def test_a_note_that_lost_its_payload_is_found(
    filled: Database, clock: ManualClock, break_it: Execute, kind: str
) -> None:
    place = {"person": 0, "placed": 1, "placed by the system": 3}[kind]
    break_it(f"UPDATE notes SET raw_payload_id = NULL {FIRST.format('notes WHERE position = :place')}", place=place)
    finding = only(filled, clock, "note-payloads")
    assert (finding.count, "notes " in finding.detail) == (1, True)


def test_a_note_whose_payload_is_gone_from_the_table_is_found(
    filled: Database, clock: ManualClock, break_it: Execute
) -> None:
    break_it("DELETE FROM raw_payloads WHERE id = (SELECT MIN(raw_payload_id) FROM notes)")
    found = failures(filled, clock)
    assert found.keys() == {"note-payloads"} | ({"database"} if filled.dialect == "sqlite" else set())


def test_a_payload_of_a_system_note_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it(
        "UPDATE notes SET raw_payload_id = (SELECT MAX(id) FROM raw_payloads)"
        f" {FIRST.format('notes WHERE position = 2')}"
    )
    assert only(filled, clock, "note-payloads").count == 1


def test_a_discussion_without_notes_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("DELETE FROM notes WHERE discussion_id = (SELECT MIN(id) FROM discussions)")
    assert "discussions " in only(filled, clock, "discussions").detail


def test_a_discussion_that_ends_before_it_begins_is_found(
    filled: Database, clock: ManualClock, break_it: Execute
) -> None:
    break_it(f"UPDATE discussions SET first_note_at = last_note_at + 1 {FIRST.format('discussions')}")
    assert only(filled, clock, "note-order").count == 1


def test_children_marked_as_read_for_a_future_version_are_found_for_every_kind(
    filled: Database, clock: ManualClock
) -> None:
    missed = []
    cases = [(kind.table, name) for kind in PARENT_KINDS.values() for name in kind.kinds]
    for (table, name), which in product(cases, ("synced", "fetched")):
        mine = f"parent_kind = '{table}' AND kind = '{name}'"
        sql = f"UPDATE child_sync SET {which}_for = parent_updated_at + 1 WHERE {mine} AND parent_id = "
        found = found_after(filled, clock, f"{sql}(SELECT MIN(parent_id) FROM child_sync WHERE {mine})")
        finding = found.get("children-watermarks")
        if len(found) != 1 or finding is None or finding.count != 1 or not finding.detail.endswith(f" {name}"):
            missed.append((table, name, which, found))
    assert missed == []


def test_a_parent_without_progress_and_progress_without_its_parent_are_found(
    filled: Database, clock: ManualClock
) -> None:
    mine = "parent_kind = 'issues' AND kind = 'discussions' AND parent_id = (SELECT MIN(id) FROM issues)"
    for damage in (
        f"DELETE FROM child_sync WHERE {mine}",
        f"UPDATE child_sync SET parent_updated_at = parent_updated_at + 1 WHERE {mine}",
        f"UPDATE child_sync SET parent_id = 99 WHERE {mine}",
        "UPDATE issues SET deleted_at = 5 WHERE id = (SELECT MIN(id) FROM issues)",
    ):
        assert "children-progress" in found_after(filled, clock, damage), damage


def test_a_child_in_another_project_than_its_parent_is_found_for_every_kind(
    filled: Database, clock: ManualClock
) -> None:
    missed = []
    for table, above, column in HOMES:
        chosen = f"(SELECT MAX(id) FROM {table} WHERE {column} IS NOT NULL)"
        found = found_after(
            filled,
            clock,
            f"UPDATE {table} SET project_id = (SELECT MIN(p.id) FROM projects p WHERE p.id <> {table}.project_id)"
            f" WHERE id = {chosen}",
        )
        # A discussion that moved alone left its notes behind.
        count = 5 if table == "discussions" else 1
        finding = found.get("children")
        if len(found) != 1 or finding is None or finding.count != count or f"{table} " not in finding.detail:
            missed.append((table, above, column, found))
    assert missed == []


def test_a_reply_without_its_comment_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("DELETE FROM topic_comments WHERE remote_id = 100")
    found = only(filled, clock, "topic-replies")
    assert found.count == 1


def test_a_comment_of_a_deleted_topic_is_found(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("UPDATE topics SET deleted_at = :at WHERE remote_id = 11", at=clock.now_ms())
    assert only(filled, clock, "topic-tombstones").count == 2


def test_a_finding_counts_all_bad_rows_and_names_a_few(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("UPDATE issues SET created_at = 0")
    break_it("UPDATE merge_requests SET created_at = 0")
    finding = only(filled, clock, "times")
    assert finding.count == 8
    assert finding.detail.count(",") == 5
    assert finding.detail.endswith(", ...")


def test_two_kinds_of_damage_give_two_findings(filled: Database, clock: ManualClock, break_it: Execute) -> None:
    break_it("UPDATE issues SET created_at = 0")
    break_it("UPDATE quarantine SET payload = :empty", empty=b"")
    assert failures(filled, clock).keys() == {"times", "quarantine"}


def test_a_damaged_file_is_a_finding_and_the_other_checks_still_run(sqlite_address: str, clock: ManualClock) -> None:
    with closing(open_database(sqlite_address)) as database:
        migrate(database, clock.now_ms())
        fill(database, clock)
        (root,) = database.read("SELECT rootpage FROM sqlite_schema WHERE name = 'raw_payloads'")[0]
        (size,) = database.read("PRAGMA page_size")[0]
    file = Path(sqlite_address)
    content = bytearray(file.read_bytes())
    content[(root - 1) * size : root * size] = b"\xee" * size
    file.write_bytes(content)
    with closing(open_database(sqlite_address)) as database:
        found = failures(database, clock)
    assert {"database", "payloads-intact"} <= found.keys()
    assert "cannot be read" in found["payloads-intact"].detail
    assert not {"windows", "runs", "times", "watermarks", "labels", "quarantine", "gaps", "children"} & found.keys()
