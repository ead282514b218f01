"""An issue that a token may not see for a while: confidential ones are left out of lists and answer 404."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench


@pytest.mark.parametrize("how", ["scrub", "full"])
def test_an_issue_that_was_hidden_from_a_token_comes_back_whole(bench: Bench, how: str) -> None:
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, issues=5, discussions=2, notes=2, events=1)
    bench.world.advance(DAY)
    bench.mirror("issues")
    notes = bench.column("SELECT remote_id FROM notes ORDER BY remote_id")

    def without(rows: Any) -> Any:
        return [row for row in rows if row["iid"] != 2] if isinstance(rows, list) else rows

    hidden = bench.world.rewrite(r"/issues$", without)
    bench.world.faults.add("status", re.compile(r"/issues/2(/.*)?$"), times=None, status=404)
    bench.world.advance(DAY)
    bench.robot("scrub", "--all")
    assert hidden.fired
    assert bench.column("SELECT iid FROM issues WHERE deleted_at IS NULL ORDER BY iid") == [1, 3, 4, 5]
    bench.world.rewrites.clear()
    bench.world.faults.clear()
    bench.world.advance(DAY)
    if how == "scrub":
        bench.robot("scrub", "--all")
    bench.mirror("issues", *(["--full"] if how == "full" else []))
    assert bench.column("SELECT iid FROM issues WHERE deleted_at IS NULL ORDER BY iid") == [1, 2, 3, 4, 5]
    assert bench.column("SELECT remote_id FROM notes ORDER BY remote_id") == notes
