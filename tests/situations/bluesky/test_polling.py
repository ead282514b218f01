"""Cycles: nothing is lost to volume, slowness, outages or another way of reading; quiet accounts cost little."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
from tests.properties.inprocess import WorldTransport
from tests.situations.bluesky.house import CYCLE, DAY, Waters
from tests.support.deep import gate_cases

from tidelore.core.errors import PartialSuccess, RateLimited
from tidelore.sync.report import MOST_TOLD, AccountReport, PollReport, poll_verdict

ALICE, BOB, CAROL = "alice.test", "bob.test", "carol.test"
FEED = re.compile("getAuthorFeed")


def post_many(waters: Waters, name: str, count: int, each_seconds: float = 1) -> None:
    for number in range(count):
        waters.sky.post(name, f"Post {number}")
        waters.world.advance(each_seconds)


@pytest.mark.parametrize("mode", ["feed", "records"])
@gate_cases(1)
def test_three_thousand_posts_between_two_polls_are_all_stored(tmp_path: Path, mode: str) -> None:
    waters = Waters(tmp_path, mode=mode, max_pages_per_user=10)
    waters.add(ALICE)
    waters.sky.post(ALICE, "Long before")
    waters.world.advance(2 * DAY)
    waters.poll()
    post_many(waters, ALICE, 3000, 0.3)
    reports = [waters.poll(everyone=True)]
    assert reports[0].told[0].behind
    while reports[-1].told and reports[-1].told[0].behind:
        # It goes on posting meanwhile, and is due in the very next cycle.
        post_many(waters, ALICE, 20, 1)
        reports.append(waters.poll())
    # Ten pages that may bring something, and those of the overlap: two minutes in which it posted all the time.
    assert all(report.pages <= 10 + 2 * 9 for report in reports)
    assert len(reports) < 9
    waters.world.advance(DAY)
    waters.poll()
    missing = waters.truth(ALICE).keys() - waters.held(ALICE).keys()
    assert len(missing) <= 1, "only what was there before the look-back may be missing"
    assert len(waters.held(ALICE)) >= 3000


def test_a_poll_that_needs_a_second_page_logs_high_volume(waters: Waters, caplog: pytest.LogCaptureFixture) -> None:
    waters.add(ALICE)
    post_many(waters, ALICE, 2, DAY / 3)
    waters.poll()
    post_many(waters, ALICE, 150)
    with caplog.at_level("INFO", logger="tidelore.sync"):
        waters.poll(everyone=True)
    told = [record.message for record in caplog.records if record.name.startswith("tidelore.sync")]
    assert told == [
        f"[POLL] {ALICE}: High volume detected, fetching more pages",
        f"[POLL] {ALICE}: 150 posts, 0 URLs across 4 pages",
    ]


class OneSlow(WorldTransport):
    """A network on which requests about one account never end."""

    slow = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.slow and self.slow in str(request.url):
            await asyncio.sleep(3600)
        return await super().handle_async_request(request)


def test_a_slow_account_does_not_delay_the_others(waters: Waters) -> None:
    waters.add(ALICE, BOB, CAROL)
    for name in (ALICE, BOB, CAROL):
        waters.sky.post(name, "Here")
    waters.transport = OneSlow(waters.world)
    waters.transport.slow = waters.account(BOB).did.removeprefix("did:plc:")
    report = waters.poll(account_seconds=0.3)
    assert (report.accounts, report.failed, report.posts) == (3, 1, 2)
    (bob,) = [account for account in report.told if account.handle == BOB]
    assert bob.error is not None
    assert "0.3 s" in bob.error.message
    error = poll_verdict(report)
    assert isinstance(error, PartialSuccess)
    waters.transport.slow = ""
    assert waters.cycle().posts == 1
    assert waters.held(BOB) == waters.truth(BOB)


def test_a_rate_limit_ends_the_cycle_and_the_remaining_accounts_stay_due(tmp_path: Path) -> None:
    waters = Waters(tmp_path, max_concurrent=1)
    waters.add(ALICE, BOB, CAROL)
    fault = waters.world.faults.add("status", FEED, times=None, status=429, retry_after=4000)
    report = waters.poll()
    assert fault.fired == 1
    assert (report.accounts, report.failed, report.left) == (1, 1, 2)
    assert isinstance(poll_verdict(report), RateLimited)
    waters.world.faults.clear()
    assert waters.poll().requests == 0, "the next poll keeps to the pause too"
    with waters.database() as database, database.transaction() as tx:
        tx.execute("DELETE FROM source_pauses")
    assert waters.poll().accounts == 1, "the one that no poll got to; the others wait after their failure"


def test_a_server_that_is_down_is_not_tried_for_every_account(tmp_path: Path) -> None:
    waters = Waters(tmp_path, max_concurrent=5)
    waters.add(*(f"reader{number}.test" for number in range(40)))
    waters.world.faults.add("status", FEED, times=None, status=503)
    report = waters.poll()
    assert report.failed < 20
    assert report.left == 40 - report.failed
    assert len(report.outages) == 1
    assert all(account.state == "new" for account in (waters.account(f"reader{n}.test") for n in range(40)))


def test_a_server_that_refuses_every_account_does_not_mark_them_unavailable(tmp_path: Path) -> None:
    waters = Waters(tmp_path, max_concurrent=1)
    waters.add(*(f"reader{number}.test" for number in range(40)))
    waters.world.faults.add("status", FEED, times=None, status=404)
    report = waters.poll()
    assert (report.unavailable, report.left) == (10, 30)
    waters.world.faults.clear()
    assert waters.poll(everyone=True).unavailable == 0


@pytest.mark.deep
def test_quiet_accounts_are_polled_less_often_within_the_maximum_interval(waters: Waters) -> None:
    waters.add(ALICE, BOB)
    waters.sky.post(ALICE, "Good morning")
    waters.poll()
    asked: dict[str, list[int]] = {ALICE: [], BOB: []}
    for _ in range(4 * 24):
        waters.world.advance(CYCLE)
        waters.sky.post(ALICE, "Talking all day")
        waters.poll()
        for name in asked:
            account = waters.account(name)
            if account.last_polled_at == waters.clock.now_ms():
                asked[name].append(waters.clock.now_ms() // 1000)
    assert len(asked[ALICE]) == 4 * 24
    assert len(asked[BOB]) <= 8
    pauses = [after - before for before, after in zip(asked[BOB], asked[BOB][1:], strict=False)]
    assert max(pauses) <= 240 * 60


def test_an_account_keeps_its_history_when_its_handle_changes(waters: Waters) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "As Alice")
    waters.poll()
    waters.sky.change_handle(ALICE, "alicia.test")
    waters.sky.post("alicia.test", "As Alicia")
    report = waters.cycle(everyone=True)
    assert report.told[0].renamed_from == ALICE
    assert waters.account("alicia.test").posts_fetched_count == 2
    assert waters.rows("SELECT DISTINCT author_handle FROM posts") == [("alicia.test",)]
    assert waters.held("alicia.test") == waters.truth("alicia.test")


@pytest.mark.parametrize("mode", ["feed", "records"])
def test_posts_keep_the_known_handle_while_the_network_shows_it_as_invalid(tmp_path: Path, mode: str) -> None:
    waters = Waters(tmp_path, mode=mode)
    waters.add(ALICE, BOB)
    did = waters.account(ALICE).did
    waters.sky.post(ALICE, "Before")
    waters.poll()
    waters.sky.break_handle(did)
    waters.sky.post(did, "Meanwhile")
    waters.sky.repost(did, waters.sky.post(BOB, "Worth repeating").uri)
    waters.cycle(everyone=True)
    waters.sky.mend_handle(did)
    waters.sky.post(ALICE, "Afterwards")
    waters.cycle(everyone=True)
    assert waters.rows("SELECT DISTINCT author_handle FROM posts WHERE author_did = :did", did=did) == [(ALICE,)]
    assert waters.held(ALICE) == waters.truth(ALICE)


class ConfusedAppView(WorldTransport):
    """An AppView that answers for every account with the feed of one."""

    actor: str = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.actor and FEED.search(request.url.path):
            request.url = request.url.copy_set_param("actor", self.actor)
        return await super().handle_async_request(request)


def test_a_feed_with_another_account_changes_neither_handle_nor_posts_nor_cursor(waters: Waters) -> None:
    waters.add(ALICE, BOB)
    waters.sky.post(ALICE, "As Alice")
    waters.sky.post(BOB, "As Bob")
    waters.poll()
    held = waters.held(ALICE)
    waters.transport = confused = ConfusedAppView(waters.world)
    confused.actor = waters.account(BOB).did
    waters.sky.post(BOB, "As Bob again")
    waters.cycle(everyone=True)
    assert waters.account(ALICE).handle == ALICE
    assert waters.held(ALICE) == held
    confused.actor = ""
    waters.sky.post(ALICE, "Alice again")
    waters.cycle(everyone=True)
    assert waters.held(ALICE) == waters.truth(ALICE)


def test_a_handle_is_resolved_in_records_mode_too(tmp_path: Path) -> None:
    waters = Waters(tmp_path, mode="records")
    waters.add(ALICE)
    waters.poll()
    waters.sky.change_handle(ALICE, "alicia.test")
    waters.cycle(everyone=True)
    assert waters.account("alicia.test").did == waters.sky.network.account("alicia.test").did


@pytest.mark.parametrize(("first", "second"), [("feed", "records"), ("records", "feed")])
def test_switching_between_feed_and_records_mode_leaves_no_gap(tmp_path: Path, first: str, second: str) -> None:
    waters = Waters(tmp_path, mode=first)
    waters.add(ALICE)
    waters.sky.post(ALICE, "At first")
    waters.poll()
    post_many(waters, ALICE, 30, DAY / 10)
    changed = Waters(tmp_path, waters.world, mode=second)
    changed.poll(everyone=True)
    assert changed.held(ALICE) == changed.truth(ALICE), "three days of posts, with a look-back of one"


def test_verification_finds_a_backdated_post_an_edit_and_a_deletion(waters: Waters) -> None:
    waters.add(ALICE)
    waters.sky.post(ALICE, "Kept")
    edited = waters.sky.post(ALICE, "Edited")
    deleted = waters.sky.post(ALICE, "Deleted")
    waters.poll()
    post_many(waters, ALICE, 60, CYCLE)
    waters.poll(everyone=True)
    waters.sky.post(ALICE, "Written today, dated 2020", created_at="2020-01-01T00:00:00Z")
    waters.sky.edit(edited.uri, "Edited, really")
    waters.sky.delete(deleted.uri)
    waters.poll(everyone=True)
    assert waters.held(ALICE) != waters.truth(ALICE)
    report = waters.poll(everyone=True, scrub_budget=10)
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert [(one.tally.created, one.tally.changed, one.tally.gone) for one in report.verified] == [(1, 1, 1)]
    assert waters.rows("SELECT COUNT(*) FROM posts WHERE deleted_at IS NOT NULL") == [(1,)]


def test_verification_completes_a_feed_that_ended_early(waters: Waters) -> None:
    waters.add(ALICE)
    post_many(waters, ALICE, 40, 60)
    waters.sky.settings.feed_depth[waters.account(ALICE).did] = 10
    waters.poll()
    assert len(waters.held(ALICE)) == 10
    waters.poll(everyone=True, scrub_budget=10)
    assert waters.held(ALICE) == waters.truth(ALICE)


def test_verification_rotates_accounts_and_continues_where_its_budget_ended(waters: Waters) -> None:
    waters.add(ALICE, BOB)
    for name in (ALICE, BOB):
        post_many(waters, name, 250, 60)
    waters.poll()
    verified: set[str] = set()
    for _ in range(20):
        report = waters.poll(everyone=True, scrub_budget=1)
        assert len(report.verified) == 1
        verified |= {one.handle for one in report.verified}
        if waters.rows("SELECT COUNT(*) FROM cursors WHERE verified_at IS NULL") == [(0,)]:
            break
        waters.world.advance(60)
    assert verified == {ALICE, BOB}


def test_an_account_on_a_silent_server_does_not_block_verification_of_others(waters: Waters) -> None:
    names = [f"reader{number}.test" for number in range(6)]
    waters.add(*names)
    waters.poll()
    for name in names[:3]:
        waters.sky.settings.refused[waters.account(name).did] = 404
    verified: set[str] = set()
    for _ in range(40):
        report = waters.poll(accounts=(names[5],), scrub_budget=1)
        verified |= {one.handle for one in report.verified if one.error is None}
        waters.world.advance(60)
    assert verified >= set(names[3:])


def test_verification_does_not_fetch_posts_from_before_the_account_was_added(waters: Waters) -> None:
    waters.sky.create_account(ALICE)
    post_many(waters, ALICE, 300, DAY)
    waters.add(ALICE)
    waters.poll()
    held = waters.held(ALICE)
    assert len(held) == 50, "the page on which the look-back ended"
    waters.poll(everyone=True, scrub_budget=50)
    assert waters.held(ALICE) == held


def test_an_impossible_cursor_is_replaced_without_reading_the_whole_history(waters: Waters) -> None:
    waters.sky.create_account(ALICE)
    post_many(waters, ALICE, 300, DAY)
    waters.add(ALICE)
    waters.poll()
    held = waters.held(ALICE)
    with waters.database() as database, database.transaction() as tx:
        assert tx.change("UPDATE cursors SET watermark_at = 99999999999999, reading = NULL") == 1
    waters.sky.post(ALICE, "After the accident")
    report = waters.poll(everyone=True, scrub_budget=50)
    assert report.told[0].tally.cursor_reset is not None
    assert len(waters.held(ALICE)) == len(held) + 1
    waters.cycle(everyone=True, scrub_budget=50)
    assert len(waters.held(ALICE)) == len(held) + 1
    assert waters.rows("SELECT COUNT(*) FROM cursors WHERE set_aside IS NOT NULL") == [(1,)]


def test_a_full_poll_reads_an_account_from_its_beginning(waters: Waters) -> None:
    waters.sky.create_account(ALICE)
    post_many(waters, ALICE, 300, DAY)
    waters.add(ALICE)
    waters.poll()
    report = waters.poll(full=True)
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert report.told[0].initial
    assert waters.rows("SELECT note FROM sync_runs ORDER BY id DESC LIMIT 1") != [(None,)]


def test_an_account_that_moved_to_another_server_is_found_again(tmp_path: Path) -> None:
    waters = Waters(tmp_path, mode="records")
    waters.add(ALICE)
    waters.poll()
    with waters.database() as database, database.transaction() as tx:
        assert tx.change("UPDATE accounts SET pds_url = 'http://127.0.0.1:1/gone'") == 1
    waters.transport = Moved(waters.world)
    waters.sky.post(ALICE, "From the new server")
    waters.poll(everyone=True)
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert waters.account(ALICE).pds_url == "http://127.0.0.1:9999"


class Moved(WorldTransport):
    """A network on which one server is gone."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.port == 1:
            raise httpx2.ConnectError("connection refused")
        return await super().handle_async_request(request)


def test_a_quarantined_post_is_fetched_again_and_released(waters: Waters) -> None:
    waters.add(ALICE)
    post_many(waters, ALICE, 5, 60)
    fault = waters.world.faults.add("invalid_timestamp", FEED)
    waters.poll()
    assert fault.fired == 1
    assert len(waters.held(ALICE)) == 4
    assert waters.rows("SELECT COUNT(*) FROM quarantine") == [(1,)]
    post_many(waters, ALICE, 60, DAY)
    waters.poll()
    assert waters.rows("SELECT attempts FROM quarantine") == [(2,)], "it is as it was"
    waters.world.faults.clear()
    waters.world.advance(7 * DAY)
    waters.poll()
    assert waters.rows("SELECT COUNT(*) FROM quarantine") == [(0,)]
    assert waters.held(ALICE) == waters.truth(ALICE)


def test_configured_accounts_are_added_and_an_unknown_one_is_reported(tmp_path: Path) -> None:
    waters = Waters(tmp_path, accounts=["@Alice.test", "nobody.test"])
    waters.sky.create_account(ALICE)
    waters.sky.post(ALICE, "Here")
    report = waters.poll()
    assert list(report.unresolved) == ["nobody.test"]
    assert waters.held(ALICE) == waters.truth(ALICE)
    waters.sky.change_handle(ALICE, "alicia.test")
    waters.sky.post("alicia.test", "Renamed")
    waters.cycle(everyone=True)
    assert list(waters.cycle().unresolved) == ["nobody.test"], "the renamed one is still known as what it was"


def test_an_old_post_reposted_to_the_top_does_not_end_the_walk_early(waters: Waters) -> None:
    waters.add(ALICE, BOB)
    old = waters.sky.post(BOB, "An old one", created_at="2021-01-01T00:00:00Z")
    post_many(waters, ALICE, 60, 60)
    waters.sky.repost(ALICE, old.uri)
    waters.poll()
    assert waters.held(ALICE) == waters.truth(ALICE)


@pytest.mark.parametrize(("failures", "failed"), [(3, 0), (4, 1)])
def test_a_request_is_retried_after_one_two_and_four_seconds_and_no_more(
    tmp_path: Path, failures: int, failed: int
) -> None:
    waters = Waters(tmp_path, bluesky={"max_retries": 3, "retry_backoff_ms": 1000})
    waters.add(ALICE)
    fault = waters.world.faults.add("status", FEED, failures, status=503)
    before = waters.clock.monotonic()
    report = waters.poll()
    assert fault.fired == failures
    assert report.failed == failed
    # Each pause is spread over its upper half, so that not everybody comes back at the same instant.
    assert 3.5 <= waters.clock.monotonic() - before <= 7


def test_a_report_on_very_many_accounts_lists_failing_ones_and_some_others() -> None:
    report = PollReport(1)
    for number in range(MOST_TOLD + 50):
        report.add(AccountReport(f"did:plc:{number}", f"reader{number}.test", "feed", initial=True))
    report.add(AccountReport("did:plc:gone", "gone.test", "feed", initial=False, refused="API error: 400"))
    assert report.accounts == MOST_TOLD + 51
    assert len(report.told) == MOST_TOLD + 1
    assert report.told[-1].handle == "gone.test"


@pytest.mark.parametrize("mode", ["feed", "records"])
def test_a_poll_cycle_gives_the_same_result_on_both_databases(tmp_path: Path, address: str, mode: str) -> None:
    waters = Waters(tmp_path, mode=mode)
    waters.path = address
    waters.add(ALICE, BOB)
    post_many(waters, ALICE, 120, 60)
    edited = waters.sky.post(BOB, "At first https://example.com/a")
    deleted = waters.sky.post(BOB, "Not for long")
    waters.poll(documents=True)
    waters.sky.edit(edited.uri, "At last https://example.com/b")
    waters.sky.delete(deleted.uri)
    waters.sky.deactivate(ALICE)
    waters.cycle(everyone=True, verify=True, documents=True)
    assert waters.held(BOB) == waters.truth(BOB)
    assert waters.account(ALICE).state == "unavailable"
    waters.sky.reactivate(ALICE)
    waters.cycle(everyone=True)
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert [row[0] for row in waters.rows("SELECT user_handle FROM poll_state ORDER BY 1")] == [ALICE, BOB]


@pytest.mark.parametrize("mode", ["feed", "records"])
@pytest.mark.parametrize("before", [0, 7], ids=["from the first request on", "in the middle of a cycle"])
@gate_cases(2)
def test_a_server_that_blocks_every_account_marks_none_unavailable(waters: Waters, mode: str, before: int) -> None:
    names = [f"a{number:02}.test" for number in range(30)]
    waters.add(*names, mode=mode)
    waters.poll()
    route = re.compile("getAuthorFeed" if mode == "feed" else "listRecords")
    fault = waters.world.faults.add("status", route, times=None, after=before, status=403)
    report = waters.cycle(everyone=True)
    assert {row for (row,) in waters.rows("SELECT DISTINCT state FROM accounts")} == {"established"}
    assert report.unavailable == 0
    (error,) = report.outages.values()
    assert "refuses all requests (status 403)" in error.message
    assert report.accounts + report.left == 30
    assert fault.fired <= 2 * 15 + 1, "the others are not asked any more"
    waters.world.faults.clear()
    assert waters.cycle(everyone=True).unavailable == 0
