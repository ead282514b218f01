"""A claim tells whose it is: that of a dead process is free at once, any other lasts its time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.databases.feedback_samples import NOW, REPO, TOKEN, repository

from tidelore.core.process import ProcessIdentity
from tidelore.store.database.port import Database
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.outbox import OutboxRow, claim, find_outbox, free_dead, holder_of, new_claim, plan

CLAIM = 60_000
US = ProcessIdentity.current()


@pytest.fixture
def row(database: Database) -> OutboxRow:
    """An answer that waits."""
    project = repository(database)
    with database.transaction(durable=True) as tx:
        return plan(tx, project.id, REPO, PlannedReply("pr", 12, None, TOKEN, "Seen.", "reply"), NOW)


def dead_process() -> ProcessIdentity:
    """Somebody who has been, and is no more."""
    tell = (
        "from tidelore.core.process import ProcessIdentity as P; us = P.current(); print(us.host, us.pid, us.started)"
    )
    host, pid, started = subprocess.run(
        [sys.executable, "-c", tell], capture_output=True, text=True, check=True
    ).stdout.split()
    return ProcessIdentity(host, int(pid), started)


def held_by(database: Database, row: OutboxRow, name: str) -> None:
    assert claim(database, row.id, NOW, CLAIM, name) is not None


def test_claim_ids_are_unique_and_contain_their_holder() -> None:
    assert new_claim(US) != new_claim(US)
    odd = ProcessIdentity("a:host:7", 12, "")
    assert (holder_of(new_claim(US)), holder_of(new_claim(odd))) == (US, odd)


@pytest.mark.parametrize("name", ["", "another", "0123456789abcdef", "host:pid:started:mark", "host:²:started:mark"])
def test_a_claim_id_without_a_holder_has_no_holder(name: str) -> None:
    assert holder_of(name) is None


def test_claims_of_a_dead_process_are_free_at_once(database: Database, row: OutboxRow) -> None:
    held_by(database, row, new_claim(dead_process()))
    assert claim(database, None, NOW + 1, CLAIM, "next") is None
    assert free_dead(database, NOW + 1) == 1
    assert find_outbox(database, row.id).claim_id is None
    assert claim(database, None, NOW + 1, CLAIM, "next") is not None


@pytest.mark.parametrize(
    "name",
    [
        new_claim(US),
        new_claim(ProcessIdentity(US.host, os.getppid(), "")),
        new_claim(ProcessIdentity("elsewhere", 2**22 + 1, "1")),
        "another",
    ],
    ids=["ours", "a living neighbour's", "another machine's", "an unknown one's"],
)
def test_a_claim_of_a_live_or_unknown_process_lasts_until_it_expires(
    database: Database, row: OutboxRow, name: str
) -> None:
    held_by(database, row, name)
    assert free_dead(database, NOW + 1) == 0
    assert claim(database, None, NOW + 1, CLAIM, "next") is None
    assert claim(database, None, NOW + CLAIM, CLAIM, "next") is not None


def test_a_row_claimed_during_the_search_for_dead_holders_stays_claimed(database: Database, row: OutboxRow) -> None:
    held_by(database, row, new_claim(dead_process()))

    def gone(_holder: ProcessIdentity) -> bool:
        with database.transaction() as tx:
            tx.execute("UPDATE outbox SET claim_id = 'quicker' WHERE id = :id", {"id": row.id})
        return True

    assert free_dead(database, NOW + 1, gone) == 0
    assert find_outbox(database, row.id).claim_id == "quicker"
