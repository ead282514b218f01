"""Whom we follow on Bluesky. Owns the table `accounts`: identity, state, and when each is asked next.

Identity is the DID: a handle that changes keeps its history, and a handle that went to somebody else leads to them.
What a person paused stays paused whatever a poll that is still running finds. Whoever is removed leaves their posts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import Scope
from tidelore.core.references import clean_name
from tidelore.store.database import Database, Transaction
from tidelore.store.posts import mark_posts

State = Literal["new", "established", "unavailable", "paused"]
Mode = Literal["feed", "records"]

SOURCE = "bluesky"
SURFACES: dict[Mode, str] = {"feed": "bluesky.author_feed", "records": "bluesky.records"}
NO_HANDLE = "handle.invalid"
"""What the network itself calls an account whose handle is not, or no longer, its own."""


CONFIGURED = "config:"
"""How `added_by` begins for an account of the configuration; the name it has there follows, whatever its handle is."""


class NewAccount(Struct, frozen=True):
    """Somebody to follow."""

    did: str
    handle: str
    display_name: str | None = None
    mode: Mode | None = None
    pds_url: str | None = None


class AccountRow(Struct, frozen=True):
    """An account as it stands. `mode` is None where the setting decides."""

    id: int
    did: str
    handle: str
    display_name: str | None
    state: State
    reason: str | None
    mode: Mode | None
    pds_url: str | None
    pds_resolved_at: int | None
    added_by: str
    next_poll_at: int
    interval_seconds: int
    last_post_at: int | None
    last_polled_at: int | None
    posts_fetched_count: int
    failures: int
    last_error: str | None
    created_at: int
    updated_at: int


class Added(Struct, frozen=True):
    """Which accounts, by DID, are followed anew, and which were already."""

    created: list[str]
    known: list[str]


_COLUMNS = ", ".join(AccountRow.__struct_fields__)


def account_scope(account: AccountRow, mode: Mode) -> Scope:
    """Return the scope under which one way of reading an account keeps its position."""
    return Scope(SOURCE, SURFACES[mode], account.did, None, account.handle)


def add_accounts(
    tx: Transaction, accounts: Sequence[NewAccount], added_by: str, interval_seconds: int, now_ms: int
) -> Added:
    """Follow accounts, due at once; one that is followed already only learns its handle and what else is new."""
    wanted = {account.did: account for account in accounts}
    rows = tx.execute(f"SELECT did FROM accounts WHERE did {tx.among('dids')}", {"dids": tx.texts(wanted)})
    known = {did for (did,) in rows}
    for account in wanted.values():
        _give_up_handle(tx, account.handle, account.did)
        if account.did in known:
            rename_account(tx, account.did, account.handle, now_ms, display_name=account.display_name)
    tx.execute_many(
        "INSERT INTO accounts (did, handle, display_name, state, mode, pds_url, pds_resolved_at, added_by,"
        " next_poll_at, interval_seconds, created_at, updated_at)"
        " VALUES (:did, :handle, :display_name, 'new', :mode, :pds_url,"
        " CASE WHEN CAST(:pds_url AS TEXT) IS NULL THEN NULL ELSE CAST(:now AS BIGINT) END, :added_by, :now,"
        " :interval, :now, :now)",
        [
            {
                "did": account.did,
                "handle": account.handle,
                "display_name": account.display_name,
                "mode": account.mode,
                "pds_url": account.pds_url,
                "added_by": added_by,
                "interval": interval_seconds,
                "now": now_ms,
            }
            for account in wanted.values()
            if account.did not in known
        ],
    )
    return Added([did for did in wanted if did not in known], [did for did in wanted if did in known])


def find_account(database: Database, name: str) -> AccountRow:
    """Return the account that is meant by a handle, with or without its @, or by a DID."""
    word = name.strip().removeprefix("@")
    rows = database.read(
        f"SELECT {_COLUMNS} FROM accounts WHERE did = :name OR handle = :handle", {"name": word, "handle": word.lower()}
    )
    if not rows:
        raise _unknown(database, name, word)
    if len(rows) > 1:
        raise UserError(
            f"{name} matches {len(rows)} accounts",
            fix=f"use the DID: {', '.join(row[1] for row in rows)}",
            account=name,
        )
    return AccountRow(*rows[0])


def list_accounts(database: Database, state: State | None = None) -> list[AccountRow]:
    """Return the accounts, or those in one state, by handle."""
    narrowed = "" if state is None else " WHERE state = :state"
    rows = database.read(
        f"SELECT {_COLUMNS} FROM accounts{narrowed} ORDER BY handle, id", {} if state is None else {"state": state}
    )
    return [AccountRow(*row) for row in rows]


def configured_only(configured: Sequence[str], rows: Sequence[AccountRow]) -> list[str]:
    """Return the accounts of the configuration that are not followed yet: the next poll adds them."""
    known = {row.did for row in rows} | {row.handle for row in rows}
    known |= {row.added_by.removeprefix(CONFIGURED) for row in rows if row.added_by.startswith(CONFIGURED)}
    return [name for name in dict.fromkeys(map(clean_name, configured)) if name not in known]


def count_accounts(database: Database) -> dict[str, int]:
    """Return how many accounts there are in each state."""
    return dict(database.read("SELECT state, COUNT(*) FROM accounts GROUP BY state ORDER BY state"))


def due_accounts(database: Database, now_ms: int, limit: int | None = None) -> list[AccountRow]:
    """Return whoever should be asked now, the longest overdue first; whoever is paused is not."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM accounts WHERE state <> 'paused' AND next_poll_at <= :now"
        " ORDER BY next_poll_at, id LIMIT :limit",
        {"now": now_ms, "limit": 2**62 if limit is None else limit},
    )
    return [AccountRow(*row) for row in rows]


def count_due(database: Database, now_ms: int) -> int:
    """Return how many should be asked now."""
    rows = database.read(
        "SELECT COUNT(*) FROM accounts WHERE state <> 'paused' AND next_poll_at <= :now", {"now": now_ms}
    )
    return int(rows[0][0])


def next_due_at(database: Database) -> int | None:
    """Return when the next account is due; None when nobody is followed."""
    rows = database.read("SELECT MIN(next_poll_at) FROM accounts WHERE state <> 'paused'")
    return None if rows[0][0] is None else int(rows[0][0])


def rename_account(tx: Transaction, did: str, handle: str, now_ms: int, *, display_name: str | None = None) -> None:
    """Give an account its handle of today; its posts are found under that one too."""
    _give_up_handle(tx, handle, did)
    params = {"did": did, "handle": handle, "name": display_name, "now": now_ms}
    renamed = tx.change(
        "UPDATE accounts SET handle = :handle, display_name = COALESCE(:name, display_name), updated_at = :now"
        " WHERE did = :did AND (handle <> :handle OR display_name IS DISTINCT FROM COALESCE(:name, display_name))",
        params,
    )
    if not renamed:
        return
    rows = tx.execute(
        "UPDATE posts SET author_handle = :handle WHERE author_did = :did"
        " AND author_handle IS DISTINCT FROM :handle RETURNING id",
        {"did": did, "handle": handle},
    )
    mark_posts(tx, [row_id for (row_id,) in rows], now_ms)


def note_home(tx: Transaction, account_id: int, pds_url: str, now_ms: int) -> None:
    """Remember where an account's own repository is served."""
    tx.execute(
        "UPDATE accounts SET pds_url = :url, pds_resolved_at = :now, updated_at = :now WHERE id = :id",
        {"id": account_id, "url": pds_url, "now": now_ms},
    )


def _unknown(database: Database, name: str, word: str) -> NotFound:
    from difflib import get_close_matches

    handles = [handle for (handle,) in database.read("SELECT handle FROM accounts ORDER BY handle")]
    near = get_close_matches(word.lower(), handles, n=1)
    return NotFound(
        f"{name} is not followed",
        fix=f"did you mean {near[0]}?" if near else "`lore accounts list` shows followed accounts",
        account=name,
    )


def _give_up_handle(tx: Transaction, handle: str, owner: str) -> None:
    """A handle has one owner: whoever had it before has none until we learn their new one."""
    if handle != NO_HANDLE:
        tx.execute(
            "UPDATE accounts SET handle = :none WHERE handle = :handle AND did <> :owner",
            {"none": NO_HANDLE, "handle": handle, "owner": owner},
        )
