"""Every promise with the tests that hold it, and every mutant those tests must catch. Data only."""

from __future__ import annotations

from tests.mutants import (
    announcing,
    guarding,
    listening,
    mirroring,
    moving,
    offspring,
    posting,
    resolving,
    settings,
    sharing,
    showing,
    surgery,
    telling,
    understanding,
    walking,
)
from tests.mutants.mutant import Mutant, Promise

_HISTORIES = "tests/properties/test_histories.py::test_the_copy_equals_the_server_after_any_history"
_HORIZONS = "tests/properties/test_horizons.py"
_KILLED = "tests/crash/test_kill_matrix.py::test_a_run_killed_at_a_seam_continues_where_it_stopped"

_TELLING = "tests/crash/test_kill_documents.py::test_a_sync_killed_at_every_document_and_vector_seam_continues"
_ACCOUNTS = "tests/properties/test_accounts.py::test_every_remaining_post_is_stored_once_and_unchanged"
_KILLED_STREAM = "tests/crash/test_stream_killed.py::test_a_stream_killed_repeatedly_loses_and_duplicates_nothing"
_PAYLOADS = "tests/contract/test_store_payloads.py"
_TALK = (
    "tests/properties/test_conversations.py::test_a_conversation_is_copied_completely_despite_edits_faults_and_crashes"
)

PROMISES = (
    Promise("1", (f"{walking.PARENTS}::test_an_exception_inside_the_commit_leaves_neither_rows_nor_cursor", _KILLED)),
    Promise(
        "2",
        (
            _KILLED,
            "tests/crash/test_kill_matrix.py::test_a_run_killed_at_every_seam_and_visit_continues",
            "tests/crash/test_kill_halfway.py::test_after_a_kill_half_way_the_next_run_reads_the_rest_plus_one_page_per_scope",
        ),
    ),
    Promise("3", (_HISTORIES,)),
    Promise("4", ("tests/unit/engine/test_cursor.py::test_a_watermark_only_moves_forward", _HISTORIES)),
    Promise(
        "5",
        (
            f"{walking.LATE}::test_no_late_change_is_lost_in_any_continuation_of_the_walk",
            f"{listening.TROUBLE}::test_a_merge_is_noticed_although_another_pull_request_is_dated_ahead",
        ),
    ),
    Promise("6", (f"{walking.PARENTS}::test_a_replayed_page_changes_one_row_by_sqlites_change_counter", _HISTORIES)),
    Promise("7", (_HISTORIES,)),
    Promise(
        listening.INTENTS,
        (
            f"{listening.DELTAS}::test_a_crash_inside_the_commit_leaves_neither_events_nor_cursor",
            f"{listening.INGESTION}::test_after_a_kill_inside_the_commit_the_next_process_writes_the_whole_page",
            listening.ANY_CHANGE,
        ),
    ),
    Promise(
        "9",
        (
            "tests/properties/test_newest_first.py::test_a_poll_with_nothing_new_costs_one_request",
            f"{listening.COST}::test_polling_a_long_thread_costs_as_much_as_a_short_one",
            f"{listening.COST}::test_in_thread_mode_the_cost_of_a_quiet_poll_is_linear_in_tracked_threads",
        ),
    ),
    Promise(
        walking.AHEAD,
        (
            f"{walking.FETCHING_AHEAD}::test_a_page_fetched_ahead_of_a_commit_that_fails_is_not_stored",
            (
                f"{walking.FETCHING_AHEAD}::"
                "test_a_cancelled_walk_ends_when_the_page_that_is_being_stored_is_committed_and_counted"
            ),
            _KILLED,
        ),
    ),
    Promise("re-anchoring", (_HISTORIES,)),
    Promise(
        "two equal passes",
        (
            "tests/properties/test_id_order.py::test_no_comment_is_lost_when_pages_shift_in_an_id_ordered_list",
            _HISTORIES,
        ),
    ),
    Promise(
        "lease fencing",
        ("tests/crash/test_lease_race.py::test_a_process_that_resumes_without_its_lease_writes_nothing_more",),
    ),
    Promise(
        "lease takeover race",
        ("tests/crash/test_lease_race.py::test_of_processes_started_at_once_one_writes_and_the_others_name_it",),
    ),
    Promise(guarding.SCOPES),
    Promise(
        guarding.SHARED_LIMIT,
        (f"{guarding.GRANTS}::test_clients_of_several_processes_together_send_no_more_than_the_limit",),
    ),
    Promise(
        guarding.WORKERS,
        (
            "tests/situations/service/test_workers.py::test_three_workers_send_the_requests_of_one_and_make_the_same_copy",
            "tests/situations/service/test_workers.py::test_the_scope_of_a_killed_worker_is_taken_over",
            "tests/situations/service/test_workers.py::test_workers_that_come_and_go_answer_each_command_once_and_keep_the_copy_true",
            f"{guarding.TURNS}::test_a_scope_that_another_worker_runs_is_left_to_it",
            "tests/situations/service/test_workers.py::test_a_worker_whose_clock_is_moved_neither_takes_leases_nor_postpones_scopes",
        ),
    ),
    Promise("ledger transitions"),
    Promise(
        "cursor corruption",
        (f"{walking.PARENTS}::test_an_invalid_cursor_is_replaced_by_a_bounded_backfill",),
    ),
    Promise("settling", (_TALK,)),
    Promise("children read whole", (_TALK, _KILLED)),
    Promise(
        offspring.TWO_PATHS,
        (
            f"{offspring.PATHS}::test_alternating_paths_give_the_same_copy_and_rewrite_nothing",
            f"{offspring.PATHS}::test_a_crash_between_two_parents_of_one_query_loses_neither",
            f"{offspring.PATHS}::test_a_new_note_read_by_graphql_leaves_the_milliseconds_of_its_neighbours",
            f"{offspring.PATHS}::test_notes_on_the_commits_of_a_merge_request_are_left_out_as_rest_does",
        ),
    ),
    Promise(
        offspring.COMMENT_PATHS,
        (
            f"{offspring.GLANCES}::test_a_partial_answer_never_deletes_a_comment",
            f"{offspring.GLANCES}::test_both_paths_make_the_same_copy_of_a_random_history",
        ),
    ),
    Promise("silent changes", (_TALK,)),
    Promise("deletion leaves nothing", (_TALK,)),
    Promise(
        "payloads can be read",
        (
            f"{_PAYLOADS}::test_a_dictionary_that_was_rolled_back_packs_nothing",
            f"{_PAYLOADS}::test_two_writers_of_one_transaction_use_the_dictionary_that_one_of_them_trained",
            f"{_PAYLOADS}::test_many_payloads_train_a_dictionary_that_halves_the_next_ones",
        ),
    ),
    Promise(
        "documents follow",
        (
            f"{telling.DOCUMENTS}::test_after_a_kill_inside_a_batch_the_next_run_builds_all_its_documents",
            f"{telling.DOCUMENTS}::test_the_full_text_index_follows_every_change_of_a_document",
            _TELLING,
        ),
    ),
    Promise("vectors follow", (_TELLING,)),
    Promise(
        "changes listed once",
        (f"{telling.CHANGES}::test_a_reader_beside_two_writers_sees_every_change_exactly_once",),
    ),
    Promise(
        surgery.SURGERY,
        (
            "tests/crash/test_surgical_contention.py::test_a_second_surgical_sync_names_the_first_and_writes_nothing",
            "tests/crash/test_surgical_contention.py::test_a_normal_sync_gets_the_lease_while_a_surgical_one_does_not_hold_it",
            "tests/crash/test_surgical_contention.py::test_a_surgical_sync_killed_while_storing_can_be_repeated",
            "tests/faces/test_dry_run.py::test_a_dry_run_changes_no_file_and_sends_no_request",
            f"{surgery.RACES}::test_cancellation_marks_sync_run_cancelled",
            f"{surgery.STAGES}::test_preflight_success_then_ingest_failure_rolls_back_all_content_writes",
            f"{surgery.SCOPE}::test_five_items_cost_the_same_requests_in_a_project_of_any_size",
        ),
    ),
    Promise(
        "scrub buries only what is not found",
        ("tests/properties/test_scrub.py::test_after_a_scrub_no_item_is_missing_and_none_is_left_over",),
    ),
    Promise(posting.SCRUBBED),
    Promise(
        "descending walk keeps its gap",
        ("tests/properties/test_newest_first.py::test_no_post_is_lost_when_a_descending_walk_is_interrupted",),
    ),
    Promise(
        posting.FEED,
        (
            f"{posting.DEATHS}::test_a_poll_killed_at_any_point_loses_and_duplicates_nothing",
            f"{posting.POSTS}::test_a_page_is_committed_with_its_cursor_gaps_and_quarantine_or_not_at_all",
            _ACCOUNTS,
        ),
    ),
    Promise(posting.RECORD_KEY, (_ACCOUNTS,)),
    Promise(posting.TOMBSTONES, (_ACCOUNTS,)),
    Promise(
        posting.STREAM,
        (
            f"{posting.STREAMING}::test_a_stream_gap_longer_than_the_replay_is_filled_by_the_poller",
            _KILLED_STREAM,
        ),
    ),
    Promise(
        "foreign origin refused",
        (f"{guarding.SITUATIONS}::test_the_token_is_sent_to_no_other_origin_when_headers_are_missing",),
    ),
    Promise("ETag of a full page"),
    Promise("quarantine retried", (_HISTORIES,)),
    Promise(
        sharing.SLICES,
        (
            f"{sharing.PROPERTIES}::test_mirroring_in_slices_sends_the_requests_of_one_run_plus_one_poll_per_slice",
            f"{sharing.PROPERTIES}::test_items_of_one_instant_that_exceed_a_slice_are_all_read",
            f"{sharing.SITUATIONS}::test_a_small_host_is_synced_repeatedly_during_the_first_sync_of_a_big_one",
        ),
    ),
    Promise(
        listening.VERSIONS,
        (
            f"{listening.DELTAS}::test_a_lower_id_edited_in_the_cursors_own_second_is_ingested",
            listening.ALL_WAYS,
            listening.ANY_CHANGE,
        ),
    ),
    Promise(
        listening.BLOCKED,
        (
            f"{listening.STATUSES}::test_a_block_and_unblock_between_two_polls_lose_no_comment",
            listening.ALL_WAYS,
        ),
    ),
    Promise(
        listening.HAND_OVER,
        (
            f"{listening.SWITCHING}::test_full_scans_give_the_same_events_as_incremental_polls",
            f"{listening.SWITCHING}::test_a_process_killed_while_it_begins_to_mirror_the_whole_repository_loses_nothing",
            listening.ALL_WAYS,
            listening.ANY_CHANGE,
        ),
    ),
    Promise(
        listening.REVIEWS,
        (
            f"{listening.COST}::test_in_repo_mode_a_quiet_poll_is_three_requests_for_any_number_of_threads",
            listening.ALL_WAYS,
        ),
    ),
    Promise(
        listening.STEPS,
        (
            f"{listening.STATUSES}::test_a_closed_pull_request_stays_closed_when_it_is_reopened",
            f"{listening.TROUBLE}::test_an_impossible_cursor_is_replaced_by_a_bounded_backfill",
            f"{listening.STATUSES}::test_a_pull_request_ended_before_the_first_poll_and_beyond_page_one_is_noticed",
            f"{listening.ENDINGS}::test_comments_between_two_polls_just_before_the_merge_become_events",
            f"{listening.STATUSES}::test_a_transport_error_blocks_no_pull_request_and_loses_nothing",
        ),
    ),
    Promise(
        listening.REPOSITORY,
        (
            (
                "tests/situations/answers/test_outbox.py::"
                "test_an_answer_goes_to_the_renamed_repository_and_not_to_one_that_took_over_its_name"
            ),
        ),
    ),
    Promise(
        listening.OWN_ANSWERS,
        (
            (
                "tests/situations/answers/test_signatures.py::"
                "test_the_same_token_key_gives_the_same_reply_after_a_repository_rename"
            ),
        ),
    ),
    Promise(
        mirroring.HORIZON,
        (
            f"{_HORIZONS}::test_a_repository_with_a_horizon_is_whole_from_there_on_and_lowering_it_reads_the_rest",
            f"{_HORIZONS}::test_a_project_with_a_horizon_is_whole_from_there_on_and_lowering_it_reads_the_rest",
        ),
    ),
    Promise(
        settings.SETTINGS,
        (
            f"{settings.HISTORIES}::test_a_project_is_whole_whatever_the_settings_of_earlier_runs_were",
            f"{settings.HISTORIES}::test_a_repository_is_whole_whatever_the_settings_of_earlier_runs_were",
            f"{settings.HISTORIES}::test_accounts_are_whole_whatever_the_settings_of_earlier_polls_were",
            f"{settings.HISTORIES}::test_every_comment_becomes_an_event_whatever_the_rules_of_earlier_polls_were",
        ),
    ),
    Promise(
        resolving.ONE_EFFECT,
        (
            f"{resolving.KILLED}::test_a_write_killed_or_unanswered_takes_effect_once",
            f"{resolving.KILLED}::test_every_write_takes_effect_once_in_random_crash_and_loss_trials",
        ),
    ),
    Promise(resolving.NO_COMMANDS, ()),
    Promise(
        mirroring.FEEDS,
        (
            f"{mirroring.HISTORIES}::test_the_copy_of_a_repository_equals_the_server_after_a_random_history",
            f"{mirroring.KILLED}::test_a_mirrored_repository_is_whole_after_a_process_was_killed_again_and_again",
        ),
    ),
    Promise(
        announcing.HOOKS,
        (
            f"{announcing.SITUATIONS}::test_announced_changes_of_both_forges_are_stored_before_the_next_poll",
            f"{announcing.SITUATIONS}::test_doubled_late_and_disordered_deliveries_are_read_once_and_do_no_harm",
            f"{announcing.SITUATIONS}::test_a_storm_of_deliveries_is_one_read_and_does_not_keep_polls_from_their_turn",
            f"{announcing.SITUATIONS}::test_a_delivery_stored_before_a_kill_is_read_by_the_next_service",
            f"{announcing.WORKERS}::test_a_change_announced_to_one_worker_is_stored_before_the_next_poll",
        ),
    ),
    Promise(
        guarding.BUDGET,
        (f"{guarding.BUDGETS}::test_runs_with_few_requests_make_the_same_copy_as_one_run",),
    ),
    Promise(
        showing.LOCKED,
        (f"{showing.LOCKDOWN}::test_no_text_of_people_without_write_access_is_in_the_answer",),
    ),
    Promise(
        moving.WHOLE,
        (
            f"{moving.CONTRACT}::test_a_database_moved_to_postgres_and_back_equals_the_original_and_can_be_searched",
            f"{moving.CONTRACT}::test_a_move_to_postgres_killed_again_and_again_copies_every_row",
            (
                f"{moving.FACES}::"
                "test_a_reply_whose_answer_was_lost_before_the_move_is_not_posted_again_from_the_moved_copy"
            ),
            f"{moving.FACES}::test_a_killed_move_is_refused_by_other_commands_and_completed_by_the_same_command",
        ),
    ),
    Promise(showing.TEXT, (f"{showing.HOSTILE}::test_images_that_the_reader_asked_for_are_the_only_thing_that_loads",)),
    Promise(
        showing.ACCESS,
        (f"{showing.GUARD}::test_with_a_token_only_its_bearer_reads_and_the_address_does_not_keep_it",),
    ),
    Promise(showing.SNAPSHOT, (f"{showing.SNAPSHOT_TESTS}::test_every_table_is_either_copied_or_left_out_on_purpose",)),
)

MUTANTS: tuple[Mutant, ...] = (
    *walking.MUTANTS,
    *understanding.MUTANTS,
    *offspring.MUTANTS,
    *telling.MUTANTS,
    *surgery.MUTANTS,
    *guarding.MUTANTS,
    *listening.MUTANTS,
    *posting.MUTANTS,
    *resolving.MUTANTS,
    *sharing.MUTANTS,
    *mirroring.MUTANTS,
    *mirroring.HORIZONS,
    *showing.MUTANTS,
    *announcing.MUTANTS,
    *moving.MUTANTS,
    *settings.MUTANTS,
)
