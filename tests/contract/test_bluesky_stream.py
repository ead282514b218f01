"""The event stream, over real sockets: nothing lost, nothing told twice, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.contract.bluesky_bench import MIRA, TOBIAS, network, wired

from tidelore.core.clock import SystemClock
from tidelore.core.errors import ConfigError, RemotePermanent, RemoteTransient
from tidelore.sources.bluesky.payloads import COLLECTIONS
from tidelore.sources.bluesky.stream import Jetstream, build_stream
from tidelore.sources.bluesky.stream_protocol import (
    SECOND_METHOD,
    AccountChanged,
    HandleChanged,
    HoleFound,
    PostDeleted,
    PostWritten,
    StreamBatch,
    StreamCursor,
    StreamEvent,
    protocol_of,
    stream_url,
)
from tidelore.sources.bluesky.stream_shard import ShardPlan
from tidelore_world.server import Server
from tidelore_world.world import World

FIRST, SECOND = "/subscribe", f"/xrpc/{SECOND_METHOD}"
PROTOCOLS = pytest.mark.parametrize("path", [FIRST, SECOND])


@pytest.fixture
def world() -> World:
    return network()


@pytest.fixture
def server(world: World) -> Iterator[Server]:
    with wired(world) as (served, _):
        yield served


def dids(world: World) -> list[str]:
    return world.bluesky.truth_accounts()


def stream(server: Server, path: str, cursor: StreamCursor | None = None, **options: Any) -> Jetstream:
    plan_options = {"backoff_seconds": 0.01, **options.pop("plan", {})}
    plan = ShardPlan(stream_url(f"{server.url}{path}"), COLLECTIONS, **plan_options)
    wanted = options.pop("dids", None) or dids(server.world)
    return Jetstream(plan, wanted, cursor=cursor, clock=SystemClock(), **options)


def write(world: World, count: int, actor: str = MIRA) -> list[str]:
    made: list[str] = []
    with world.lock:
        for _ in range(count):
            world.advance(1)
            made.append(world.bluesky.post(actor, f"number {len(made)} https://example.com/{len(made)}").uri)
    return made


async def collect(
    opened: Jetstream, until: Callable[[list[StreamEvent]], bool], batches: list[StreamBatch] | None = None
) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with asyncio.timeout(20):
        async for batch in opened.batches():
            events += batch.events
            if batches is not None:
                batches.append(batch)
            if until(events):
                break
    return events


async def happened(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not what():  # noqa: ASYNC110 - it happens in another thread
            await asyncio.sleep(0.01)


def written(events: list[StreamEvent]) -> list[Any]:
    return [event.item.version.id for event in events if isinstance(event, PostWritten)]


def holes(events: list[StreamEvent]) -> list[HoleFound]:
    return [event for event in events if isinstance(event, HoleFound)]


@PROTOCOLS
def test_every_change_arrives_on_the_stream_live(world: World, server: Server, path: str) -> None:
    async def run() -> list[StreamEvent]:
        async with stream(server, path) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            with world.lock:
                post = world.bluesky.post(MIRA, "hello")
                world.bluesky.edit(post.uri, "better")
                repost = world.bluesky.repost(TOBIAS, post.uri)
                world.bluesky.delete(repost.uri)
                world.bluesky.change_handle(MIRA, "mira.example")
                world.bluesky.deactivate(TOBIAS)
            events += await collect(opened, lambda told: any(isinstance(one, AccountChanged) for one in told))
            return events

    hole, created, edited, reposted, deleted, renamed, gone = asyncio.run(run())
    assert isinstance(hole, HoleFound)
    assert (hole.since, sorted(hole.dids)) == (None, sorted(dids(world)))
    assert isinstance(created, PostWritten)
    assert isinstance(edited, PostWritten)
    assert created.item.version.id == edited.item.version.id
    assert created.item.version.digest != edited.item.version.digest
    assert isinstance(reposted, PostWritten)
    assert reposted.item.record.kind == "repost"
    assert deleted == PostDeleted(str(reposted.item.version.id), deleted.at)  # type: ignore[union-attr]
    assert isinstance(renamed, HandleChanged)
    assert renamed.handle == "mira.example"
    assert isinstance(gone, AccountChanged)
    assert gone.active is False


@PROTOCOLS
def test_another_process_can_continue_from_a_stored_cursor(world: World, server: Server, path: str) -> None:
    async def run() -> None:
        async with stream(server, path) as opened:
            await collect(opened, lambda told: bool(holes(told)))
            first = write(world, 30)
            batches: list[StreamBatch] = []
            told = await collect(opened, lambda told: len(written(told)) >= 30, batches)
            assert written(told) == first
        cursor = batches[-1].cursor
        assert cursor is not None
        assert cursor.protocol == protocol_of(opened.url)
        second = write(world, 40)
        async with stream(server, path, cursor) as again:
            told = await collect(again, lambda told: second[-1] in written(told))
        assert holes(told) == []
        if path == SECOND:
            assert written(told) == second, "its numbers are unique: not one is told again"
        else:
            assert [uri for uri in written(told) if uri not in first] == second
            assert len(written(told)) <= len(second) + 6, "a margin of five seconds is told again"

    asyncio.run(run())


@PROTOCOLS
def test_a_stream_that_is_disconnected_repeatedly_loses_and_repeats_nothing(
    world: World, server: Server, path: str
) -> None:
    rng = random.Random(11)
    faults = [world.faults.add("disconnect", path, events=rng.randint(1, 9)) for _ in range(25)]
    made: list[str] = []

    def live() -> None:
        while len(made) < 400:
            made.extend(write(world, rng.randint(1, 4), rng.choice((MIRA, TOBIAS))))

    async def run() -> list[StreamEvent]:
        async with stream(server, path, plan={"backoff_seconds": 0.001}) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            thread = threading.Thread(target=live)
            thread.start()
            events += await collect(opened, lambda told: len(written(told)) >= 400 and not thread.is_alive())
            thread.join()
            return events

    events = asyncio.run(run())
    assert sum(fault.fired for fault in faults) == 25
    assert written(events) == made
    assert len(holes(events)) == 1, "only the one at the beginning"


@PROTOCOLS
def test_more_accounts_than_one_connection_takes_are_spread_over_several(path: str) -> None:
    world = network(*(f"a{number:02}.example" for number in range(23)))

    async def run(server: Server) -> None:
        world.bluesky.settings.stream_dids = 5
        batches: list[StreamBatch] = []
        async with stream(server, path, most_dids=5, silence_seconds=0.0) as opened:
            assert opened.connections == 5
            events = await collect(opened, lambda told: len(holes(told)) == 5)
            assert sorted(did for hole in holes(events) for did in hole.dids) == sorted(dids(world))
            made = [uri for did in dids(world) for uri in write(world, 2, did)]
            events = await collect(opened, lambda told: len(written(told)) >= len(made), batches)
        assert sorted(written(events)) == sorted(made)
        cursors = [batch.cursor.value for batch in batches if batch.cursor is not None]
        assert cursors == sorted(cursors)
        assert batches[-1].cursor is not None

    with wired(world) as (server, _):
        asyncio.run(run(server))


def test_the_cursor_of_several_connections_is_that_of_the_slowest(world: World, server: Server) -> None:
    async def run() -> None:
        start = StreamCursor(1, world.clock.now_us - 1)
        batches: list[StreamBatch] = []
        async with stream(server, FIRST, start, most_dids=1) as opened:
            write(world, 20, MIRA)
            await collect(opened, lambda told: len(written(told)) >= 20, batches)
            (quiet,) = write(world, 1, TOBIAS)
            await collect(opened, lambda told: quiet in written(told), batches)
        told = {value for batch in batches if batch.cursor for value in [batch.cursor.value]}
        assert max(told) < world.clock.now_us - 500_000, "the quieter account has not come so far"

    asyncio.run(run())


def test_a_stream_resumed_after_the_retention_time_reports_a_gap_and_continues(world: World, server: Server) -> None:
    async def run(path: str, cursor: StreamCursor) -> list[StreamEvent]:
        async with stream(server, path, cursor, plan={"replay_seconds": 600}) as opened:
            return await collect(opened, lambda told: len(written(told)) >= 3)

    before = (world.clock.now_us, world.bluesky.stream_log.next_seq)
    write(world, 5)
    world.advance(3600)
    left = write(world, 3)
    world.bluesky.settings.stream_replay_seconds = 600
    for path, value in zip((FIRST, SECOND), before, strict=True):
        cursor = StreamCursor(protocol_of(path), value)
        events = asyncio.run(run(path, cursor))
        assert written(events) == left
        (hole,) = holes(events)
        assert hole.since == cursor
        assert sorted(hole.dids) == sorted(dids(world))


def test_a_rewritten_repository_is_reported_as_a_gap_of_that_account_only(world: World, server: Server) -> None:
    async def run() -> list[StreamEvent]:
        async with stream(server, SECOND) as opened:
            await collect(opened, lambda told: bool(holes(told)))
            with world.lock:
                world.bluesky.rewrite(MIRA)
            return await collect(opened, lambda told: bool(holes(told)))

    (hole,) = holes(asyncio.run(run()))
    assert hole.dids == (world.bluesky.network.account(MIRA).did,)


def last_place(world: World, path: str) -> StreamCursor:
    """The place of the newest event, as a client of a protocol stores it."""
    event = world.bluesky.stream_log.read(world.bluesky.stream_log.next_seq - 1, 1)[0]
    return StreamCursor(protocol_of(path), event.time_us if path == FIRST else event.seq)


@PROTOCOLS
def test_a_short_disconnection_is_not_reported_as_a_gap(world: World, server: Server, path: str) -> None:
    async def run(cursor: StreamCursor) -> list[StreamEvent]:
        async with stream(server, path, cursor, plan={"replay_seconds": 600}) as opened:
            return await collect(opened, lambda told: new in written(told))

    write(world, 1)
    cursor = last_place(world, path)
    world.advance(300)
    (new,) = write(world, 1)
    assert holes(asyncio.run(run(cursor))) == []


@pytest.mark.parametrize("restarted", [True, False], ids=["in another process", "after a disconnect"])
@pytest.mark.parametrize("first", ["lower", "the same", "passed", "passed unseen"])
def test_a_rebuilt_archive_is_detected_and_its_events_are_delivered(
    world: World, server: Server, first: str, restarted: bool
) -> None:
    """The second protocol goes live in silence when a cursor lies beyond its end, or names another event there."""
    sky, followed = world.bluesky, dids(world)
    sky.create_account("stranger.example")

    def rebuild(last: int) -> None:
        with world.lock:
            sky.stream_log.rebuild({"lower": 1, "the same": last}.get(first, last - 1))
            sky.jetstream.cut()
            world.advance(3600)
            sky.post(MIRA, "the first one of the new archive")
            if first.startswith("passed"):
                author = TOBIAS if first == "passed" else "stranger.example"
                sky.post(author, "the second one, which has the number of the last one of the old archive")

    async def after(opened: Jetstream, connections: int) -> list[StreamEvent]:
        # A connection beyond the end is told only what happens after it was opened.
        await happened(lambda: world.requests[f"GET {SECOND}"] > connections and bool(sky.jetstream.open))
        (uri,) = write(world, 1)
        return await collect(opened, lambda told: uri in written(told))

    async def run() -> list[StreamEvent]:
        async with stream(server, SECOND, dids=followed) as opened:
            await collect(opened, lambda told: bool(holes(told)))
            write(world, 100)
            await collect(opened, lambda told: len(written(told)) == 100)
            place, connections = last_place(world, SECOND), world.requests[f"GET {SECOND}"]
            stored = StreamCursor(2, place.value, world.clock.now_us // 1000)
            if not restarted:
                rebuild(place.value)
                return await after(opened, connections)
        rebuild(place.value)
        async with stream(server, SECOND, stored, dids=followed) as again:
            return await after(again, connections)

    (hole,) = holes(asyncio.run(run()))
    assert sorted(hole.dids) == sorted(followed)
    assert hole.since is not None


def test_an_implausible_jump_of_sequence_numbers_is_reported_as_a_gap(world: World, server: Server) -> None:
    """After a restart only one of several connections was told the event at the cursor; the others compare numbers."""

    async def run(ahead: int) -> list[StreamEvent]:
        stored = StreamCursor(2, world.bluesky.stream_log.next_seq, world.clock.now_us // 1000)
        world.bluesky.stream_log.rebuild(stored.value + ahead)
        made = [*write(world, 1, MIRA), *write(world, 1, TOBIAS)]
        async with stream(server, SECOND, stored, most_dids=1) as opened:
            return await collect(opened, lambda told: set(made) <= set(written(told)))

    world.bluesky.settings.stream_refuses_old = False
    assert holes(asyncio.run(run(1_000))) == []
    assert len(holes(asyncio.run(run(10**9)))) == 2


def test_a_gap_on_a_server_with_less_than_a_day_of_retention_is_detected(world: World, server: Server) -> None:
    """The first protocol begins with the oldest event it has, without a word, when a cursor is older than that."""

    async def run() -> list[StreamEvent]:
        async with stream(server, FIRST, cursor) as opened:
            return await collect(opened, lambda told: len(written(told)) >= 3)

    write(world, 1)
    cursor = last_place(world, FIRST)
    write(world, 5)
    world.advance(3 * 3600)
    left = write(world, 3)
    world.bluesky.settings.stream_replay_seconds = 3600
    events = asyncio.run(run())
    assert written(events) == left
    (hole,) = holes(events)
    assert hole.since == cursor
    assert sorted(hole.dids) == sorted(dids(world))


@pytest.mark.parametrize(("path", "ahead"), [(FIRST, 10**16), (SECOND, 10**9)])
def test_a_cursor_ahead_of_the_server_is_dropped_and_reported_as_a_gap(
    world: World, server: Server, path: str, ahead: int
) -> None:
    world.bluesky.settings.stream_tells_future = True

    async def run() -> tuple[list[StreamEvent], StreamBatch]:
        batches: list[StreamBatch] = []
        async with stream(server, path, StreamCursor(protocol_of(path), ahead)) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            write(world, 2)
            events += await collect(opened, lambda told: len(written(told)) >= 2, batches)
        return events, batches[-1]

    events, last = asyncio.run(run())
    assert len(holes(events)) == 1
    assert last.cursor is not None
    assert last.cursor.value < ahead


def test_a_cursor_of_the_other_protocol_is_never_sent(world: World, server: Server) -> None:
    async def run() -> list[StreamEvent]:
        async with stream(server, SECOND, StreamCursor(1, world.clock.now_us)) as opened:
            return await collect(opened, lambda told: bool(holes(told)))

    write(world, 3)
    events = asyncio.run(run())
    assert written(events) == []
    assert all("cursor" not in target for _, target, _ in world.log if SECOND_METHOD in target)


@pytest.mark.deep
def test_a_stalled_reader_applies_back_pressure_and_loses_nothing(world: World, server: Server) -> None:
    async def run() -> tuple[list[StreamEvent], int]:
        async with stream(server, FIRST, most_waiting=50) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            with world.lock:
                for _ in range(3_000):
                    world.bluesky.post(MIRA, "x" * 2000)
            await happened(lambda: opened._queue.full())
            await asyncio.sleep(0.2)
            waiting = opened._queue.qsize()
            events += await collect(opened, lambda told: len(written(told)) >= 3_000)
            return events, waiting

    events, waiting = asyncio.run(run())
    assert waiting == 50
    assert written(events) == [record["uri"] for record in world.bluesky.truth_records(MIRA)]


@pytest.mark.deep
def test_a_reader_disconnected_for_slowness_reconnects_and_gets_the_rest(world: World, server: Server) -> None:
    world.bluesky.settings.stream_patience_seconds = 0.1
    world.bluesky.settings.stream_backlog = 100

    async def run() -> list[StreamEvent]:
        async with stream(server, FIRST, most_waiting=20) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            with world.lock:
                for _ in range(4_000):
                    world.bluesky.post(MIRA, "x" * 2500)
            await happened(lambda: not world.bluesky.jetstream.open)
            return events + await collect(opened, lambda told: len(written(told)) >= 4_000)

    events = asyncio.run(run())
    assert world.requests[f"GET {FIRST}"] >= 2
    assert written(events) == [record["uri"] for record in world.bluesky.truth_records(MIRA)]
    assert len(holes(events)) == 1


def test_a_permanent_refusal_ends_the_stream_with_one_error(world: World, server: Server) -> None:
    async def run(path: str) -> None:
        async with stream(server, path) as opened:
            await collect(opened, lambda _: False)

    with pytest.raises(RemotePermanent) as caught:
        asyncio.run(run("/nowhere"))
    assert caught.value.status == 404
    world.faults.add("status", FIRST, times=None, status=503)
    with pytest.raises(RemoteTransient, match="cannot reach the stream"):
        asyncio.run(run(FIRST))


def test_an_unreachable_server_is_an_error_at_start_and_retried_later(world: World) -> None:
    async def unreachable() -> None:
        plan = ShardPlan("ws://127.0.0.1:9/subscribe", COLLECTIONS, backoff_seconds=0.001, patience=2)
        async with Jetstream(plan, dids(world), cursor=None, clock=SystemClock()) as opened:
            await collect(opened, lambda _: False)

    with pytest.raises(RemoteTransient):
        asyncio.run(unreachable())

    async def restarted(server: Server) -> list[StreamEvent]:
        async with stream(server, FIRST) as opened:
            events = await collect(opened, lambda told: bool(holes(told)))
            fault = world.faults.add("status", FIRST, times=20, status=503)
            world.bluesky.jetstream.cut()
            made = write(world, 3)
            await happened(lambda: fault.fired >= 6)
            world.faults.clear()
            events += await collect(opened, lambda told: made[-1] in written(told))
            return events

    with wired(world) as (server, _):
        assert len(written(asyncio.run(restarted(server)))) == 3


def test_the_stream_uses_the_configured_url_and_limits() -> None:
    world = network()
    with wired(world) as (server, wiring):
        from msgspec.structs import replace

        settings = replace(wiring.config.bluesky, jetstream_url=f"{server.url}{SECOND}")
        chosen = replace(wiring, config=replace(wiring.config, bluesky=settings))
        built = build_stream(chosen, dids(world), StreamCursor(2, 1))
        assert (built.protocol, built.connections) == (2, 1)

        async def run() -> list[StreamEvent]:
            async with built:
                return await collect(built, lambda told: len(told) >= 3)

        told = asyncio.run(run())
        assert {type(event) for event in told} == {HandleChanged, AccountChanged}
        settings = replace(settings, jetstream_url="stream.example")
        with pytest.raises(ConfigError):
            build_stream(replace(chosen, config=replace(chosen.config, bluesky=settings)), [], None)


def test_without_accounts_no_connection_is_opened() -> None:
    async def run() -> None:
        plan = ShardPlan("ws://127.0.0.1:9/subscribe", COLLECTIONS)
        async with Jetstream(plan, [], cursor=None, clock=SystemClock()) as opened:
            assert [batch async for batch in opened.batches()] == []

    asyncio.run(run())
