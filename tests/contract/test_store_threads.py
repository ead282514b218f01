"""Threads with their state and last speaker, and our part in them; on both databases."""

from __future__ import annotations

import pytest
from tests.databases.review import lay_out_hub, lay_out_lab

from tidelore.app.reading.threads import listed_thread, waiting_on
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.threads import ThreadFilter, ThreadMark, ThreadRow, find_threads, read_threads_page

OURS = {"gitlab": "ann", "github": "ann"}


@pytest.fixture
def copy(database: Database) -> Database:
    lay_out_lab(database)
    lay_out_hub(database)
    return database


def found(database: Database, **wanted: object) -> list[tuple[ThreadMark, ThreadRow]]:
    marks = find_threads(database, ThreadFilter(logins=OURS, **wanted))  # type: ignore[arg-type]
    return read_threads_page(database, marks)


def test_threads_are_listed_by_their_newest_note_without_system_notes_and_with_comments_as_one_thread(
    copy: Database,
) -> None:
    listed = [listed_thread(mark, row) for mark, row in found(copy, state="opened")]
    assert [(one.id, one.kind, one.state, one.last_by, one.notes) for one in listed] == [
        ("octo/tide#5", "comments", None, "noor", 1),
        ("review_comment:300", "review", "unknown", "mira", 2),
        ("port/harbour#3", "comments", None, "mira", 1),
        ("near", "review", "unresolved", "mira", 1),
        ("called", "review", "unresolved", "noor", 2),
        ("joined", "review", "unresolved", "noor", 2),
        ("foreign", "review", "unresolved", "noor", 2),
        ("port/harbour!1", "comments", None, "mira", 1),
        ("settled", "review", "resolved", "noor", 1),
        ("answered", "review", "unresolved", "ann", 2),
        ("asked", "review", "unresolved", "mira", 2),
    ]
    asked = listed[-1]
    assert (asked.place, asked.opening, asked.last) == ("src/crane.py:7", "Why 40 %?", "And who decided?")
    assert next(one.resolved_by for one in listed if one.id == "settled") == "ann"


def test_unresolved_threads_include_those_of_unknown_state_and_of_the_chosen_items_only(copy: Database) -> None:
    assert [row.remote_id for _, row in found(copy, unresolved=True, state="merged")] == ["late"]
    project = match_project(copy, "octo/tide")
    assert [row.remote_id for _, row in found(copy, unresolved=True, project_id=project.id)] == ["review_comment:300"]
    ((item_id,),) = copy.read("SELECT id FROM merge_requests WHERE iid = 1")
    assert [row.remote_id for _, row in found(copy, unresolved=True, item=("mr", item_id))] == ["answered", "asked"]


def test_a_thread_waits_for_us_if_another_person_spoke_last_on_our_item_after_us_or_to_us(copy: Database) -> None:
    waiting = {listed_thread(mark, row).id: waiting_on(mark) for mark, row in found(copy, state="opened")}
    assert {name for name, who in waiting.items() if who == "me"} == {
        "octo/tide#5", "review_comment:300", "called", "joined", "port/harbour!1", "asked",
    }  # fmt: skip
    assert {name for name, who in waiting.items() if who == "others"} == {"answered"}


def test_without_a_login_no_thread_waits(copy: Database) -> None:
    marks = find_threads(copy, ThreadFilter(logins={"github": "ann"}, state="opened"))
    known = {row.project for mark, row in read_threads_page(copy, marks) if waiting_on(mark) is not None}
    assert known == {"octo/tide"}


def test_a_thread_that_is_deleted_between_selecting_and_reading_is_left_out(copy: Database) -> None:
    marks = find_threads(copy, ThreadFilter(state="opened"))
    with copy.transaction() as tx:
        tx.execute("DELETE FROM discussions WHERE remote_id = 'asked'")
    left = [row.remote_id for _, row in read_threads_page(copy, marks)]
    assert len(left) == len(marks) - 1
    assert "asked" not in left
