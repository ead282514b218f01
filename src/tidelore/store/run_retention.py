"""How long the run ledger remembers. Owns which rows of `sync_runs` are forgotten; refuses those that still matter.

What ended well is kept for so many days, what did not for longer. Kept in any case: what runs, the newest row (numbers
are never given twice), the last that ended well of each command, and the one by which the copy was last brought up to
date. Rows go some at a time, so that nobody who writes is kept waiting.
"""

from __future__ import annotations

from tidelore.store.database import Database

FAILED_TIMES = 4
"""How many times as long a run is kept that did not end well: it is looked for later."""
_DAY_MS = 86_400_000
_AT_ONCE = 1000

_OLD = (
    "finished_at < (CASE WHEN status = 'succeeded' THEN :well ELSE :unwell END) AND status <> 'running'"
    " AND id < (SELECT MAX(id) FROM sync_runs)"
    " AND id NOT IN (SELECT MAX(id) FROM sync_runs WHERE status IN ('succeeded', 'partial') GROUP BY command)"
    " AND id NOT IN (SELECT id FROM sync_runs WHERE mirrored_at IS NOT NULL ORDER BY mirrored_at DESC, id DESC LIMIT 1)"
)


def forget_runs(database: Database, now_ms: int, keep_days: float) -> int:
    """Forget the runs that are old enough; return how many there were."""
    well = now_ms - round(keep_days * _DAY_MS)
    unwell = now_ms - round(keep_days * FAILED_TIMES * _DAY_MS)
    forgotten = 0
    while True:
        with database.transaction() as tx:
            gone = tx.change(
                f"DELETE FROM sync_runs WHERE id IN (SELECT id FROM sync_runs WHERE {_OLD} ORDER BY id LIMIT :some)",
                {"well": well, "unwell": unwell, "some": _AT_ONCE},
            )
        forgotten += gone
        if gone < _AT_ONCE:
            return forgotten
