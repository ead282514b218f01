"""One item that no decoder accepts is put into quarantine alone, and read once it can be."""

from __future__ import annotations

from typing import Any

from tests.situations.gitlab.bench import DAY, PROJECT, Bench

LEAN = ("fetch_resource_events = false", "fetch_mr_closes_issues = false", "fetch_mr_diffs = false")


def test_an_item_with_a_lone_surrogate_is_quarantined_and_the_rest_of_its_page_is_stored(both: Bench) -> None:
    bench = both
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=5)
    bench.world.advance(DAY)

    def spoil(rows: Any) -> Any:
        return [row | {"title": "broken \ud800"} if row["iid"] == 3 else row for row in rows]

    bench.world.rewrite(r"/merge_requests$", spoil)
    scope = bench.mirror()
    assert (scope["quarantined"], scope["error"]) == (1, None)
    assert bench.column("SELECT iid FROM merge_requests ORDER BY iid") == [1, 2, 4, 5]
    bench.world.rewrites.clear()
    bench.query("UPDATE quarantine SET next_attempt_at = 0")
    bench.mirror()
    assert bench.column("SELECT iid FROM merge_requests ORDER BY iid") == [1, 2, 3, 4, 5]
    assert bench.one("SELECT COUNT(*) FROM quarantine") == 0


def test_a_discussion_with_a_lone_surrogate_leaves_the_children_of_other_parents_alone(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=2, discussions=2, notes=1)
    bench.world.advance(DAY)

    def spoil(rows: Any) -> Any:
        rows[0]["notes"][0]["body"] = "broken \udfff"
        return rows

    bench.world.rewrite(r"/merge_requests/1/discussions$", spoil)
    scope = bench.mirror()
    assert (scope["children"]["discussions"]["quarantined"], scope["children"]["discussions"]["failed"]) == (1, 0)
    assert len(bench.bodies(2)) == 2
