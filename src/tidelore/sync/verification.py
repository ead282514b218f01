"""Verify the copy: re-read lists and children to find changes that cursors do not show.

A run spends a small share of its requests on this, half on lists and half on children, the least recently verified
first. A list that could not be verified waits until the others had their turn. Children of items whose list is hidden
or refused are left out until it is verified again: they would use up the share of every run. What was read since the
run began is not read again. A kind that costs more requests than are left (events are three lists) is still verified,
but only in some runs; the runs in between save requests for it. Kinds that the source reads for many parents at once
are verified for that many with each request, together if one request reads several kinds. Children of items that the
lists show as silently changed are read at once, outside the share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.errors import RemoteError, TideloreError
from tidelore.core.progress import OnProgress, Progress, page_count, silent
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Parent
from tidelore.engine.scrub import Scrub
from tidelore.http.limits import SourceOutages, got_no_response, stops_source
from tidelore.store.mirror.cursors import load_cursor, note_unverified
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.session import Session
from tidelore.sync.children import ProjectChildren, kinds_of, sync_children
from tidelore.sync.lists import IsOver, ListRecord, list_of, never, why_unavailable, writer_for
from tidelore.sync.projects import ListTarget, reason_to_skip, resolve_project
from tidelore.sync.report import ChildReport, ScopeReport

SLICE = 200
"""How many parents to verify one kind of children of before the next kind: what was read with it waits in memory."""
UNPLANNED = 20
"""How many requests more than twice the planned ones the verification of children may take."""


class ScrubCandidate(Struct, frozen=True):
    """A scope that may be verified in this run. `tried_at`: when it was last verified, or its place after a failure."""

    target: ListTarget
    tried_at: int
    under_way: bool


def scrub_budget(wanted: int | None, requests: int, share: float) -> int:
    """Return how many requests a run spends on verification: what is wanted, or a share of its requests.

    The share is at least one request, or 0 if it is disabled.
    """
    if wanted is not None:
        return wanted
    return max(1, int(requests * share)) if share > 0 else 0


def candidate(session: Session, target: ListTarget) -> ScrubCandidate | None:
    """Return a target with the time of its last verification, or None if it is skipped or not fully read yet."""
    if target.is_feed or target.followed:
        return None
    if target.failure is not None:
        return ScrubCandidate(target, 0, under_way=True)
    project = target.stored_project(session.shop.database)
    if project is None or reason_to_skip(session.shop.config, project) is not None:
        return None
    if target.is_topics and not project.has_topics:
        return None
    cursor = load_cursor(session.shop.database, target.scope(project))
    if not cursor.complete:
        return None
    census = cursor.census
    return ScrubCandidate(target, max(census.verified_at or 0, census.failed_at or 0), census.after > 0)


async def scrub(
    session: Session,
    candidates: Sequence[ScrubCandidate],
    budget: int,
    requests: Callable[[], int],
    on_progress: OnProgress = silent,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Verify scopes, the least recently verified first, until the budget or time is spent or all are verified."""
    reports: list[ScopeReport] = []
    outages = SourceOutages(most=None)
    spent_before = requests()
    last = max((turn.tried_at for turn in candidates), default=0)
    for turn in sorted(candidates, key=lambda turn: (turn.tried_at, not turn.under_way)):
        if requests() - spent_before >= budget or is_over():
            break
        target = turn.target
        if outages.reason(target.source.name) is not None:
            continue
        report = ScopeReport(target.source.name, target.surface, target.configured, target.configured)
        reports.append(report)
        if target.failure is not None:
            report.error = target.failure
            continue
        try:
            project = await resolve_project(session, target.source, target.configured, target.listed)
            report.project = project.path
            work = _open(session, target, project, report, on_progress)
            while not await work.stride() and requests() - spent_before < budget and not is_over():
                pass
            report.home, report.server_at = project, work.intake.server_at
        except RemoteError as error:
            report.skipped = why_unavailable(target, error)
            report.error = None if report.skipped is not None else error
            outages.failed(target.source.name, error)
            if outages.reason(target.source.name) is None:
                _note_failure(session, target, last + 1, is_refused=not error.retryable)
    return reports


def _note_failure(session: Session, target: ListTarget, failed_at: int, *, is_refused: bool) -> None:
    """Let the verification of a list wait until the others had their turn."""
    database = session.shop.database
    project = target.stored_project(database)
    assert project is not None, "only lists of known projects are verified"
    scope = target.scope(project)
    with session.writing() as tx:
        census = load_cursor(database, scope).census
        note_unverified(tx, scope, replace(census, failed_at=failed_at, is_refused=is_refused))


def _open(
    session: Session, target: ListTarget, project: ProjectRow, report: ScopeReport, on_progress: OnProgress
) -> Scrub[ListRecord]:
    """Return the verification of one list."""

    def tell(tally: Tally) -> None:
        stage = f"{target.resource} verified"
        on_progress(Progress(project.path, stage, tally.fetched, None, page_count(tally.pages)))

    intake = Intake(writer_for(session, target, project), session.shop.clock.now_ms, session.shop.seam, tell)
    report.tally = intake.tally
    return Scrub(list_of(target, project, by_creation=True), intake)


class ChildTurn(Struct, frozen=True):
    """A parent whose children may be verified."""

    verified_at: int
    place: int
    kind: str
    parent: Parent


class ChildRound(Struct):
    """The children to verify, and the parents they belong to.

    `together` are the places of parents among those that the same requests read, which may be several kinds.
    """

    project_children: dict[tuple[int, str], ProjectChildren] = field(default_factory=dict)
    reports: dict[int, ScopeReport] = field(default_factory=dict)
    chosen: dict[tuple[int, str], list[Parent]] = field(default_factory=dict)
    together: dict[tuple[int, str], dict[int, int]] = field(default_factory=dict)
    cost: int = 0

    def choose(self, turn: ChildTurn, together: dict[int, int]) -> None:
        """Add the children of one kind of a parent."""
        together.setdefault(turn.parent.id, len(together))
        self.together[turn.place, turn.kind] = together
        self.chosen.setdefault((turn.place, turn.kind), []).append(turn.parent)

    def slices(self) -> Iterator[tuple[int, str, list[Parent]]]:
        """Yield some parents of each kind after the other: parents that are read together are in the same slices."""
        for (place, kind), parents in self.chosen.items():
            places = self.together[place, kind]
            by_place = sorted((places[parent.id], at) for at, parent in enumerate(parents))
            parents[:] = [parents[at] for _, at in by_place]
        most = max(map(len, self.chosen.values()), default=0)
        for start in range(0, most, SLICE):
            for (place, kind), parents in self.chosen.items():
                if parents[start : start + SLICE]:
                    yield place, kind, parents[start : start + SLICE]


def share_out(budget: int, run_id: int) -> tuple[int, int]:
    """Divide a budget between lists and children; if it is odd, the extra request goes to each of them in turn.

    The turn does not depend on the parity of the run id: a user who alternates between issues and merge requests
    would verify only the lists of one and only the children of the other. This sequence (Thue-Morse) favours one side
    in at most two consecutive runs; the same holds if only every second run is counted.
    """
    lists = (budget + run_id.bit_count() % 2) // 2
    return lists, budget - lists


async def verify(
    session: Session,
    turns: Sequence[ScrubCandidate],
    budget: int,
    requests: Callable[[], int],
    before: int,
    on_progress: OnProgress = silent,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Spend a budget on verification while there is time; return reports of what was verified."""
    lists, children = share_out(budget, session.run.id)
    targets = [turn.target for turn in turns]
    # Requests that the children do not need go to the lists.
    unneeded = max(0, children - plan(session, targets, children, before).cost)
    scrubbed = await scrub(session, turns, lists + unneeded, requests, on_progress, is_over)
    by_key = {target.key: target for target in targets}
    pairs = [(by_key[report.key], report) for report in scrubbed]
    await sync_children(session, pairs, on_progress, before, is_over)
    # A list that fails says nothing about other requests, unless its source refuses us or does not respond.
    refused = {report.source for report in scrubbed if report.error is not None and _is_of_source(report.error)}
    # Planned again: the lists have shown which items are gone, and silently changed ones were just read.
    spent = requests()

    def is_enough() -> bool:
        # Parents that are planned together may have to be read one by one.
        return is_over() or requests() - spent > 2 * again.cost + UNPLANNED

    again = plan(session, targets, children, before, is_enough)
    return [*scrubbed, *await _read_again(again, refused, on_progress)]


def plan(
    session: Session, targets: Sequence[ListTarget], budget: int, before: int, is_over: IsOver = never
) -> ChildRound:
    """Choose the least recently verified children, without making requests."""
    found, shop = ChildRound(), session.shop
    turns: list[ChildTurn] = []
    groups: dict[tuple[int, str], dict[int, int]] = {}
    for place, target in enumerate(targets):
        project = target.stored_project(shop.database)
        if project is None or target.failure is not None or reason_to_skip(shop.config, project) is not None:
            continue
        if load_cursor(shop.database, target.scope(project)).census.is_refused:
            continue
        report = ScopeReport(target.source.name, target.surface, target.configured, project.path, home=project)
        found.reports[place] = report
        for kind in kinds_of(target, shop.config):
            child = report.children.setdefault(kind, ChildReport(kind))
            children = found.project_children[place, kind] = ProjectChildren(
                session, target, project, child, is_over=is_over
            )
            if child.unavailable is not None:
                continue
            limit = budget * children.at_once
            turns += [
                ChildTurn(at, place, kind, parent) for at, parent in children.writer.least_verified(limit, before)
            ]
    for turn in sorted(turns, key=lambda turn: turn.verified_at):
        children = found.project_children[turn.place, turn.kind]
        each = children.requests_each
        together = groups.setdefault((turn.place, children.shared_requests), {})
        if turn.parent.id in together or len(together) % children.at_once:
            # The requests for other kinds of it, or for the parents before it, read this one too.
            found.choose(turn, together)
            continue
        if found.cost >= budget:
            continue
        dear = found.cost + each > budget
        if dear and session.run.id // 2 % each:
            # A kind that costs more than is left is read in one of `each` runs; the others save requests for it.
            found.cost = budget
        else:
            found.choose(turn, together)
            found.cost += each
    return found


def _is_of_source(error: TideloreError) -> bool:
    return not isinstance(error, RemoteError) or stops_source(error) or got_no_response(error)


async def _read_again(again: ChildRound, refused: set[str], on_progress: OnProgress) -> list[ScopeReport]:
    done: dict[int, ScopeReport] = {}
    for place, kind, parents in again.slices():
        report, children = again.reports[place], again.project_children[place, kind]
        if report.source in refused or children.is_stopped:
            continue
        done[place] = report
        try:
            await children.verify(parents, on_progress)
        except RemoteError as error:
            report.error = error
            refused.add(report.source)
    return list(done.values())
