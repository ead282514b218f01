"""Rate limits, as rows. Owns the tables `source_budgets` (what is left, for display) and `source_pauses`.

A pause that a server asked for holds for every process that writes to this database, also for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tidelore.store.database import Database


class BudgetRow(Struct, frozen=True):
    """How many requests a source still allows, of how many, and when it allows all of them again, by our own clock."""

    source: str
    remaining: int
    reset_at: int | None
    updated_at: int
    allowed: int | None = None

    @property
    def is_low(self) -> bool:
        """Tell whether less than a tenth is left; of a limit nobody named, whether nothing is."""
        return self.remaining == 0 if self.allowed is None else self.remaining * 10 < self.allowed

    def is_current(self, now_ms: int) -> bool:
        """Tell whether it still says something: not after the limit has filled up again."""
        return self.reset_at is None or now_ms < self.reset_at


_NAMES = BudgetRow.__struct_fields__


def save_budgets(database: Database, rows: Iterable[BudgetRow]) -> None:
    """Write what sources said."""
    found = [{name: getattr(row, name) for name in _NAMES} for row in rows]
    if found:
        with database.transaction() as tx:
            tx.execute_many(
                "INSERT INTO source_budgets (source, remaining, reset_at, updated_at, allowed)"
                " VALUES (:source, :remaining, :reset_at, :updated_at, :allowed) ON CONFLICT (source) DO UPDATE SET"
                " remaining = excluded.remaining, reset_at = excluded.reset_at, updated_at = excluded.updated_at,"
                " allowed = excluded.allowed",
                found,
            )


def list_budgets(database: Database) -> list[BudgetRow]:
    """Return what every source said last, by name."""
    return [BudgetRow(*row) for row in sorted(database.read(f"SELECT {', '.join(_NAMES)} FROM source_budgets"))]


def save_pause(database: Database, source: str, until_ms: int, now_ms: int) -> None:
    """Record that a source asked for a pause; a longer one that is known stays."""
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO source_pauses (source, until_at, updated_at) VALUES (:source, :until, :now)"
            " ON CONFLICT (source) DO UPDATE SET until_at = excluded.until_at, updated_at = excluded.updated_at"
            " WHERE excluded.until_at > source_pauses.until_at",
            {"source": source, "until": until_ms, "now": now_ms},
        )


def paused_until(database: Database, source: str, now_ms: int) -> int | None:
    """Return until when a source asked for a pause, or None when it did not or that is over."""
    rows = database.read(
        "SELECT until_at FROM source_pauses WHERE source = :source AND until_at > :now",
        {"source": source, "now": now_ms},
    )
    return int(rows[0][0]) if rows else None
