"""Bugs of following accounts: a feed's mark and gap, a repository's record key, tombstones, the stream's place."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FEED = "feed position"
RECORD_KEY = "record key"
TOMBSTONES = "tombstones"
STREAM = "stream place"
SCRUBBED = "every source verified"

POLLING = "tests/situations/bluesky/test_polling.py"
STATES = "tests/situations/bluesky/test_states.py"
DEATHS = "tests/situations/bluesky/test_deaths.py"
STREAMING = "tests/situations/bluesky/test_stream.py"
SOCKETS = "tests/contract/test_bluesky_stream.py"
POSTS = "tests/contract/test_store_posts.py"
FACES = "tests/faces/test_accounts.py"
_POSITIONS = "tests/unit/sync/test_record_positions.py"
_WRITER = "store/mirror/scope_writer.py"

FEEDS = (
    Mutant(
        name="feed-stored-without-its-gap",
        invariant=FEED,
        file=_WRITER,
        before="            if batch.gaps is not None:\n",
        after="            if batch.gaps is not None and not batch.gaps:\n",
        test=f"{POLLING}::test_three_thousand_posts_between_two_polls_are_all_stored[feed]",
        why="More posts than a poll may read: each poll begins at the top again and none comes to the end.",
    ),
    Mutant(
        name="look-back-reached-and-no-mark-kept",
        invariant=FEED,
        file="engine/newest_first.py",
        before="cursor = replace(cursor, watermark=watermark, complete=True, validator=first)\n",
        after="cursor = replace(cursor, complete=top is not None and span.floor is None)\n",
        test=f"{STATES}::test_a_first_backfill_stops_at_the_look_back_and_stores_a_position",
        why="The bug of the first design: who stops at the look-back has no position, and reads a day at every poll.",
    ),
    Mutant(
        name="interrupted-first-reading-starts-over",
        invariant=FEED,
        file=_WRITER,
        before="        return load_gaps(self._database, self._scope)\n",
        after="        return load_gaps(self._database, self._scope) if self.load().complete else []\n",
        test=f"{STATES}::test_an_interrupted_first_backfill_does_not_start_over",
        why="What a killed first reading had read is fetched again from the top.",
    ),
)

RECORD_KEYS = (
    Mutant(
        name="record-key-saved-before-its-rows",
        invariant=RECORD_KEY,
        file=_WRITER,
        before="        links: L | None = None\n        with writing(self._database, self._lease) as tx:\n",
        after="""        links: L | None = None
        with self._database.transaction() as tx:
            if batch.cursor.log is not None:
                save_cursor(tx, self._scope, batch.cursor, now)
        with writing(self._database, self._lease) as tx:
""",
        test=f"{DEATHS}::test_a_poll_killed_at_any_point_loses_and_duplicates_nothing[records]",
        why="A death between the two transactions skips a page of the repository for good.",
    ),
    Mutant(
        name="record-key-kept-at-the-end-only",
        invariant=RECORD_KEY,
        file="engine/log.py",
        before="            self._intake.begin(page, cursor)\n",
        after="            self._intake.begin(page, cursor if whole else self._intake.store.load())\n",
        test=f"{DEATHS}::test_after_a_killed_poll_at_most_two_pages_of_a_list_are_read_again[records]",
        why="A crash would repeat every page of the repository, and a long one would never be read to its end.",
    ),
    Mutant(
        name="record-key-of-days-to-come-believed",
        invariant=RECORD_KEY,
        file="engine/log.py",
        before="    limit = None if server_at is None else server_at + SKEW_MS\n",
        after="    limit = None if server_at is None else server_at + 10**6 * SKEW_MS\n",
        test=f"{_POSITIONS}::test_keys_from_the_future_or_of_another_form_do_not_move_the_position",
        why="One record with a key of the year 2100 ends the reading of its account.",
    ),
    Mutant(
        name="overlap-asked-again-before-the-end",
        invariant=RECORD_KEY,
        file="engine/log.py",
        before="    return last if written_at is None or position.behind else ",
        after="    return last if written_at is None else ",
        test=f"{_POSITIONS}::test_a_finished_walk_restarts_with_overlap_and_an_unfinished_one_without",
        why="A walk before more records than it may read would stand still.",
    ),
)

DELETIONS = (
    Mutant(
        name="deleted-post-raised-by-a-late-list",
        invariant=TOMBSTONES,
        file="store/mirror/posts.py",
        before="posts WHERE (deleted_at IS NULL OR deleted_at > :settled)",
        after="posts WHERE (deleted_at IS NULL OR deleted_at > :settled + 36000000)",
        test=f"{STREAMING}::test_a_post_deleted_on_the_stream_is_not_restored_by_a_late_list",
        why="A list that is late would undo what the stream has told.",
    ),
    Mutant(
        name="deletion-believed-for-ever",
        invariant=TOMBSTONES,
        file="store/mirror/posts.py",
        before="posts WHERE (deleted_at IS NULL OR deleted_at > :settled)",
        after="posts WHERE (deleted_at IS NULL OR deleted_at > :settled - :settled)",
        test=f"{POSTS}::test_a_deleted_post_is_not_restored_by_a_list_read_within_the_settling_time",
        why="A post that is there again, or was buried by mistake, would never come back.",
    ),
    Mutant(
        name="deleted-post-goes-on-sharing",
        invariant=TOMBSTONES,
        file="store/mirror/posts.py",
        before="    unlink_posts(tx, ids)\n    remove_documents(tx, SOURCE_TYPE, ids)\n",
        after="    remove_documents(tx, SOURCE_TYPE, ids)\n",
        test=f"{POSTS}::test_a_deleted_post_is_kept_as_tombstone_and_not_shown_anywhere",
        why="Trends would count what nobody shares any more.",
    ),
    Mutant(
        name="reposts-of-a-deleted-account-kept",
        invariant=TOMBSTONES,
        file="store/mirror/posts.py",
        before='        {"length": len(prefix), "prefix": prefix},\n    )\n    _empty(tx, [*rows, *reposts], now_ms)\n',
        after='        {"length": len(prefix), "prefix": prefix},\n    )\n    _empty(tx, rows, now_ms)\n',
        test=f"{POSTS}::test_posts_of_a_deleted_account_disappear_from_lists_search_and_trends",
        why="The words of a deleted account could be read and found in the reposts of others.",
    ),
)

PLACES = (
    Mutant(
        name="stream-place-saved-before-its-rows",
        invariant=STREAM,
        file="sync/account_stream.py",
        before="        self._intake.take(Page(found.items), self._advanced(batch), gone=found.gone)\n",
        after="""        from tidelore.engine.ports import Batch

        self._writer.commit(Batch((), self._advanced(batch)))
        self._intake.take(Page(found.items), self._advanced(batch), gone=found.gone)
""",
        test=f"{STREAMING}::test_the_stream_cursor_is_stored_in_the_same_transaction_as_the_rows",
        why="A death between the two commits loses a batch: the replay begins behind it.",
    ),
    Mutant(
        name="stream-place-rounded-to-milliseconds",
        invariant=STREAM,
        file="sync/account_stream.py",
        before="log=LogPosition(0, {SURFACE: str(batch.cursor)}), complete=True)\n",
        after="log=LogPosition(0, {SURFACE: f'v1:{(batch.cursor.value + 999) // 1000 * 1000}'}), complete=True)\n",
        test=f"{STREAMING}::test_the_stream_cursor_is_stored_in_the_same_transaction_as_the_rows",
        why="Events of the same millisecond behind the place would not be told again.",
    ),
    Mutant(
        name="hole-not-handed-to-the-poller",
        invariant=STREAM,
        file="sync/account_stream.py",
        before="                report.handed_over += make_due(tx, event.dids, now)\n",
        after="                report.handed_over += len(event.dids)\n",
        test=f"{STREAMING}::test_a_stream_gap_makes_only_its_accounts_due",
        why="What the stream cannot replay would wait for the slowest turn of its account.",
    ),
    Mutant(
        name="rebuilt-archive-not-noticed",
        invariant=STREAM,
        file="sources/bluesky/stream_shard.py",
        before="        elif position > place.position and (place.own or _is_far(position, frame.at, place)):\n",
        after="        elif position > place.position and _is_far(position, frame.at, place):\n",
        test=f"{SOCKETS}::test_a_rebuilt_archive_is_detected_and_its_events_are_delivered",
        why="A new archive that has passed the stored number would hide what happened in between.",
    ),
    Mutant(
        name="short-retention-not-noticed",
        invariant=STREAM,
        file="sources/bluesky/stream_shard.py",
        before="            if position > reached and not self._recent.knows(frame.key):\n",
        after="            if position > reached and self._recent.knows(frame.key):\n",
        test=f"{SOCKETS}::test_a_gap_on_a_server_with_less_than_a_day_of_retention_is_detected",
        why="The first protocol begins with the oldest event it has and does not say so.",
    ),
    Mutant(
        name="first-event-of-a-post-counts",
        invariant=STREAM,
        file="sync/account_stream.py",
        before="            last[event.uri] = None\n",
        after="            last.setdefault(event.uri, None)\n",
        test=f"{STREAMING}::test_of_several_stream_events_for_one_post_the_last_counts",
        why="A post deleted in the batch that brought it would stay.",
    ),
)

SCRUBS = (
    Mutant(
        name="refused-post-taken-for-deleted",
        invariant="scrub buries only what is not found",
        file="sources/bluesky/client.py",
        before='            if error.status in (400, 404) and _MISSING in str(error.details.get("said")):\n',
        after="            if error.status in (400, 404):\n",
        test=f"{FACES}::test_a_post_is_deleted_only_if_its_server_says_so_and_not_if_it_cannot_be_reached[refused]",
        why="A server that refuses a request would empty the copy of an account.",
    ),
    Mutant(
        name="accounts-wait-for-the-projects",
        invariant=SCRUBBED,
        file="app/mirroring.py",
        before="    return budget - min(half, waiting * REQUESTS_EACH)\n",
        after="    return budget\n",
        test=f"{FACES}::test_a_scrub_spends_half_of_its_budget_on_accounts_if_projects_are_configured_too",
        why="Projects that need the whole budget every time would leave the accounts unverified.",
    ),
    Mutant(
        name="begun-verification-counts-as-whole",
        invariant=SCRUBBED,
        file="sync/account_verification.py",
        before="            if not under_way or report.is_troubled:\n",
        after="            if account.id:\n",
        test=f"{FACES}::test_a_scrub_with_bluesky_only_verifies_the_accounts",
        why="What an earlier run had passed would not be verified by `lore scrub --all`.",
    ),
)

MUTANTS = (*FEEDS, *RECORD_KEYS, *DELETIONS, *PLACES, *SCRUBS)
