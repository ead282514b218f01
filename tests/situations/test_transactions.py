"""No transaction waits for the network (invariant 1)."""

from __future__ import annotations

from pathlib import Path

import apsw
from tests.properties.audit import compare
from tests.properties.inprocess import PROJECT, House

from tidelore_world.wire import Request


def test_no_transaction_waits_for_the_answer_to_a_request(tmp_path: Path) -> None:
    """Another program that asks for the write lock during a request gets it before the request is answered."""
    house = House(tmp_path, per_page=5)
    house.world.gitlab.bulk(PROJECT, issues=12, merge_requests=3)
    house.world.faults.add("invalid_timestamp", "/projects/:id/issues", 1)
    asked: list[str] = []

    def take_the_write_lock(request: Request) -> None:
        rival = apsw.Connection(str(house.path))
        # A page that is being stored beside the request is committed without its answer.
        rival.set_busy_timeout(3000)
        try:
            rival.execute("BEGIN IMMEDIATE")
            rival.execute("ROLLBACK")
        finally:
            rival.close()
        asked.append(request.path)

    house.world.before_request.append(take_the_write_lock)
    house.run()
    house.world.faults.clear()
    house.world.advance(3600)
    house.world.gitlab.delete_issue(PROJECT, 3)
    house.run(scrub_budget=1000)
    compare(house, exact=True)
    assert len({path.rpartition("/")[2] for path in asked}) >= 3, "the look-up, both lists and single items"
