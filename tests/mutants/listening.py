"""Bugs of listening: what is new in a conversation, what is stored with it, blocked threads, feeds and threads."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DELTAS = "tests/situations/feedback/test_deltas.py"
INGESTION = "tests/contract/test_store_feedback_ingestion.py"
TRACKING = "tests/contract/test_store_feedback_tracking.py"
POSITIONS = "tests/contract/test_followed_positions.py"
STATUSES = "tests/situations/feedback/test_statuses.py"
IDENTITY_TESTS = "tests/situations/feedback/test_identity.py"
ENDINGS = "tests/situations/feedback/test_endings.py"
SWITCHING = "tests/situations/feedback/test_switching.py"
COST = "tests/situations/feedback/test_cost.py"
TROUBLE = "tests/situations/feedback/test_trouble.py"
NOTES = "tests/situations/feedback/test_gitlab_notes.py"
SHADOW = "tests/situations/feedback/test_shadow.py"
ALL_WAYS = "tests/properties/test_feedback.py::test_every_polling_mode_ingests_what_a_full_scan_at_each_poll_shows"
ANY_CHANGE = (
    "tests/properties/test_feedback.py::test_no_version_is_lost_or_repeated_when_polls_fail_or_the_polling_mode_changes"
)

INTENTS = "8"
VERSIONS = "versions of comments"
BLOCKED = "talk in a blocked thread"
HAND_OVER = "feed hand-over"
REVIEWS = "reviews settle"
STEPS = "steps of a pull request"
REPOSITORY = "repository identity"
OWN_ANSWERS = "own answers"

STORED = (
    Mutant(
        name="thread-read-without-its-pull-request",
        invariant=VERSIONS,
        file="sync/followed.py",
        before="        for watch in (watch for watch in watched if watch.number in stored):\n",
        after="        for watch in watched:\n",
        test=f"{TROUBLE}::test_comments_are_not_lost_when_their_pull_request_could_not_be_fetched_at_first[thread]",
        why="Its comments cannot be stored, and the position of the thread passes them.",
    ),
    Mutant(
        name="stored-comments-judged-by-an-old-snapshot",
        invariant=BLOCKED,
        file="feedback/consumer.py",
        before="must not be passed over now.\n        found.snapshot = None\n",
        after="must not be passed over now.\n",
        test=f"{STATUSES}::test_a_pull_request_unblocked_while_stored_comments_are_judged_loses_none_of_them",
        why="Its comments count as judged although they were passed over, and never become events.",
    ),
    Mutant(
        name="edit-without-milliseconds-taken-for-an-older-version",
        invariant=VERSIONS,
        file="feedback/events.py",
        before="    return record.updated_at // 1000 < stored.updated_at // 1000\n",
        after="    return record.updated_at < stored.updated_at\n",
        test=f"{NOTES}::test_an_edit_within_the_same_second_is_an_event_although_it_is_read_without_milliseconds[sqlite]",
        why="GraphQL cuts the milliseconds off, so an edit in the second of the last version would be lost.",
    ),
    Mutant(
        name="issue-taken-for-the-merge-request-of-its-number",
        invariant=VERSIONS,
        file="feedback/context.py",
        before='pull, operations = self.pulls.get(number) if on != "issue" else None, self',
        after="pull, operations = self.pulls.get(number), self",
        test=f"{NOTES}::test_notes_on_an_issue_with_the_number_of_a_followed_merge_request_are_no_events[sqlite]",
        why="On GitLab issues and merge requests are numbered separately.",
    ),
    Mutant(
        name="internal-note-answered-in-public",
        invariant=OWN_ANSWERS,
        file="feedback/events.py",
        before="    return record.remote_id if record.internal else None\n",
        after="    return record.remote_id if record.internal and record.on is None else None\n",
        test=f"{NOTES}::test_a_command_in_an_internal_note_is_answered_in_its_internal_discussion[sqlite]",
        why="What members say among themselves would be quoted where everyone reads it.",
    ),
    Mutant(
        name="command-answered-on-the-merge-request-of-the-issues-number",
        invariant=OWN_ANSWERS,
        file="feedback/actions.py",
        before="        if not self._settings.shares_numbers:\n",
        after="        if self._settings.shares_numbers:\n",
        test=f"{NOTES}::test_a_command_on_a_source_issue_is_answered_there_although_a_merge_request_has_its_number[sqlite]",
        why="The answer would be posted in another conversation.",
    ),
    Mutant(
        name="shadow-scan-counts-what-is-new-as-missed",
        invariant=VERSIONS,
        file="feedback/consumer.py",
        before="        missed = [one.record for one in fresh if one.record.updated_at <= (found.compared_at or 0)]\n",
        after="        missed = [one.record for one in fresh]\n",
        test=f"{SHADOW}::test_a_missed_comment_is_found_counted_logged_and_becomes_its_event",
        why="A comment that was written after the lists were read looks like a loss.",
    ),
    Mutant(
        name="shadow-scan-always-of-the-same-thread",
        invariant=VERSIONS,
        file="feedback/consumer.py",
        before="key=lambda pull: (pull.compared_at or 0, pull.pr_number))",
        after="key=lambda pull: pull.pr_number)",
        test=f"{SHADOW}::test_threads_are_compared_in_turn_and_only_as_often_as_the_share_says",
        why="A loss in another thread is never found.",
    ),
    Mutant(
        name="item-dated-ahead-moves-the-mark",
        invariant="5",
        file="engine/newest_first.py",
        before="(position := bounded(found, opened_at)) is not None]",
        after="(position := found) is not None]",
        test="tests/unit/engine/test_newest_first.py"
        "::test_an_item_dated_ahead_of_the_server_moves_the_watermark_only_to_the_servers_time",
        why="Changes before that date lie beyond the mark and are not read.",
    ),
    Mutant(
        name="comments-judged-after-the-commit",
        invariant=INTENTS,
        file="store/mirror/page_writer.py",
        before="""        if self._consumer is not None:
            self._consumer.stored(tx, self._scope.project, [item.record for item in items], now_ms)
        return links

    def _bury(self, tx: Transaction, gone: Sequence[RemoteId], now_ms: int) -> None:
        self._table.bury(tx, self._scope, _numbers(gone), now_ms)

    def _count(self, links: LinkCounts) -> None:
""",
        after="""        self._records = [item.record for item in items]
        return links

    def _bury(self, tx: Transaction, gone: Sequence[RemoteId], now_ms: int) -> None:
        self._table.bury(tx, self._scope, _numbers(gone), now_ms)

    def _count(self, links: LinkCounts) -> None:
        if self._consumer is not None:
            with writing(self._database, self._lease) as tx:
                self._consumer.stored(tx, self._scope.project, self._records, self._now_ms())
""",
        test=f"{INGESTION}::test_a_failure_in_any_part_of_a_page_rolls_back_all_parts[sqlite-event]",
        why="A death between the two loses the events of a page for good.",
    ),
    Mutant(
        name="children-judged-after-the-commit",
        invariant=INTENTS,
        file="store/mirror/child_writer.py",
        before="""            changed = self._replace(tx, stored, now) if stored else 0
            for _ in readings:
                self._seam(Seam.INSIDE_COMMIT)
""",
        after="""            consumer, self._consumer = self._consumer, None
            changed = self._replace(tx, stored, now) if stored else 0
            self._consumer = consumer
        with self._writing() as tx:
            self._consume(tx, stored, now)
            for _ in readings:
                self._seam(Seam.INSIDE_COMMIT)
""",
        test=f"{INGESTION}::test_a_failure_after_children_were_judged_rolls_back_rows_and_effects[sqlite]",
        why="The reviews count as read, and their events are lost.",
    ),
    Mutant(
        name="event-stored-without-its-body",
        invariant=INTENTS,
        file="store/work/events.py",
        before="""        "ingested_at": now_ms,
    }
""",
        after="""        "ingested_at": now_ms,
        "body": "",
    }
""",
        test=f"{DELTAS}::test_bodies_survive_a_failure_after_ingestion[repo]",
        why="To be fetched when somebody acts on it: by then it may be edited, or gone.",
    ),
    Mutant(
        name="command-not-stored-before-it-is-applied",
        invariant=INTENTS,
        file="store/work/effects.py",
        before="commands=[command for command in commands if insert_command(tx, project_id, repo, command, now_ms)],",
        after="commands=list(commands),",
        test=f"{DELTAS}::test_a_command_survives_a_crash_between_commit_and_execution[repo]",
        why="Handed on in memory alone, it dies with the process, and the cursor is past it.",
    ),
)

_LOST = "tests/situations/feedback/test_lost_lease.py::test_a_poll_that_lost_its_lease_writes_nothing_more"
FENCES = (
    Mutant(
        name="comments-stored-without-a-fence",
        invariant="lease fencing",
        file="sync/lists.py",
        before="        lease=session.lease,\n",
        after="",
        test=f"{_LOST}[threads-to-feeds]",
        why="Two polls would store events and move cursors side by side.",
    ),
    Mutant(
        name="pull-request-ended-without-a-fence",
        invariant="lease fencing",
        file="feedback/consumer.py",
        before="        with session.writing() as tx:\n            note_pull(tx, tracked, one.pull, now)\n",
        after="        with self._database.transaction() as tx:\n            note_pull(tx, tracked, one.pull, now)\n",
        test=f"{_LOST}[threads-to-feeds]",
        why="A poll that was taken over would make a step beside those of the new holder.",
    ),
)

IDENTITY = (
    Mutant(
        name="judged-version-known-by-its-time-alone",
        invariant=VERSIONS,
        file="store/work/effects.py",
        before=" and judged.digest == body_digest(record.body)",
        after="",
        test=f"{INGESTION}::test_a_lower_id_edited_in_the_cursors_own_second_is_ingested[sqlite]",
        why="A comment that is edited in the second in which it was judged is new all the same.",
    ),
    Mutant(
        name="touched-comment-no-longer-ignored",
        invariant=VERSIONS,
        file="store/work/effects.py",
        before="        for one in judged\n        if one.effects\n    ]\n",
        after="        for one in judged\n    ]\n",
        test=f"{INGESTION}::test_an_ignored_comment_stays_marked_when_it_is_only_touched[sqlite]",
        why="A corrected list of users would not bring it back.",
    ),
    Mutant(
        name="second-edit-within-a-second-ignored",
        invariant=VERSIONS,
        file="feedback/events.py",
        before="    return record.updated_at // 1000 < stored.updated_at // 1000\n",
        after="    return record.updated_at // 1000 <= stored.updated_at // 1000\n",
        test=f"{DELTAS}::test_a_second_edit_within_one_second_is_an_event_with_a_hash_in_its_key[repo]",
        why="The remote counts whole seconds, and people do not.",
    ),
    Mutant(
        name="second-edit-within-a-second-without-a-mark",
        invariant=VERSIONS,
        file="feedback/events.py",
        before="    if stored is not None and stored.updated_at == record.updated_at:\n",
        after="    if stored is not None and stored.updated_at > record.updated_at:\n",
        test=f"{DELTAS}::test_a_second_edit_within_one_second_is_an_event_with_a_hash_in_its_key[thread]",
        why="Two versions under one key are one event, and the second body is lost.",
    ),
    Mutant(
        name="touch-taken-for-an-edit",
        invariant=VERSIONS,
        file="feedback/events.py",
        before="(stored.digest == body_digest(record.body) or _is_older(record, stored))",
        after="_is_older(record, stored)",
        test=f"{DELTAS}::test_an_update_with_the_same_body_is_not_an_event_and_a_later_edit_is[repo]",
        why="The remote moves update times by itself, and the same words would be acted on again.",
    ),
)

PATIENCE = (
    Mutant(
        name="talk-of-a-blocked-thread-counts-as-read",
        invariant=BLOCKED,
        file="feedback/events.py",
        before="""    if role == "blocked":
        return None
""",
        after="""    if role == "blocked":
        return ()
""",
        test=f"{STATUSES}::test_comments_made_while_blocked_are_ingested_once_after_unblocking[repo]",
        why="A version that is kept is not new when the block is gone.",
    ),
    Mutant(
        name="unblocked-thread-is-not-judged-again",
        invariant=BLOCKED,
        file="feedback/lifecycle.py",
        before=", now, **columns, judge_from=0)",
        after=", now, **columns)",
        test=f"{STATUSES}::test_comments_made_while_blocked_are_ingested_once_after_unblocking[repo]",
        why="What was said meanwhile is stored, and no list shows it as new again.",
    ),
    Mutant(
        name="judging-is-never-over",
        invariant=BLOCKED,
        file="store/work/tracked_pull_requests.py",
        before="SET judge_from = NULL WHERE id = :id",
        after="SET judge_from = judge_from WHERE id = :id",
        test=f"{TRACKING}::test_stored_comments_are_judged_once_after_tracking_and_after_each_unblock[sqlite]",
        why="Every run would go through every comment of every thread.",
    ),
    Mutant(
        name="talk-of-a-blocked-thread-lost-at-its-end",
        invariant=BLOCKED,
        file="feedback/consumer.py",
        before="""            self._catch_up(session, found, number, "mr", lambda _tx: 0)\n""",
        after="""            self._catch_up(session, found, number, "mr", lambda _tx: None)\n""",
        test=f"{ENDINGS}::test_comments_on_a_blocked_pull_request_become_events_when_it_is_merged[repo]",
        why="A pull request that has ended is never unblocked.",
    ),
    Mutant(
        name="events-taken-in-while-blocked",
        invariant=BLOCKED,
        file="feedback/context.py",
        before="""            return "blocked" if pull.status == "blocked" and not pull.ending else "awaiting"
""",
        after="""            return "awaiting"
""",
        test=f"{STATUSES}::test_comments_made_while_blocked_are_ingested_once_after_unblocking[repo]",
        why="Somebody would act on a branch whose history was rewritten.",
    ),
)

FEEDS = (
    Mutant(
        name="lists-of-the-whole-continue-where-those-of-the-followed-ended",
        invariant=HAND_OVER,
        file="sync/ingest.py",
        before="""            mirror_whole(self.session, target, project)
""",
        after="""            pass
""",
        test=f"{SWITCHING}::test_what_was_not_followed_is_read_when_the_whole_repository_is_mirrored[repo-by-name]",
        why="Comments on pull requests that were not followed lie before these positions.",
    ),
    Mutant(
        name="only-feeds-start-over-for-the-whole-repository",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="""        for name in ("merge_requests", *target.source.feeds):
            reset_cursor""",
        after="""        for name in target.source.feeds:
            reset_cursor""",
        test=f"{SWITCHING}::test_what_was_not_followed_is_read_when_the_whole_repository_is_mirrored[repo-by-name]",
        why="Each pull request that was not followed would be fetched by itself.",
    ),
    Mutant(
        name="feeds-begin-and-threads-count-as-read",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="                    save_cursor(tx, scope, replace(cursor, complete=False, validator=None), now)\n",
        after="                    save_cursor(tx, scope, replace(cursor, validator=None), now)\n",
        test=f"{SWITCHING}::test_switching_between_repo_and_thread_mode_loses_and_repeats_nothing[ways1]",
        why="What was said between the last reading of a thread and the beginning of the feeds is in neither.",
    ),
    Mutant(
        name="thread-handed-to-the-feeds-keeps-its-validator",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="replace(cursor, complete=False, validator=None)",
        after="replace(cursor, complete=False)",
        test=f"{SWITCHING}::test_threads_covered_by_the_repository_feed_are_not_polled_separately",
        why="An answer of 'nothing changed' completes nothing: each thread would be asked for at every poll for ever.",
    ),
    Mutant(
        name="unfinished-thread-takes-the-feeds-position",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="                and load_cursor(self._database, scope).complete\n",
        after="",
        test=f"{SWITCHING}::test_a_mode_switch_during_a_failing_poll_loses_nothing",
        why="What its first reading had not reached would count as read.",
    ),
    Mutant(
        name="feeds-open-at-our-time",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="        server_at = now + (self._source.skew_ms or 0)\n",
        after="        server_at = now\n",
        test=f"{POSITIONS}::test_feeds_start_at_the_servers_time_whatever_our_clock_shows[200000]",
        why="If our clock is ahead, what is said until then lies before the beginning of the feeds.",
    ),
    Mutant(
        name="quarantine-of-the-feeds-left-in-thread-mode",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="            await self._retry_quarantined()\n",
        after="            pass\n",
        test=f"{TROUBLE}::test_a_comment_that_cannot_be_parsed_becomes_an_event_once_it_can[False-repo-thread]",
        why="Met in a feed, it lies below the position of its thread and would never be asked for again.",
    ),
    Mutant(
        name="threads-not-read-where-quarantine-is-due",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="not load_cursor(self._database, scope).complete or due_entries(self._database, scope, now, 1):",
        after="not load_cursor(self._database, scope).complete or now < 0:",
        test=f"{TROUBLE}::test_a_comment_that_cannot_be_parsed_becomes_an_event_once_it_can[True-repo-repo]",
        why="Met in a thread's first reading, it would never be asked for again.",
    ),
)

MOVING = (
    Mutant(
        name="unread-pull-request-ends",
        invariant=STEPS,
        file="feedback/consumer.py",
        before="            if verdict in TERMINAL and one.is_read:\n",
        after="            if verdict in TERMINAL:\n",
        test=f"{ENDINGS}::test_a_merged_pull_request_ends_only_after_its_threads_were_read[pulls/1/reviews-repo]",
        why="What could not be read would be lost with the end.",
    ),
    Mutant(
        name="unread-threads-settle",
        invariant=STEPS,
        file="sync/followed.py",
        before="            at = self._read_at.get(watch, fed_at if complete else None)\n",
        after="            at = self._read_at.get(watch, 2**61 if complete else 2**61)\n",
        test=f"{ENDINGS}::test_a_merged_pull_request_ends_only_after_its_threads_were_read[issues-thread]",
        why="A pull request would end although its comments could not be read.",
    ),
    Mutant(
        name="rule-blind-to-what-ended-between-two-polls",
        invariant=STEPS,
        file="feedback/consumer.py",
        before="matches_rule(pull, found.settings, opened_since=found.opened_since)",
        after="matches_rule(pull, found.settings)",
        test=f"{ENDINGS}::test_a_pull_request_opened_and_merged_between_two_polls_is_tracked_by_its_rule[repo]",
        why="What was said on it would never be an event.",
    ),
    Mutant(
        name="reviews-count-as-read-at-once",
        invariant=REVIEWS,
        file="engine/child_sync.py",
        before="    return server_at is not None and server_at - updated_at >= settle_ms\n",
        after="    return server_at is not None and server_at - updated_at >= min(settle_ms, 0)\n",
        test=f"{DELTAS}::test_a_review_in_the_second_of_the_last_read_is_not_lost[repo]",
        why="A second review in that second does not move the pull request again.",
    ),
    Mutant(
        name="unread-reviews-do-not-delay-the-end",
        invariant=REVIEWS,
        file="store/work/tracked_pull_requests.py",
        before="c.kind IN ('comments', 'reviews', 'discussions')",
        after="c.kind IN ('comments', 'discussions')",
        test=f"{ENDINGS}::test_a_merged_pull_request_ends_only_after_its_threads_were_read[pulls/1/reviews-thread]",
        why="A review that could not be read before the merge would never be an event.",
    ),
    Mutant(
        name="merged-taken-for-closed",
        invariant=STEPS,
        file="feedback/lifecycle.py",
        before="""    if pull.state == MERGED:
        return "merged"
""",
        after="""    if pull.state == MERGED:
        return "closed"
""",
        test=f"{STATUSES}::test_a_merged_pull_request_gets_status_merged_and_is_not_polled_again[repo]",
        why="A merged pull request could be resumed.",
    ),
    Mutant(
        name="step-made-over-somebody-elses",
        invariant=STEPS,
        file="feedback/consumer.py",
        before="            note_pull(tx, tracked, one.pull, now)\n",
        after="            tracked = note_pull(tx, tracked, one.pull, now)\n",
        test=f"{TROUBLE}::test_a_status_change_by_another_process_does_not_end_the_poll",
        why="The row that is read again has the other's status, and the step is judged for ours.",
    ),
    Mutant(
        name="full-page-of-one-second-believed",
        invariant=STEPS,
        file="engine/newest_first.py",
        before="any(item.at < page.server_at - margin_ms for item in page.items)",
        after="margin_ms > 0",
        test=f"{STATUSES}::test_a_force_push_beyond_a_full_page_of_one_second_is_noticed",
        why="What changes within that second stands behind the page, whose answer stays the same.",
    ),
    Mutant(
        name="feeds-position-believed-from-the-future",
        invariant=HAND_OVER,
        file="sync/followed.py",
        before="                and not why_invalid(feed, now)\n",
        after="",
        test=f"{POSITIONS}::test_a_thread_does_not_take_over_an_impossible_position_of_its_feed",
        why="A thread would start over where the feed starts over, and what was said before is lost.",
    ),
    Mutant(
        name="first-look-ends-at-its-first-page",
        invariant=STEPS,
        file="sync/followed.py",
        before='snapshots=(mode == "thread" or opening) and not listed)',
        after='snapshots=mode == "thread" and not listed)',
        test=f"{POSITIONS}::test_a_merge_before_the_feeds_start_is_noticed_however_deep_it_lies_in_the_list",
        why="What ended before the list was first read, and lies deep in it, would be followed for ever.",
    ),
)

IDENTITIES = (
    Mutant(
        name="replaced-repository-believed",
        invariant=REPOSITORY,
        file="store/mirror/projects.py",
        before="    if remote_id != project.remote_id:\n",
        after="    if remote_id < 0:\n",
        test=f"{IDENTITY_TESTS}::test_a_repository_that_took_over_the_name_is_refused_and_nothing_of_it_is_read[1-repo]",
        why="Pull requests of somebody else's repository would be followed and answered.",
    ),
    Mutant(
        name="renamed-repository-not-learnt",
        invariant=REPOSITORY,
        file="sync/followed.py",
        before="""        await follow_rename(self._session, self._targets["merge_requests"], self._report)\n""",
        after="",
        test=f"{IDENTITY_TESTS}::test_a_renamed_repository_is_learnt_and_costs_no_redirect_any_more[repo]",
        why="Events, answers and reports would carry the old name for ever.",
    ),
    Mutant(
        name="read-back-believes-anybody",
        invariant=OWN_ANSWERS,
        file="feedback/outbox.py",
        before="        return ours and self.token in find_markers(record.body)\n",
        after="        return self.token in find_markers(record.body) or (ours and False)\n",
        test="tests/situations/answers/test_signatures.py"
        "::test_our_marker_posted_by_another_user_does_not_suppress_a_reply[sqlite]",
        why="Somebody who copies a marker could keep an answer from being posted.",
    ),
    Mutant(
        name="quoted-marker-taken-for-ours",
        invariant=OWN_ANSWERS,
        file="feedback/events.py",
        before="        return token.observed_comment_id == record.remote_id\n",
        after="        return True\n",
        test="tests/situations/feedback/test_markers.py"
        "::test_a_comment_by_an_allowed_user_quoting_our_marker_becomes_an_event[repo]",
        why="Words below a quoted answer of ours would never be an event.",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*IDENTITIES, *STORED, *FENCES, *IDENTITY, *PATIENCE, *FEEDS, *MOVING)
