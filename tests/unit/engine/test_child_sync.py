"""Children of a changed parent: when they are due, when they have settled, and read-all-then-write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.engine.lists import NOW, Script, item

from tidelore.core.errors import AccessRefused, CredentialsRejected, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.core.model import Rejected
from tidelore.engine.child_sync import (
    AFTER_SUCCESS,
    IN_A_ROW,
    ChildSync,
    ChildTally,
    Due,
    decide,
    is_refusal,
    is_settled,
    pause_ms,
)
from tidelore.engine.ports import ListRequest, Page, Parent
from tidelore.engine.whole import ChildReading, read_all, read_lists
from tidelore.engine.window import MAX_PASSES

SETTLE_MS = 75_000
BAD = Rejected("9", None, b"", "unreadable")
Lists = dict[int, Sequence[Script]]


class Nest:
    """A child_writer in memory: each due parent is handed out once per run."""

    def __init__(self, *parents: Parent) -> None:
        self._waiting = list(parents)
        self.written: list[tuple[int, list[object], bool]] = []
        self.commits: list[list[int]] = []
        self.failures: list[tuple[int, str]] = []
        self.quarantined: list[Rejected] = []
        self.buried: list[int] = []
        self.refused: set[int] = set()
        self.unavailable = False

    def bury(self, parents: Sequence[int]) -> None:
        self.buried += parents

    def is_unavailable(self) -> bool:
        return self.unavailable

    def record_refusal(self, parents: Sequence[Parent], error: str) -> bool:
        self.refused.update(one.id for one in parents)
        self.unavailable = self.unavailable or len(self.refused) >= IN_A_ROW
        return self.unavailable

    def clear_refusals(self) -> None:
        self.refused.clear()
        self.unavailable = False

    def due(self, limit: int) -> Sequence[Parent]:
        out, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return out

    def replace(self, readings: Sequence[ChildReading[str]]) -> int:
        self.commits.append([one.parent.id for one in readings])
        for one in readings:
            self.written.append((one.parent.id, [child.version.id for child in one.children.items], one.settled))
        return sum(len(one.children.items) for one in readings)

    def record_failure(self, parent: Parent, error: str, rejected: Sequence[Rejected] = ()) -> None:
        self.failures.append((parent.id, error))
        self.quarantined += rejected


def parent(key: int = 1, *, updated_at: int = NOW, synced: int | None = None, fetched: int | None = None) -> Parent:
    return Parent(key, key, updated_at, synced, fetched)


async def there(_parent: Parent) -> bool | None:
    return True


def sync(nest: Nest, lists: Lists, server_now: int | None = NOW, concurrency: int = 2) -> ChildTally:
    work = ChildSync(nest, lambda p: lists[p.id], there, concurrency=concurrency, settle_ms=SETTLE_MS)
    return asyncio.run(work.read(work.ready(server_now)))


@pytest.mark.parametrize(
    ("synced", "fetched", "server_now", "due"),
    [
        (None, None, NOW, Due.FETCH),
        (NOW - 1, NOW - 1, NOW, Due.FETCH),
        (NOW, NOW, NOW + SETTLE_MS, Due.DONE),
        (NOW + 1, NOW, NOW, Due.DONE),
        (NOW - 1, NOW, NOW + SETTLE_MS - 1, Due.WAIT),
        (NOW - 1, NOW, NOW + SETTLE_MS, Due.FETCH),
        (None, NOW, None, Due.WAIT),
    ],
)
def test_a_parent_is_due_until_its_children_were_read_after_it_settled(
    synced: int | None, fetched: int | None, server_now: int | None, due: Due
) -> None:
    assert decide(parent(synced=synced, fetched=fetched), server_now, SETTLE_MS) is due


def test_settling_is_measured_on_the_servers_clock_alone() -> None:
    assert is_settled(NOW, NOW + SETTLE_MS, SETTLE_MS)
    assert not is_settled(NOW, NOW + SETTLE_MS - 1, SETTLE_MS)
    assert not is_settled(NOW, None, SETTLE_MS)


def test_one_page_of_children_is_read_once_and_several_until_two_passes_agree() -> None:
    one = Script(Page([item(1, 1)], server_at=NOW))
    assert asyncio.run(read_all(one)).pages == 1
    first, second = Page([item(1, 1)], next_token="2", server_at=NOW), Page([item(2, 1)], server_at=NOW + 5)
    children = asyncio.run(read_all(Script(first, second, first, second)))
    assert ([child.version.id for child in children.items], children.pages) == ([1, 2], 4)
    assert children.server_at == NOW


def test_a_child_that_moved_between_two_pages_is_found_by_the_next_pass() -> None:
    script = Script(
        Page([item(1, 1), item(2, 1)], next_token="2"), Page([item(4, 1)]),
        Page([item(2, 1), item(3, 1)], next_token="2"), Page([item(4, 1)]),
        Page([item(2, 1), item(3, 1)], next_token="2"), Page([item(4, 1)]),
    )  # fmt: skip
    assert [child.version.id for child in asyncio.run(read_all(script)).items] == [2, 3, 4]


def test_children_that_change_on_every_pass_end_in_an_error() -> None:
    pages = [page for n in range(MAX_PASSES) for page in (Page([item(n, 1)], next_token="2"), Page([item(-1, 1)]))]
    script = Script(*pages)
    with pytest.raises(RemoteTransient) as raised:
        asyncio.run(read_all(script))
    assert raised.value.reason == "unstable_list"
    assert len(script.asked) == 2 * MAX_PASSES


def test_a_kind_read_from_several_lists_uses_the_earliest_server_clock() -> None:
    lists = (
        Script(Page([item(1, 1)], server_at=NOW + 9)),
        Script(Page([item(2, 1)], next_token="2", server_at=NOW), Page(), Page([item(2, 1)], next_token="2"), Page()),
        Script(Page(server_at=NOW + 5, rejected=(BAD,))),
    )
    children = asyncio.run(read_lists(lists))
    assert [child.version.id for child in children.items] == [1, 2]
    assert (children.rejected, children.pages) == ([BAD], 6)
    # Of a list that was read twice, the pass that counts began without a clock; then nothing is known of the whole.
    assert children.server_at is None
    assert asyncio.run(read_lists([Script(Page(server_at=NOW + n)) for n in (9, 3, 5)])).server_at == NOW + 3


def test_a_kind_is_written_once_after_all_its_lists_were_read() -> None:
    nest = Nest(parent(1), parent(2))
    broken = (Script(Page([item(1, 1)], server_at=NOW)), Script(RemoteTransient("down")))
    whole = (Script(Page([item(2, 1)], server_at=NOW)), Script(Page([item(3, 1)], server_at=NOW)))
    tally = sync(nest, {1: broken, 2: whole})
    assert nest.written == [(2, [2, 3], False)]
    assert nest.failures == [(1, "down")]
    assert (tally.fetched, tally.failed, tally.pages, tally.changed) == (1, 1, 2, 2)


def test_no_children_are_written_before_all_pages_were_parsed() -> None:
    lists: Lists = {
        1: [Script(Page([item(1, 1)], next_token="2"), RemoteTransient("down"))],
        2: [Script(Page([item(2, 1)], rejected=(BAD,)))],
        3: [Script(Page([item(3, 1)], server_at=NOW))],
    }
    nest = Nest(parent(1), parent(2), parent(3))
    tally = sync(nest, lists)
    assert nest.written == [(3, [3], False)]
    assert sorted(nest.failures) == [(1, "down"), (2, "unreadable")]
    assert nest.quarantined == [BAD]
    assert (tally.fetched, tally.failed, tally.quarantined, tally.settled) == (1, 1, 1, 0)


def test_a_parent_counts_as_settled_by_the_server_clock_of_its_response() -> None:
    nest = Nest(parent(1), parent(2))
    lists: Lists = {1: [Script(Page(server_at=NOW + SETTLE_MS))], 2: [Script(Page(server_at=NOW + SETTLE_MS - 1))]}
    assert sync(nest, lists).settled == 1
    assert sorted(nest.written) == [(1, [], True), (2, [], False)]


def test_a_parent_that_was_read_and_has_not_settled_is_not_read_again() -> None:
    nest = Nest(parent(1, fetched=NOW))
    tally = sync(nest, {1: [Script()]}, server_now=NOW + 10)
    assert (tally.waiting, tally.fetched) == (1, 0)


def test_explicitly_named_parents_are_read_even_if_not_due() -> None:
    nest = Nest(parent(7))
    done = parent(1, synced=NOW, fetched=NOW)
    lists: Lists = {1: [Script(Page([item(1, 1)], server_at=NOW + SETTLE_MS))]}
    work = ChildSync(nest, lambda p: lists[p.id], there, concurrency=2, settle_ms=SETTLE_MS)
    tally = asyncio.run(work.read([done]))
    assert nest.written == [(1, [1], True)]
    assert (tally.fetched, tally.changed) == (1, 1)


class Slow:
    """A list that is not answered before the test says so."""

    def __init__(self, opened: asyncio.Event) -> None:
        self._opened = opened

    async def fetch(self, _request: ListRequest) -> Page[str]:
        await self._opened.wait()
        return Page(server_at=NOW)


class Gauge:
    """A list that knows how many questions it was asked at once."""

    def __init__(self) -> None:
        self._open = 0
        self.most = 0

    async def fetch(self, _request: ListRequest) -> Page[str]:
        self._open += 1
        self.most = max(self.most, self._open)
        await asyncio.sleep(0)
        self._open -= 1
        return Page(server_at=NOW)


def test_a_slow_parent_does_not_delay_the_others() -> None:
    nest = Nest(*(parent(key) for key in range(1, 21)))

    async def work() -> None:
        opened = asyncio.Event()

        def told(tally: ChildTally) -> None:
            # All others are written while the first still waits: only then it is answered.
            if tally.fetched == 19:
                opened.set()

        sync = ChildSync(
            nest,
            lambda p: [Slow(opened)] if p.id == 1 else [Script(Page(server_at=NOW))],
            there,
            concurrency=2,
            settle_ms=SETTLE_MS,
            on_parent=told,
        )
        await sync.read(sync.ready(NOW))

    asyncio.run(asyncio.wait_for(work(), timeout=5))
    assert [key for key, _, _ in nest.written] == [*range(2, 21), 1]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_parents_are_read_at_once_than_allowed(concurrency: int) -> None:
    nest = Nest(*(parent(key) for key in range(1, 11)))
    gauge = Gauge()
    work = ChildSync(nest, lambda _: [gauge], there, concurrency=concurrency, settle_ms=SETTLE_MS)
    asyncio.run(work.read(work.ready(NOW)))
    assert (len(nest.written), gauge.most) == (10, concurrency)


def test_rejected_credentials_stop_the_whole_stage() -> None:
    nest = Nest(parent(1), parent(2))
    lists: Lists = {1: [Script(CredentialsRejected("no", status=401))], 2: [Script(Page(server_at=NOW))]}
    with pytest.raises(CredentialsRejected):
        sync(nest, lists, concurrency=1)
    assert nest.written == []
    assert nest.failures == []


def test_a_refused_parent_fails_without_stopping_the_others() -> None:
    nest = Nest(parent(1), parent(2))
    lists: Lists = {1: [Script(RemotePermanent("forbidden", status=403))], 2: [Script(Page(server_at=NOW))]}
    assert sync(nest, lists, concurrency=1).failed == 1
    assert nest.written == [(2, [], False)]


def refused(status: int = 403) -> list[Script]:
    return [Script(RemotePermanent(f"status {status}", status=status))]


def answered() -> list[Script]:
    return [Script(Page(server_at=NOW))]


def test_several_refused_parents_in_a_row_stop_reading_their_kind() -> None:
    nest = Nest(*(parent(key) for key in range(1, 51)))
    lists: Lists = {key: refused() for key in range(1, 51)}
    tally = sync(nest, lists, concurrency=1)
    assert (tally.failed, tally.fetched, nest.failures) == (0, 0, [])
    assert nest.refused == {1, 2, 3}


def test_more_refusals_are_needed_to_stop_a_kind_that_was_readable_before() -> None:
    nest = Nest(*(parent(key) for key in range(1, 51)))
    lists: Lists = {key: refused() if key > 1 else answered() for key in range(1, 51)}
    sync(nest, lists, concurrency=1)
    assert nest.refused == set(range(2, 2 + AFTER_SUCCESS))
    few = Nest(*(parent(key) for key in range(1, 8)))
    tally = sync(few, {key: refused() if key > 1 else answered() for key in range(1, 8)}, concurrency=1)
    assert (few.refused, tally.failed) == (set(), 6)


def test_refused_parents_between_readable_ones_never_stop_reading_their_kind() -> None:
    nest = Nest(*(parent(key) for key in range(1, 51)))
    lists: Lists = {key: refused() if key % 2 else answered() for key in range(1, 51)}
    # All of them together are more than enough; in a row there is never more than one.
    work = ChildSync(
        nest, lambda one: lists[one.id], lambda _parent: asyncio.sleep(0, None), concurrency=1, settle_ms=SETTLE_MS
    )
    tally = asyncio.run(work.read(work.ready(NOW)))
    assert work.unavailable is None
    assert (tally.fetched, tally.failed) == (25, 25)


def test_no_parent_is_asked_for_when_the_token_may_not_read_their_kind_at_all() -> None:
    asked: list[int] = []

    async def ask(one: Parent) -> bool | None:
        asked.append(one.id)
        return True

    nest = Nest(*(parent(key) for key in range(1, 6)))
    lists: Lists = {key: [Script(AccessRefused("GraphQL needs a token", status=403))] for key in range(1, 6)}
    work = ChildSync(nest, lambda one: lists[one.id], ask, concurrency=1, settle_ms=SETTLE_MS)
    asyncio.run(work.read(work.ready(NOW)))
    assert (asked, nest.refused, work.unavailable) == ([], {1, 2, 3}, "GraphQL needs a token")


def test_a_failed_parent_lookup_counts_neither_as_deleted_nor_as_a_refused_kind() -> None:
    async def unknown(_parent: Parent) -> bool | None:
        return None

    nest = Nest(*(parent(key) for key in range(1, 6)))
    lists: Lists = {key: [Script(RemoteNotFound("status 404", status=404))] for key in range(1, 6)}
    work = ChildSync(nest, lambda p: lists[p.id], unknown, concurrency=1, settle_ms=SETTLE_MS)
    asyncio.run(work.read(work.ready(NOW)))
    assert (nest.buried, nest.refused, work.tally.failed) == ([], set(), 5)


def test_a_deleted_parent_does_not_keep_its_kind_unavailable() -> None:
    async def ask(asked: Parent) -> bool | None:
        return asked.id != 1

    nest = Nest(parent(1), parent(2), parent(3))
    nest.unavailable = True
    lists: Lists = {1: [Script(RemoteNotFound("status 404", status=404))], 2: answered(), 3: answered()}
    work = ChildSync(nest, lambda p: lists[p.id], ask, concurrency=2, settle_ms=SETTLE_MS)
    asyncio.run(work.read(work.ready(NOW)))
    assert (nest.buried, work.gone, work.unavailable, nest.unavailable) == ([1], 1, None, False)
    assert work.tally.fetched == 2


def test_only_answers_that_may_concern_the_whole_project_are_refusals() -> None:
    statuses = (400, 401, 403, 404, 405, 410, 429, 500)
    found = [status for status in statuses if is_refusal(RemotePermanent("no", status=status))]
    assert found == [403, 404, 405, 410]


def test_retry_pauses_of_an_unavailable_kind_grow_from_an_hour_to_a_week() -> None:
    hours = [pause_ms(attempts) / 3_600_000 for attempts in (1, 2, 3, 8, 9, 1000)]
    assert hours == [1, 2, 4, 128, 168, 168]
