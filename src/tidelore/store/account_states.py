"""How an account goes from one state to another. Owns every change of `accounts.state`, and the pauses after failures.

new -> established when its first look-back is whole; either -> unavailable when the network refuses it, and back as
soon as it answers; anything -> paused by a person, and only by a person back. A position is forgotten by an operator's
command alone: whoever is unavailable keeps it.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.accounts import SOURCE, SURFACES
from tidelore.store.cursors import reset_cursor
from tidelore.store.database import Transaction

FIRST_PAUSE_MS = 15 * 60_000
LONGEST_PAUSE_MS = 7 * 86_400_000
_UNLESS_PAUSED = "CASE WHEN state = 'paused' THEN 'paused' ELSE {0} END"
# The cursor of either way of reading says whether the first look-back is whole.
_BY_POSITION = (
    "CASE WHEN EXISTS (SELECT 1 FROM cursors c WHERE c.source = :source AND c.scope = accounts.did"
    " AND c.bootstrap_complete = 1 AND c.surface IN (:feed, :records)) THEN 'established' ELSE 'new' END"
)
_TO_UNAVAILABLE = _UNLESS_PAUSED.format("'unavailable'")
_TO_NEW = _UNLESS_PAUSED.format("'new'")
_TO_WHERE_IT_STANDS = _UNLESS_PAUSED.format(_BY_POSITION)
_READING = {"source": SOURCE, "feed": SURFACES["feed"], "records": SURFACES["records"]}


class Polled(Struct, frozen=True):
    """What a poll that succeeded found, and when the account is to be asked next."""

    posts: int
    last_post_at: int | None
    interval_seconds: int
    next_poll_at: int


def pause_ms(failures: int) -> int:
    """Return how long to leave an account alone after so many failures in a row: doubling, at most a week."""
    return min(FIRST_PAUSE_MS << min(max(failures - 1, 0), 30), LONGEST_PAUSE_MS)


def note_polled(tx: Transaction, account_id: int, found: Polled, now_ms: int) -> None:
    """Record a poll that succeeded; its state follows from the position that was stored."""
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
    """Record that the network refuses an account; return when it is asked again, later each time."""
    next_poll_at = now_ms + pause_ms(_failures(tx, account_id) + 1)
    tx.execute(
        f"UPDATE accounts SET state = {_TO_UNAVAILABLE},"
        " reason = CASE WHEN state = 'paused' THEN reason ELSE :reason END, last_polled_at = :now,"
        " failures = failures + 1, last_error = :reason, next_poll_at = :next, updated_at = :now WHERE id = :id",
        {"id": account_id, "reason": reason, "next": next_poll_at, "now": now_ms},
    )
    return next_poll_at


def note_failed(tx: Transaction, account_id: int, error: str, next_poll_at: int, now_ms: int) -> None:
    """Record a poll that failed for a reason that passes: the state and what was stored stay as they are."""
    tx.execute(
        "UPDATE accounts SET failures = failures + 1, last_error = :error, last_polled_at = :now,"
        " next_poll_at = :next, updated_at = :now WHERE id = :id",
        {"id": account_id, "error": error, "next": next_poll_at, "now": now_ms},
    )


def pause_account(tx: Transaction, account_id: int, reason: str | None, now_ms: int) -> bool:
    """Ask an account no more until it is resumed; False when it was paused already."""
    return (
        tx.change(
            "UPDATE accounts SET state = 'paused', reason = :reason, updated_at = :now"
            " WHERE id = :id AND state <> 'paused'",
            {"id": account_id, "reason": reason, "now": now_ms},
        )
        > 0
    )


def resume_account(tx: Transaction, account_id: int, now_ms: int) -> bool:
    """Ask a paused account again, at once; it goes on where it was. False when it was not paused."""
    return (
        tx.change(
            f"UPDATE accounts SET state = {_BY_POSITION}, reason = NULL, failures = 0, next_poll_at = :now,"
            " updated_at = :now WHERE id = :id AND state = 'paused'",
            {**_READING, "id": account_id, "now": now_ms},
        )
        > 0
    )


def reset_account(tx: Transaction, account_id: int, now_ms: int) -> bool:
    """Forget how far an account was read: its next poll looks back as a first one does. What is stored stays."""
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
    """Follow somebody no more: their position goes, their posts stay."""
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
