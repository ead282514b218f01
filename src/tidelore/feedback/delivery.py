"""Handing events out. Owns who gets the next one, and what a failure leads to: a pause, then a block.

The steps of a queue: what waits at source issues is batched, the oldest event that is ready is leased, and it is
done once, or fails with a growing pause. Past the limit its pull request is blocked with the last error, so that
nothing after it is handed out over its head. Errors are stored without secrets. Refuses to run anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidelore.core.config import RepoSettings
from tidelore.core.errors import IllegalTransition
from tidelore.feedback.lifecycle import block
from tidelore.feedback.routing import batch_event
from tidelore.feedback.tracking import HANDLER_FAILED
from tidelore.http.redaction import redact
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import EventRow, ack, find_event, lease_next, nack
from tidelore.store.work.followed_issues import batch_followups, waiting_followups
from tidelore.store.work.tracked_pull_requests import AWAITING, find_tracked

LONGEST_PAUSE_SECONDS = 3600.0
_LONGEST_ERROR = 4000
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_?KEY", re.IGNORECASE)


def next_event(
    database: Database,
    projects: Sequence[ProjectRow],
    now_ms: int,
    lease_seconds: float,
    holder: str,
    *,
    pr: int | None = None,
    include_closed: bool = False,
) -> EventRow | None:
    """Lease the oldest event that is ready in these projects; None when nothing is."""
    for project in projects:
        for issue_number in waiting_followups(database, project.id):
            with database.transaction() as tx:
                batch_followups(tx, project.id, issue_number, batch_event, now_ms)
    ids = [project.id for project in projects]
    return lease_next(
        database,
        now_ms,
        round(lease_seconds * 1000),
        holder,
        pr=pr,
        project_ids=ids,
        include_closed=include_closed,
    )


def succeed(database: Database, handle: int | str, now_ms: int) -> EventRow:
    """Note that an event was acted on, by its lease or its number."""
    return ack(database, handle, now_ms)


def fail(
    database: Database, source_name: str, handle: int | str, error: str, settings: RepoSettings, now_ms: int
) -> EventRow:
    """Note that acting on an event failed: it is handed out again later, or its pull request is blocked."""
    text = redact(error, _secrets(os.environ)).strip()[-_LONGEST_ERROR:] or "no error message given"
    before = find_event(database, handle if isinstance(handle, int) else int(handle.partition("-")[0] or 0))
    exhausted = before.attempts + 1 >= settings.handler_max_attempts
    # Where there is no pull request to block, the event itself rests.
    pause = LONGEST_PAUSE_SECONDS if exhausted else pause_seconds(before.attempts + 1, settings.handler_backoff_seconds)
    event = nack(database, handle, error=text, next_attempt_at=now_ms + round(pause * 1000))
    if event.processed_at is None and event.attempts >= settings.handler_max_attempts and event.pr_number is not None:
        row = find_tracked(database, event.project_id, event.pr_number)
        if row is not None and row.status == AWAITING:
            # Whoever moved it on meanwhile had a reason of their own.
            with suppress(IllegalTransition):
                block(database, source_name, row, HANDLER_FAILED, text, now_ms)
    return event


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are secret by their names; programs print them in their errors."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name)]


def pause_seconds(attempts: int, first_seconds: float) -> float:
    """Return how long an event rests after its 1st, 2nd, … failure: doubling, up to an hour."""
    return float(min(LONGEST_PAUSE_SECONDS, first_seconds * 2.0 ** min(attempts - 1, 30)))
