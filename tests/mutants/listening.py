"""Bugs of listening: what is new in a conversation, what is stored with it, blocked threads, feeds and threads."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DELTAS = "tests/situations/feedback/test_deltas.py"
STATUSES = "tests/situations/feedback/test_statuses.py"
IDENTITY_TESTS = "tests/situations/feedback/test_identity.py"
ENDINGS = "tests/situations/feedback/test_endings.py"
SWITCHING = "tests/situations/feedback/test_switching.py"
COST = "tests/situations/feedback/test_cost.py"
TROUBLE = "tests/situations/feedback/test_trouble.py"
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
        name="comments-cursor-in-a-transaction-of-its-own",
        invariant=INTENTS,
        file="store/mirror/feedback_writer.py",
        before='''in one transaction, or nothing."""
    with writing(database, lease, durable=_plans(batch)) as tx:
''',
        after='''in one transaction, or nothing."""
    with database.transaction() as tx:
        _write_list(tx, batch, now_ms)
    with writing(database, lease, durable=_plans(batch)) as tx:
''',
        test=f"{DELTAS}::test_a_crash_inside_the_commit_leaves_neither_events_nor_cursor[repo]",
        why="A death between the two loses the events of a page for good.",
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
        file="store/mirror/feedback_writer.py",
        before="commands=[command for command in commands if insert_command(tx, project_id, repo, command, now_ms)],",
        after="commands=list(commands),",
        test=f"{DELTAS}::test_a_command_survives_a_crash_between_commit_and_execution[repo]",
        why="Handed on in memory alone, it dies with the process, and the cursor is past it.",
    ),
)

WATERMARKS = (
    Mutant(
        name="pull-request-dated-ahead-moves-the-cursor",
        invariant="5",
        file="feedback/pull_requests.py",
        before="mark = forward(known.watermark, bounded(mark, page.server_at))",
        after="mark = forward(known.watermark, mark)",
        test=f"{TROUBLE}::test_a_merge_is_noticed_although_another_pull_request_is_dated_ahead",
        why="What changes before that date lies below the cursor and is never judged.",
    ),
)

_LOST = "tests/situations/feedback/test_lost_lease.py::test_a_poll_that_lost_its_lease_writes_nothing_more"
FENCES = (
    Mutant(
        name="comments-stored-without-a-fence",
        invariant="lease fencing",
        file="feedback/scan.py",
        before="            lease=self.session.lease,\n",
        after="",
        test=f"{_LOST}[threads-to-feeds]",
        why="Two polls would store events and move cursors side by side.",
    ),
    Mutant(
        name="pull-request-tracked-without-a-fence",
        invariant="lease fencing",
        file="feedback/pull_requests.py",
        before="        with self.session.writing() as tx:\n            tracked = track(\n",
        after="        with self.session.shop.database.transaction() as tx:\n            tracked = track(\n",
        test=f"{_LOST}[threads-to-feeds]",
        why="A poll that was taken over would begin to follow what the new holder has just let go.",
    ),
)

IDENTITY = (
    Mutant(
        name="comments-filtered-by-tuple",
        invariant=VERSIONS,
        file="store/mirror/feedback_writer.py",
        before="                self.judge(batch.items),\n",
        after="""                self.judge(
                    [
                        item
                        for item in batch.items
                        if self.load().watermark is None or item.position > self.load().watermark
                    ]
                ),
""",
        test=f"{DELTAS}::test_a_lower_id_edited_in_the_cursors_own_second_is_ingested[repo]",
        why="A lower id in the second of the cursor is below it, and new all the same.",
    ),
    Mutant(
        name="second-edit-within-a-second-ignored",
        invariant=VERSIONS,
        file="feedback/events.py",
        before="record.updated_at < stored.updated_at)",
        after="record.updated_at <= stored.updated_at)",
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
        before="(stored.digest == body_digest(record.body) or record.updated_at < stored.updated_at)",
        after="record.updated_at < stored.updated_at",
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
        name="unblocked-thread-is-not-read-again",
        invariant=BLOCKED,
        file="feedback/lifecycle.py",
        before="upsert_poll_cursor(tx, scope, last_updated_at=from_at, bootstrap_complete=False, now_ms=now_ms)",
        after="upsert_poll_cursor(tx, scope, last_updated_at=from_at, bootstrap_complete=True, now_ms=now_ms)",
        test=f"{STATUSES}::test_comments_made_while_blocked_are_ingested_once_after_unblocking[repo]",
        why="The feed has passed what was said meanwhile.",
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
        name="feeds-begin-and-threads-count-as-read",
        invariant=HAND_OVER,
        file="feedback/repo_poll.py",
        before="                    save_cursor(tx, scope, replace(cursor, complete=False, validator=None), now)\n",
        after="                    save_cursor(tx, scope, replace(cursor, validator=None), now)\n",
        test=f"{SWITCHING}::test_switching_between_repo_and_thread_mode_loses_and_repeats_nothing[ways1]",
        why="What was said between the last reading of a thread and the beginning of the feeds is in neither.",
    ),
    Mutant(
        name="thread-handed-to-the-feeds-keeps-its-validator",
        invariant=HAND_OVER,
        file="feedback/repo_poll.py",
        before="replace(cursor, complete=False, validator=None)",
        after="replace(cursor, complete=False)",
        test=f"{SWITCHING}::test_threads_covered_by_the_repository_feed_are_not_polled_separately",
        why="An answer of 'nothing changed' completes nothing: each thread would be asked for at every poll for ever.",
    ),
    Mutant(
        name="unfinished-thread-takes-the-feeds-position",
        invariant=HAND_OVER,
        file="feedback/repo_poll.py",
        before="            if at is not None and load_cursor(self._database, scope).complete:\n",
        after="            if at is not None:\n",
        test=f"{SWITCHING}::test_an_unfinished_first_read_continues_after_a_mode_switch",
        why="What its first reading had not reached would count as read.",
    ),
    Mutant(
        name="threads-not-read-where-quarantine-is-due",
        invariant=HAND_OVER,
        file="feedback/repo_poll.py",
        before="            if complete and watch.number not in every and not self._has_due(scope):\n",
        after="            if complete and watch.number not in every:\n",
        test=f"{TROUBLE}::test_a_comment_that_cannot_be_parsed_becomes_an_event_once_it_can[True-repo-repo]",
        why="Met in a thread's first reading, it would never be asked for again.",
    ),
)

MOVING = (
    Mutant(
        name="pull-request-ends-before-it-is-read",
        invariant=STEPS,
        file="feedback/pull_requests.py",
        before="            self.endings[tracked.pr_number] = EndedPull(tracked, pull, verdict)\n",
        after="            self.end(EndedPull(tracked, pull, verdict))\n",
        test=f"{ENDINGS}::test_comments_between_two_polls_just_before_the_merge_become_events[merged-repo]",
        why="What was said between the last poll and the merge would never be an event.",
    ),
    Mutant(
        name="unread-pull-request-ends",
        invariant=STEPS,
        file="feedback/repo_poll.py",
        before="            if number not in unread:\n",
        after="            if number:\n",
        test=f"{ENDINGS}::test_a_merged_pull_request_ends_only_after_its_threads_were_read[pulls/1/reviews-repo]",
        why="What could not be read would be lost with the end.",
    ),
    Mutant(
        name="reviews-count-as-read-at-once",
        invariant=REVIEWS,
        file="feedback/pull_requests.py",
        before="    return moved_at if over else moved_at - 1\n",
        after="    return moved_at if over else moved_at\n",
        test=f"{DELTAS}::test_a_review_in_the_second_of_the_last_read_is_not_lost[repo]",
        why="A second review in that second does not move the pull request again.",
    ),
    Mutant(
        name="reviews-read-at-every-poll",
        invariant=REVIEWS,
        file="feedback/pull_requests.py",
        before="    return read_for < moved_at and reviews_read_for(",
        after="    return read_for <= moved_at and reviews_read_for(",
        test=f"{COST}::test_in_repo_mode_a_quiet_poll_is_three_requests_for_any_number_of_threads[10]",
        why="One request for each pull request, at every poll.",
    ),
    Mutant(
        name="closed-tested-before-merged",
        invariant=STEPS,
        file="feedback/lifecycle.py",
        before="""    if pull.merged or pull.merged_at is not None:
        return "merged"
    if pull.state == "closed":
        return "closed"
""",
        after="""    if pull.state == "closed":
        return "closed"
    if pull.merged or pull.merged_at is not None:
        return "merged"
""",
        test=f"{STATUSES}::test_a_merged_pull_request_gets_status_merged_and_is_not_polled_again[repo]",
        why="A merged pull request is closed too, and could be resumed.",
    ),
    Mutant(
        name="step-made-over-somebody-elses",
        invariant=STEPS,
        file="feedback/pull_requests.py",
        before="            moved = move(tx, tracked, status, reason, detail, now)\n",
        after="            moved = move(tx, note_pull(tx, tracked, pull, now), status, reason, detail, now)\n",
        test=f"{TROUBLE}::test_a_status_change_by_another_process_does_not_end_the_poll",
        why="The row that is read again has the other's status, and the step is judged for ours.",
    ),
    Mutant(
        name="full-page-of-one-second-believed",
        invariant=STEPS,
        file="feedback/pull_requests.py",
        before="validator=page.validator if shows else None)",
        after="validator=page.validator)",
        test=f"{STATUSES}::test_a_force_push_beyond_a_full_page_of_one_second_is_noticed",
        why="What changes within that second stands behind the page, whose answer stays the same.",
    ),
    Mutant(
        name="pulls-position-believed-from-the-future",
        invariant=STEPS,
        file="feedback/pull_requests.py",
        before="        if reason is None:\n            return cursor\n",
        after="        if reason is None or cursor:\n            return cursor\n",
        test=f"{TROUBLE}::test_an_impossible_cursor_is_replaced_by_a_bounded_backfill"
        "[watermark_at = 9999999999999-repo]",
        why="Nothing on the list would ever be later than it.",
    ),
    Mutant(
        name="first-look-ends-at-its-first-page",
        invariant=STEPS,
        file="feedback/repo_poll.py",
        before="            shown = {pull.number for pull in look.pulls} | (numbers if begun else set())\n",
        after="            shown = numbers\n",
        test=f"{STATUSES}::test_a_pull_request_ended_before_the_first_poll_and_beyond_page_one_is_noticed[repo]",
        why="What ended before the list was first read would be followed for ever.",
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
        file="feedback/repositories.py",
        before="        self.name = name or self.name\n",
        after="        self.name = self.name or name or self.name\n",
        test=f"{IDENTITY_TESTS}::test_a_renamed_repository_is_learnt_and_costs_no_redirect_any_more[repo]",
        why="Every poll would be redirected for ever.",
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

MUTANTS: tuple[Mutant, ...] = (*IDENTITIES, *STORED, *WATERMARKS, *FENCES, *IDENTITY, *PATIENCE, *FEEDS, *MOVING)
