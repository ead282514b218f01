"""Bugs of the walk: transactions, crashes, identity, watermarks, replays, cost, shifting pages, remembered answers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SITUATIONS = "tests/properties/test_situations.py"
LATE = "tests/properties/test_late_arrivals.py"
PARENTS = "tests/contract/test_store_parents.py"
_WALK = "tests/unit/engine/test_walk.py"
_WINDOW = "tests/unit/engine/test_window.py"
_INTAKE = "tests/unit/engine/test_intake.py"
_SURFACES = "tests/unit/sources/gitlab/test_surfaces.py"
_MARKS = "tests/situations/test_watermarks.py"

ONE_TRANSACTION = (
    Mutant(
        name="cursor-saved-before-its-records",
        invariant="1",
        file="store/mirror/scope_writer.py",
        before="""        links: L | None = None
        with writing(self._database, self._lease) as tx:
            if batch.items:
""",
        after="""        links: L | None = None
        with self._database.transaction() as tx:
            save_cursor(tx, self._scope, batch.cursor, now)
        with writing(self._database, self._lease) as tx:
            if batch.items:
""",
        test="tests/crash/test_kill_matrix.py"
        "::test_a_run_killed_at_a_seam_continues_where_it_stopped[sqlite-inside-commit-second]",
        why="A death between the two transactions skips the page for good.",
    ),
    Mutant(
        name="cursor-saved-in-its-own-transaction",
        invariant="1",
        file="store/mirror/scope_writer.py",
        before="""            save_cursor(tx, self._scope, batch.cursor, now)
            self._seam(Seam.INSIDE_COMMIT)
""",
        after="""        with self._database.transaction() as tx:
            save_cursor(tx, self._scope, batch.cursor, now)
            self._seam(Seam.INSIDE_COMMIT)
""",
        test=f"{PARENTS}::test_rows_are_not_stored_when_the_cursor_that_covers_them_is_refused",
        why="Rows without the cursor that covers them: the copy holds more than it says.",
    ),
    Mutant(
        name="transaction-open-during-a-request",
        invariant="1",
        file="sync/projects.py",
        before="    return _save(session, source, configured, await source.resolve(configured))\n",
        after="""    with session.writing():
        record = await source.resolve(configured)
    return _save(session, source, configured, record)
""",
        test="tests/situations/test_transactions.py::test_no_transaction_waits_for_the_answer_to_a_request",
        why="A slow server would lock the database for everybody.",
    ),
)

CRASHES = (
    Mutant(
        name="cursor-saved-at-the-end-only",
        invariant="2",
        file="engine/walk.py",
        before="""                complete=cursor.complete or window is None,
            )
            self._intake.begin(page, cursor)
""",
        after="""                complete=cursor.complete or window is None,
            )
            self._intake.begin(page, cursor if window is None else self._intake.store.load())
""",
        test=f"{SITUATIONS}::test_a_crash_at_any_point_costs_at_most_two_pages_per_scope",
        why="A crash would repeat every page of the walk, not two.",
    ),
    Mutant(
        name="interrupted-window-forgotten",
        invariant="2",
        file="engine/window.py",
        before="    if saved is not None and is_open(saved):\n",
        after="    if saved is not None and saved.passes < 0:\n",
        test=f"{SITUATIONS}::test_after_a_kill_half_way_at_most_two_pages_per_scope_are_read_twice[True]",
        why="A window of many pages would start over at its first page after every crash.",
    ),
    Mutant(
        name="interrupted-pass-counts-as-whole",
        invariant="2",
        file="engine/window.py",
        before="            return Window(saved.instant, since, before=saved.before, passes=1)\n",
        after="            return replace(saved, since=since)\n",
        test=f"{_WINDOW}::test_a_pass_that_was_interrupted_starts_over_against_the_digest_before_it",
        why="Two halves of two passes prove nothing: what slid between them is skipped.",
    ),
    Mutant(
        name="watermark-passes-an-open-window",
        invariant="2",
        file="engine/window.py",
        before="    return max((p for p in positions if p.at <= window.instant), key=order_key, default=None)\n",
        after="    return max(positions, key=order_key, default=None)\n",
        test=f"{_WINDOW}::test_a_window_of_two_pages_is_read_again_before_moving_on",
        why="A crash after it would resume beyond what is still to be confirmed.",
    ),
)

AHEAD = "one page ahead"
FETCHING_AHEAD = "tests/unit/engine/test_fetching_ahead.py"
SLOW_COMMIT = (
    "tests/crash/test_kill_matrix.py"
    "::test_a_run_killed_while_a_commit_is_slow_has_fetched_one_page_ahead_and_repeats_two"
)
ONE_AHEAD = (
    Mutant(
        name="two-pages-fetched-ahead",
        invariant=AHEAD,
        file="engine/intake.py",
        before="""        finally:
            await self.settle()
        return page
""",
        after="""        finally:
            before, self._storing = self._storing, getattr(self, "_late", None)
            await self.settle()
            self._late = before
        return page
""",
        test=f"{FETCHING_AHEAD}::test_a_page_is_fetched_while_the_page_before_it_is_stored_and_no_further_ahead",
        why="A crash would repeat three pages of a list, and a slow disk would fill the memory.",
    ),
    Mutant(
        name="cursor-saved-before-the-page-that-is-being-stored",
        invariant=AHEAD,
        file="engine/intake.py",
        before="""            self._storing = self._thread.begin(lambda:""",
        after="""            self.store.commit(Batch((), cursor))
            self._storing = self._thread.begin(lambda:""",
        test=SLOW_COMMIT,
        why="A death before the commit of the page skips it for good.",
    ),
    Mutant(
        name="error-of-the-page-ahead-drops-the-page-before-it",
        invariant=AHEAD,
        file="engine/intake.py",
        before="""        try:
            page = await lister.fetch(request)
            self.seam(Seam.AFTER_FETCH)
        finally:
            await self.settle()
        return page
""",
        after="""        page = await lister.fetch(request)
        self.seam(Seam.AFTER_FETCH)
        await self.settle()
        return page
""",
        test=f"{FETCHING_AHEAD}"
        "::test_an_error_in_the_page_fetched_ahead_is_raised_after_the_page_before_it_is_committed",
        why="A walk would end, and its lease be released, while one of its pages is being stored.",
    ),
)

IDENTITY = (
    Mutant(
        name="strict-tuple-filter",
        invariant="3",
        file="engine/intake.py",
        before="        found = sort_out(page.items, stored, cursor.horizon)\n",
        after="""        mark = self.store.load().watermark
        found = sort_out([item for item in page.items if mark is None or item.position > mark], stored)
""",
        test=f"{SITUATIONS}::test_a_lower_id_edited_in_the_watermarks_own_second_is_ingested",
        why="The classic loss: a lower id edited in the cursor's own instant is never greater than the cursor.",
    ),
    Mutant(
        name="version-without-its-content",
        invariant="3",
        file="engine/intake.py",
        before="        elif known == item.version:\n",
        after="        elif known.updated_at == item.version.updated_at:\n",
        test=f"{SITUATIONS}::test_an_edit_that_keeps_its_own_millisecond_is_ingested",
        why="Two edits in one millisecond look like one.",
    ),
    Mutant(
        name="overlap-ignored",
        invariant="3",
        file="engine/window.py",
        before="    since = max(start - overlap_ms, 0)\n",
        after="    since = start\n",
        test=f"{SITUATIONS}::test_a_lower_id_edited_in_the_watermarks_own_second_is_ingested",
        why="What the server committed a moment late lies before the watermark, for ever.",
    ),
)

FORWARD = (
    Mutant(
        name="newest-candidate-wins",
        invariant="4",
        file="engine/cursor.py",
        before="    return max(current, candidate, key=order_key)\n",
        after="    return candidate\n",
        test=f"{_MARKS}::test_a_watermark_stays_when_the_newest_item_was_deleted",
        why="A list whose newest item was deleted would pull the watermark back.",
    ),
    Mutant(
        name="newest-first-walk-moves-its-mark-back",
        invariant="4",
        file="engine/newest_first.py",
        before="watermark = forward(cursor.watermark, top)",
        after="watermark = top",
        test="tests/unit/engine/test_newest_first.py::test_the_watermark_stays_when_the_newest_item_was_deleted",
        why="The next walk would read again what lies between the two, at every deletion.",
    ),
    Mutant(
        name="full-run-leaves-no-note",
        invariant="4",
        file="sync/mirror.py",
        before='    note = "full sync: cursors were reset" if request.full else None\n',
        after="    note = None\n",
        test="tests/faces/test_ingest.py::test_a_full_run_is_recorded_in_the_ledger",
        why="A watermark that moved back with nothing to show who moved it.",
    ),
)

REMOTE_TIME = (
    Mutant(
        name="watermark-from-the-local-clock",
        invariant="5",
        file="engine/walk.py",
        before="            watermark = forward(cursor.watermark, bounded(step.watermark, opened_at))\n",
        after="""            top = step.watermark and step.watermark._replace(at=self._intake.now_ms())
            watermark = forward(cursor.watermark, top)
""",
        test=f"{_WALK}::test_each_page_commits_with_the_cursor_that_covers_it",
        why="A machine whose clock runs ahead skips whatever happens in between.",
    ),
    Mutant(
        name="empty-first-scan-sets-a-watermark",
        invariant="5",
        file="engine/window.py",
        before="    if candidate is None or opened_at is None or candidate.at <= opened_at:\n",
        after="""    if candidate is None and opened_at is not None:
        return Position(opened_at, 0)
    if candidate is None or opened_at is None or candidate.at <= opened_at:
""",
        test=f"{_MARKS}::test_an_empty_first_scan_leaves_the_cursor_empty",
        why="An empty list proves nothing about what is imported into it with its old dates.",
    ),
    Mutant(
        name="instants-of-the-future-believed",
        invariant="5",
        file="engine/window.py",
        before="    return [position for position in positions if position.at <= server_at + SKEW_MS]\n",
        after="    return list(positions)\n",
        test=f"{_WALK}::test_an_item_with_an_implausible_time_is_stored_but_does_not_move_the_watermark",
        why="One item dated 2099 would end the mirroring of its list.",
    ),
    Mutant(
        name="watermark-passes-the-walks-first-answer",
        invariant="5",
        file="engine/window.py",
        before="    if candidate is None or opened_at is None or candidate.at <= opened_at:\n",
        after="    if candidate is None or opened_at is None or candidate.at > 0:\n",
        test=f"{LATE}::test_a_change_appearing_behind_a_running_walk_is_found_by_the_next_walk",
        why="What surfaced late behind a long walk lies outside the overlap of the next one.",
    ),
)

REPLAY = (
    Mutant(
        name="replayed-version-written-again",
        invariant="6",
        file="engine/intake.py",
        before="        elif known == item.version:\n            replayed += 1\n",
        after="        elif known is item.version:\n            replayed += 1\n",
        test=f"{PARENTS}::test_a_replayed_page_writes_no_row_but_the_cursor",
        why="Every poll would rewrite the overlap.",
    ),
    Mutant(
        name="stale-version-overwrites",
        invariant="6",
        file="engine/intake.py",
        before="        elif item.version.updated_at < known.updated_at:\n",
        after="        elif item.version.updated_at < 0:\n",
        test=f"{PARENTS}::test_an_older_version_never_replaces_a_newer_one",
        why="A late answer, or a lagging replica, would undo a newer one.",
    ),
    Mutant(
        name="last-of-two-on-a-page-wins",
        invariant="6",
        file="engine/intake.py",
        before="for item in sorted(items, key=lambda item: item.version.updated_at)}\n",
        after="for item in items}\n",
        test=f"{_INTAKE}::test_an_item_listed_twice_on_a_page_is_stored_in_its_newer_version",
        why="An item shown twice on one page ends as its older self.",
    ),
)

COST = (
    Mutant(
        name="every-poll-reads-from-the-beginning",
        invariant="9",
        file="engine/window.py",
        before="    if cursor.watermark is None and not start:\n",
        after="    if order is not None:\n",
        test="tests/situations/test_cost.py::test_a_poll_costs_one_request_per_list_for_a_history_of_any_length[200]",
        why="Correct, and ever more expensive.",
    ),
    Mutant(
        name="digest-of-the-last-pass-forgotten",
        invariant="9",
        file="engine/window.py",
        before="    kept = Window(read.instant, read.since, before=read.seen) if read.pages > 1 else None\n",
        after="    kept = None\n",
        test=f"{SITUATIONS}::test_250_items_sharing_one_instant_cost_at_most_4_requests_when_nothing_changed",
        why="A bulk edit at the end of a list would cost two passes at every poll.",
    ),
)

REANCHORING = (
    Mutant(
        name="page-n-plus-1",
        invariant="re-anchoring",
        file="engine/window.py",
        before="    return Step(Window(top.at, max(top.at - margin_ms, 0)), top, remember=kept)\n",
        after="    return Step(Window(top.at, read.since, token=next_token), top, remember=kept)\n",
        test=f"{SITUATIONS}::test_an_item_edited_during_the_walk_is_not_lost",
        why="Offset pages shift when an item of an earlier page moves: the first of the next page is never shown.",
    ),
    Mutant(
        name="re-anchored-after-the-last-instant",
        invariant="re-anchoring",
        file="engine/window.py",
        before="    return Step(Window(top.at, max(top.at - margin_ms, 0)), top, remember=kept)\n",
        after="    return Step(Window(top.at + 1, top.at + 1), top, remember=kept)\n",
        test=f"{_MARKS}::test_items_that_share_the_last_instant_of_a_page_are_all_read",
        why="The rest of the instant in which the page ended is skipped.",
    ),
)

PASSES = (
    Mutant(
        name="window-accepted-after-one-pass",
        invariant="two equal passes",
        file="engine/window.py",
        before="    if read.pages > 1 and read.seen != read.before:\n",
        after="    if read.pages > 1 and not read.seen:\n",
        test=f"{SITUATIONS}::test_an_item_shifted_inside_one_shared_instant_is_not_lost",
        why="Inside one instant there is nothing to re-anchor at; one pass can hide an item.",
    ),
    Mutant(
        name="window-accepted-after-any-second-pass",
        invariant="two equal passes",
        file="engine/window.py",
        before="    if read.pages > 1 and read.seen != read.before:\n",
        after="    if read.pages > 1 and not read.before:\n",
        test=f"{_WINDOW}::test_a_pass_with_a_different_result_is_followed_by_another",
        why="An item can be hidden in two passes in a row, once at each page boundary it crosses.",
    ),
    Mutant(
        name="passes-compared-by-their-length",
        invariant="two equal passes",
        file="engine/window.py",
        before="""    text = ";".join(f"{position.at}:{position.id}" for position in positions)\n""",
        after="    text = str(len(positions))\n",
        test=f"{_WINDOW}::test_a_pass_with_a_different_result_is_followed_by_another",
        why="One item left and another came: as many, and not the same.",
    ),
    Mutant(
        name="digest-kept-while-its-instant-can-grow",
        invariant="two equal passes",
        file="engine/window.py",
        before="""    return window if final else replace(window, before="")\n""",
        after="    return window\n",
        test=f"{_WINDOW}::test_a_digest_is_kept_after_the_walk_only_when_its_instant_is_over",
        why="A pass made while the instant was still filling would confirm a later one that hid something.",
    ),
)

ETAGS = (
    Mutant(
        name="validator-kept-for-a-full-page",
        invariant="ETag of a full page",
        file="sources/gitlab/surfaces.py",
        before="        return Validator(response.url, response.etag) if response.etag and count < size else None\n",
        after="        return Validator(response.url, response.etag) if response.etag and size else None\n",
        test=f"{SITUATIONS}::test_a_new_page_behind_a_full_one_is_not_hidden_by_its_etag",
        why="The bytes of a full page do not change when a page appears behind it.",
    ),
    Mutant(
        name="validator-sent-to-another-address",
        invariant="ETag of a full page",
        file="sources/gitlab/surfaces.py",
        before=" and validator.url == self._client.address(self._address, params)\n",
        after="\n",
        test=f"{_SURFACES}::test_an_etag_is_sent_only_for_the_url_it_came_from",
        why="An ETag says nothing about any other address.",
    ),
)

MUTANTS = (
    *ONE_TRANSACTION,
    *CRASHES,
    *ONE_AHEAD,
    *IDENTITY,
    *FORWARD,
    *REMOTE_TIME,
    *REPLAY,
    *COST,
    *REANCHORING,
    *PASSES,
    *ETAGS,
)
