"""The states of an account: every way from one to another, and the line that tells of it."""

from __future__ import annotations

import re

import pytest
from tests.properties.inprocess import BASE_URL
from tests.situations.bluesky.house import CYCLE, DAY, Reaper, Waters, configured

from tidelore.core.errors import UserError
from tidelore.store.mirror.accounts import FIRST_PAUSE_MS, pause_account, reset_account, resume_account

ALICE = "alice.test"


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    found = [record.message for record in log.records if record.message.startswith("[")]
    log.clear()
    return found


def change(waters: Waters, act: object, name: str, *more: object) -> None:
    account = waters.account(name)
    with waters.database() as database, database.transaction() as tx:
        assert act(tx, account.id, *more, waters.clock.now_ms())  # type: ignore[operator]


def test_a_new_account_becomes_established_and_logs_initial_once(waters: Waters, log: pytest.LogCaptureFixture) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "One, with https://example.com/a and https://example.com/b")
    waters.sky.post(ALICE, "Two")
    assert waters.account(ALICE).state == "new"
    waters.poll()
    assert waters.account(ALICE).state == "established"
    assert lines(log) == [f"[INITIAL] {ALICE}: 2 posts, 2 URLs across 2 pages"]
    waters.cycle()
    assert lines(log) == []


def test_a_poll_is_logged_only_when_it_found_something_new(waters: Waters, log: pytest.LogCaptureFixture) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Long before")
    waters.world.advance(CYCLE)
    waters.sky.post(ALICE, "Before")
    waters.poll()
    lines(log)
    waters.cycle()
    assert lines(log) == []
    waters.world.advance(CYCLE)
    waters.sky.post(ALICE, "After https://example.com/")
    waters.poll(everyone=True)
    assert lines(log) == [f"[POLL] {ALICE}: 1 posts, 1 URLs across 1 pages"]
    assert waters.held(ALICE) == waters.truth(ALICE)


def test_an_account_without_posts_becomes_established(waters: Waters) -> None:
    waters.add(ALICE)
    waters.poll()
    assert waters.account(ALICE).state == "established"
    assert waters.rows("SELECT last_cursor FROM poll_state") == [(None,)]
    waters.world.advance(CYCLE)
    waters.sky.post(ALICE, "The first one")
    waters.poll(everyone=True)
    assert waters.held(ALICE) == waters.truth(ALICE)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refused_account_becomes_unavailable_and_keeps_its_position(
    waters: Waters, log: pytest.LogCaptureFixture, status: int
) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Here")
    waters.poll()
    lines(log)
    before = waters.rows("SELECT watermark_at, watermark_id FROM cursors")
    waters.sky.settings.refused[waters.account(ALICE).did] = status
    report = waters.cycle(everyone=True)
    account = waters.account(ALICE)
    assert (account.state, account.reason) == ("unavailable", f"API error: {status}")
    assert lines(log) == [f"[SKIP] {ALICE}: Account unavailable (invalid/deleted/private): API error: {status}"]
    assert (report.unavailable, report.failed) == (1, 0)
    assert waters.rows("SELECT watermark_at, watermark_id FROM cursors") == before


@pytest.mark.parametrize("mode", ["feed", "records"])
@pytest.mark.parametrize(
    ("status", "shown"),
    [("deactivated", "deactivated"), ("suspended", "suspended"), ("takendown", "suspended"), ("deleted", "deleted")],
)
def test_an_unavailable_account_is_reported_as_deactivated_suspended_or_deleted(
    waters: Waters, log: pytest.LogCaptureFixture, mode: str, status: str, shown: str
) -> None:
    waters.add(ALICE, mode=mode)
    waters.poll()
    waters.sky.suspend(ALICE, status)
    lines(log)
    waters.poll(everyone=True)
    if (mode, status) == ("records", "takendown"):
        shown = "taken down"
    assert (waters.account(ALICE).state, waters.account(ALICE).reason) == ("unavailable", f"account {shown}")
    line = f"[SKIP] {ALICE}: Account unavailable (invalid/deleted/private): API error: 400 (account {shown})"
    assert lines(log) == [line]


@pytest.mark.parametrize("mode", ["feed", "records"])
def test_posts_of_a_deleted_account_are_removed_and_those_of_a_hidden_one_kept(waters: Waters, mode: str) -> None:
    waters.add(ALICE, mode=mode)
    waters.sky.post(ALICE, "Here https://example.com/a")
    waters.poll()
    waters.sky.deactivate(ALICE)
    waters.cycle(everyone=True)
    assert waters.held(ALICE) == waters.truth(ALICE) != {}
    waters.sky.delete_account(ALICE)
    waters.cycle(everyone=True)
    assert waters.held(ALICE) == {}
    assert waters.rows("SELECT COUNT(*) FROM post_links") == [(0,)]


def test_posts_are_kept_when_only_the_appview_lost_the_account(waters: Waters) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Here")
    waters.poll()
    waters.sky.settings.unlisted.add(waters.account(ALICE).did)
    waters.cycle(everyone=True)
    assert waters.account(ALICE).reason == "account not found"
    assert waters.held(ALICE) == waters.truth(ALICE) != {}


def test_back_off_grows_while_an_account_is_unavailable(waters: Waters) -> None:
    waters.add(ALICE)
    waters.sky.deactivate(ALICE)
    pauses = []
    for _ in range(5):
        waters.poll(everyone=True)
        pauses.append(waters.account(ALICE).next_poll_at - waters.clock.now_ms())
    assert pauses == [FIRST_PAUSE_MS << step for step in range(5)]


def test_an_unavailable_account_is_not_polled_until_its_pause_is_over(waters: Waters) -> None:
    waters.add(ALICE)
    waters.sky.deactivate(ALICE)
    waters.poll(everyone=True)
    waters.poll(everyone=True)
    assert waters.requests_of(lambda: waters.cycle()) == 0
    assert waters.cycle().unavailable == 1


@pytest.mark.parametrize(("before", "state"), [(False, "new"), (True, "established")])
def test_an_account_that_is_available_again_continues_at_its_position(waters: Waters, before: bool, state: str) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Before")
    if before:
        waters.poll()
    assert waters.account(ALICE).state == state
    waters.sky.deactivate(ALICE)
    waters.cycle(everyone=True)
    waters.sky.reactivate(ALICE)
    waters.sky.post(ALICE, "After")
    report = waters.cycle()
    assert waters.account(ALICE).state == "established"
    assert (waters.account(ALICE).failures, waters.account(ALICE).reason) == (0, None)
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert [account.initial for account in report.told] == [not before]


def test_a_paused_account_is_not_polled_and_continues_when_resumed(waters: Waters) -> None:
    waters.add(ALICE)
    waters.poll()
    change(waters, pause_account, ALICE, "too loud")
    waters.sky.post(ALICE, "Unheard")
    assert waters.requests_of(lambda: waters.cycle(everyone=True)) == 0
    with pytest.raises(UserError, match="paused"):
        waters.poll(accounts=(ALICE,))
    change(waters, resume_account, ALICE)
    assert waters.account(ALICE).state == "established"
    assert waters.poll().posts == 1


def test_a_reset_account_is_read_like_a_new_one_without_duplicates(
    waters: Waters, log: pytest.LogCaptureFixture
) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Here")
    waters.poll()
    change(waters, reset_account, ALICE)
    assert waters.account(ALICE).state == "new"
    lines(log)
    assert waters.poll().posts == 0
    assert lines(log) == [f"[INITIAL] {ALICE}: 0 posts, 0 URLs across 2 pages"]
    assert waters.held(ALICE) == waters.truth(ALICE)


def test_a_temporary_failure_does_not_change_the_account_state(waters: Waters) -> None:
    waters.add(ALICE)
    waters.poll()
    fault = waters.world.faults.add("status", re.compile("getAuthorFeed"), status=503)
    report = waters.cycle(everyone=True)
    assert fault.fired == 1
    account = waters.account(ALICE)
    assert (account.state, account.failures, report.failed) == ("established", 1, 1)
    assert account.last_error
    waters.cycle()
    assert waters.account(ALICE).failures == 0


def test_an_interrupted_first_backfill_does_not_start_over(waters: Waters) -> None:
    """The bug of the first design: the position was saved after the look-back was checked, or not at all."""
    waters.add(ALICE)
    for number in range(400):
        waters.sky.post(ALICE, f"Post {number}")
        waters.world.advance(60)
    killed = waters.try_poll(Reaper(at_visit=26))
    assert killed is None
    stored = len(waters.held(ALICE))
    # With fewer pages before it the kill would prove nothing: to start over would cost as much as is allowed below.
    assert 250 <= stored < 400
    pages = -(-(400 - stored) // 50)
    report = waters.poll()
    assert waters.held(ALICE) == waters.truth(ALICE)
    # One page for the head, one that is repeated, one empty one at the end.
    assert report.pages <= pages + 3
    assert waters.account(ALICE).state == "established"
    assert waters.cycle().pages == 1


def test_a_first_backfill_stops_at_the_look_back_and_stores_a_position(waters: Waters) -> None:
    waters.add(ALICE)
    for number in range(300):
        waters.sky.post(ALICE, f"Post {number}")
        waters.world.advance(DAY / 50)
    report = waters.poll()
    assert report.pages == 2, "a day of posts, and the page on which it is left"
    assert waters.account(ALICE).state == "established"
    ((last_cursor,),) = waters.rows("SELECT last_cursor FROM poll_state")
    assert last_cursor is not None
    assert waters.cycle(everyone=True).told == []


def test_unavailable_accounts_are_polled_at_once_after_the_address_of_the_appview_was_changed(waters: Waters) -> None:
    waters.add(ALICE, "bob.test")
    waters.sky.suspend(ALICE, "takendown")
    for _ in range(4):
        waters.poll(everyone=True)
    waters.world.advance(60)
    assert waters.account(ALICE).state == "unavailable"
    assert waters.poll().accounts == 0, "the pause of an unavailable account has grown"
    waters.config = configured(base_url=BASE_URL.replace("127.0.0.1", "localhost"))
    waters.sky.reactivate(ALICE)
    assert [account.handle for account in waters.poll().told] == [ALICE]
    assert waters.account(ALICE).state == "established"
    assert waters.poll().accounts == 0


def test_accounts_keep_to_a_shorter_staleness_at_once_and_are_not_polled_more_often_after_that(waters: Waters) -> None:
    waters.config = configured(interval_minutes=15, max_staleness_minutes=7 * 24 * 60)
    waters.add(ALICE, "bob.test")
    for _ in range(2):
        waters.cycle(everyone=True)
    assert waters.account(ALICE).next_poll_at > waters.clock.now_ms() + 2 * DAY * 1000
    waters.world.advance(DAY)
    assert waters.poll().accounts == 0
    waters.config = configured(interval_minutes=15, max_staleness_minutes=60)
    waters.sky.post(ALICE, "Said a day after the last poll")
    assert waters.poll().accounts == 2
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert waters.poll().accounts == 0
    waters.config = configured(interval_minutes=15, max_staleness_minutes=60, posts_per_page=20)
    assert waters.poll().accounts == 0, "other settings say nothing of when an account is due"
