"""Bugs of guarding: the lease and its fence, the ledger, cursors that cannot be true, addresses of others."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEASES = "tests/contract/test_store_leases.py"
_LEASE = "tests/unit/engine/test_lease.py"
_RACE = "tests/crash/test_lease_race.py"
_LEDGER = "tests/unit/engine/test_ledger.py"
_WALK = "tests/unit/engine/test_walk.py"
SITUATIONS = "tests/properties/test_situations.py"

FENCE = (
    Mutant(
        name="fence-removed-from-the-commit",
        invariant="lease fencing",
        file="store/mirror/scope_writer.py",
        before="""        with writing(self._database, self._lease) as tx:
            if batch.items:
""",
        after="""        with self._database.transaction() as tx:
            if batch.items:
""",
        test="tests/contract/test_store_parents.py::test_a_process_whose_lease_was_taken_over_writes_nothing",
        why="A process that slept through its takeover would write over its successor's cursor.",
    ),
    Mutant(
        name="fence-passes-a-released-lease",
        invariant="lease fencing",
        file="store/work/leases.py",
        before="""        " AND holder_host IS NOT NULL",\n""",
        after="""        "",\n""",
        test=f"{_LEASES}::test_a_fence_stops_a_holder_that_released_its_lease[sqlite]",
        why="A lease given back is nobody's, also not its last holder's.",
    ),
    Mutant(
        name="look-up-without-a-fence",
        invariant="lease fencing",
        file="sync/projects.py",
        before="    with session.writing() as tx:\n        project = store_repository(",
        after="    with session.shop.database.transaction() as tx:\n        project = store_repository(",
        test=f"{_RACE}::test_a_process_that_resumes_without_its_lease_writes_nothing_more[sqlite-looking-up]",
        why="One write without a fence is enough for two writers.",
    ),
    Mutant(
        name="fence-that-only-looks",
        invariant="lease fencing",
        file="store/work/leases.py",
        before="""    held = tx.change(
        "UPDATE leases SET generation = generation WHERE name = :name AND generation = :generation"
        " AND holder_host IS NOT NULL",
        {"name": lease.name, "generation": lease.generation},
    )
""",
        after="""    held = len(
        tx.execute(
            "SELECT 1 FROM leases WHERE name = :name AND generation = :generation AND holder_host IS NOT NULL",
            {"name": lease.name, "generation": lease.generation},
        )
    )
""",
        test=f"{_LEASES}::test_a_takeover_waits_until_the_fenced_transaction_has_ended[postgres]",
        why="Without the row's lock a successor reads the cursor before its predecessor's last page is there.",
    ),
)

SCOPES = "one writer per scope"

TAKEOVER = (
    Mutant(
        name="swap-without-comparing",
        invariant="lease takeover race",
        file="store/work/leases.py",
        before=" WHERE name = :name AND generation = :expected",
        after=" WHERE name = :name",
        test=f"{_LEASES}::test_a_lease_update_succeeds_only_for_the_expected_generation[sqlite]",
        why="Of two that take over at once both would win.",
    ),
    Mutant(
        name="lost-race-taken-for-won",
        invariant="lease takeover race",
        file="engine/lease.py",
        before="        if store.take(mine, rows):\n",
        after="        if store.take(mine, rows) or not rows:\n",
        test=f"{_LEASE}::test_of_two_processes_racing_for_a_lease_exactly_one_gets_it",
        why="The first two processes on a new database would both write.",
    ),
    Mutant(
        name="lease-of-the-dead-stays-held",
        invariant="lease takeover race",
        file="engine/lease.py",
        before="    if is_dead(row.holder):\n",
        after="    if force and is_dead(row.holder):\n",
        test=f"{_RACE}::test_a_process_killed_with_sigkill_leaves_a_lease_that_is_free_at_once[sqlite]",
        why="After a crash nothing would run until the lease is stale.",
    ),
    Mutant(
        name="beat-takes-a-lease-back-that-was-given-away",
        invariant="lease takeover race",
        file="engine/lease.py",
        before="        if self._released:\n            return\n",
        after="",
        test=f"{_LEASE}::test_a_heartbeat_after_release_neither_takes_the_lease_nor_raises",
        why="A run that only embeds any more would lock everybody else out.",
    ),
    Mutant(
        name="takeover-keeps-the-generation",
        invariant="lease takeover race",
        file="engine/lease.py",
        before="        generation = 1 + max((row.generation for row in rows if row.name == name), default=0)\n",
        after="        generation = max((row.generation for row in rows if row.name == name), default=1)\n",
        test=f"{_LEASE}::test_a_holder_that_was_taken_over_gets_lease_lost_and_cannot_release_the_lease",
        why="Whoever was taken over could not tell: its next heartbeat would take the lease back.",
    ),
    Mutant(
        name="whole-taken-beside-its-parts",
        invariant=SCOPES,
        file="store/work/leases.py",
        before="OR substr(name, 1, :length) = :below)",
        after="OR (:length < 0 AND name = :below))",
        test=f"{_LEASES}::test_two_projects_are_held_at_the_same_time_and_the_whole_is_not[sqlite]",
        why="A sync of everything and a worker on one project would write the same rows.",
    ),
    Mutant(
        name="parts-not-fenced-by-the-whole",
        invariant=SCOPES,
        file="store/work/leases.py",
        before="                if other.name != row.name and other.holder is not None:\n",
        after="                if other.name != row.name and other.holder is None:\n",
        test=f"{_LEASES}::test_taking_the_whole_stops_the_holders_of_its_parts[sqlite]",
        why="A worker that was frozen would go on writing after its scope was taken with all others.",
    ),
    Mutant(
        name="tree-of-leases-not-locked",
        invariant=SCOPES,
        file="store/work/leases.py",
        before='{"name": above[0] if above else row.name})',
        after='{"name": row.name})',
        test=f"{_LEASES}::test_of_threads_that_race_for_the_whole_and_its_parts_none_holds_what_another_holds[postgres]",
        why="One process could take a part while another takes the whole.",
    ),
    Mutant(
        name="frozen-holder-keeps-its-connection",
        invariant=SCOPES,
        file="engine/lease.py",
        before="                store.end_session(row.session)\n",
        after="                pass\n",
        test="tests/contract/test_postgres_timeouts.py"
        "::test_a_holder_stopped_in_the_middle_of_a_batch_is_taken_over_at_once",
        why="A process frozen in a batch keeps its row locks, and every other worker waits for them.",
    ),
)

WORKERS = "scopes of workers"
TURNS = "tests/contract/test_worker_turns.py"
BATCHES = "tests/situations/service/test_workers.py::test_documents_are_made_a_batch_at_a_time_until_none_is_left"

WORKING = (
    Mutant(
        name="killed-worker-keeps-its-scope",
        invariant=WORKERS,
        file="service/turns.py",
        before="            due = (row.started_at or now_ms) if gone else None\n",
        after="            due = None\n",
        test=f"{TURNS}"
        "::test_the_scope_of_a_silent_worker_is_due_when_its_lease_is_stale_and_its_late_end_is_not_stored[sqlite]",
        why="What a killed worker was reading would never be read again.",
    ),
    Mutant(
        name="every-hint-a-turn",
        invariant=WORKERS,
        file="service/turns.py",
        before="(row.due_at is None or row.due_at > now_ms)):\n",
        after="row.due_at is None):\n",
        test=f"{TURNS}::test_a_hint_for_a_scope_that_is_not_due_any_more_does_nothing[sqlite]",
        why="A job that is delivered twice would read its project twice.",
    ),
    Mutant(
        name="woken-scope-forgotten",
        invariant=WORKERS,
        file="service/turns.py",
        before="                schedule.wake(name, now)\n",
        after="                pass\n",
        test=f"{TURNS}::test_a_scope_woken_while_it_runs_is_due_again_at_its_end[sqlite]",
        why="Documents marked while others are generated would wait for the next interval.",
    ),
    Mutant(
        name="dead-source-asked-by-every-scope",
        invariant=WORKERS,
        file="service/turns.py",
        before='            if ending.blame == "source" and new.due_at is not None:\n',
        after='            if ending.blame == "source" and new.due_at is None:\n',
        test=f"{TURNS}::test_other_scopes_of_a_source_that_does_not_respond_wait_with_it[sqlite]",
        why="Each of a thousand projects would find out alone that the host is down.",
    ),
    Mutant(
        name="worker-keeps-the-jobs-of-old-settings",
        invariant=WORKERS,
        file="app/workers/running.py",
        before="            self._app = replace(new, clock=old.clock,",
        after="            replace(new, clock=old.clock,",
        test="tests/situations/service/test_workers.py"
        "::test_a_worker_syncs_a_project_that_is_added_to_its_configuration",
        why="A worker would say that it reloaded its settings and go on with the old ones.",
    ),
    Mutant(
        name="rest-of-a-batch-forgotten",
        invariant=WORKERS,
        file="app/service_jobs.py",
        before=", again=batch is not None and done >= batch)\n",
        after=", again=False)\n",
        test=BATCHES,
        why="Of a large backlog one batch would be searchable in each interval.",
    ),
    Mutant(
        name="batch-without-an-end",
        invariant=WORKERS,
        file="documents/generation.py",
        before="        if limit is not None and done - report.failed >= limit:\n",
        after="        if limit is not None and done < 0:\n",
        test=BATCHES,
        why="The worker that generates a large backlog would keep it from all others until it is done or killed.",
    ),
    Mutant(
        name="wall-clock-of-each-machine",
        invariant=WORKERS,
        file="core/clock.py",
        before="        if self._anchor is None:\n            return self._clock.now_ms()\n        told",
        after="        if self._anchor is None or True:\n            return self._clock.now_ms()\n        told",
        test="tests/unit/core/test_clock.py::test_a_wall_clock_that_is_moved_does_not_move_the_shared_clock",
        why="A machine whose clock is an hour ahead would take over the leases of all others.",
    ),
    Mutant(
        name="server-without-its-role-kept",
        invariant=WORKERS,
        file="store/database/postgres.py",
        before="            self._is_demoted = False\n            self._connection.close()\n",
        after="            self._is_demoted = False\n",
        test="tests/contract/test_postgres_connection.py"
        "::test_a_server_that_became_read_only_counts_as_unreachable_and_is_connected_to_again",
        why="After a failover every worker would go on asking the server that is not the primary any more.",
    ),
    Mutant(
        name="connection-for-two-users",
        invariant=WORKERS,
        file="store/database/postgres.py",
        before="                del self._connection\n",
        after="                pass\n",
        test="tests/contract/test_kept_connections.py::test_a_handle_is_of_no_use_after_its_connection_was_given_back",
        why="Two scopes would write in one transaction.",
    ),
)

SHARED_LIMIT = "one rate limit for all workers"
GRANTS = "tests/unit/http/test_grants.py"

GRANTING = (
    Mutant(
        name="granted-requests-counted-by-nobody",
        invariant=SHARED_LIMIT,
        file="http/grants.py",
        before="replace(state, remaining=state.remaining - count), count",
        after="state, count",
        test="tests/contract/test_store_rate_budgets.py"
        "::test_processes_that_ask_at_the_same_time_are_granted_no_more_than_the_limit[sqlite]",
        why="Every worker would send what the server allows for all.",
    ),
    Mutant(
        name="requests-on-their-way-forgotten",
        invariant=SHARED_LIMIT,
        file="http/grants.py",
        before="    left = budget.remaining - (state.outstanding if budget.reset_at is not None else 0)\n",
        after="    left = budget.remaining\n",
        test=f"{GRANTS}::test_what_was_granted_and_not_sent_yet_is_taken_off_what_the_server_reports",
        why="Beside another program with the same token the workers would exceed the limit.",
    ),
    Mutant(
        name="older-response-raises-the-budget",
        invariant=SHARED_LIMIT,
        file="http/grants.py",
        before="else min(left, state.remaining)\n",
        after="else left\n",
        test=f"{GRANTS}::test_an_older_response_does_not_raise_what_is_left",
        why="Responses arrive in any order; an old one would grant requests twice.",
    ),
    Mutant(
        name="limit-unknown-and-all-send",
        invariant=SHARED_LIMIT,
        file="http/grants.py",
        before="        if state.probe_until > now_ms:\n",
        after="        if state.probe_until > now_ms + PROBE_MS:\n",
        test=f"{GRANTS}::test_while_the_limit_is_unknown_one_request_is_granted_and_others_wait_for_its_response",
        why="Workers that start together would exceed a small limit before any of them knows it.",
    ),
    Mutant(
        name="pause-kept-to-oneself",
        invariant=SHARED_LIMIT,
        file="http/grants.py",
        before="    if state.pause_until > now_ms:\n",
        after="    if state.pause_until > now_ms + 86_400_000:\n",
        test=f"{GRANTS}::test_a_pause_of_one_process_holds_for_all",
        why="Other workers would go on sending to a server that asked for a pause.",
    ),
)

LEDGER = (
    Mutant(
        name="interrupted-run-left-running",
        invariant="ledger transitions",
        file="store/work/session.py",
        before="                _close(session, cancelled=True)\n",
        after="",
        test="tests/crash/test_signals.py::test_an_interrupted_run_is_closed_as_cancelled_and_releases_the_lease",
        why="Ctrl-C is an end like any other.",
    ),
    Mutant(
        name="ended-run-rewritten",
        invariant="ledger transitions",
        file="store/work/runs.py",
        before="""WHERE id = :run_id AND status = 'running'"\n""",
        after="""WHERE id = :run_id"\n""",
        test="tests/contract/test_store_runs.py::test_a_run_ends_once_and_cannot_be_changed_afterwards",
        why="A ledger that can be rewritten proves nothing.",
    ),
    Mutant(
        name="unended-run-forgotten",
        invariant="ledger transitions",
        file="store/work/session.py",
        before="        end(shop.database)\n",
        after="",
        test=(
            "tests/contract/test_session_unended.py::"
            "test_a_run_that_could_not_be_ended_is_ended_by_the_next_command_of_its_process"
        ),
        why="A service whose disk was full for a moment would wait ten minutes for its own lease.",
    ),
    Mutant(
        name="phases-run-backwards",
        invariant="ledger transitions",
        file="engine/ledger.py",
        before="        if phase not in PHASES or PHASES.index(phase) < PHASES.index(self.phase):\n",
        after="        if phase not in PHASES:\n",
        test=f"{_LEDGER}::test_a_run_never_returns_to_an_earlier_phase",
        why="What a run did would no longer follow from its last phase.",
    ),
    Mutant(
        name="crashed-run-left-running",
        invariant="ledger transitions",
        file="engine/ledger.py",
        before="if is_dead(row.holder) or now - row.heartbeat_at > stale_after_ms]\n",
        after="if is_dead(row.holder) and now - row.heartbeat_at > stale_after_ms]\n",
        test=f"{_LEDGER}::test_the_next_run_marks_the_run_of_a_dead_process_as_crashed",
        why="The row of a killed process would say `running` for ever.",
    ),
)

CORRUPTION = (
    Mutant(
        name="invalid-cursor-reset-to-latest",
        invariant="cursor corruption",
        file="engine/cursor.py",
        before="    return Cursor(watermark=Position(max(now_ms - safe_backfill_ms, 0), 0))\n",
        after="    return Cursor(watermark=Position(now_ms, 0))\n",
        test=f"{_WALK}::test_a_cursor_from_the_future_is_replaced_by_a_bounded_backfill",
        why="Everything between the corruption and its discovery would be skipped.",
    ),
    Mutant(
        name="cursor-from-the-future-believed",
        invariant="cursor corruption",
        file="engine/cursor.py",
        before="    if cursor.watermark.at > now_ms + SKEW_MS:\n",
        after="    if cursor.watermark.at < now_ms - 10**15:\n",
        test=f"{_WALK}::test_a_cursor_from_the_future_is_replaced_by_a_bounded_backfill",
        why="A list with a watermark of next year is silent until then.",
    ),
    Mutant(
        name="invalid-cursor-not-kept",
        invariant="cursor corruption",
        file="engine/intake.py",
        before="        self.store.set_aside(reason)\n",
        after="",
        test=f"{_WALK}::test_a_cursor_from_the_future_is_replaced_by_a_bounded_backfill",
        why="Nobody could find out what the cursor said.",
    ),
)

FOREIGN = (
    Mutant(
        name="foreign-next-link-followed",
        invariant="foreign origin refused",
        file="sources/items.py",
        before="    if following is not None and following.foreign:\n",
        after="    if following is not None and following.foreign and not following.url:\n",
        test=f"{SITUATIONS}::test_a_foreign_origin_next_link_is_refused_and_loses_nothing",
        why="Even with the client's own refusal the rest of the list would be lost.",
    ),
    Mutant(
        name="foreign-next-link-ends-the-list",
        invariant="foreign origin refused",
        file="sources/items.py",
        before="        following = next_page(kept, response.url, count, per_page)\n",
        after="        following = None if kept is not None else following\n",
        test=f"{SITUATIONS}::test_a_foreign_origin_next_link_is_refused_and_loses_nothing",
        why="A link that must not be followed is no proof that the list has ended.",
    ),
    Mutant(
        name="client-speaks-to-any-origin",
        invariant="foreign origin refused",
        file="http/pagination.py",
        before="        if url is None or url.origin != self._origin:\n",
        after="        if url is None:\n",
        test="tests/unit/http/test_token_safety.py::test_a_url_of_another_origin_is_refused_before_anything_is_sent",
        why="Whoever receives a request receives the token.",
    ),
)

BUDGET = "a run keeps to its requests"
BUDGETS = "tests/faces/test_sync_budget.py"
ALLOWANCE = (
    Mutant(
        name="requests-of-a-run-not-counted",
        invariant=BUDGET,
        file="http/limits.py",
        before="        self.sent += 1\n",
        after="        self.sent += 0\n",
        test=f"{BUDGETS}::test_people_are_told_what_is_left",
        why="A run would send more requests than it was given.",
    ),
    Mutant(
        name="postponed-list-counts-as-failed",
        invariant=BUDGET,
        file="sync/mirror.py",
        before="            scope.error, scope.list_left = None, True\n",
        after="            scope.list_left = True\n",
        test=f"{BUDGETS}::test_a_reserve_is_left_of_the_rate_limit_of_each_server[among lists]",
        why="A list for which no request was left would be reported as broken.",
    ),
)

MUTANTS = (*FENCE, *TAKEOVER, *GRANTING, *WORKING, *LEDGER, *CORRUPTION, *FOREIGN, *ALLOWANCE)
