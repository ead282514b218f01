"""What is left of rate limits, as rows. Owns the table `source_budgets`; nothing rests on it."""

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
