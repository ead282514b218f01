"""Stores what is left of rate limits that several processes share (table `rate_budgets`).

The rules are in `http/grants.py`; this module applies them to a locked row.
"""

from __future__ import annotations

from msgspec.structs import asdict

from tidelore.core.clock import Clock
from tidelore.http.grants import Grant, Report, SharedBudget, grant, settle
from tidelore.store.database.port import Database

_NAMES = SharedBudget.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_LOCK = (
    f"INSERT INTO rate_budgets (key, {_COLUMNS}, updated_at) VALUES (:key, {', '.join(f':{name}' for name in _NAMES)},"
    " :now) ON CONFLICT (key) DO UPDATE SET key = excluded.key"
)


class RateBudgetTable:
    """Implements `BudgetPool` of `http.grants`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def exchange(self, key: str, report: Report, requests_per_second: float) -> Grant:
        now = self._clock.now_ms()
        with self._database.transaction() as tx:
            tx.execute(_LOCK, {"key": key, "now": now, **_values(SharedBudget())})
            (row,) = tx.execute(f"SELECT {_COLUMNS} FROM rate_budgets WHERE key = :key", {"key": key})
            state, granted = grant(settle(_budget(row), report, now), now, requests_per_second)
            changes = ", ".join(f"{name} = :{name}" for name in _NAMES)
            tx.execute(
                f"UPDATE rate_budgets SET {changes}, updated_at = :now WHERE key = :key",
                {"key": key, "now": now, **_values(state)},
            )
        return granted


def _budget(row: tuple[object, ...] | list[object]) -> SharedBudget:
    values = dict(zip(_NAMES, row, strict=True))
    return SharedBudget(**{**values, "is_known": bool(values["is_known"])})  # type: ignore[arg-type]


def _values(state: SharedBudget) -> dict[str, object]:
    return {**asdict(state), "is_known": int(state.is_known)}
