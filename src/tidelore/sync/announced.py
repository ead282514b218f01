"""Refresh items that a forge announced although their lists show no change.

A push, a comment within a minute of the last change, a deleted comment and a resolved thread may leave the update time
of their item as it is. The item is fetched by itself, and what was said in it becomes due. One that is gone becomes a
tombstone: the address of a transferred issue leads to the comments in its new project. Items that are not stored are
left to their lists: those decide what is mirrored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidelore.core.concurrency import for_each
from tidelore.core.errors import RemoteError
from tidelore.engine.ports import Parent
from tidelore.store.mirror.child_progress import make_due, parents_by_number
from tidelore.store.mirror.parents import bury
from tidelore.store.work.session import Session
from tidelore.sync.children import CONVERSATIONS, kinds_of
from tidelore.sync.comment_parents import ParentFetcher
from tidelore.sync.lists import IsOver, why_unavailable
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import ScopeReport

AnnouncedItems = Mapping[tuple[str, str], Mapping[str, Collection[int]]]
"""Numbers of items by host and configured project, then by list."""


async def refresh_announced(
    session: Session,
    pairs: Sequence[tuple[ListTarget, ScopeReport]],
    announced: AnnouncedItems,
    is_over: IsOver,
) -> None:
    """Fetch the announced items that are stored; make what was said in them due, or tombstone them if they are gone."""
    for target, report in pairs:
        numbers = announced.get((target.source.name, target.configured), {}).get(target.resource, ())
        if numbers and target.has_parents and report.home is not None and report.error is None:
            await _refresh(session, target, report, numbers, is_over)


async def _refresh(
    session: Session, target: ListTarget, report: ScopeReport, numbers: Collection[int], is_over: IsOver
) -> None:
    home, shop = report.home, session.shop
    assert home is not None, "only known projects are refreshed"
    kind = target.family.kind
    fetcher = ParentFetcher(session, target, home)
    gone: set[int] = set()

    async def fetch(parent: Parent) -> None:
        if not is_over() and not await fetcher.fetch(parent.iid, pulls_only=target.resource == "merge_requests"):
            gone.add(parent.id)

    known = parents_by_number(shop.database, kind, home.id, numbers)
    try:
        await for_each(known, fetch, shop.config.sync.dependent_concurrency)
    except RemoteError as error:
        report.skipped = why_unavailable(target, error)
        report.error = None if report.skipped is not None else error
        return
    report.tally.gone += len(gone)
    with session.writing() as tx:
        bury(tx, target.scope(home), kind, gone, shop.clock.now_ms())
        for name in CONVERSATIONS.intersection(kinds_of(target, shop.config)):
            make_due(tx, kind, name, home.id, [parent.id for parent in known if parent.id not in gone])
