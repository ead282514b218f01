"""Who works on an answer. Owns what a claim on a row of `outbox` is called, and the freeing of those of the dead.

A claim carries the identity of its process, so that what a killed one had in its hands is free at once and not when the
claim runs out. Refuses to guess: the claim of a process on another machine, or of an unknown one, lasts its time. A
claim only saves others the work of looking: whether something was written is decided by the row's attempts.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex

from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.store.action_tokens import OPEN
from tidelore.store.database import Database


def new_claim(holder: ProcessIdentity) -> str:
    """Return a name for a claim of this process that no other claim has."""
    return f"{holder.host}:{holder.pid}:{holder.started}:{token_hex(8)}"


def holder_of(claim_id: str) -> ProcessIdentity | None:
    """Return whose claim it is; None where its name does not tell."""
    parts = claim_id.rsplit(":", 3)
    if len(parts) != 4 or not (parts[1].isascii() and parts[1].isdigit()):
        return None
    return ProcessIdentity(parts[0], int(parts[1]), parts[2])


def free_dead(database: Database, now_ms: int, gone: Callable[[ProcessIdentity], bool] = is_dead) -> int:
    """Free what processes hold that are known to be gone; return how many rows that were."""
    held = database.read(f"SELECT id, claim_id FROM outbox WHERE {OPEN} AND claimed_until > :now", {"now": now_ms})
    dead = [(row, claim) for row, claim in held if (holder := holder_of(claim)) is not None and gone(holder)]
    freed = 0
    for row, claim in dead:
        with database.transaction() as tx:
            # By its name: whoever claimed the row meanwhile keeps it.
            freed += tx.change(
                "UPDATE outbox SET claim_id = NULL, claimed_until = NULL WHERE id = :id AND claim_id = :claim",
                {"id": row, "claim": claim},
            )
    return freed
