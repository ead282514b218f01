"""Stores followed Bluesky accounts: identity, state, and when each is polled or verified next.

Identity is the DID (table `accounts`), so a renamed account keeps its history. States: new -> established when the
first look-back is complete; either -> unavailable when the network refuses it, and back when it responds; any -> paused
and back, only by an operator. Only an operator's command deletes a position. Removing an account keeps its posts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import Scope
from tidelore.core.references import NO_HANDLE, clean_name
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import reset_cursor
from tidelore.store.mirror.posts import mark_posts

State = Literal["new", "established", "unavailable", "paused"]
Mode = Literal["feed", "records"]

SOURCE = "bluesky"
SURFACES: dict[Mode, str] = {"feed": "bluesky.author_feed", "records": "bluesky.records"}


CONFIGURED = "config:"
"""The prefix of `added_by` for accounts from the configuration, followed by the name used there."""


class NewAccount(Struct, frozen=True):
    """An account to follow."""

    did: str
    handle: str
    display_name: str | None = None
    mode: Mode | None = None
    pds_url: str | None = None


class AccountRow(Struct, frozen=True):
    """A stored account. `mode` is None if the configuration decides."""

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
    """The DIDs of the accounts that were added, and of those that were already followed."""

    created: list[str]
    known: list[str]


_COLUMNS = ", ".join(AccountRow.__struct_fields__)


def account_scope(account: AccountRow, mode: Mode) -> Scope:
    """Return the scope of the cursor for one way of reading an account."""
    return Scope(SOURCE, SURFACES[mode], account.did, None, account.handle)


def add_accounts(
    tx: Transaction, accounts: Sequence[NewAccount], added_by: str, interval_seconds: int, now_ms: int
) -> Added:
    """Follow accounts, due immediately. For accounts already followed, only update handle and display name."""
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
    """Return the account with this handle (with or without @) or DID."""
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
    """Return all accounts, or those in one state, by handle."""
    narrowed = "" if state is None else " WHERE state = :state"
    rows = database.read(
        f"SELECT {_COLUMNS} FROM accounts{narrowed} ORDER BY handle, id", {} if state is None else {"state": state}
    )
    return [AccountRow(*row) for row in rows]


def configured_only(configured: Sequence[str], rows: Sequence[AccountRow]) -> list[str]:
    """Return the configured accounts that are not followed yet: the next poll adds them."""
    known = {row.did for row in rows} | {row.handle for row in rows}
    known |= {row.added_by.removeprefix(CONFIGURED) for row in rows if row.added_by.startswith(CONFIGURED)}
    return [name for name in dict.fromkeys(map(clean_name, configured)) if name not in known]


def count_accounts(database: Database) -> dict[str, int]:
    """Return how many accounts there are in each state."""
    return dict(database.read("SELECT state, COUNT(*) FROM accounts GROUP BY state ORDER BY state"))


class AccountRange(Struct, frozen=True):
    """Accounts by the ids of their rows, both ends included: what one of several workers polls."""

    first: int = 0
    last: int = 2**62


ALL_ACCOUNTS = AccountRange()


def account_ranges(database: Database, size: int) -> list[AccountRange]:
    """Return ranges of `size` ids that contain all accounts that are not paused; a range never changes its borders."""
    rows = database.read(
        "SELECT DISTINCT (id - 1) / :size FROM accounts WHERE state <> 'paused' ORDER BY 1", {"size": size}
    )
    return [AccountRange(number * size + 1, (number + 1) * size) for (number,) in rows]


_DUE = "FROM accounts WHERE state <> 'paused' AND next_poll_at <= :now AND id BETWEEN :first AND :last"


def due_accounts(
    database: Database, now_ms: int, limit: int | None = None, within: AccountRange = ALL_ACCOUNTS
) -> list[AccountRow]:
    """Return the accounts to poll now, the longest overdue first, without paused ones."""
    rows = database.read(
        f"SELECT {_COLUMNS} {_DUE} ORDER BY next_poll_at, id LIMIT :limit",
        {"now": now_ms, "limit": 2**62 if limit is None else limit, **asdict(within)},
    )
    return [AccountRow(*row) for row in rows]


def count_due(database: Database, now_ms: int, within: AccountRange = ALL_ACCOUNTS) -> int:
    """Return how many accounts are to be polled now."""
    return int(database.read(f"SELECT COUNT(*) {_DUE}", {"now": now_ms, **asdict(within)})[0][0])


def next_due_at(database: Database) -> int | None:
    """Return when the next account is due; None if there are no accounts to poll."""
    rows = database.read("SELECT MIN(next_poll_at) FROM accounts WHERE state <> 'paused'")
    return None if rows[0][0] is None else int(rows[0][0])


def rename_account(tx: Transaction, did: str, handle: str, now_ms: int, *, display_name: str | None = None) -> None:
    """Update an account's handle, also on its posts."""
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
    """Record the server (PDS) that hosts an account's repository."""
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
    """Clear a handle on all other accounts: it has one owner, and a previous owner's new handle is not known yet."""
    if handle != NO_HANDLE:
        tx.execute(
            "UPDATE accounts SET handle = :none WHERE handle = :handle AND did <> :owner",
            {"none": NO_HANDLE, "handle": handle, "owner": owner},
        )


FIRST_PAUSE_MS = 15 * 60_000
LONGEST_PAUSE_MS = 7 * 86_400_000
_UNLESS_PAUSED = "CASE WHEN state = 'paused' THEN 'paused' ELSE {0} END"
# The first look-back is complete if the cursor of either way of reading is complete.
_BY_POSITION = (
    "CASE WHEN EXISTS (SELECT 1 FROM cursors c WHERE c.source = :source AND c.scope = accounts.did"
    " AND c.bootstrap_complete = 1 AND c.surface IN (:feed, :records)) THEN 'established' ELSE 'new' END"
)
_TO_UNAVAILABLE = _UNLESS_PAUSED.format("'unavailable'")
_TO_NEW = _UNLESS_PAUSED.format("'new'")
_TO_WHERE_IT_STANDS = _UNLESS_PAUSED.format(_BY_POSITION)
_READING = {"source": SOURCE, "feed": SURFACES["feed"], "records": SURFACES["records"]}


class Polled(Struct, frozen=True):
    """The result of a successful poll, and when the account is due next."""

    posts: int
    last_post_at: int | None
    interval_seconds: int
    next_poll_at: int


def pause_ms(failures: int) -> int:
    """Return how long to leave an account alone after consecutive failures: doubling, at most a week."""
    return min(FIRST_PAUSE_MS << min(max(failures - 1, 0), 30), LONGEST_PAUSE_MS)


def note_polled(tx: Transaction, account_id: int, found: Polled, now_ms: int) -> None:
    """Record a successful poll; the new state depends on the stored position."""
    tx.execute(
        f"UPDATE accounts SET state = {_TO_WHERE_IT_STANDS}, last_polled_at = :now,"
        " reason = CASE WHEN state = 'paused' THEN reason END, failures = 0, last_error = NULL,"
        " posts_fetched_count = posts_fetched_count + :posts, interval_seconds = :interval, next_poll_at = :next,"
        " last_post_at = CASE WHEN last_post_at IS NULL OR last_post_at < CAST(:last_post_at AS BIGINT)"
        " THEN COALESCE(CAST(:last_post_at AS BIGINT), last_post_at) ELSE last_post_at END,"
        " updated_at = :now WHERE id = :id",
        {
            **_READING,
            "id": account_id,
            "posts": found.posts,
            "interval": found.interval_seconds,
            "next": found.next_poll_at,
            "last_post_at": found.last_post_at,
            "now": now_ms,
        },
    )


def note_unavailable(tx: Transaction, account_id: int, reason: str, now_ms: int) -> int:
    """Record that the network refuses an account; return when it is polled again, with growing pauses."""
    next_poll_at = now_ms + pause_ms(_failures(tx, account_id) + 1)
    tx.execute(
        f"UPDATE accounts SET state = {_TO_UNAVAILABLE},"
        " reason = CASE WHEN state = 'paused' THEN reason ELSE :reason END, last_polled_at = :now,"
        " failures = failures + 1, last_error = :reason, next_poll_at = :next, updated_at = :now WHERE id = :id",
        {"id": account_id, "reason": reason, "next": next_poll_at, "now": now_ms},
    )
    return next_poll_at


def note_failed(tx: Transaction, account_id: int, error: str, next_poll_at: int, now_ms: int) -> None:
    """Record a poll that failed temporarily; the state and stored data do not change."""
    tx.execute(
        "UPDATE accounts SET failures = failures + 1, last_error = :error, last_polled_at = :now,"
        " next_poll_at = :next, updated_at = :now WHERE id = :id",
        {"id": account_id, "error": error, "next": next_poll_at, "now": now_ms},
    )


def pause_account(tx: Transaction, account_id: int, reason: str | None, now_ms: int) -> bool:
    """Stop polling an account until it is resumed; return False if it was already paused."""
    return (
        tx.change(
            "UPDATE accounts SET state = 'paused', reason = :reason, updated_at = :now"
            " WHERE id = :id AND state <> 'paused'",
            {"id": account_id, "reason": reason, "now": now_ms},
        )
        > 0
    )


def resume_account(tx: Transaction, account_id: int, now_ms: int) -> bool:
    """Resume a paused account; it is due immediately and continues where it was. False if it was not paused."""
    return (
        tx.change(
            f"UPDATE accounts SET state = {_BY_POSITION}, reason = NULL, failures = 0, next_poll_at = :now,"
            " updated_at = :now WHERE id = :id AND state = 'paused'",
            {**_READING, "id": account_id, "now": now_ms},
        )
        > 0
    )


def reset_account(tx: Transaction, account_id: int, now_ms: int) -> bool:
    """Delete the position of an account: its next poll looks back like the first one. Stored posts are kept."""
    rows = tx.execute("SELECT did FROM accounts WHERE id = :id", {"id": account_id})
    if not rows:
        return False
    _forget_positions(tx, rows[0][0])
    tx.execute(
        f"UPDATE accounts SET state = {_TO_NEW},"
        " reason = CASE WHEN state = 'paused' THEN reason END, failures = 0, last_error = NULL,"
        " next_poll_at = :now, updated_at = :now WHERE id = :id",
        {"id": account_id, "now": now_ms},
    )
    return True


def remove_account(tx: Transaction, account_id: int) -> bool:
    """Stop following an account: its position is deleted, its posts are kept."""
    rows = tx.execute("DELETE FROM accounts WHERE id = :id RETURNING did", {"id": account_id})
    if not rows:
        return False
    _forget_positions(tx, rows[0][0])
    for surface in SURFACES.values():
        tx.execute(
            "DELETE FROM quarantine WHERE source = :source AND surface = :surface AND scope = :scope",
            {"source": SOURCE, "surface": surface, "scope": rows[0][0]},
        )
    return True


def _forget_positions(tx: Transaction, did: str) -> None:
    for surface in SURFACES.values():
        reset_cursor(tx, SOURCE, surface, did)


def _failures(tx: Transaction, account_id: int) -> int:
    rows = tx.execute("SELECT failures FROM accounts WHERE id = :id", {"id": account_id})
    return int(rows[0][0]) if rows else 0


_A_COLUMNS = ", ".join(f"a.{name}" for name in AccountRow.__struct_fields__)
_VERIFIABLE = (
    "FROM accounts a JOIN cursors c ON c.source = :source AND c.scope = a.did"
    " AND c.surface = CASE COALESCE(a.mode, :mode) WHEN 'feed' THEN :feed ELSE :records END"
    " WHERE a.state = 'established' AND c.bootstrap_complete = 1 AND COALESCE(c.verified_at, 0) < :before"
    " AND a.id BETWEEN :first AND :last"
)


def least_verified(
    database: Database, mode: Mode, before: int, limit: int, offset: int = 0, within: AccountRange = ALL_ACCOUNTS
) -> list[AccountRow]:
    """Return established accounts not verified since `before`; `mode` applies to accounts without their own."""
    rows = database.read(
        f"SELECT {_A_COLUMNS} {_VERIFIABLE} ORDER BY COALESCE(c.verified_at, 0), a.id LIMIT :limit OFFSET :offset",
        {**_reading(mode, before, within), "limit": limit, "offset": offset},
    )
    return [AccountRow(*row) for row in rows]


def count_verifiable(database: Database, mode: Mode, before: int, within: AccountRange = ALL_ACCOUNTS) -> int:
    """Return how many accounts have not been verified since `before`."""
    return int(database.read(f"SELECT COUNT(*) {_VERIFIABLE}", _reading(mode, before, within))[0][0])


def _reading(mode: Mode, before: int, within: AccountRange) -> dict[str, object]:
    return {
        **asdict(within),
        "source": SOURCE,
        "mode": mode,
        "feed": SURFACES["feed"],
        "records": SURFACES["records"],
        "before": before,
    }


def followed_dids(database: Database) -> list[str]:
    """Return the DIDs a stream subscribes to: all accounts that are not paused."""
    return [did for (did,) in database.read("SELECT did FROM accounts WHERE state <> 'paused' ORDER BY did")]


def make_due(tx: Transaction, dids: Iterable[str], now_ms: int) -> int:
    """Make accounts due now, ahead of schedule. Return how many were scheduled for later."""
    return tx.change(
        "UPDATE accounts SET next_poll_at = :now WHERE state <> 'paused' AND next_poll_at > :now"
        f" AND did {tx.among('dids')}",
        {"now": now_ms, "dids": tx.texts(dids)},
    )


def known_accounts(tx: Transaction, dids: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the row id and handle of each followed account."""
    rows = tx.execute(f"SELECT did, id, handle FROM accounts WHERE did {tx.among('dids')}", {"dids": tx.texts(dids)})
    return {did: (row_id, handle) for did, row_id, handle in rows}
