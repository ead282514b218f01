"""The children of the items of a surgical run. Owns their order, their time limit, and how a failure is told.

Each kind of children of each item is read by itself, some side by side, and whatever fails leaves the others alone:
what was stored of it stays, and it stays due. A source that rejects our credentials, or limits our rate, is asked no
more. Statuses are not read here: they come by lists.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.core.concurrency import gather
from tidelore.core.config import sync_settings
from tidelore.core.errors import CredentialsRejected, IntegrityError, RateLimited, RemoteError, StorageFailed
from tidelore.engine.ports import Parent
from tidelore.pipeline.dependents import Brood, kinds_of
from tidelore.pipeline.ingest import Target
from tidelore.pipeline.preflight import FETCH_ERROR, NOT_FOUND, TIMEOUT, UNREADABLE, code_of
from tidelore.pipeline.report import ChildReport
from tidelore.pipeline.selection import Choice
from tidelore.pipeline.surgical_report import EntityOutcome
from tidelore.session import Session
from tidelore.store.mirror.documents import DocumentSource
from tidelore.store.mirror.projects import ProjectRow

STAGES = {"closes_issues": "mr_closes_issues", "diffs": "mr_diffs", "reviewers": "mr_reviewers"}
"""How a kind of children is called in a report, where that is not its own name."""


class Kin(Struct, frozen=True):
    """An item that is stored: whose children are read next, and what its documents were made of before."""

    choice: Choice
    outcome: EntityOutcome
    target: Target
    project: ProjectRow
    parent: Parent
    sources: tuple[DocumentSource, ...]


async def read_dependents(session: Session, kin: Sequence[Kin], tell: Callable[[int, int], None]) -> Counter[str]:
    """Read every wanted kind of children of every item and count them; the outcomes are told what failed."""
    config = session.shop.config
    gate = asyncio.Semaphore(config.sync.dependent_concurrency)
    stopped: dict[str, RemoteError] = {}
    jobs = [
        (one, kind)
        for one in kin
        for kind in kinds_of(one.target.resource, sync_settings(config, one.target.source.name, one.target.configured))
    ]
    done = 0
    seen: Counter[str] = Counter()

    async def work(one: Kin, kind: str) -> None:
        nonlocal done
        async with gate:
            seen.update(await _read(session, one, kind, stopped))
        done += 1
        tell(done, len(jobs))

    await gather(work(one, kind) for one, kind in jobs)
    return seen


async def _read(session: Session, one: Kin, kind: str, stopped: dict[str, RemoteError]) -> Counter[str]:
    source, stage = one.choice.source, STAGES.get(kind, kind)
    known = stopped.get(source)
    if known is not None:
        one.outcome.fail(stage, code_of(known), known.message)
        return Counter()
    child = ChildReport(kind)
    brood = Brood(session, one.target, one.project, child)
    if brood.is_paused:
        return Counter()
    seconds = session.shop.config.sync.surgical_entity_timeout_seconds
    try:
        async with asyncio.timeout(seconds):
            gone = await brood.read([one.parent])
    except TimeoutError:
        message = f"no response within {seconds:g} seconds"
        brood.nursery.record_failure(one.parent, message)
        one.outcome.fail(stage, TIMEOUT, message)
    except (CredentialsRejected, RateLimited) as error:
        stopped[source] = error
        one.outcome.fail(stage, code_of(error), error.message)
    except (StorageFailed, IntegrityError) as error:
        one.outcome.fail(stage, "WRITE_ERROR", error.message)
    else:
        if gone:
            one.outcome.fail(stage, NOT_FOUND, "deleted on the server while it was being fetched")
        elif child.tally.failed or child.tally.quarantined:
            why = brood.nursery.last_failure(one.parent)
            code = UNREADABLE if child.tally.quarantined else FETCH_ERROR
            one.outcome.fail(stage, code, why or "could not be fetched")
    return child.seen
