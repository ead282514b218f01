"""Nothing that could not be understood is forgotten, and asking for it again costs ever less (invariant 7)."""

from __future__ import annotations

import pytest
from tests.databases.samples import add_project, scope_of

from tidelore.core.model import Rejected, Scope
from tidelore.engine.ports import Quarantined
from tidelore.store.database.port import Database
from tidelore.store.mirror.quarantine import QuarantineRow, admit, due_entries, list_quarantine, pause_ms, release

NOW = 1_772_000_000_000
DAY = 86_400_000


@pytest.fixture
def scope(database: Database) -> Scope:
    return scope_of(add_project(database))


def reject(database: Database, scope: Scope, *entries: Rejected, now_ms: int = NOW) -> None:
    with database.transaction() as tx:
        admit(tx, scope, entries, now_ms)


def stored_payload(database: Database) -> bytes:
    return bytes(database.read("SELECT payload FROM quarantine")[0][0])


def test_an_entry_is_admitted_with_its_payload_and_error(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("7", "7", b'{"id": 7, "updated_at": "soon"}', "updated_at: not a timestamp"))
    assert list_quarantine(database) == [
        QuarantineRow("gitlab", "gitlab.issues", "1", "7", "updated_at: not a timestamp", 1, NOW, NOW, NOW + 60_000)
    ]
    assert stored_payload(database) == b'{"id": 7, "updated_at": "soon"}'


def test_retry_pauses_double_from_a_minute_to_a_day() -> None:
    assert [pause_ms(attempt) for attempt in (1, 2, 3, 4)] == [60_000, 120_000, 240_000, 480_000]
    assert pause_ms(11) == 60_000 * 1024
    assert pause_ms(12) == pause_ms(13) == pause_ms(10_000) == DAY


def test_an_entry_seen_again_keeps_its_first_date_and_waits_longer(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("7", "7", b"one", "first"))
    reject(database, scope, Rejected("7", "7", b"two", "second"), now_ms=NOW + 60_000)
    (row,) = list_quarantine(database)
    assert (row.error, row.attempts, row.first_seen_at, row.last_seen_at) == ("second", 2, NOW, NOW + 60_000)
    assert row.next_attempt_at == NOW + 60_000 + 120_000
    assert stored_payload(database) == b"two"


def test_an_attempt_without_a_payload_keeps_the_stored_payload(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("7", "7", b"one", "first"))
    reject(database, scope, Rejected("7", "7", b"", "empty answer"), now_ms=NOW + 1)
    assert stored_payload(database) == b"one"


def test_entries_become_due_after_their_pause_longest_overdue_first(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("2", "two", b"x", "e"), now_ms=NOW + 5)
    reject(database, scope, Rejected("1", "one", b"x", "e"))
    assert due_entries(database, scope, NOW + 59_999, 10) == []
    assert due_entries(database, scope, NOW + 60_000, 10) == [Quarantined("1", "one", 1)]
    both = [Quarantined("1", "one", 1), Quarantined("2", "two", 1)]
    assert due_entries(database, scope, NOW + 60_005, 10) == both
    assert due_entries(database, scope, NOW + 60_005, 1) == both[:1]


def test_an_entry_without_a_locator_is_kept_and_never_due(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("content:ab", None, b"x", "no id"))
    assert list_quarantine(database)[0].next_attempt_at is None
    assert due_entries(database, scope, NOW + 10 * DAY, 10) == []


def test_an_entry_becomes_due_once_its_locator_is_known(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("7", None, b"x", "no iid"))
    reject(database, scope, Rejected("7", "12", b"x", "title missing"))
    assert due_entries(database, scope, NOW + DAY, 10) == [Quarantined("7", "12", 2)]


def test_an_entry_seen_again_without_its_locator_keeps_the_stored_one(database: Database, scope: Scope) -> None:
    reject(database, scope, Rejected("7", "12", b"x", "title missing"))
    reject(database, scope, Rejected("7", None, b"x", "no iid"))
    assert due_entries(database, scope, NOW + DAY, 10) == [Quarantined("7", "12", 2)]


def test_a_release_deletes_the_named_entries_of_its_scope_only(database: Database, scope: Scope) -> None:
    other = scope_of(add_project(database, 2, "port/quay"))
    reject(database, scope, Rejected("7", "7", b"x", "e"), Rejected("8", "8", b"x", "e"))
    reject(database, other, Rejected("7", "7", b"x", "e"))
    with database.transaction() as tx:
        release(tx, scope, ["7", "never seen"])
    assert [(row.scope, row.remote_key) for row in list_quarantine(database)] == [("1", "8"), ("2", "7")]
