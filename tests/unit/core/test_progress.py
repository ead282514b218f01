"""How far a phase is: the sum over what goes on side by side, and nothing of the phase before."""

from __future__ import annotations

import pytest

from tidelore.core.progress import PhaseProgress, RunProgress


def test_progress_is_empty_before_the_first_report() -> None:
    assert PhaseProgress().at("ingest") == RunProgress(None, None, None)
    assert PhaseProgress().at("") == RunProgress()


def test_progress_of_parallel_stages_is_summed_and_keeps_the_latest_note() -> None:
    course = PhaseProgress()
    course.tell("dependents", "a/b", "issues discussions", 3, 10, "4 pages")
    course.tell("dependents", "c/d", "issues discussions", 1, 5, "1 pages")
    assert course.at("dependents") == RunProgress(4, 15, "c/d issues discussions: 1 pages")
    course.tell("dependents", "a/b", "issues discussions", 7, 10, "9 pages")
    assert course.at("dependents") == RunProgress(8, 15, "a/b issues discussions: 9 pages")


def test_the_total_of_a_stage_may_change() -> None:
    course = PhaseProgress()
    course.tell("docs", "all", "documents", 1, 10, "")
    course.tell("docs", "all", "documents", 2, 4, "")
    assert (course.at("docs").progress_done, course.at("docs").progress_total) == (2, 4)


def test_the_total_is_unknown_while_one_stage_has_no_total() -> None:
    course = PhaseProgress()
    course.tell("ingest", "a/b", "issues", 30, None, "")
    course.tell("ingest", "a/b", "merge_requests", 5, 10, "")
    assert course.at("ingest").progress_done == 35
    assert course.at("ingest").progress_total is None
    course.tell("ingest", "a/b", "issues", 31, 40, "")
    assert (course.at("ingest").progress_done, course.at("ingest").progress_total) == (36, 50)
    course.tell("ingest", "a/b", "issues", 32, None, "")
    assert course.at("ingest").progress_total is None


def test_a_new_phase_starts_with_empty_progress() -> None:
    course = PhaseProgress()
    course.tell("ingest", "a/b", "issues", 30, None, "")
    assert course.at("dependents") == RunProgress()
    course.tell("dependents", "a/b", "issues discussions", 1, 2, "")
    assert (course.at("dependents").progress_done, course.at("dependents").progress_total) == (1, 2)
    assert course.at("ingest") == RunProgress()


@pytest.mark.parametrize(("done", "total"), [(5, 5), (7, 7), (2, 5)])
def test_progress_never_exceeds_its_total(done: int, total: int) -> None:
    course = PhaseProgress()
    course.tell("docs", "all", "documents", done, 5, "")
    assert (course.at("docs").progress_done, course.at("docs").progress_total) == (done, total)
