"""The integration tests the seed names for merge requests: rows, links, payloads, cursors, field names, pages."""

from __future__ import annotations

from typing import Any

from tests.situations.gitlab.bench import DAY, PROJECT, Bench, request_of

LIST = r"/merge_requests$"


def test_inserts_mrs_into_database(both: Bench) -> None:
    both.world.gitlab.bulk(PROJECT, merge_requests=7)
    both.world.advance(DAY)
    assert both.mirror()["created"] == 7
    held = both.query("SELECT remote_id, iid, title, source_branch, target_branch FROM merge_requests ORDER BY iid")
    shown = both.world.gitlab.truth_merge_requests(PROJECT)
    assert held == [(m["id"], m["iid"], m["title"], m["source_branch"], m["target_branch"]) for m in shown]


def test_creates_labels_from_mr_payloads(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, labels=["backend", "bug"])
    bench.world.gitlab.create_merge_request(PROJECT, labels=["bug", "urgent"])
    assert bench.mirror()["labels_created"] == 3
    assert bench.column("SELECT name FROM labels ORDER BY name") == ["backend", "bug", "urgent"]


def test_links_mrs_to_labels_via_junction_table(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, labels=["backend", "bug"])
    bench.world.gitlab.create_merge_request(PROJECT, labels=["bug"])
    bench.mirror()
    assert _labels(bench) == [(1, "backend"), (1, "bug"), (2, "bug")]


def test_removes_stale_label_links_on_resync(both: Bench) -> None:
    both.world.gitlab.create_merge_request(PROJECT, labels=["backend", "bug"])
    both.mirror()
    both.world.advance(DAY)
    both.world.gitlab.edit_merge_request(PROJECT, 1, labels=["bug", "urgent"])
    both.mirror()
    assert _labels(both) == [(1, "bug"), (1, "urgent")]


def test_creates_assignee_links(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, assignees=["ada", "grace"])
    assert bench.mirror()["assignees"] == 2
    assert bench.column("SELECT username FROM mr_assignees ORDER BY username") == ["ada", "grace"]


def test_creates_reviewer_links(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, reviewers=["ada", "grace"])
    assert bench.mirror()["reviewers"] == 2
    assert bench.column("SELECT username FROM mr_reviewers ORDER BY username") == ["ada", "grace"]


def test_stores_raw_payload_for_each_mr(both: Bench) -> None:
    both.world.gitlab.bulk(PROJECT, merge_requests=4)
    both.mirror()
    shown = {str(m["id"]): m for m in both.world.gitlab.truth_merge_requests(PROJECT)}
    assert both.payloads("merge_request") == shown
    assert both.one("SELECT COUNT(*) FROM merge_requests WHERE raw_payload_id IS NULL") == 0


def test_updates_cursor_at_page_boundaries(bench: Bench) -> None:
    """The third page fails: what the first two brought is stored, and so is how far they reach."""
    bench.set_up(per_page=5)
    bench.world.gitlab.bulk(PROJECT, merge_requests=20)
    fault = bench.world.faults.add("status", "GET /projects/:id/merge_requests", after=2, status=500)
    assert bench.try_mirror().code == 1
    assert fault.fired == 1
    newest = bench.query("SELECT MAX(updated_at), COUNT(*) FROM merge_requests")
    assert newest[0][1] in (9, 10), "the first item of a page may be the last of the one before"
    assert bench.one("SELECT watermark_at FROM cursors") == newest[0][0]


def test_resumes_from_cursor_on_subsequent_runs(bench: Bench) -> None:
    bench.set_up(per_page=5)
    bench.world.gitlab.bulk(PROJECT, merge_requests=20)
    fault = bench.world.faults.add("status", "GET /projects/:id/merge_requests", after=2, status=500)
    assert bench.try_mirror().code == 1
    assert fault.fired == 1
    stored = bench.one("SELECT COUNT(*) FROM merge_requests")
    again = bench.mirror()
    assert again["created"] == 20 - stored
    assert again["replayed"] <= 5, "at most one page is read again"
    assert bench.counted(bench.mirror) == {"merge_requests": 1}


def test_full_sync_resets_cursor(bench: Bench) -> None:
    bench.set_up(per_page=5)
    bench.world.gitlab.bulk(PROJECT, merge_requests=20)
    bench.world.advance(DAY)
    bench.mirror()
    again = bench.mirror("merge_requests", "--full")
    assert (again["created"], again["changed"]) == (0, 0)
    assert again["fetched"] >= 20
    assert "full" in bench.one("SELECT note FROM sync_runs ORDER BY id DESC LIMIT 1")


def test_handles_mrs_with_no_labels_assignees_reviewers(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT)
    assert bench.mirror()["created"] == 1
    for table in ("mr_labels", "mr_assignees", "mr_reviewers"):
        assert bench.one(f"SELECT COUNT(*) FROM {table}") == 0


def test_upserts_existing_mrs_on_refetch(both: Bench) -> None:
    forge = both.world.gitlab
    forge.create_merge_request(PROJECT, title="before", reviewers=["ada"])
    both.mirror()
    row = both.one("SELECT id FROM merge_requests")
    both.world.advance(DAY)
    forge.edit_merge_request(PROJECT, 1, title="after", reviewers=["grace"])
    again = both.mirror()
    assert (again["created"], again["changed"]) == (0, 1)
    assert both.query("SELECT id, title FROM merge_requests") == [(row, "after")]
    assert both.column("SELECT username FROM mr_reviewers") == ["grace"]


def test_captures_draft_status_correctly(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, draft=True)
    bench.world.gitlab.create_merge_request(PROJECT, draft=False)
    bench.mirror()
    assert bench.column("SELECT draft FROM merge_requests ORDER BY iid") == [1, 0]
    (listed,) = bench.robot("list", "mrs", "--draft").data["items"]
    assert listed["iid"] == 1


def test_uses_detailed_merge_status_over_deprecated_field(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT, draft=True)
    bench.mirror()
    assert _value(bench, "detailed_merge_status") == "draft_status"


def test_uses_merge_user_over_deprecated_merged_by(bench: Bench) -> None:
    """A server that dropped the old name altogether."""
    rewrite = bench.world.rewrite(LIST, lambda rows: [_without(row, "merged_by") for row in rows])
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.world.gitlab.merge_merge_request(PROJECT, 1, by="ada")
    bench.mirror()
    assert rewrite.fired
    assert _value(bench, "merge_user_username") == "ada"


def test_prefers_detailed_merge_status_when_both_fields_present(bench: Bench) -> None:
    both = {"detailed_merge_status": "discussions_not_resolved", "merge_status": "can_be_merged"}
    _send(bench, both)
    assert _value(bench, "detailed_merge_status") == "discussions_not_resolved"


def test_prefers_merge_user_when_both_fields_present(bench: Bench) -> None:
    _send(bench, {"merge_user": {"username": "alice"}, "merged_by": {"username": "bob"}})
    assert _value(bench, "merge_user_username") == "alice"


def test_prefers_draft_when_both_draft_and_work_in_progress_present(bench: Bench) -> None:
    """Either name makes a draft: one that says no does not take back what the other says."""
    _send(bench, {"draft": False, "work_in_progress": True})
    assert _value(bench, "draft") == 1


def test_uses_work_in_progress_when_draft_not_present(bench: Bench) -> None:
    bench.world.gitlab.old_server = True
    bench.world.gitlab.create_merge_request(PROJECT, draft=True)
    bench.mirror()
    (payload,) = bench.payloads("merge_request").values()
    assert "draft" not in payload
    assert payload["work_in_progress"]
    assert _value(bench, "draft") == 1


def test_handles_locked_mr_state(bench: Bench) -> None:
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.world.gitlab.lock_merge_request(PROJECT, 1)
    bench.mirror()
    assert _value(bench, "state") == "locked"
    asked = [target for _, target, _ in bench.world.log if "/merge_requests?" in target]
    assert asked
    assert all("state=all" in target for target in asked), "the server knows no filter for it"


def test_pagination_continues_when_headers_missing_but_full_page_returned(bench: Bench) -> None:
    """Items of one instant make the walk go on inside a window, by page numbers."""
    bench.set_up(per_page=10)
    bench.world.gitlab.strip_headers = {"link", "x-next-page", "x-total", "x-total-pages", "x-per-page", "x-page"}
    bench.world.gitlab.bulk(PROJECT, merge_requests=30, same_instant=True)
    assert bench.mirror()["created"] == 30
    assert any("page=4" in target for _, target, _ in bench.world.log), "a full last page is followed by one more"


def _labels(bench: Bench) -> list[tuple[Any, ...]]:
    return bench.query(
        "SELECT m.iid, l.name FROM mr_labels j JOIN merge_requests m ON m.id = j.merge_request_id"
        " JOIN labels l ON l.id = j.label_id ORDER BY m.iid, l.name"
    )


def _value(bench: Bench, column: str, iid: int = 1) -> Any:
    return bench.one(f"SELECT {column} FROM merge_requests WHERE iid = {iid}")


def _without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def _send(bench: Bench, fields: dict[str, Any]) -> None:
    """Mirror one merge request whose list row carries these values."""
    rewrite = bench.world.rewrite(LIST, lambda rows: [row | fields for row in rows])
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.mirror()
    assert rewrite.fired
    assert request_of(bench.world).iid == 1
