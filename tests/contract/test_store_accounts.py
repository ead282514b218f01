"""Whom we follow: identity by DID, every transition of state, who is due, and what stays when somebody goes."""

from __future__ import annotations

import pytest
from tests.databases.feeds import HANDLES, INTERVAL, MIRA, NOOR, OTTO, follow, link, post, share, uri_of
from tests.databases.letters import document
from tests.databases.samples import CREATED, dump

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import Position, Rejected
from tidelore.core.references import NO_HANDLE
from tidelore.engine.cursor import Cursor, Gap
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    AccountRow,
    Added,
    NewAccount,
    Polled,
    account_scope,
    add_accounts,
    count_accounts,
    due_accounts,
    find_account,
    list_accounts,
    next_due_at,
    note_failed,
    note_home,
    note_polled,
    note_unavailable,
    pause_account,
    pause_ms,
    remove_account,
    rename_account,
    reset_account,
    resume_account,
)
from tidelore.store.mirror.cursors import list_cursors
from tidelore.store.reading.posts import PostFilter, list_posts

MINUTE = 60_000
WHOLE = Cursor(watermark=Position(CREATED - 1626, uri_of(MIRA, "a")), complete=True)


@pytest.fixture
def mira(database: Database) -> AccountRow:
    return follow(database, MIRA)[0]


def now(database: Database, did: str = MIRA) -> AccountRow:
    return find_account(database, did)


def polled(database: Database, account: AccountRow, posts: int = 0, last: int | None = None, at: int = CREATED) -> None:
    with database.transaction() as tx:
        note_polled(tx, account.id, Polled(posts, last, INTERVAL, at + INTERVAL * 1000), at)


def test_a_new_account_is_due_at_once_and_identified_by_its_did(database: Database) -> None:
    with database.transaction() as tx:
        wanted = [
            NewAccount(MIRA, "mira.test", "Mira"),
            NewAccount(MIRA, "mira.test", "Mira"),
            NewAccount(NOOR, "noor.test"),
        ]
        assert add_accounts(tx, wanted, "import", INTERVAL, CREATED) == Added([MIRA, NOOR], [])
        again = [
            NewAccount(MIRA, "mira.example"),
            NewAccount(OTTO, "otto.test", mode="records", pds_url="https://pds.test"),
        ]
        assert add_accounts(tx, again, "follows", INTERVAL, CREATED + 5) == Added([OTTO], [MIRA])
    mira, otto = now(database), now(database, OTTO)
    assert (mira.handle, mira.display_name, mira.added_by, mira.state) == ("mira.example", "Mira", "import", "new")
    assert (otto.mode, otto.pds_url, otto.pds_resolved_at) == ("records", "https://pds.test", CREATED + 5)
    assert [account.did for account in due_accounts(database, CREATED + 5)] == [MIRA, NOOR, OTTO]
    assert [account.did for account in due_accounts(database, CREATED, 1)] == [MIRA]
    assert due_accounts(database, CREATED - 1) == []
    assert next_due_at(database) == CREATED


def test_an_account_is_found_by_handle_or_did(database: Database, mira: AccountRow) -> None:
    for name in ("mira.test", "@mira.test", " Mira.Test ", MIRA):
        assert find_account(database, name) == mira
    with pytest.raises(NotFound) as caught:
        find_account(database, "mirra.test")
    assert caught.value.fix == "did you mean mira.test?"


def test_a_completed_first_backfill_makes_an_account_established(database: Database, mira: AccountRow) -> None:
    share(database, post(MIRA, "a"), gaps=[Gap(None, "token", CREATED)])
    polled(database, mira, posts=1, last=CREATED - 9)
    assert now(database).state == "new", "an interrupted look-back is not whole"
    share(database, cursor=WHOLE, gaps=[])
    polled(database, mira, posts=2, last=CREATED - 1626, at=CREATED + MINUTE)
    after = now(database)
    assert (after.state, after.posts_fetched_count, after.last_post_at) == ("established", 3, CREATED - 9)
    assert (after.last_polled_at, after.next_poll_at) == (CREATED + MINUTE, CREATED + MINUTE + INTERVAL * 1000)
    polled(database, mira, at=CREATED + 2 * MINUTE)
    assert now(database).last_post_at == CREATED - 9, "a poll without posts does not forget the last one"


def test_an_unavailable_account_keeps_its_position_and_backs_off(database: Database, mira: AccountRow) -> None:
    share(database, cursor=WHOLE)
    polled(database, mira)
    pauses = []
    for _ in range(12):
        with database.transaction() as tx:
            pauses.append(note_unavailable(tx, mira.id, "400: not found", CREATED) - CREATED)
    assert pauses == [pause_ms(number) for number in range(1, 13)]
    assert pauses[:2] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS
    refused = now(database)
    assert (refused.state, refused.reason, refused.failures) == ("unavailable", "400: not found", 12)
    assert [row.watermark_at for row in list_cursors(database)] == [CREATED - 1626]
    assert due_accounts(database, CREATED + LONGEST_PAUSE_MS) == [refused], "never given up"
    polled(database, mira, at=CREATED + 1)
    after = now(database)
    assert (after.state, after.reason, after.failures, after.last_error) == ("established", None, 0, None)


def test_a_temporary_failure_does_not_change_the_account_state(database: Database, mira: AccountRow) -> None:
    with database.transaction() as tx:
        note_failed(tx, mira.id, "502", CREATED + MINUTE, CREATED)
    after = now(database)
    assert (after.state, after.failures, after.last_error, after.next_poll_at) == ("new", 1, "502", CREATED + MINUTE)


def test_a_paused_account_stays_paused_until_resumed(database: Database, mira: AccountRow) -> None:
    share(database, cursor=WHOLE)
    with database.transaction() as tx:
        assert pause_account(tx, mira.id, "too loud", CREATED)
        assert not pause_account(tx, mira.id, None, CREATED)
    polled(database, mira)
    with database.transaction() as tx:
        note_unavailable(tx, mira.id, "404", CREATED)
        reset_account(tx, mira.id, CREATED)
    assert (now(database).state, now(database).reason) == ("paused", "too loud")
    assert due_accounts(database, CREATED + 10**12) == []
    with database.transaction() as tx:
        assert resume_account(tx, mira.id, CREATED + MINUTE)
        assert not resume_account(tx, mira.id, CREATED + MINUTE)
    assert (now(database).state, now(database).next_poll_at) == ("new", CREATED + MINUTE)
    share(database, cursor=WHOLE)
    with database.transaction() as tx:
        pause_account(tx, mira.id, None, CREATED)
        resume_account(tx, mira.id, CREATED)
    assert now(database).state == "established"
    assert count_accounts(database) == {"established": 1}


def test_an_account_reset_clears_only_its_position(database: Database, mira: AccountRow) -> None:
    share(database, post(MIRA, "a"), cursor=WHOLE, gaps=[Gap(None, "token", CREATED)])
    polled(database, mira, posts=1)
    with database.transaction() as tx:
        assert reset_account(tx, mira.id, CREATED + MINUTE)
        assert not reset_account(tx, 4711, CREATED)
    after = now(database)
    assert (after.state, after.next_poll_at, after.posts_fetched_count) == ("new", CREATED + MINUTE, 1)
    stored = dump(database)
    assert (stored["cursors"], stored["gaps"], len(stored["posts"])) == ([], [], 1)


def test_posts_of_a_removed_account_are_kept(database: Database, mira: AccountRow) -> None:
    bad = Rejected(uri_of(MIRA, "bad"), None, b"{}", "no date")
    share(database, post(MIRA, "a", links=(link("https://a.test"),)), cursor=WHOLE, rejected=[bad])
    with database.transaction() as tx:
        assert remove_account(tx, mira.id)
        assert not remove_account(tx, mira.id)
    stored = dump(database)
    assert (stored["accounts"], stored["cursors"], stored["quarantine"]) == ([], [], [])
    assert database.read("SELECT account_id FROM posts") == [(None,)]
    assert list_posts(database, PostFilter(author="mira.test")).total == 1
    follow(database, MIRA)
    share(database, post(MIRA, "a", cid="c2"))
    assert database.read("SELECT account_id FROM posts") == [(now(database).id,)]


def test_an_account_keeps_its_history_when_its_handle_changes(database: Database, mira: AccountRow) -> None:
    share(database, post(MIRA, "a"))
    document(database)
    with database.transaction() as tx:
        rename_account(tx, MIRA, "mira.example", CREATED + 1)
    document(database)
    assert find_account(database, "mira.example").id == mira.id
    assert list_posts(database, PostFilter(author="mira.example")).total == 1
    assert database.read("SELECT title FROM documents") == [("@mira.example",)]


def test_a_reassigned_handle_belongs_to_its_current_account(database: Database, mira: AccountRow) -> None:
    follow(database, NOOR)
    with database.transaction() as tx:
        rename_account(tx, NOOR, "mira.test", CREATED)
    assert find_account(database, "mira.test").did == NOOR
    assert now(database).handle == NO_HANDLE
    with database.transaction() as tx:
        rename_account(tx, NOOR, NO_HANDLE, CREATED)
    with pytest.raises(UserError, match="2 accounts"):
        find_account(database, NO_HANDLE)
    assert find_account(database, MIRA).id == mira.id


def test_accounts_are_listed_by_handle_and_state(database: Database) -> None:
    _, noor = follow(database, MIRA, NOOR)
    with database.transaction() as tx:
        note_unavailable(tx, noor.id, "404", CREATED)
        note_home(tx, noor.id, "https://pds.test", CREATED)
    assert [account.handle for account in list_accounts(database)] == [HANDLES[MIRA], HANDLES[NOOR]]
    assert [account.pds_url for account in list_accounts(database, "unavailable")] == ["https://pds.test"]
    assert count_accounts(database) == {"new": 1, "unavailable": 1}


def test_polling_positions_are_readable_through_the_documented_view(database: Database, mira: AccountRow) -> None:
    follow(database, NOOR)
    share(database, cursor=WHOLE)
    polled(database, mira, posts=7)
    rows = database.read(
        "SELECT user_handle, last_cursor, last_polled_at, posts_fetched_count FROM poll_state ORDER BY 1"
    )
    assert rows == [
        ("mira.test", "2023-11-14T22:13:18.374Z", "2023-11-14T22:13:20.000Z", 7),
        ("noor.test", None, None, 0),
    ]
    assert account_scope(mira, "feed").surface == list_cursors(database)[0].surface
