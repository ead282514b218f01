"""Bugs about children: settling, watermarks, sweeps, silent changes, verification, what deletion leaves behind."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CHILDREN = "tests/properties/test_children.py"
_UNIT = "tests/unit/engine/test_child_sync.py"
_BATCHES = "tests/unit/sources/gitlab/test_conversations.py"
_SILENT_MINUTE = f"{CHILDREN}::test_a_note_added_without_a_parent_update_is_found_once_the_parent_has_settled"
_DELETED = f"{CHILDREN}::test_a_deleted_note_leaves_neither_row_nor_payload"
_PAYLOADS = "tests/contract/test_store_payloads.py"
_ROW_SHOWS = f"{CHILDREN}::test_a_parent_change_shown_by_the_list_has_its_children_read_at_once"

SETTLING = (
    Mutant(
        name="watermark-moved-though-not-settled",
        invariant="settling",
        file="store/mirror/child_progress.py",
        before="""{'synced_for = :version, ' if settled else ''}""",
        after="""{'synced_for = :version, '}""",
        test=f"{_SILENT_MINUTE}[in-step]",
        why="What is written in the minute after the reading moves nothing, and is never seen.",
    ),
    Mutant(
        name="settled-by-the-local-clock",
        invariant="settling",
        file="store/mirror/child_progress.py",
        before="""{'synced_for = :version, ' if settled else ''}""",
        after="""{'synced_for = :version, ' if now_ms - parents[0].updated_at >= 75_000 else ''}""",
        test=f"{_SILENT_MINUTE}[ahead]",
        why="A machine whose clock runs ahead takes every parent for settled.",
    ),
    Mutant(
        name="early-reading-not-remembered",
        invariant="settling",
        file="store/mirror/child_progress.py",
        before="""fetched_for = :version,"\n""",
        after=""""\n""",
        test=f"{_SILENT_MINUTE}[in-step]",
        why="Until it has settled, a parent would be fetched by every run.",
    ),
    Mutant(
        name="watermark-moved-on-failure",
        invariant="children read whole",
        file="store/mirror/child_progress.py",
        before="SET last_attempt_at = :now, attempts = attempts + 1,",
        after="SET synced_for = parent_updated_at, last_attempt_at = :now, attempts = attempts + 1,",
        test=f"{CHILDREN}::test_children_that_could_not_be_read_are_requested_again",
        why="One bad answer, and the conversation stays as it was until somebody speaks again.",
    ),
)

WHOLE = (
    Mutant(
        name="parents-of-a-batch-count-as-read-before-their-children-are-stored",
        invariant="children read whole",
        file="store/mirror/child_writer.py",
        before="""        with self._writing() as tx:
            # A parent""",
        after="""        with self._writing() as tx:
            for one in readings:
                name = self._family.name
                record_read(tx, self._kind, name, self._scope.project, [one.parent], settled=one.settled, now_ms=now)
        with self._writing() as tx:
            # A parent""",
        test="tests/crash/test_kill_matrix.py"
        "::test_a_run_killed_inside_a_commit_of_several_parents_leaves_each_parent_whole_or_absent[40]",
        why="A death between the two leaves parents that count as read, without children.",
    ),
    Mutant(
        name="batch-of-children-left-behind-by-an-error",
        invariant="children read whole",
        file="engine/child_batch.py",
        before="""            if self._ready:
                self._begin()
            raise
""",
        after="""            raise
""",
        test="tests/unit/engine/test_child_batch.py::test_parents_that_were_read_before_the_rate_limit_are_stored",
        why="Every run that ends at a rate limit would read the same parents again.",
    ),
    Mutant(
        name="batch-in-the-thread-not-waited-for",
        invariant="children read whole",
        file="engine/child_batch.py",
        before="        finally:\n            await self._finish()\n",
        after="        finally:\n            self._storing.clear()\n",
        test="tests/unit/engine/test_child_batch.py"
        "::test_a_batch_that_waits_for_the_thread_is_stored_and_counted_although_the_one_before_it_fails",
        why="A run that ends at an error would close the database under a batch that is still being stored.",
    ),
    Mutant(
        name="batch-of-children-without-a-limit",
        invariant="9",
        file="engine/child_batch.py",
        before="            self._full.set()\n            self._room.clear()\n",
        after="            self._full.set()\n",
        test="tests/unit/engine/test_child_batch.py::test_a_store_that_is_slow_lets_no_more_than_two_batches_wait",
        why="A slow disk would fill the memory with children, and a crash would repeat all of them.",
    ),
    Mutant(
        name="sweep-after-the-first-page",
        invariant="children read whole",
        file="engine/whole.py",
        before="        yield page\n        token = page.next_token\n",
        after="        yield page\n        token = None\n",
        test=f"{CHILDREN}::test_children_of_several_pages_are_all_stored",
        why="What stands on the second page would be swept as not seen.",
    ),
    Mutant(
        name="unreadable-thread-dropped",
        invariant="7",
        file="sources/rest_lists.py",
        before="        rejected = [replace(one, key=self.prefix + one.key) for one in refused]\n",
        after="        rejected = [replace(one, key=self.prefix + one.key) for one in refused if not refused]\n",
        test=f"{CHILDREN}::test_a_note_that_cannot_be_parsed_leaves_its_parent_unchanged_and_due",
        why="Passed over, it is swept, and the parent counts as read.",
    ),
    Mutant(
        name="children-without-a-limit-at-once",
        invariant="9",
        file="engine/child_sync.py",
        before="            for _ in range(self._concurrency):\n",
        after="            for _ in range(10 * self._concurrency):\n",
        test=f"{_UNIT}::test_no_more_parents_are_read_at_once_than_allowed",
        why="A first run would ask for thousands of conversations at once.",
    ),
    Mutant(
        name="full-run-keeps-the-childrens-watermarks",
        invariant="4",
        file="sync/lists.py",
        before="                    reset_watermarks(tx, target.family.kind, project.id)\n",
        after="                    pass\n",
        test=f"{CHILDREN}::test_a_full_run_reads_all_children_again",
        why="An operator who asks for everything would get the lists only.",
    ),
)

SILENT = (
    Mutant(
        name="silent-change-makes-nothing-due",
        invariant="silent changes",
        file="store/mirror/parents.py",
        before="            if row[0] == before[remote_id][0] and any(",
        after="            if row[0] != before[remote_id][0] and any(",
        test=f"{_ROW_SHOWS}[note]",
        why="The row says that a note is gone, and nobody looks which.",
    ),
    Mutant(
        name="notes-of-a-deleted-parent-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/parents.py",
        before="    _remove_discussions(tx, scope.project, kind, buried)\n",
        after="",
        test="tests/contract/test_store_tombstones.py::test_no_table_contains_text_of_a_deleted_item[issues-sqlite]",
        why="What the forge deleted can still be read here.",
    ),
    Mutant(
        name="words-of-a-deleted-document-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/documents.py",
        before="        remove_words(tx, lost)\n",
        after="",
        test="tests/contract/test_store_tombstones.py::test_no_table_contains_text_of_a_deleted_item[issues-sqlite]",
        why="A word of a deleted text would be offered as a correction.",
    ),
    Mutant(
        name="push-makes-no-files-due",
        invariant="silent changes",
        file="store/mirror/kinds.py",
        before="""            "diffs": ("head_sha", "target_branch"),\n""",
        after="""            "diffs": ("target_branch",),\n""",
        test=f"{_ROW_SHOWS}[push]",
        why="A push moves no update time: the new head would have no files.",
    ),
    Mutant(
        name="newest-verification-first",
        invariant="silent changes",
        file="store/mirror/child_progress.py",
        before="""        " ORDER BY c.last_attempt_at LIMIT :limit",
""",
        after="""        " ORDER BY c.last_attempt_at DESC LIMIT :limit",
""",
        test=f"{CHILDREN}::test_verification_reads_the_children_of_every_parent_in_turn",
        why="The same few would be verified for ever, and the others never.",
    ),
    Mutant(
        name="dear-verification-at-every-turn",
        invariant="9",
        file="sync/verification.py",
        before="        dear = found.cost + each > budget\n",
        after="        dear = found.cost + each > 100 * budget\n",
        test=f"{CHILDREN}::test_a_run_without_changes_costs_one_list_request_and_one_verification_request",
        why="A budget of one that is spent threefold is no budget.",
    ),
    Mutant(
        name="switched-off-issues-buried",
        invariant="scrub buries only what is not found",
        file="sources/gitlab/surfaces.py",
        before="            if not anything and await self._is_hidden() is not False:\n",
        after="            if not anything and await self._is_hidden() is None:\n",
        test="tests/situations/gitlab/test_switched_off.py"
        "::test_what_a_project_switches_off_is_kept_and_goes_on_when_it_is_switched_on[issues]",
        why="GitLab answers as if none of its issues existed.",
    ),
    Mutant(
        name="hidden-by-the-settings-alone",
        invariant="scrub buries only what is not found",
        file="sources/gitlab/surfaces.py",
        before="            if not anything and await self._is_hidden() is not False:\n",
        after="            if await self._is_hidden() is not False:\n",
        test="tests/situations/gitlab/test_switched_off.py"
        "::test_deletions_are_found_in_a_list_that_the_project_says_to_hide_and_shows",
        why="A project without a token says nothing, and deletions would never be found.",
    ),
    Mutant(
        name="failed-question-buries",
        invariant="scrub buries only what is not found",
        file="sync/children.py",
        before="        except RemoteError:\n            return None\n",
        after="        except RemoteError:\n            return False\n",
        test=f"{CHILDREN}::test_a_failed_verification_request_deletes_nothing_and_does_not_stop_the_run",
        why="A server in trouble would empty the copy.",
    ),
)

DELETION = (
    Mutant(
        name="vanished-thread-not-swept",
        invariant="deletion leaves nothing",
        file="store/mirror/children.py",
        before="    gone = find_gone(held, renewal.each())\n    changes",
        after="    gone = find_gone({}, renewal.each())\n    changes",
        test=f"{_DELETED}[thread]",
        why="What was deleted on the forge would be read here for ever.",
    ),
    Mutant(
        name="payload-of-a-deleted-note-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/children.py",
        before=""""notes", [str(remote_id) for remote_id in deleted])\n""",
        after=""""notes", [])\n""",
        test=f"{_DELETED}[reply]",
        why="A secret that somebody deleted would stay, word for word.",
    ),
    Mutant(
        name="earlier-versions-of-its-thread-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/children.py",
        before="""        forget_payloads(tx, renewal.project_id, "discussion", "discussions", list(known))\n""",
        after="",
        test=f"{_DELETED}[reply]",
        why="The thread's earlier payloads hold the deleted note too.",
    ),
    Mutant(
        name="payload-of-a-system-note-stored",
        invariant="deletion leaves nothing",
        file="store/mirror/children.py",
        before="        if not note.is_system or note.is_placed\n",
        after="        if note.remote_id\n",
        test=f"{_DELETED}[reply]",
        why="Most notes are the system's: each would be stored twice, and found twice.",
    ),
    Mutant(
        name="whole-payloads-train-a-dictionary",
        invariant="deletion leaves nothing",
        file="store/mirror/payloads.py",
        before="if count * _COMMON >= len(values)}",
        after="if count}",
        test=f"{_PAYLOADS}::test_a_dictionary_holds_no_word_of_a_single_payload",
        why="A dictionary outlives the payloads it was trained with, so a deleted text would stay in it.",
    ),
    Mutant(
        name="dictionary-of-a-rolled-back-transaction-used",
        invariant="payloads can be read",
        file="store/mirror/payloads.py",
        before="            dictionary_id, compressor = known or (None, self._compressor())\n",
        after="            known = self.known = getattr(self, 'known', None) or known\n"
        "            dictionary_id, compressor = known or (None, self._compressor())\n",
        test=f"{_PAYLOADS}::test_a_dictionary_that_was_rolled_back_packs_nothing[sqlite]",
        why="Payloads would refer to a dictionary that was never stored, or to another one with its id.",
    ),
)

_TOPICS = "tests/situations/github/test_topics.py"

TOPICS = (
    Mutant(
        name="earlier-payload-of-a-topic-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/topics.py",
        before="        forget_payloads(tx, project_id, _TYPE, TOPICS, [content.remote_id for content in contents])\n",
        after="",
        test=f"{_TOPICS}::test_deleted_comment_is_removed_with_its_payload",
        why="The payload of a topic contains its comments, also one that was deleted since.",
    ),
    Mutant(
        name="comments-of-a-deleted-topic-kept",
        invariant="deletion leaves nothing",
        file="store/mirror/topics.py",
        before="        _remove_comments(tx, buried)\n",
        after="",
        test="tests/contract/test_store_topics.py::test_a_deleted_topic_keeps_nothing_that_was_said[sqlite]",
        why="What was said below a deleted topic can still be read here.",
    ),
    Mutant(
        name="refused-topics-fail-the-run",
        invariant="scrub buries only what is not found",
        file="sync/lists.py",
        before=" or (target.is_topics and isinstance(error, AccessRefused))\n",
        after="\n",
        test=f"{_TOPICS}::test_token_that_may_not_read_discussions_deletes_nothing_and_fails_nothing",
        why="A token without this right would make every run of the repository fail.",
    ),
)

TWO_PATHS = "two paths, one version"
COMMENT_PATHS = "two paths of comments"
PATHS = "tests/properties/test_two_paths.py"
GLANCES = "tests/situations/github/test_verification.py"
_LONG = f"{PATHS}::test_a_parent_with_more_than_a_page_is_read_to_its_end"

PATHS_OF_DISCUSSIONS = (
    Mutant(
        name="glance-taken-for-the-list",
        invariant=COMMENT_PATHS,
        file="sources/compare.py",
        before="            if page is not None and self._is_same(page):\n",
        after="            if page is not None:\n",
        test=f"{GLANCES}::test_a_query_that_hides_comments_deletes_nothing_because_rest_is_asked",
        why="Comments that a query leaves out would be deleted, although the server has them.",
    ),
    Mutant(
        name="glance-at-a-part-agrees",
        invariant=COMMENT_PATHS,
        file="sources/compare.py",
        before="not page.rejected and shown == stored\n",
        after="not page.rejected and shown.items() <= stored.items()\n",
        test=f"{GLANCES}::test_a_comment_changed_without_a_trace_is_found_and_only_its_list_is_read"
        "[sqlite-deleted-review_comment]",
        why="A comment that was deleted without a trace would stay for ever.",
    ),
    Mutant(
        name="null-taken-for-absent",
        invariant=TWO_PATHS,
        file="sources/graphql.py",
        before="        elif (*path, place) not in hidden:\n",
        after="        elif hidden and (*path, place) not in hidden:\n",
        test=f"{PATHS}::test_a_null_note_is_never_taken_for_an_absent_one",
        why="A partial answer would delete the note that the server could not show.",
    ),
    Mutant(
        name="first-page-of-notes-taken-for-all",
        invariant=TWO_PATHS,
        file="sources/gitlab/conversations.py",
        before="        if parsed.notes.page_info.following is not None:\n            return None\n",
        after="",
        test=f"{_LONG}[notes]",
        why="The watermark of a parent would move before all its notes were read.",
    ),
    Mutant(
        name="first-page-of-discussions-taken-for-all",
        invariant=TWO_PATHS,
        file="sources/gitlab/conversations.py",
        before="    if parent.discussions.page_info.following is not None:\n        return None\n",
        after="",
        test=f"{_LONG}[discussions]",
        why="The watermark of a parent would move before all its discussions were read.",
    ),
    Mutant(
        name="version-with-milliseconds",
        invariant=TWO_PATHS,
        file="sources/gitlab/transform.py",
        before="note.created_at // 1000, note.updated_at // 1000,",
        after="note.created_at, note.updated_at,",
        test=f"{PATHS}::test_reading_by_the_other_path_rewrites_nothing[paths0]",
        why="Every discussion would be written again whenever the path changes.",
    ),
    Mutant(
        name="finer-instants-overwritten",
        invariant=TWO_PATHS,
        file="store/mirror/children.py",
        before="shown % 1000 == 0 and held // 1000 == shown // 1000",
        after="held == shown",
        test=f"{PATHS}::test_a_note_edited_by_graphql_keeps_the_milliseconds_of_its_creation",
        why="An edit that GraphQL shows would take the milliseconds of the note's creation away.",
    ),
    Mutant(
        name="known-range-forgotten",
        invariant=TWO_PATHS,
        file="store/mirror/children.py",
        before="    if note.position_range_unknown and all(held[name] == getattr(note, name) for name in _PLACE):\n",
        after="    if note.position_range_unknown and not note.is_placed:\n",
        test=f"{PATHS}::test_a_reply_read_by_graphql_leaves_the_line_range_of_its_thread",
        why="A reply would take the line range of the whole thread away until REST is asked again.",
    ),
    Mutant(
        name="unknown-range-never-asked-for",
        invariant=TWO_PATHS,
        file="store/mirror/children.py",
        before="    if partial:\n",
        after="    if partial and not renewal.children:\n",
        test=f"{PATHS}::test_line_ranges_follow_after_the_conversations_some_merge_requests_in_each_run",
        why="What GraphQL does not show would stay unknown for ever.",
    ),
    Mutant(
        name="conversations-asked-for-without-a-limit-ahead",
        invariant="one page ahead",
        file="sources/gitlab/conversations.py",
        before="        if self._newest.get((resource, remote_id)) is asked:\n",
        after="        if asked is not None:\n",
        test=f"{_BATCHES}::test_the_next_query_is_sent_while_an_answer_is_used_and_no_more_than_one_ahead",
        why="Every parent that is stored would ask for another page, until all are held in memory.",
    ),
    Mutant(
        name="other-project-under-the-path-believed",
        invariant=TWO_PATHS,
        file="sources/gitlab/conversations.py",
        before=""" or project.id != f"gid://gitlab/Project/{home.remote_id}":\n""",
        after=":\n",
        test=f"{PATHS}::test_a_path_that_leads_to_another_project_is_not_read_by_graphql",
        why="A project that took over the path would replace the conversations of ours.",
    ),
)

MUTANTS = (*SETTLING, *WHOLE, *SILENT, *DELETION, *TOPICS, *PATHS_OF_DISCUSSIONS)
