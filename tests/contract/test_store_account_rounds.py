"""Whose turn it is, on both databases."""

from __future__ import annotations

from tests.databases.feeds import MIRA, NOOR, OTTO, feed_scope, follow
from tests.databases.samples import CREATED

from tidelore.engine.cursor import Census, Cursor
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import (
    Polled,
    count_verifiable,
    due_accounts,
    find_account,
    followed_dids,
    known_accounts,
    least_verified,
    make_due,
    note_polled,
    pause_account,
)
from tidelore.store.mirror.cursors import save_cursor

LATER = CREATED + 900_000


def established(database: Database, did: str, verified_at: int | None) -> None:
    with database.transaction() as tx:
        save_cursor(tx, feed_scope(did), Cursor(complete=True, census=Census(verified_at=verified_at)), CREATED)
        note_polled(tx, find_account(database, did).id, Polled(0, None, 900, LATER), CREATED)


def dids(database: Database, before: int = LATER, limit: int = 10, offset: int = 0) -> list[str]:
    return [row.did for row in least_verified(database, "feed", before, limit, offset)]


def test_the_least_recently_verified_account_comes_first(database: Database) -> None:
    follow(database, MIRA, NOOR, OTTO)
    established(database, MIRA, CREATED)
    established(database, NOOR, None)
    established(database, OTTO, CREATED - 1)
    assert dids(database) == [NOOR, OTTO, MIRA]
    assert dids(database, limit=1, offset=1) == [OTTO]
    assert dids(database, before=CREATED) == [NOOR, OTTO]
    assert count_verifiable(database, "feed", CREATED) == 2


def test_only_established_accounts_are_verified_and_only_on_their_surface(database: Database) -> None:
    follow(database, MIRA, NOOR)
    established(database, MIRA, None)
    assert dids(database) == [MIRA]
    assert least_verified(database, "records", LATER, 10) == []


def test_a_stream_gap_makes_accounts_due_except_paused_ones(database: Database) -> None:
    rows = follow(database, MIRA, NOOR, OTTO)
    for did in (MIRA, NOOR, OTTO):
        established(database, did, None)
    with database.transaction() as tx:
        pause_account(tx, rows[1].id, None, CREATED)
        assert make_due(tx, [MIRA, NOOR, "did:plc:stranger"], CREATED + 1) == 1
    assert [row.did for row in due_accounts(database, CREATED + 1)] == [MIRA]
    assert followed_dids(database) == sorted([MIRA, OTTO])


def test_known_accounts_are_returned_with_their_handles(database: Database) -> None:
    (mira,) = follow(database, MIRA)
    with database.transaction() as tx:
        assert known_accounts(tx, [MIRA, NOOR]) == {MIRA: (mira.id, mira.handle)}
