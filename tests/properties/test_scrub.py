"""Verification: what no cursor can see is found by it. Deletions, silent pushes, rows that lost their number."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.audit import compare, journal
from tests.properties.effort import examples
from tests.properties.inprocess import PROJECT, House, scratch
from tests.properties.machine import Round, Setting, histories, play_round, prepare, settings

silent = st.lists(st.tuples(st.sampled_from(("push", "note", "delete")), st.integers(0, 30)), max_size=6)


def whisper(house: House, kind: str, pick: int) -> None:
    """A change that moves no update time."""
    forge = house.world.gitlab
    project = forge.project(PROJECT)
    requests = sorted(project.merge_requests, key=lambda item: item.id)
    issues = sorted(project.issues, key=lambda item: item.id)
    if kind == "push" and requests:
        forge.push(PROJECT, requests[pick % len(requests)].iid)
    elif kind == "note" and issues:
        issue = issues[pick % len(issues)]
        forge.add_note(issue, f"said {pick}", at_us=issue.updated_at_us)
    elif kind == "delete" and issues:
        forge.delete_issue(PROJECT, issues[pick % len(issues)].iid)


@examples(few=15, many=500)
@given(settings, histories, silent)
def test_after_a_scrub_no_item_is_missing_and_none_is_left_over(
    setting: Setting, history: list[Round], unheard: list[tuple[str, int]]
) -> None:
    with scratch() as folder, journal() as kept:
        house = House(folder, per_page=setting.per_page, keyset=setting.keyset, skew_ms=setting.skew_ms)
        player = prepare(house, setting)
        for planned in history:
            play_round(house, player, planned, house.run)
        for kind, pick in unheard:
            whisper(house, kind, pick)
        for _ in range(4):
            house.world.advance(2 * 86_400)
            report = house.run(scrub_budget=1000)
            assert report is not None
            assert [scope.error for scope in (*report.scopes, *report.scrubbed) if scope.error] == []
        compare(house, exact=True)
        kept.check()


@pytest.mark.parametrize("shape", ["null", "string", "no_id"])
def test_an_item_that_was_rejected_without_its_number_is_found_by_a_scrub(tmp_path: Path, shape: str) -> None:
    house = House(tmp_path, per_page=5, scrub_share=0.0)
    house.world.gitlab.bulk(PROJECT, issues=12)
    fault = house.world.faults.add("malformed_item", "/projects/:id/issues", shape=shape)
    house.run()
    assert fault.fired == 1
    house.run(scrub_budget=1000)
    compare(house, exact=True)


def test_more_deleted_items_than_one_stride_may_look_up_all_become_tombstones(tmp_path: Path) -> None:
    house = House(tmp_path, per_page=50)
    house.world.gitlab.bulk(PROJECT, issues=60)
    house.run()
    for iid in range(1, 56):
        house.world.gitlab.delete_issue(PROJECT, iid)
    house.run(scrub_budget=1000)
    compare(house, exact=True)
    with house.database() as database:
        assert database.read("SELECT COUNT(*) FROM issues WHERE deleted_at IS NOT NULL") == [(55,)]


def test_a_refused_project_creates_no_tombstones(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.world.gitlab.bulk(PROJECT, issues=5)
    house.run()
    house.world.gitlab.forbid_project(PROJECT)
    house.run(scrub_budget=1000)
    house.world.gitlab.forbid_project(PROJECT, forbidden=False)
    compare(house, exact=True)
