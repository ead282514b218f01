"""How far a phase is: the sum over what goes on side by side, and nothing of the phase before."""

from __future__ import annotations

import pytest

from tidelore.progress import Course, Headway


def test_nothing_is_known_before_anybody_told() -> None:
    assert Course().at("ingest") == Headway(None, None, None)
    assert Course().at("") == Headway()


def test_stages_that_go_on_side_by_side_are_summed_and_the_last_word_is_kept() -> None:
    course = Course()
    course.tell("dependents", "a/b", "issues discussions", 3, 10, "4 pages")
    course.tell("dependents", "c/d", "issues discussions", 1, 5, "1 pages")
    assert course.at("dependents") == Headway(4, 15, "c/d issues discussions: 1 pages")
    course.tell("dependents", "a/b", "issues discussions", 7, 10, "9 pages")
    assert course.at("dependents") == Headway(8, 15, "a/b issues discussions: 9 pages")


def test_what_one_stage_is_to_do_may_change() -> None:
    course = Course()
    course.tell("docs", "all", "documents", 1, 10, "")
    course.tell("docs", "all", "documents", 2, 4, "")
    assert (course.at("docs").progress_done, course.at("docs").progress_total) == (2, 4)


def test_as_long_as_one_stage_knows_no_total_nobody_does() -> None:
    course = Course()
    course.tell("ingest", "a/b", "issues", 30, None, "")
    course.tell("ingest", "a/b", "merge_requests", 5, 10, "")
    assert course.at("ingest").progress_done == 35
    assert course.at("ingest").progress_total is None
    course.tell("ingest", "a/b", "issues", 31, 40, "")
    assert (course.at("ingest").progress_done, course.at("ingest").progress_total) == (36, 50)
    course.tell("ingest", "a/b", "issues", 32, None, "")
    assert course.at("ingest").progress_total is None


def test_a_phase_begins_with_nothing_of_the_one_before() -> None:
    course = Course()
    course.tell("ingest", "a/b", "issues", 30, None, "")
    assert course.at("dependents") == Headway()
    course.tell("dependents", "a/b", "issues discussions", 1, 2, "")
    assert (course.at("dependents").progress_done, course.at("dependents").progress_total) == (1, 2)
    assert course.at("ingest") == Headway()


@pytest.mark.parametrize(("done", "total"), [(5, 5), (7, 7), (2, 5)])
def test_no_more_is_done_than_there_is_to_do(done: int, total: int) -> None:
    course = Course()
    course.tell("docs", "all", "documents", done, 5, "")
    assert (course.at("docs").progress_done, course.at("docs").progress_total) == (done, total)
