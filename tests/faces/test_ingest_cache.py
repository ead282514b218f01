"""A remembered ingest is used for the same world, configuration and database only, and leaves what an ingest leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.databases.migrated_file import lay_out
from tests.faces import ingest_cache
from tests.faces.desk import LEDGER, Desk
from tests.faces.ingest_cache import ingest_once
from tests.support.deep import gate_cases


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_cache, "_remembered", {})


def ingest_into(desk: Desk, name: str, resource: str = "issues") -> tuple[bool, Desk]:
    """Return whether the command ran, and a desk on the database that it made or that was put in place."""
    (desk.folder / name).mkdir()
    (desk.folder / name / "config.toml").write_bytes(desk.config.read_bytes())
    other = Desk(desk.folder / name, desk.url, desk.world, desk.read)
    ran: list[Path] = []

    def ingest() -> None:
        ran.append(other.db)
        assert other.run("ingest", "--type", resource).code == 0

    lay_out(other.db)
    ingest_once(other.world, other.url, other.config, other.db, resource, ingest)
    return bool(ran), other


def test_the_same_ingest_is_done_once_and_leaves_the_same_rows_and_counts(desk: Desk) -> None:
    ingest_into(desk, "first")
    desk.world.requests.clear()
    desk.world.log.clear()
    # The world has prepared its answers now, so that this is another world to the cache.
    ran, done = ingest_into(desk, "done")
    counted, logged = Counter(desk.world.requests), list(desk.world.log)
    ran_again, put = ingest_into(desk, "put")
    assert (ran, ran_again) == (True, False)
    assert put.db.read_bytes() == done.db.read_bytes()
    assert desk.world.requests == counted + counted
    assert desk.world.log == logged + logged
    assert put.robot("count").data["issues"]["total"] == 7


@pytest.mark.parametrize("difference", ["world", "configuration", "environment", "list", "code in the world"])
@gate_cases(2)
def test_an_ingest_that_may_differ_is_done(desk: Desk, difference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest_into(desk, "first")
    ingest_into(desk, "prepared")
    assert not ingest_into(desk, "second")[0]
    if difference == "world":
        desk.world.gitlab.create_issue(LEDGER)
    elif difference == "configuration":
        desk.configure(LEDGER)
    elif difference == "environment":
        monkeypatch.setenv("GITLAB_TOKEN", "glpat-other")
    elif difference == "code in the world":
        desk.world.before_request.append(lambda _request: None)
    resource = "merge_requests" if difference == "list" else "issues"
    assert ingest_into(desk, "third", resource)[0]
