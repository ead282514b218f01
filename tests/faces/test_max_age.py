"""`--max-age`: an item that is too old is refreshed first, within a bound; the answer says how old it is."""

from __future__ import annotations

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk

REF = f"{LEDGER}#2"


@pytest.fixture
def stale(desk: Desk) -> Desk:
    """A copy that was read an hour ago, of an issue that has changed since."""
    desk.ingested()
    desk.configure(LEDGER, CONSOLE, extra='[embedding]\nprovider = "none"\n')
    desk.query("UPDATE cursors SET polled_at = polled_at - 3600000")
    desk.query("UPDATE issues SET last_seen_at = last_seen_at - 3600000")
    with desk.world.lock:
        desk.world.advance(3600)
        desk.world.gitlab.edit_issue(LEDGER, 2, title="Far too fast")
    return desk


@pytest.mark.parametrize("command", [["show", "issue", REF], ["context", REF], ["threads", REF]], ids=" ".join)
def test_an_older_item_is_refreshed_and_a_younger_one_is_not(stale: Desk, command: list[str]) -> None:
    stored = stale.robot(*command, "--max-age", "2h").document
    assert stored["meta"]["refreshed"] is False
    assert 3500 <= stored["meta"]["age_seconds"] < 7200
    fresh = stale.robot(*command, "--max-age", "5m").document
    assert (fresh["meta"]["refreshed"], fresh["meta"]["age_seconds"] < 60) == (True, True)
    assert "age_seconds" not in stale.robot(*command).document["meta"]
    assert stale.robot("show", "issue", REF).data["title"] == "Far too fast"


def test_a_search_refreshes_what_it_would_show_and_searches_again(stale: Desk) -> None:
    stale.run("generate-docs")
    title = stale.robot("show", "issue", REF).data["title"]
    asked = ("search", "--mode", "lexical", title)
    stored = stale.robot(*asked, "--max-age", "2h").document
    assert stored["meta"]["refreshed"] is False
    assert 3500 <= stored["meta"]["age_seconds"] < 7200
    fresh = stale.robot(*asked, "--max-age", "5m", "--max-wait", "30s").document
    assert (fresh["meta"]["refreshed"], fresh["meta"]["age_seconds"] < 60) == (True, True)
    assert "Far too fast" in {item["title"] for item in stale.robot("search", "too fast").data["items"]}
    assert REF not in {item["reference"] for item in fresh["data"]["items"] if item["title"] == title}
    assert "age_seconds" not in stale.robot(*asked).document["meta"]


def test_a_search_that_finds_nothing_refreshes_nothing(stale: Desk) -> None:
    done = stale.robot("search", "--mode", "lexical", "zzyzx", "--max-age", "0s").document
    assert (done["data"]["total"], done["meta"]["refreshed"], done["meta"]["age_seconds"]) == (0, False, None)


def test_a_saved_search_cannot_be_refreshed_first(stale: Desk) -> None:
    assert stale.robot("search", "--saved", "mine", "--max-age", "5m").code == 2


def test_a_greatest_age_of_0_refreshes_what_was_read_just_now(stale: Desk) -> None:
    for _ in range(2):
        assert stale.robot("context", REF, "--max-age", "0s").document["meta"]["refreshed"] is True


def test_an_unknown_item_is_fetched_first(stale: Desk) -> None:
    with stale.world.lock:
        stale.world.gitlab.create_issue(CONSOLE)
    assert stale.robot("show", "issue", f"{CONSOLE}#3").code == 6
    assert stale.robot("show", "issue", f"{CONSOLE}#3", "--max-age", "1h").data["iid"] == 3


def test_a_refresh_that_fails_shows_the_stored_version_and_says_why(stale: Desk) -> None:
    stale.world.gitlab.forbid_project(LEDGER)
    done = stale.robot("show", "issue", REF, "--max-age", "1m")
    assert done.data["title"] != "Far too fast"
    meta = done.document["meta"]
    assert (meta["refreshed"], meta["age_seconds"] > 3500) == (False, True)
    assert meta["refresh_error"]
    said = stale.run("show", "issue", REF, "--max-age", "1m")
    assert "showing the stored version" in said.err


def test_an_invalid_age_or_one_without_an_item_is_refused(stale: Desk) -> None:
    assert stale.robot("show", "issue", REF, "--max-age", "soon").code == 2
    assert stale.robot("threads", "--max-age", "5m").code == 2
