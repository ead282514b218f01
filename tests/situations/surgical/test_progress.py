"""A surgical sync under way shows in the ledger what it has asked so far."""

from __future__ import annotations

from tests.situations.gitlab.bench import Bench
from tests.situations.surgical.theatre import operate
from tests.situations.witness import Witness


def test_preflight_requests_are_counted_while_children_are_read(filled: Bench) -> None:
    witness = Witness(filled.db, lambda _seconds: None)
    before = filled.world.requests.total()
    done = operate(filled, "--issue", "1", seam=witness)
    seen = [run for run in witness.saw if run.phase == "dependents"]
    assert seen
    assert all(0 < run.requests < filled.world.requests.total() - before for run in seen)
    assert all((run.issues_fetched, run.issues_ingested) == (1, 1) for run in seen)
    end = witness.look()
    assert end.requests == done.data["requests"] == filled.world.requests.total() - before
