"""The stream beside the poller: what each event does, and who covers what the stream did not tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.properties.inprocess import Killed, Reaper
from tests.situations.bluesky.house import DAY, Waters, configured

from tidelore.app.accounts import stream_accounts
from tidelore.app.wiring import App
from tidelore.core.clock import SystemClock, format_instant
from tidelore.sources.bluesky.stream_protocol import (
    AccountChanged,
    HandleChanged,
    HoleFound,
    PostDeleted,
    PostWritten,
    StreamBatch,
    StreamCursor,
    StreamEvent,
    Unreadable,
    read_first,
)
from tidelore.sources.bluesky.transform import reject_post
from tidelore.store.work.session import Workshop, open_session
from tidelore.sync.account_stream import StreamIngestion, StreamReport, StreamRequest, sort_events
from tidelore_world.server import Server, serve
from tidelore_world.world import World

ALICE, BOB = "alice.test", "bob.test"


@pytest.fixture
def waters(tmp_path: Path) -> Waters:
    found = Waters(tmp_path)
    found.add(ALICE, BOB)
    found.sky.post(ALICE, "Before")
    found.poll()
    return found


@asynccontextmanager
async def ingesting(
    waters: Waters, reaper: Reaper | None = None
) -> AsyncIterator[tuple[StreamIngestion, StreamReport]]:
    """The durable side of a stream, in a process that may die."""
    app = waters.app(reaper)
    database = app.open_store()
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, "lore stream bluesky")
        report = StreamReport()
        async with open_session(shop, force=True, lease="bluesky.stream") as session:
            yield StreamIngestion(session, report, lambda _progress: None), report
    finally:
        database.close()


def told(waters: Waters, since: int = 0) -> list[StreamEvent]:
    """What the stream tells of what happened, from the n-th event on."""
    from tidelore_world.bluesky.jetstream import render_first

    frames = [read_first(render_first(event)) for event in waters.sky.stream_log.read(0, 10_000)]
    return [frame.event for frame in frames if frame.event is not None][since:]


def take(waters: Waters, *events: StreamEvent, place: int = 7, reaper: Reaper | None = None) -> StreamReport:
    async def work() -> StreamReport:
        async with ingesting(waters, reaper) as (ingestion, report):
            ingestion.take(StreamBatch(events, StreamCursor(1, place), waters.clock.now_ms()))
        return report

    return asyncio.run(work())


def place(waters: Waters) -> StreamCursor | None:
    async def work() -> StreamCursor | None:
        async with ingesting(waters) as (ingestion, _):
            found = ingestion.cursor()
            return None if found is None else StreamCursor(found.protocol, found.value)

    return asyncio.run(work())


def test_streamed_posts_edits_and_deletions_are_applied_in_order(waters: Waters) -> None:
    before = len(told(waters))
    kept = waters.sky.post(BOB, "Kept")
    edited = waters.sky.post(BOB, "Edited")
    waters.sky.edit(edited.uri, "Edited, really")
    waters.sky.delete(waters.sky.post(BOB, "Short-lived").uri)
    waters.sky.repost(BOB, kept.uri)
    report = take(waters, *told(waters, before))
    assert waters.held(BOB) == waters.truth(BOB)
    assert (report.posts, report.edited, report.deleted) == (3, 0, 1), "of what happened to one post the last counts"


def test_a_streamed_post_already_stored_by_a_poll_is_not_stored_again(waters: Waters) -> None:
    waters.sky.post(BOB, "Polled first")
    waters.poll(everyone=True)
    before = waters.rows("SELECT * FROM posts ORDER BY id")
    report = take(waters, *told(waters))
    assert (report.posts, report.edited) == (0, 0)
    assert waters.rows("SELECT * FROM posts ORDER BY id") == before


def test_a_post_deleted_on_the_stream_is_not_restored_by_a_late_list(waters: Waters) -> None:
    (uri,) = waters.held(ALICE)
    take(waters, PostDeleted(uri, waters.clock.now_ms()))
    assert waters.held(ALICE) == {}
    waters.poll(everyone=True)
    assert waters.held(ALICE) == {}, "the simulated feed still shows it, as one that is late would"


def test_the_stream_cursor_is_stored_in_the_same_transaction_as_the_rows(waters: Waters) -> None:
    micros = 1_772_442_000_123_457
    take(waters, *told(waters), place=micros)
    assert place(waters) == StreamCursor(1, micros)
    before = len(told(waters))
    waters.sky.post(BOB, "Lost with its place")
    with pytest.raises(Killed):
        # The seams of a batch: the lease, the run, before the commit, inside it.
        take(waters, *told(waters, before), place=micros + 5, reaper=Reaper(at_visit=3))
    assert place(waters) == StreamCursor(1, micros)
    assert waters.held(BOB) == {}


def test_a_stream_with_restarted_positions_drops_its_cursor(waters: Waters) -> None:
    take(waters, *told(waters), place=99)

    async def work() -> None:
        async with ingesting(waters) as (ingestion, _):
            ingestion.take(StreamBatch((), None, None))

    asyncio.run(work())
    assert place(waters) is None


def test_a_stream_gap_makes_only_its_accounts_due(waters: Waters) -> None:
    assert waters.poll().accounts == 0
    did = waters.account(ALICE).did
    report = take(waters, HoleFound((did, "did:plc:stranger"), "away too long", None))
    assert (report.holes, report.handed_over) == (1, 1)
    assert [account.did for account in waters.poll().told] == []
    assert waters.account(ALICE).last_polled_at == waters.clock.now_ms()


def test_a_streamed_handle_change_renames_the_account(waters: Waters) -> None:
    did = waters.account(ALICE).did
    take(waters, HandleChanged(did, "alicia.test", 0), HandleChanged("did:plc:stranger", "x.test", 0))
    assert waters.account("alicia.test").did == did
    assert waters.rows("SELECT DISTINCT author_handle FROM posts") == [("alicia.test",)]


def test_a_handle_change_without_the_new_handle_makes_the_account_due(waters: Waters) -> None:
    take(waters, HandleChanged(waters.account(ALICE).did, None, 0))
    assert waters.account(ALICE).next_poll_at <= waters.clock.now_ms()
    assert waters.account(ALICE).handle == ALICE


def test_a_streamed_account_removal_marks_it_unavailable_and_a_return_makes_it_due(waters: Waters) -> None:
    did = waters.account(BOB).did
    take(waters, AccountChanged(did, active=False, status="deactivated", at=0))
    assert (waters.account(BOB).state, waters.account(BOB).reason) == ("unavailable", "account deactivated")
    take(waters, AccountChanged(did, active=True, status=None, at=0))
    assert waters.poll().accounts == 1
    assert waters.account(BOB).state == "established"


def test_posts_of_an_account_deleted_on_the_stream_are_removed_by_the_poll_that_follows_at_once(
    waters: Waters,
) -> None:
    waters.poll(everyone=True)
    did = waters.account(ALICE).did
    before = len(told(waters))
    waters.sky.post(ALICE, "In the same batch as the deletion")
    waters.sky.delete_account(ALICE)
    waters.sky.post(BOB, "Stays")
    take(waters, *told(waters, before))
    assert waters.held(ALICE), "nothing is removed on the word of the stream alone"
    assert waters.poll().accounts == 1, "the account is due at once"
    assert waters.held(ALICE) == {}
    assert set(waters.rows("SELECT text FROM posts WHERE author_did = :did", did=did)) == {("",)}
    assert waters.held(BOB) == waters.truth(BOB)
    assert (waters.account(ALICE).state, waters.account(ALICE).reason) == ("unavailable", "account deleted")


def test_posts_are_kept_when_only_the_stream_says_that_their_account_is_deleted(waters: Waters) -> None:
    waters.poll(everyone=True)
    before = len(told(waters))
    waters.sky.post(ALICE, "In the same batch as the claim")
    claim = AccountChanged(waters.account(ALICE).did, active=False, status="deleted", at=0)
    report = take(waters, *told(waters, before), claim)
    assert report.deleted == 0
    assert waters.held(ALICE) == waters.truth(ALICE) != {}
    assert waters.poll().accounts == 1
    assert waters.held(ALICE) == waters.truth(ALICE)
    assert waters.account(ALICE).state == "established"


@pytest.mark.parametrize("status", ["deactivated", "suspended", "takendown"])
def test_posts_of_an_account_hidden_on_the_stream_are_kept(waters: Waters, status: str) -> None:
    before = len(told(waters))
    waters.sky.suspend(ALICE, status)
    take(waters, *told(waters, before))
    assert waters.held(ALICE) == waters.truth(ALICE) != {}
    assert waters.account(ALICE).reason == f"account {status}"


@pytest.mark.parametrize("status", ["desynchronized", "throttled"])
def test_trouble_of_a_relay_makes_an_account_due_and_not_unavailable(waters: Waters, status: str) -> None:
    waters.poll(everyone=True)
    before = waters.account(BOB)
    assert before.next_poll_at > waters.clock.now_ms()
    take(waters, AccountChanged(before.did, active=False, status=status, at=0))
    assert waters.account(BOB).state == before.state == "established"
    assert waters.account(BOB).next_poll_at <= waters.clock.now_ms()


def test_a_streamed_post_that_cannot_be_parsed_is_fetched_by_the_poller(waters: Waters) -> None:
    record = waters.sky.post(BOB, "Fine, but the stream garbled it")
    payload = f'{{"uri": "{record.uri}", "garbled": true}}'.encode()
    report = take(waters, Unreadable(reject_post(payload, "garbled")))
    assert report.unreadable == 1
    assert waters.rows("SELECT surface, scope FROM quarantine") == [("bluesky.author_feed", record.did)]
    waters.world.advance(7 * DAY)
    waters.poll(everyone=True)
    assert waters.rows("SELECT COUNT(*) FROM quarantine") == [(0,)]
    assert waters.held(BOB) == waters.truth(BOB)


def test_of_several_stream_events_for_one_post_the_last_counts(waters: Waters) -> None:
    before = len(told(waters))
    made = waters.sky.post(BOB, "Once")
    (written,) = told(waters, before)
    assert isinstance(written, PostWritten)
    gone = PostDeleted(made.uri, 0)
    assert sort_events([written, gone]).gone == [made.uri]
    assert sort_events([gone, written]).items == [written.item]
    assert sort_events([gone, written]).gone == []


# With a server


class Coast:
    """A served network whose time is about ours, and the program on the machine's own clock."""

    def __init__(self, folder: Path, world: World, server: Server) -> None:
        self.waters = Waters(folder, world)
        socket = server.url.replace("http", "ws")
        bluesky = {"base_url": server.url, "plc_url": server.url, "jetstream_url": f"{socket}/subscribe"}
        self.waters.config = configured(bluesky=bluesky)
        self.waters.transport = None
        self.waters.clock = SystemClock()  # type: ignore[assignment]

    def stream(self, until: Callable[[StreamReport], bool], act: Callable[[], Any] = lambda: None) -> StreamReport:
        """Follow the stream; once it is open do something, and stop when enough came."""
        waters = self.waters
        report = StreamReport()

        async def work() -> None:
            app = App(waters.config, {}, str(waters.path))
            request = StreamRequest(30, documents=False, step_seconds=0.2)
            task = asyncio.create_task(stream_accounts(app, request, report))
            while not waters.sky.jetstream.open and not task.done():  # noqa: ASYNC110 - it opens in another thread
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            with waters.world.lock:
                act()
            while not until(report) and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(work())
        return report


@contextmanager
def coast(folder: Path, days_ago: int = 0) -> Iterator[Coast]:
    world = World(start=format_instant(SystemClock().now_ms() - days_ago * DAY * 1000))
    with serve(world) as server:
        found = Coast(folder, world, server)
        found.waters.add(ALICE, BOB)
        yield found


def test_a_stream_gap_longer_than_the_replay_is_filled_by_the_poller(tmp_path: Path) -> None:
    with coast(tmp_path, days_ago=3) as shore:
        waters = shore.waters
        waters.poll()
        shore.stream(lambda report: report.posts == 1, lambda: waters.sky.post(ALICE, "Heard"))
        assert waters.held(ALICE) == waters.truth(ALICE)
        waters.poll(everyone=True)
        with waters.world.lock:
            for number in range(40):
                waters.sky.post(ALICE, f"Unheard {number}")
                waters.world.advance(3 * DAY / 40)
        report = shore.stream(lambda report: report.posts >= 1, lambda: waters.sky.post(ALICE, "Heard again"))
        assert report.holes >= 1
        assert waters.held(ALICE) != waters.truth(ALICE)
        waters.poll()
        assert waters.held(ALICE) == waters.truth(ALICE)


def test_an_account_added_while_streaming_is_received_without_a_restart(tmp_path: Path) -> None:
    with coast(tmp_path) as shore:
        waters = shore.waters
        waters.sky.create_account("carol.test")
        heard = False

        def until(report: StreamReport) -> bool:
            nonlocal heard
            if report.accounts == 3 and not heard and waters.sky.jetstream.open:
                heard = True
                with waters.world.lock:
                    waters.world.advance(1)
                    waters.sky.post("carol.test", "Hello")
            return bool(waters.held("carol.test"))

        def add() -> None:
            with waters.database() as database, database.transaction() as tx:
                from tidelore.store.mirror.accounts import NewAccount, add_accounts

                did = waters.sky.network.account("carol.test").did
                add_accounts(tx, [NewAccount(did, "carol.test")], "test", 900, 0)
            waters.sky.post(ALICE, "A first event, so that there is a place")

        shore.stream(until, add)
        assert waters.held("carol.test") == waters.truth("carol.test")
