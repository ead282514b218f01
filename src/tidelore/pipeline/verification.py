"""Verification: what no cursor can see. Owns how the share of a run is divided, and the children's part of it.

Lists and children have half of the share each, the least recently verified first. What was read since the run began
is not read once more. What costs more requests than are left (events are three lists) has its turn all the same, and
the runs between save up for it. What the lists show to have changed in silence is read at once, at no cost to the
share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from tidelore.core.config import sync_settings
from tidelore.core.errors import RemoteError
from tidelore.engine.ports import Parent
from tidelore.pipeline.dependents import Brood, kinds_of, sync_children
from tidelore.pipeline.ingest import Target
from tidelore.pipeline.projects import find_chosen, reason_to_skip
from tidelore.pipeline.report import ChildReport, OnProgress, ScopeReport, silent
from tidelore.pipeline.scrub import Candidate, scrub
from tidelore.pipeline.slices import IsOver, never
from tidelore.session import Session


class Turn(Struct, frozen=True):
    """One parent whose children may be read again."""

    verified_at: int
    place: int
    kind: str
    parent: Parent


class Round(Struct):
    """The children that are to be read again, and whose they are."""

    broods: dict[tuple[int, str], Brood] = field(default_factory=dict)
    reports: dict[int, ScopeReport] = field(default_factory=dict)
    chosen: dict[tuple[int, str], list[Parent]] = field(default_factory=dict)
    cost: int = 0


def share_out(budget: int, run_id: int) -> tuple[int, int]:
    """Divide a budget between lists and children; of an odd one the rest goes to each in turn.

    The turn is not the parity of the number: whoever reads issues and merge requests by turns would verify only
    the lists of the one and only the children of the other. This sequence stays on no side for more than two runs
    in a row, nor for more than two of every second run.
    """
    lists = (budget + run_id.bit_count() % 2) // 2
    return lists, budget - lists


async def verify(
    session: Session,
    turns: Sequence[Candidate],
    budget: int,
    requests: Callable[[], int],
    before: int,
    on_progress: OnProgress = silent,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Spend a budget on verification, while there is time, and report what was looked at."""
    lists, children = share_out(budget, session.run.id)
    targets = [turn.target for turn in turns]
    # What the children do not need goes to the lists.
    unneeded = max(0, children - plan(session, targets, children, before).cost)
    scrubbed = await scrub(session, turns, lists + unneeded, requests, on_progress, is_over)
    by_scope = {(target.source.name, target.configured, target.surface): target for target in targets}
    pairs = [(by_scope[report.source, report.configured, report.surface], report) for report in scrubbed]
    await sync_children(session, pairs, on_progress, before, is_over)
    refused = {report.source for report in scrubbed if report.error is not None}
    # Planned anew: the lists have shown what is gone, and what changed in silence was read just then.
    return [*scrubbed, *await _read_again(plan(session, targets, children, before, is_over), refused, on_progress)]


def plan(session: Session, targets: Sequence[Target], budget: int, before: int, is_over: IsOver = never) -> Round:
    """Choose the children that were not read for the longest time; asks nobody."""
    found, shop = Round(), session.shop
    turns: list[Turn] = []
    for place, target in enumerate(targets):
        project = find_chosen(shop.database, target.source.name, target.configured, target.listed)
        if project is None or target.failure is not None or reason_to_skip(shop.config, project) is not None:
            continue
        report = ScopeReport(target.source.name, target.surface, target.configured, project.path, home=project)
        found.reports[place] = report
        for kind in kinds_of(target.resource, sync_settings(shop.config, target.source.name, target.configured)):
            child = report.children.setdefault(kind, ChildReport(kind))
            brood = found.broods[place, kind] = Brood(session, target, project, child, is_over=is_over)
            if child.unavailable is not None:
                continue
            turns += [Turn(at, place, kind, parent) for at, parent in brood.nursery.least_verified(budget, before)]
    for turn in sorted(turns, key=lambda turn: turn.verified_at):
        each = found.broods[turn.place, turn.kind].requests_each
        dear = found.cost + each > budget
        if dear and session.run.id // 2 % each:
            # What costs more than is left has its turn in one run of as many as it costs; the others save up for it.
            found.cost = budget
        else:
            found.chosen.setdefault((turn.place, turn.kind), []).append(turn.parent)
            found.cost += each
        if found.cost >= budget:
            break
    return found


async def _read_again(again: Round, refused: set[str], on_progress: OnProgress) -> list[ScopeReport]:
    done: dict[int, ScopeReport] = {}
    for (place, kind), parents in again.chosen.items():
        report = again.reports[place]
        if report.source in refused:
            continue
        done[place] = report
        try:
            await again.broods[place, kind].read(parents, on_progress)
        except RemoteError as error:
            report.error = error
            refused.add(report.source)
    return list(done.values())
