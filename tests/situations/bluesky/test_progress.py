"""A poll of accounts under way shows in the ledger how many of the due ones are done, and how many posts are stored."""

from __future__ import annotations

import re

import pytest
from tests.situations.bluesky.house import DAY, Waters
from tests.situations.witness import Witness, done, grows

from tidelore.sync import account_poll as poll_accounts

NAMES = tuple(f"reader{number}.test" for number in range(30))
NOTE = re.compile(r"bluesky accounts: (\d+) posts, \d+ active")


def fill(waters: Waters) -> Witness:
    waters.add(*NAMES)
    for name in NAMES:
        for number in range(3):
            waters.sky.post(name, f"Post {number}")
    waters.world.advance(60)
    return Witness(waters.path, waters.world.advance)


def test_progress_shows_how_many_due_accounts_are_done(waters: Waters) -> None:
    witness = fill(waters)
    report = waters.poll(witness)
    seen = witness.during("ingest")
    assert grows(done(seen))
    assert {run.progress_total for run in seen} == {len(NAMES)}
    notes = [NOTE.fullmatch(run.progress_note or "") for run in seen]
    assert grows([int(found[1]) for found in notes if found is not None])
    assert None not in notes
    assert grows([run.requests for run in seen])
    end = witness.look()
    assert (end.status, end.progress_done, end.progress_total, end.progress_note) == ("succeeded", None, None, None)
    assert end.requests == report.requests


def test_progress_counts_all_due_accounts_from_the_start(waters: Waters, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = fill(waters)
    monkeypatch.setattr(poll_accounts, "ACCOUNTS_AT_ONCE", 2)
    waters.poll(witness)
    assert {run.progress_total for run in witness.during("ingest")} == {len(NAMES)}


def test_progress_of_named_accounts_counts_only_those(waters: Waters) -> None:
    witness = fill(waters)
    waters.world.advance(DAY)
    waters.poll(witness, accounts=NAMES[:3])
    assert {run.progress_total for run in witness.during("ingest")} == {3}
