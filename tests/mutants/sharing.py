"""Bugs of fairness: a sync in slices that keeps others waiting, starves somebody, repeats itself, or boasts."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SLICES = "fair slices"
PROPERTIES = "tests/properties/test_slices.py"
SITUATIONS = "tests/situations/service/test_slices.py"
_PURE = "tests/unit/sync/test_time_slices.py"
_SCHEDULE = "tests/unit/service/test_schedule_slices.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="slice-without-end",
        invariant=SLICES,
        file="sync/lists.py",
        before="        return lambda: clock.monotonic() >= ends or self._is_spent()\n",
        after="        return lambda: clock.monotonic() >= ends and stage == 'scrub'\n",
        test=f"{PROPERTIES}::test_a_slice_ends_at_its_time_limit_and_stores_the_page_in_flight",
        why="The first mirror of one host would keep every other host waiting for hours.",
    ),
    Mutant(
        name="always-the-same-lists-first",
        invariant=SLICES,
        file="sync/ingest.py",
        before="    return sorted(lists, key=lambda one: (turns.get(one.key, 0), polled.get(one.key, 0)))\n",
        after="    return list(lists)\n",
        test=f"{PROPERTIES}::test_every_list_gets_a_turn_within_a_few_slices_under_any_load",
        why="The last projects of a big host would not be read while the first have something to do.",
    ),
    Mutant(
        name="refused-lists-stay-the-first",
        invariant=SLICES,
        file="sync/ingest.py",
        before="(turns.get(one.key, 0), polled.get(one.key, 0))",
        after="polled.get(one.key, 0)",
        test=f"{_PURE}::test_a_failing_list_does_not_stay_first_in_the_order",
        why="Lists that always fail would take the time of all others in every slice.",
    ),
    Mutant(
        name="short-slices-never-reach-the-feeds",
        invariant=SLICES,
        file="sync/ingest.py",
        before="sorted(group[:ready], key=lambda one: turns[one.key])",
        after="group[:ready]",
        test="tests/situations/github/test_slices.py::test_runs_with_fewer_requests_than_lists_read_every_list_in_turn",
        why="Runs with fewer requests than a repository has lists would never read its comments.",
    ),
    Mutant(
        name="unfinished-list-read-after-those-that-need-it",
        invariant=SLICES,
        file="sync/ingest.py",
        before="if not _is_finished(session, one)), len(group))",
        after="if False), len(group))",
        test="tests/situations/github/test_slices.py::test_a_list_that_was_left_is_continued_before_the_lists_that_need_it",
        why="Comments on items that are not stored yet would fetch each of those items alone.",
    ),
    Mutant(
        name="lists-take-the-childrens-part",
        invariant=SLICES,
        file="sync/lists.py",
        before="self._began + self._seconds * _ENDS[stage], began + self._seconds * PARTS[stage]",
        after="self._began + self._seconds, self._began",
        test=f"{PROPERTIES}::test_lists_that_use_all_their_time_leave_the_children_their_share",
        why="On a host with more lists than fit into a slice no discussion would ever be read.",
    ),
    Mutant(
        name="slice-ends-inside-an-instant",
        invariant=SLICES,
        file="sync/lists.py",
        before="        if (request.token is None or self._resumable) and self._is_over():\n",
        after="        if self._is_over():\n",
        test=f"{_PURE}::test_a_list_is_interrupted_between_pages_but_not_within_one_instant",
        why="A pass that begins anew in every slice and takes longer than one never ends.",
    ),
    Mutant(
        name="left-off-counts-as-mirrored",
        invariant=SLICES,
        file="sync/mirror.py",
        before="        elif request.walk and session.error is None and session.partial is None and _covers",
        after="        if request.walk and session.error is None and _covers",
        test=f"{PROPERTIES}::test_only_the_last_slice_brings_the_copy_up_to_date_and_runs_record_what_was_left",
        why="The copy would be called up to date with most of a host missing.",
    ),
    Mutant(
        name="left-off-counts-as-success",
        invariant=SLICES,
        file="service/schedule.py",
        before="        succeeded = now if ending.fresh else old.succeeded\n",
        after="        succeeded = now\n",
        test=f"{_SCHEDULE}::test_an_unfinished_job_counts_as_succeeded_only_when_its_main_work_is_done",
        why="A host that is further behind with every slice would never be called stale.",
    ),
    Mutant(
        name="left-off-waits-for-its-interval",
        invariant=SLICES,
        file="service/schedule.py",
        before="now + BREATH_SECONDS if ending.again else next_due(",
        after="next_due(",
        test=f"{_SCHEDULE}::test_an_unfinished_job_continues_after_a_short_pause_without_counting_as_failed",
        why="A first mirror would stand still between its slices.",
    ),
)
