"""What we write to others is stored first, worked on by one process, and its status only goes forward."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from tests.databases.feedback_rows import read_action_token
from tests.databases.feedback_samples import NOW, REPO, TOKEN, comment, repository
from tests.databases.racing import race
from tests.support.deep import gate_cases

from tidelore.core.errors import IntegrityError, LockHeld, NotFound
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import (
    observe_in_project,
    record_action_token_failed,
    record_action_token_observed,
    record_action_token_planned,
    record_action_token_posted,
    token_counts,
    unobserved,
)
from tidelore.store.work.events import NewCommand, PlannedReply
from tidelore.store.work.operator_commands import (
    CommandKey,
    find_command,
    finish,
    insert_command,
    list_commands,
    pending,
)
from tidelore.store.work.outbox import (
    OutboxRow,
    claim,
    find_outbox,
    list_outbox,
    mark_failed,
    mark_observed,
    mark_posted,
    note_attempt,
    plan,
    postpone,
    release,
)

CLAIM = 60_000


@pytest.fixture
def project(database: Database) -> ProjectRow:
    return repository(database)


def planned(database: Database, project: ProjectRow, token: str = TOKEN, number: int = 12) -> OutboxRow:
    with database.transaction(durable=True) as tx:
        return plan(
            tx,
            project.id,
            project.path,
            PlannedReply("pr", number, None, token, f"Seen. <!-- lore-action:{token} -->", "reply"),
            NOW,
        )


def statuses(database: Database, token: str = TOKEN) -> tuple[str, str]:
    found = read_action_token(database, token)
    assert found is not None
    return found.status, next(row.status for row in list_outbox(database) if row.token == token)


Step = Callable[[Transaction, int], object]
STEPS: dict[str, Step] = {
    "posted": lambda tx, key: mark_posted(tx, key, 5, NOW + 1),
    "observed": lambda tx, key: mark_observed(tx, key, 5, NOW, NOW + 1),
    "failed": lambda tx, key: mark_failed(tx, key, "403", NOW + 1),
}
AFTER = {
    ("planned", "posted"): "posted", ("planned", "observed"): "observed", ("planned", "failed"): "failed",
    ("posted", "posted"): "posted", ("posted", "observed"): "observed", ("posted", "failed"): "failed",
}  # fmt: skip


@pytest.mark.parametrize(("before", "step"), [*product(("planned", "posted", "observed", "failed"), STEPS)])
def test_an_action_token_and_its_reply_move_together_and_only_forward(
    database: Database, project: ProjectRow, before: str, step: str
) -> None:
    row = planned(database, project)
    for name in filter(None, [STEPS.get(before), STEPS[step]]):
        with database.transaction() as tx:
            name(tx, row.id)
    assert statuses(database) == (AFTER.get((before, step), before),) * 2


def test_the_same_token_twice_creates_one_reply(database: Database, project: ProjectRow) -> None:
    first = planned(database, project)
    with database.transaction() as tx:
        mark_observed(tx, first.id, 5, NOW, NOW)
    again = planned(database, project)
    assert (again.id, again.status, again.comment_id) == (first.id, "observed", 5)
    assert len(list_outbox(database)) == 1


def test_a_failed_reply_that_is_seen_later_stays_failed_and_keeps_its_comment(
    database: Database, project: ProjectRow
) -> None:
    row = planned(database, project)
    with database.transaction() as tx:
        mark_failed(tx, row.id, "403", NOW)
        assert not record_action_token_observed(tx, REPO, TOKEN, 5, NOW, NOW)
    found = read_action_token(database, TOKEN)
    assert found is not None
    assert (found.status, found.observed_comment_id) == ("failed", 5)
    assert find_outbox(database, row.id).last_error == "403"


def test_each_token_step_returns_whether_it_changed_anything(database: Database, project: ProjectRow) -> None:
    reply = PlannedReply("issue", 7, None, TOKEN, "Seen.", "reply")
    with database.transaction() as tx:
        assert record_action_token_planned(tx, project.id, REPO, reply, NOW)
        assert not record_action_token_planned(tx, project.id, REPO, reply, NOW)
        assert record_action_token_posted(tx, REPO, TOKEN, NOW)
        assert not record_action_token_posted(tx, REPO, TOKEN, NOW)
        assert record_action_token_observed(tx, REPO, TOKEN, 5, NOW, NOW)
        assert not record_action_token_observed(tx, REPO, TOKEN, 6, NOW, NOW)
        assert not record_action_token_failed(tx, REPO, TOKEN, NOW)
        assert not record_action_token_posted(tx, REPO, "unknown", NOW)
    found = read_action_token(database, TOKEN)
    assert found is not None
    assert (found.status, found.observed_comment_id) == ("observed", 5)
    assert read_action_token(database, "unknown") is None


def test_tokens_are_found_by_age_and_by_count(database: Database, project: ProjectRow) -> None:
    for token, number in (("a" * 64, 12), ("b" * 64, 12), ("c" * 64, 13)):
        planned(database, project, token, number)
    with database.transaction() as tx:
        mark_observed(tx, list_outbox(database)[0].id, 5, NOW, NOW)
        assert not observe_in_project(tx, project.id, 13, "b" * 64, 6, NOW, NOW)
    assert [token.token[0] for token in unobserved(database)] == ["b", "c"]
    assert [(found.status, found.count) for found in token_counts(database)] == [("observed", 1), ("planned", 2)]


def test_a_claim_belongs_to_one_process_until_it_expires(
    database: Database, project: ProjectRow, connect: Callable[[], Database]
) -> None:
    row, other = planned(database, project), connect()
    mine = claim(database, row.id, NOW, CLAIM, "me")
    assert mine is not None
    assert (mine.claim_id, mine.claimed_until) == ("me", NOW + CLAIM)
    assert claim(other, row.id, NOW, CLAIM, "they") is claim(other, None, NOW, CLAIM, "they") is None
    assert claim(database, row.id, NOW + 1, CLAIM, "me") is not None
    theirs = claim(other, None, NOW + CLAIM + 1, CLAIM, "they")
    assert theirs is not None
    assert theirs.claim_id == "they"
    with pytest.raises(LockHeld):
        note_attempt(database, row.id, "me", NOW + CLAIM + 2)
    with database.transaction() as tx:
        assert not postpone(tx, row.id, "me", NOW, "late", NOW)
        release(tx, row.id, "me")
    assert find_outbox(database, row.id) == theirs


def test_an_attempt_is_recorded_with_its_token_before_posting(database: Database, project: ProjectRow) -> None:
    row = planned(database, project)
    claim(database, row.id, NOW, CLAIM, "me")
    assert note_attempt(database, row.id, "me", NOW + 7) == 0
    found, token = find_outbox(database, row.id), read_action_token(database, TOKEN)
    assert token is not None
    assert (found.status, found.attempts, found.attempted_at, token.attempt_count) == ("planned", 1, NOW + 7, 1)


def test_attempts_on_one_host_are_spaced_across_all_processes(database: Database, project: ProjectRow) -> None:
    other = repository(database, 2, "port/quay")
    rows = [planned(database, owner, token * 64) for owner, token in ((project, "a"), (other, "b"))]
    for row in rows:
        claim(database, row.id, NOW, CLAIM, "me")
    both = [project.id, other.id]
    assert [row.attempted_at for row in list_outbox(database)] == [None, None]
    assert note_attempt(database, rows[0].id, "me", NOW, project_ids=both, interval_ms=1000) == 0
    assert note_attempt(database, rows[1].id, "me", NOW + 300, project_ids=both, interval_ms=1000) == 700
    assert find_outbox(database, rows[1].id).attempts == 0
    # A clock that was set back does not stop the writing for longer than the interval.
    assert note_attempt(database, rows[1].id, "me", NOW - 10**9, project_ids=both, interval_ms=1000) == 1000
    assert note_attempt(database, rows[1].id, "me", NOW + 1000, project_ids=both, interval_ms=1000) == 0
    assert [find_outbox(database, row.id).attempted_at for row in rows] == [NOW, NOW + 1000]


def test_a_postponed_reply_is_due_at_its_time_and_others_go_first(database: Database, project: ProjectRow) -> None:
    first, second = planned(database, project, "a" * 64), planned(database, project, "b" * 64)
    claim(database, first.id, NOW, CLAIM, "me")
    with database.transaction() as tx:
        assert postpone(tx, first.id, "me", NOW + 50, "rate limited", NOW)
    assert claim(database, first.id, NOW, CLAIM, "me") is None
    due = claim(database, None, NOW, CLAIM, "me")
    assert due is not None
    assert due.id == second.id
    with database.transaction() as tx:
        release(tx, second.id, "me")
    again = claim(database, None, NOW + 50, CLAIM, "me", project_ids=[project.id])
    assert again is not None
    assert (again.id, again.last_error) == (first.id, "rate limited")
    assert claim(database, None, NOW + 50, CLAIM, "other", project_ids=[]) is None


def test_an_observed_reply_cannot_be_claimed(database: Database, project: ProjectRow) -> None:
    row = planned(database, project)
    claim(database, row.id, NOW, CLAIM, "me")
    with database.transaction() as tx:
        observe_in_project(tx, project.id, 12, TOKEN, 5, NOW, NOW)
    assert claim(database, row.id, NOW + CLAIM, CLAIM, "they") is None
    with pytest.raises(LockHeld):
        note_attempt(database, row.id, "me", NOW)
    assert find_outbox(database, row.id).claim_id is None
    with pytest.raises(NotFound):
        find_outbox(database, 4711)


def test_the_outbox_list_is_filtered_by_project_and_status(database: Database, project: ProjectRow) -> None:
    rows = [planned(database, project, letter * 64) for letter in "abc"]
    with database.transaction() as tx:
        mark_failed(tx, rows[0].id, "404", NOW)
    assert [row.id for row in list_outbox(database, statuses=["planned"])] == [rows[1].id, rows[2].id]
    assert [row.id for row in list_outbox(database, project_ids=[project.id], statuses=["failed"])] == [rows[0].id]
    assert list_outbox(database, statuses=[]) == list_outbox(database, project_ids=[4711]) == []


PREPARE = """
import os
from tidelore.store.database.opening import open_database
from tidelore.store.work.outbox import claim
database = open_database(sys.argv[1])
"""
ACT = """
while row := claim(database, None, 1, 600_000, str(os.getpid())):
    print(row.id)
database.close()
"""


@gate_cases(1)
def test_each_reply_is_claimed_by_one_of_several_concurrent_processes(
    database: Database, project: ProjectRow, address: str
) -> None:
    rows = [planned(database, project, f"{number:064x}") for number in range(60)]
    taken = [int(word) for output in race(4, PREPARE, ACT, [address]) for word in output.split()]
    assert sorted(taken) == [row.id for row in rows]


def test_commands_are_read_in_order_and_finished_once(database: Database, project: ProjectRow) -> None:
    late, early = comment(9, updated_at=NOW + 5, body="/lore pause"), comment(8, body="/lore help")
    with database.transaction() as tx:
        for record, name in ((late, "pause"), (early, "help")):
            command = NewCommand(f"12:{record.remote_id}:x", 12, 12, record, name, {"b": "2", "a": "1"})
            assert insert_command(tx, project.id, REPO, command, NOW)
            assert not insert_command(tx, project.id, REPO, command, NOW)
        refused = NewCommand("12:7:x", 12, None, comment(7), "sync", {}, "rejected", "not an operator")
        insert_command(tx, project.id, REPO, refused, NOW)
    assert [row.command for row in pending(database)] == ["help", "pause"]
    first = pending(database, project_id=project.id)[0]
    assert (first.args, first.args_json, first.body) == ({"a": "1", "b": "2"}, '{"a":"1","b":"2"}', "/lore help")
    for made in (True, False):
        with database.transaction() as tx:
            assert finish(tx, first.key, "applied", "done", NOW + made) is made
    found = find_command(database, first.key)
    assert found is not None
    assert (found.status, found.result, found.applied_at) == ("applied", "done", NOW + 1)
    assert [row.command for row in list_commands(database)] == ["pause", "help", "sync"]
    assert len(list_commands(database, project_id=project.id, limit=1)) == 1
    assert find_command(database, CommandKey(project.id, "no")) is None
    with pytest.raises(IntegrityError), database.transaction() as tx:
        finish(tx, pending(database)[0].key, "no such status", None, NOW)
