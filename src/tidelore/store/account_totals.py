"""How the followed accounts stand as a whole: a few numbers, whatever their number. Owns no table."""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.accounts import SOURCE, SURFACES, count_accounts
from tidelore.store.database import Database

STATES = ("established", "new", "unavailable", "paused")
"""As people are told of them."""


class AccountTotals(Struct, frozen=True):
    """Accounts by state, and those among them that wait. Whoever is paused is neither due nor late.

    `oldest_poll` is when the account was asked that was not asked for the longest time; None while one never was.
    """

    states: dict[str, int]
    due: int
    never_polled: int
    oldest_poll: int | None
    gaps: int

    @property
    def accounts(self) -> int:
        return sum(self.states.values())


def read_account_totals(database: Database, now_ms: int) -> AccountTotals:
    """Return the numbers."""
    states = count_accounts(database)
    due, never, oldest = database.read(
        "SELECT COUNT(CASE WHEN next_poll_at <= :now THEN 1 END), COUNT(CASE WHEN last_polled_at IS NULL THEN 1 END),"
        " MIN(last_polled_at) FROM accounts WHERE state <> 'paused'",
        {"now": now_ms},
    )[0]
    gaps = database.read(
        "SELECT COUNT(*) FROM gaps WHERE source = :source AND surface = :feed",
        {"source": SOURCE, "feed": SURFACES["feed"]},
    )[0][0]
    return AccountTotals({state: int(count) for state, count in states.items()}, due, never, oldest, gaps)
