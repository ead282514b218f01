"""Bugs about repositories whose comments come by feeds: what is settled, what a page needs, what a thread keeps."""

from __future__ import annotations

from tests.mutants.listening import REPOSITORY
from tests.mutants.mutant import Mutant

FEEDS = "feeds and parents"
HISTORIES = "tests/properties/test_github_histories.py"
KILLED = "tests/crash/test_github_killed.py"
_COMMENTS = "tests/situations/github/test_comments.py"
_COSTS = "tests/situations/github/test_costs.py"
_THREADS = "tests/situations/github/test_threads.py"
_STOPPED = "tests/situations/github/test_interruptions.py"
_CHANGE = f"{_COSTS}::test_one_change_costs_a_fixed_number_of_requests_and_the_next_run_is_quiet"

HORIZON = "horizon"
_SINCE = "tests/contract/test_mirror_since.py"
_LOWERED = f"{_SINCE}::test_an_earlier_horizon_reads_what_is_missing_and_none_reads_the_rest"
_FOUND = f"{_SINCE}::test_an_item_that_is_older_but_was_updated_since_is_missing_to_an_audit_and_found_by_a_scrub"

HORIZONS = (
    Mutant(
        name="horizon-compared-with-the-creation",
        invariant=HORIZON,
        file="engine/intake.py",
        before="            if item.version.updated_at >= horizon:\n",
        after="            if item.at >= horizon:\n",
        test=f"{_FOUND}[gitlab]",
        why="In order of creation an old item that moved since would never be found.",
    ),
    Mutant(
        name="audit-compares-the-horizon-with-the-creation",
        invariant=HORIZON,
        file="sync/audit.py",
        before="if key in stored or item.version.updated_at >= horizon}\n",
        after="if key in stored or item.at >= horizon}\n",
        test=f"{_FOUND}[github]",
        why="An audit would not miss an old item that moved since.",
    ),
    Mutant(
        name="position-kept-when-the-horizon-is-lowered",
        invariant=HORIZON,
        file="engine/cursor.py",
        before="        return Cursor(census=cursor.census, horizon=wanted), ()\n",
        after="        return replace(cursor, horizon=wanted), gaps\n",
        test=f"{_LOWERED}[gitlab]",
        why="The list would be read from its watermark on, and never show the older items.",
    ),
    Mutant(
        name="list-started-over-when-the-horizon-is-raised",
        invariant=HORIZON,
        file="engine/cursor.py",
        before="    if wanted < cursor.horizon:\n",
        after="    if wanted != cursor.horizon:\n",
        test=f"{_SINCE}::test_a_later_horizon_deletes_nothing_and_starts_nothing_over[gitlab]",
        why="A horizon that is a duration would start every list over each day.",
    ),
    Mutant(
        name="newest-first-list-read-past-its-horizon",
        invariant=HORIZON,
        file="engine/newest_first.py",
        before="        floor = max(self._intake.now_ms() - self._plan.lookback_ms, cursor.horizon)\n",
        after="        floor = self._intake.now_ms() - self._plan.lookback_ms\n",
        test="tests/unit/engine/test_newest_first.py::test_a_first_walk_stops_at_the_horizon",
        why="The first sync would read the whole list, and throw most of it away.",
    ),
    Mutant(
        name="older-comments-left-to-the-feeds",
        invariant=HORIZON,
        file="store/mirror/comments.py",
        before='        " AND (p.created_at >= :horizon OR child_sync.fetched_for IS NOT NULL)"\n',
        after='        " AND (p.created_at >= :horizon OR 1 = 1)"\n',
        test="tests/situations/github/test_mirror_since.py"
        "::test_a_pull_request_that_moved_since_the_horizon_has_its_older_comments_too[sqlite]",
        why="The feeds begin at the horizon, so review comments from before it would be missing.",
    ),
)

MUTANTS = (
    Mutant(
        name="comments-settled-though-the-count-differs",
        invariant=FEEDS,
        file="store/mirror/comments.py",
        before="""AND p.user_notes_count = {counted}"\n""",
        after="""AND p.user_notes_count >= 0 AND {counted} >= 0"\n""",
        test=f"{_COMMENTS}::test_a_deletion_that_changes_the_count_is_found_as_soon_as_the_parent_moves[issue]",
        why="A feed never tells of a deletion, so the deleted comment would stay until verification.",
    ),
    Mutant(
        name="sides-of-unknown-pull-requests-written",
        invariant=FEEDS,
        file="sync/comment_parents.py",
        before="        there = await self._require(numbers, pulls_only=True) if numbers else set()\n",
        after="        there = numbers\n",
        test=f"{_COMMENTS}::test_a_pull_request_opened_between_its_list_and_the_list_of_issues_is_stored[sqlite]",
        why="The cursor would pass an issue side that has no row to be stored in.",
    ),
    Mutant(
        name="feeds-read-before-parents",
        invariant=FEEDS,
        file="sync/ingest.py",
        before="[sorted(group, key=_rank) for",
        after="[sorted(group, key=_rank, reverse=True) for",
        test=f"{_COSTS}::test_new_items_with_comments_cost_no_request_for_the_parents_of_the_comments",
        why="Each comment on something new would cost a request for its parent.",
    ),
    Mutant(
        name="comments-asked-for-one-by-one-in-a-slice",
        invariant=FEEDS,
        file="sync/children.py",
        before=" if kind not in left_out and only(kind)]\n",
        after=" if only(kind)]\n",
        test=f"{_STOPPED}::test_a_first_sync_in_slices_ends_with_the_whole_copy[21]",
        why="A first sync in slices would ask for the comments of each pull request, which the feeds contain.",
    ),
    Mutant(
        name="validator-kept-with-open-gaps",
        invariant=FEEDS,
        file="engine/newest_first.py",
        before="""        known = None if below else cursor.validator
        first, cursor = None, replace(cursor, validator=None)
        floor = max(self._intake.now_ms() - self._plan.lookback_ms, cursor.horizon)
        spans = [open_head(cursor.watermark, below, floor), *below]
        limit, spent, read = max(self._plan.max_pages, LEAST_PAGES), 0, 0
        guard, opened_at = PageGuard(), None
        while spans and spent < limit and read < MOST_EMPTY * limit:
            span = spans[0]
            page = await self._fetch(span, spans, cursor, known)
""",
        after="""        known = cursor.validator
        first = None
        floor = max(self._intake.now_ms() - self._plan.lookback_ms, cursor.horizon)
        spans = [open_head(cursor.watermark, below, floor), *below]
        limit, spent, read = max(self._plan.max_pages, LEAST_PAGES), 0, 0
        guard, opened_at = PageGuard(), None
        while spans and spent < limit and read < MOST_EMPTY * limit:
            span = spans[0]
            page = await self._fetch(span, spans, cursor, known)
            cursor = replace(cursor, validator=page.validator if self._intake.tally.pages == 0 else cursor.validator)
""",
        test=f"{_STOPPED}::test_pull_requests_behind_the_first_page_are_read_after_a_kill_there",
        why="An unchanged first page would hide the pages behind it that were never read.",
    ),
    Mutant(
        name="files-carried-over-though-the-head-moved",
        invariant=FEEDS,
        file="store/mirror/parents.py",
        before="        if all(row[place] == before[remote_id][place] for place in places)\n",
        after="        if len(row) > len(places)\n",
        test=f"{_CHANGE}[push-5]",
        why="A push would leave the files of the old head.",
    ),
    Mutant(
        name="thread-state-lost-with-a-rewritten-comment",
        invariant=FEEDS,
        file="store/mirror/comments.py",
        before="""    " noteable_type = excluded.noteable_type"\n""",
        after="""    " noteable_type = excluded.noteable_type, resolved = NULL, resolved_by = NULL"\n""",
        test=f"{_THREADS}::test_a_thread_keeps_its_state_when_its_comments_change[sqlite-edited]",
        why="Only GraphQL knows the state, and nothing would ask for it again.",
    ),
    Mutant(
        name="thread-state-read-before-its-comments",
        invariant=FEEDS,
        file="store/mirror/comments.py",
        before="    _ask_for_states(tx, project_id, ids.values())\n",
        after="",
        test=f"{_THREADS}::test_a_thread_whose_comments_arrive_after_its_state_gets_the_state_with_the_next_run[sqlite]",
        why="A state has no row until its comments are stored; it must be read again then.",
    ),
    Mutant(
        name="query-limit-stops-everything",
        invariant=FEEDS,
        file="sources/github/graphql.py",
        before="        self._exhausted = QueryLimited(\n",
        after="        from tidelore.core.errors import RateLimited\n\n        self._exhausted = RateLimited(\n",
        test="tests/situations/github/test_faults.py::test_an_exhausted_graphql_limit_does_not_stop_rest[sqlite]",
        why="REST has a limit of its own and can go on.",
    ),
    Mutant(
        name="replaced-repository-mirrored",
        invariant=REPOSITORY,
        file="sync/projects.py",
        before="        check_identity(known, record.remote_id)\n",
        after="        pass\n",
        test="tests/situations/github/test_features.py::test_a_repository_that_was_deleted_and_made_again_is_refused",
        why="Issues of somebody else's repository would be stored beside ours.",
    ),
)
