"""Before anything is written everything is fetched, and whatever fails is told at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.situations.gitlab.bench import PROJECT, Bench, OddWorld
from tests.situations.surgical.theatre import content, last_run, lease_holder, operate

from tidelore.core.clock import SystemClock
from tidelore.core.config_file import load_config
from tidelore.engine.ports import Page
from tidelore.sources.gitlab.source import open_gitlab
from tidelore.sources.ports import Wiring
from tidelore.sync.surgical_preflight import check_response


def fetch_one(bench: Bench, resource: str, iid: int) -> Page[Any]:
    """Ask the host for one item, as the preflight does."""

    async def ask() -> Page[Any]:
        config = load_config(str(bench.config), {})
        wiring = Wiring(config, SystemClock(), {}, lambda _metric: None)
        async with open_gitlab(config.gitlab[0], wiring) as source:
            project = await source.resolve(PROJECT)
            return await source.listing(resource, project.remote_id).fetch_one(str(iid))

    return asyncio.run(ask())


def codes(failures: list[dict[str, Any]]) -> dict[str, str]:
    return {failure["reference"].removeprefix(PROJECT): failure["code"] for failure in failures}


def test_get_issue_by_iid_returns_issue(filled: Bench) -> None:
    (item,) = fetch_one(filled, "issues", 2).items
    assert (item.record.iid, item.record.title) == (2, "Crane 2")


def test_get_issue_by_iid_returns_not_found(filled: Bench) -> None:
    page = fetch_one(filled, "issues", 999)
    assert (page.items, page.rejected) == ([], [])
    assert getattr(check_response(page, 1), "code", None) == "NOT_FOUND"


def test_get_mr_by_iid_returns_mr(filled: Bench) -> None:
    (item,) = fetch_one(filled, "merge_requests", 3).items
    assert (item.record.iid, item.record.title) == (3, "Winch 3")


def test_get_mr_by_iid_returns_not_found(filled: Bench) -> None:
    page = fetch_one(filled, "merge_requests", 999)
    assert (page.items, page.rejected) == ([], [])
    assert getattr(check_response(page, 1), "code", None) == "NOT_FOUND"


def test_preflight_aggregates_multiple_missing_iids(filled: Bench) -> None:
    done = operate(filled, "--issue", "1", "--issue", "888", "--mr", "999")
    assert done.code == 6
    error, data = done.error, done.document["data"]
    assert (error["code"], error["details"]["total"], data["fetched_count"]) == ("SURGICAL_PREFLIGHT_FAILED", 3, 1)
    assert codes(error["details"]["entity_failures"]) == {"#888": "NOT_FOUND", "!999": "NOT_FOUND"}
    assert {failure["stage"] for failure in data["entity_failures"]} == {"fetch"}
    assert [outcome["fetched"] for outcome in data["entity_outcomes"]] == [True, False, False]
    assert error["details"]["recovery_actions"] == data["recovery_actions"]
    assert data["recovery_actions"] == ["lore sync --retry-failed 1", f"lore sync --issue '{PROJECT}#1'"]
    assert all(reference in error["message"] for reference in ("#888", "!999"))


def test_one_preflight_failure_leaves_the_database_content_untouched(filled: Bench) -> None:
    operate(filled, "--issue", "1")
    before = content(filled)
    filled.world.advance(60)
    filled.world.gitlab.edit_issue(PROJECT, 1, title="edited")
    assert operate(filled, "--issue", "1", "--issue", "999").code == 6
    assert content(filled) == before
    assert last_run(filled, "status", "phase", "issues_fetched", "issues_ingested") == ("failed", "failed", 1, 0)


def test_an_unknown_project_is_not_stored_when_an_item_fails(filled: Bench) -> None:
    assert operate(filled, "--issue", "1", "--mr", "999").code == 6
    assert all(rows == [] for rows in content(filled).values())
    assert filled.query("SELECT * FROM leases") == []


def test_payload_project_id_mismatch_is_rejected_in_preflight(filled: Bench) -> None:
    assert isinstance(filled.world, OddWorld)
    rewrite = filled.world.rewrite(
        r"/projects/\d+/issues$", lambda items: [item | {"project_id": item["project_id"] + 1} for item in items]
    )
    done = operate(filled, "--issue", "1", "--mr", "1")
    assert rewrite.fired == 1
    assert done.code == 1
    assert codes(done.error["details"]["entity_failures"]) == {"#1": "PROJECT_MISMATCH"}
    assert [outcome["fetched"] for outcome in done.document["data"]["entity_outcomes"]] == [False, True]
    assert all(rows == [] for rows in content(filled).values())


@pytest.mark.parametrize(("field", "code"), [("project_id", 0), ("target_project_id", 1)])
def test_a_merge_request_belongs_to_the_project_it_is_merged_into(filled: Bench, field: str, code: int) -> None:
    """One from a fork names the fork as its own project."""
    assert isinstance(filled.world, OddWorld)
    rewrite = filled.world.rewrite(
        r"/projects/\d+/merge_requests$", lambda items: [item | {field: item["project_id"] + 77} for item in items]
    )
    done = operate(filled, "--mr", "1", "--no-embed")
    assert rewrite.fired == 1
    assert done.code == code, done
    assert codes(done.document["data"]["entity_failures"]) == ({"!1": "PROJECT_MISMATCH"} if code else {})


def test_a_payload_that_cannot_be_parsed_is_reported_and_nothing_is_stored(filled: Bench) -> None:
    assert isinstance(filled.world, OddWorld)
    spoil: Callable[[Any], Any] = lambda items: [item | {"updated_at": "soon"} for item in items]  # noqa: E731
    filled.world.rewrite(r"/projects/\d+/issues$", spoil)
    done = operate(filled, "--issue", "1")
    assert (done.code, codes(done.error["details"]["entity_failures"])) == (1, {"#1": "UNREADABLE"})
    assert "updated_at" in done.error["details"]["entity_failures"][0]["message"]
    assert all(rows == [] for rows in content(filled).values())


@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        ({"status": 401}, "AUTH_FAILED", 4),
        ({"status": 429, "retry_after": 100_000}, "RATE_LIMITED", 5),
        ({"status": 500}, "FETCH_ERROR", 1),
    ],
)
def test_a_failing_host_decides_the_exit_code(filled: Bench, fault: dict[str, int], code: str, exit_code: int) -> None:
    operate(filled, "--issue", "1", "--no-embed")
    planned = filled.world.faults.add("status", "GET /projects/:id/merge_requests", None, **fault)
    done = operate(filled, "--mr", "1", "--issue", "999")
    assert planned.fired
    assert done.code == exit_code
    assert codes(done.error["details"]["entity_failures"])["!1"] == code
    assert done.error["retryable"] is (code != "AUTH_FAILED")


def test_a_host_that_rejects_the_credentials_is_not_tried_again(filled: Bench) -> None:
    filled.set_up("dependent_concurrency = 1")
    operate(filled, "--issue", "1", "--no-embed")
    filled.world.faults.add("status", None, None, status=401)
    asked = filled.counted(lambda: operate(filled, *(word for iid in "1234" for word in ("--issue", iid))))
    assert asked.total() == 1
    assert set(codes(operate(filled, "--issue", "1", "--issue", "2").error["details"]["entity_failures"]).values()) == {
        "AUTH_FAILED"
    }


def test_an_item_that_times_out_is_reported_with_the_results_of_the_others(filled: Bench) -> None:
    filled.set_up("surgical_entity_timeout_seconds = 0.3")
    operate(filled, "--issue", "1", "--no-embed")
    slow = filled.world.faults.add("slow", re.compile(r"/merge_requests$"), None, seconds=3)
    done = operate(filled, "--issue", "1", "--mr", "1", "--issue", "999")
    assert slow.fired
    assert done.code == 1
    assert codes(done.error["details"]["entity_failures"]) == {"!1": "TIMEOUT", "#999": "NOT_FOUND"}
    assert done.document["data"]["stage_timings_ms"]["preflight"] < 2000


def test_an_item_deleted_remotely_is_reported_and_kept_locally(filled: Bench) -> None:
    operate(filled, "--issue", "2", "--no-embed")
    filled.world.gitlab.delete_issue(PROJECT, 2)
    before = content(filled)
    done = operate(filled, "--issue", "2")
    assert done.code == 6
    (failure,) = done.error["details"]["entity_failures"]
    assert (failure["code"], failure["held"]) == ("NOT_FOUND", True)
    assert "the local copy was not changed" in failure["message"]
    assert done.document["data"]["recovery_actions"][1:] == ["lore scrub", "lore audit"]
    assert content(filled) == before


def test_preflight_only_fetches_and_stores_nothing_but_its_run(filled: Bench) -> None:
    done = operate(filled, "--preflight-only", "--issue", "1", "--mr", "2")
    data = done.data
    assert (data["requested_count"], data["fetched_count"], data["processed_count"]) == (2, 2, 0)
    assert data["preflight_only"] is True
    assert set(data["stage_timings_ms"]) == {"preflight"}
    assert all(rows == [] for rows in content(filled).values())
    assert filled.query("SELECT * FROM leases") == []
    assert last_run(filled, "status", "phase", "mode", "issues_fetched", "mrs_fetched") == (
        "succeeded", "done", "surgical", 1, 1,
    )  # fmt: skip
    assert operate(filled, "--retry-failed", "1").data["requested_count"] == 0


def test_a_preflight_needs_no_lease(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--no-embed")
    assert lease_holder(filled) is None
    filled.query(
        "UPDATE leases SET holder_host = 'elsewhere', holder_pid = 1, holder_started = 'x',"
        " heartbeat_at = heartbeat_at + 1000000"
    )
    assert operate(filled, "--preflight-only", "--issue", "2").code == 0


def test_the_error_for_a_deleted_project_names_it(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--no-embed")
    fault = filled.world.faults.add("status", "GET /projects/:id/issues", None, status=404)
    done = operate(filled, "--issue", "1")
    assert fault.fired
    assert done.code == 6
    (failure,) = done.error["details"]["entity_failures"]
    assert f"project {PROJECT} not found" in failure["message"]
