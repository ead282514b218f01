"""Bugs of webhooks: a sender who is believed, a delivery that is forgotten, a storm that costs the forge."""

from __future__ import annotations

from tests.mutants import guarding
from tests.mutants.mutant import Mutant

HOOKS = "hooks are hints"
SITUATIONS = "tests/situations/service/test_hooks.py"
WORKERS = "tests/situations/service/test_worker_hooks.py"
_FORGED = f"{SITUATIONS}::test_what_is_forged_old_unknown_or_too_large_is_refused_and_stores_nothing"
_SCHEDULE = "tests/unit/service/test_schedule.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="signature-of-the-body-not-compared",
        invariant=HOOKS,
        file="sources/gitlab/hooks.py",
        before="    return any(matching) and abs(now_ms - sent_ms) <= max_age_ms\n",
        after="    return bool(matching) and abs(now_ms - sent_ms) <= max_age_ms\n",
        test=_FORGED,
        why="Anyone who finds the port could make the service send requests.",
    ),
    Mutant(
        name="old-delivery-believed",
        invariant=HOOKS,
        file="sources/gitlab/hooks.py",
        before="    return any(matching) and abs(now_ms - sent_ms) <= max_age_ms\n",
        after="    return any(matching) and bool(sent_ms)\n",
        test=_FORGED,
        why="A delivery that was seen once could be sent again for ever.",
    ),
    Mutant(
        name="body-read-before-it-is-weighed",
        invariant=HOOKS,
        file="service/hook_receiver.py",
        before="    if not announced.isdecimal() or int(announced) > MOST_BYTES:\n",
        after="    if not announced.isdecimal():\n",
        test=_FORGED,
        why="Bodies of any size would fill the memory.",
    ),
    Mutant(
        name="silent-change-left-to-the-list",
        invariant=HOOKS,
        file="sync/announced.py",
        before="    known = parents_by_number(shop.database, kind, home.id, numbers)\n",
        after="    known = parents_by_number(shop.database, kind, home.id, [])\n",
        test=f"{SITUATIONS}::test_a_push_that_moves_no_update_time_is_read_after_its_hook",
        why="A push or a second note within a minute would wait for verification, although it was announced.",
    ),
    Mutant(
        name="announcement-ends-a-back-off",
        invariant=HOOKS,
        file="service/loop.py",
        before="        self._wake(self._control.take_announced(), now)\n",
        after="        self._hasten(self._control.take_announced(), now)\n",
        test="tests/unit/service/test_hook_receiver.py::test_an_announced_job_runs_at_once_unless_it_is_backing_off",
        why="A storm of deliveries would send requests to a server that asked for a pause.",
    ),
    Mutant(
        name="every-delivery-a-read",
        invariant=HOOKS,
        file="service/schedule.py",
        before="        again = max(now, started + spec.rest_seconds) if woken else usual\n",
        after="        again = now if woken else usual\n",
        test=f"{_SCHEDULE}::test_a_job_that_is_woken_all_the_time_starts_once_in_its_rest",
        why="A storm of deliveries would use up the rate limit.",
    ),
    Mutant(
        name="missed-change-counted-for-ever",
        invariant=HOOKS,
        file="store/work/hooks.py",
        before="AND i.updated_at > :since",
        after="AND i.updated_at > :since - 3600000",
        test=f"{SITUATIONS}::test_a_change_that_no_delivery_announced_is_counted_as_missed_once",
        why="A webhook that works would look broken.",
    ),
    Mutant(
        name="broken-webhooks-keep-polls-rare",
        invariant=HOOKS,
        file="store/work/hooks.py",
        before=" AND last_at > COALESCE(missed_at, 0)",
        after="",
        test="tests/contract/test_store_hooks.py::test_webhooks_work_until_they_fall_silent_or_miss_a_change[sqlite]",
        why="A webhook that lost half of its events would still keep polls away for half an hour.",
    ),
    Mutant(
        name="worker-leaves-silent-changes-to-the-list",
        invariant=HOOKS,
        file="app/service_jobs.py",
        before="announced=announced or None, **wanted)",
        after="announced=None, **wanted)",
        test=f"{WORKERS}::test_a_push_that_no_list_shows_is_read_by_a_worker_after_its_hook",
        why="A worker would count a delivery as read without reading what it announced.",
    ),
    Mutant(
        name="delivery-read-by-a-read-that-failed",
        invariant=HOOKS,
        file="app/hooks/jobs.py",
        before="[one for one in waiting if one.configured not in again]",
        after="waiting",
        test=f"{WORKERS}::test_a_delivery_whose_project_could_not_be_read_still_waits",
        why="What a forge announced just before it failed would wait for the next poll.",
    ),
    Mutant(
        name="every-delivery-a-turn-of-a-worker",
        invariant=HOOKS,
        file="store/work/service_records.py",
        before="THEN started_at + :rest ELSE :now END",
        after="THEN :now ELSE :now END",
        test=f"{guarding.TURNS}::test_a_scope_woken_again_and_again_runs_at_most_once_in_its_rest[sqlite]",
        why="A storm of deliveries would be a storm of requests.",
    ),
)
