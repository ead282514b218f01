"""A mirror under way shows in the ledger how far it is, to whoever looks; at its end only its counters are left."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.faces.hosts import SteadyClock
from tests.situations.gitlab.bench import PROJECT, Bench
from tests.situations.witness import Witness, done, grows

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.core.errors import LeaseLost
from tidelore.documents import generation as documents
from tidelore.engine.crashpoint import Seam
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport

ITEMS = 25
LIST_NOTE = re.compile(rf"{PROJECT} (issues|merge requests): \d+ new or changed, \d+ pages?")
REQUEST = MirrorRequest(("issues", "merge_requests"), documents=True, statuses=False)


def run(bench: Bench, witness: Witness, clock: SteadyClock, request: MirrorRequest = REQUEST) -> RunReport:
    app = App(load_config(str(bench.config), {}), {}, str(bench.db), clock, witness)
    return asyncio.run(mirror(app, request, "lore sync"))


def busy(bench: Bench, *sync: str) -> tuple[Witness, SteadyClock]:
    """A world of some pages, and somebody who watches its mirror."""
    bench.world.gitlab.bulk(PROJECT, ITEMS, ITEMS, discussions=1, notes=2)
    bench.world.advance(3600)
    bench.set_up(*sync, per_page=5)
    clock = SteadyClock()
    return Witness(bench.db, clock.advance), clock


def test_progress_grows_page_by_page_during_a_sync(both: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "BATCH", 20)
    witness, clock = busy(both)
    report = run(both, witness, clock)
    assert {seen.status for seen in witness.saw} == {"running"}
    lists, children, docs = (witness.during(phase) for phase in ("ingest", "dependents", "docs"))
    assert grows(done(lists))
    assert {seen.progress_total for seen in lists} == {None}, "how long a list is, nobody knows before its end"
    assert all(LIST_NOTE.fullmatch(seen.progress_note or "") for seen in lists), lists
    assert grows(done(children))
    assert all(0 < (seen.progress_done or 0) <= (seen.progress_total or 0) for seen in children)
    assert all((seen.progress_note or "").startswith(f"{PROJECT} ") for seen in children)
    assert grows(done(docs))
    assert {seen.progress_total for seen in docs} == {4 * ITEMS}
    assert grows([seen.requests for seen in witness.saw])
    assert grows([seen.issues_ingested + seen.mrs_ingested for seen in witness.saw])
    assert grows([seen.issues_fetched for seen in lists])
    end = witness.look()
    assert (end.status, end.progress_done, end.progress_total, end.progress_note) == ("succeeded", None, None, None)
    assert (end.issues_ingested, end.mrs_ingested, end.issues_fetched) == (ITEMS, ITEMS, witness.saw[-1].issues_fetched)
    assert end.requests == report.requests == both.world.requests.total()


@pytest.mark.deep
def test_progress_is_shown_during_verification(bench: Bench) -> None:
    witness, clock = busy(bench)
    run(bench, witness, clock)
    witness.saw.clear()
    run(bench, witness, clock, MirrorRequest(("issues",), walk=False, scrub_budget=1000))
    seen = witness.during("scrub")
    assert grows(done(seen))
    assert any((run.progress_note or "").startswith(f"{PROJECT} issues verified: ") for run in seen)


def test_a_failed_run_keeps_the_counters_of_what_it_did(bench: Bench) -> None:
    witness, clock = busy(bench)

    class Broken(Witness):
        def __call__(self, seam: Seam) -> None:
            if len(self.visits) > 30:
                raise ZeroDivisionError
            super().__call__(seam)

    with pytest.raises(ZeroDivisionError):
        run(bench, Broken(bench.db, clock.advance), clock)
    end = witness.look()
    assert (end.status, end.progress_done) == ("failed", None)
    # The failure may have cut off a request that was sent and had not arrived.
    assert end.requests >= bench.world.requests.total() > 0
    assert end.issues_ingested == bench.one("SELECT COUNT(*) FROM issues") > 0


def test_reporting_progress_of_a_run_closed_elsewhere_does_not_stop_it(bench: Bench) -> None:
    witness, clock = busy(bench)
    closed: list[int] = []

    class Closing(Witness):
        def __call__(self, seam: Seam) -> None:
            super().__call__(seam)
            if len(self.saw) == 4 and not closed:
                closed.append(len(self.saw))
                bench.query("UPDATE sync_runs SET status = 'crashed', phase = 'crashed', finished_at = 1")

    other = Closing(bench.db, clock.advance)
    with pytest.raises(LeaseLost):
        # The next phase is what cannot be entered: until then it read on, page by page.
        run(bench, other, clock)
    assert len(other.saw) > closed[0] + 2
    assert witness.look().progress_done == other.saw[closed[0]].progress_done, "nothing was written after the end"
