"""Children of a changed parent: when they are due, when they have settled, and read-all-then-write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.engine.lists import NOW, Script, item

from tidelore.engine.dependents import (
    Children,
    DependentSync,
    DependentTally,
    Due,
    Parent,
    decide,
    is_settled,
    read_all,
)
from tidelore.engine.ports import Page
from tidelore.engine.window import MAX_PASSES
from tidelore.errors import CredentialsRejected, RemotePermanent, RemoteTransient
from tidelore.model import Rejected

SETTLE_MS = 75_000
BAD = Rejected("9", None, b"", "unreadable")


class Nest:
    """A nursery in memory: each due parent is handed out once per run."""

    def __init__(self, *parents: Parent) -> None:
        self._waiting = list(parents)
        self.written: list[tuple[int, list[object], bool]] = []
        self.failures: list[tuple[int, str]] = []

    def due(self, limit: int) -> Sequence[Parent]:
        out, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return out

    def replace(self, parent: Parent, children: Children[str], *, settled: bool) -> None:
        self.written.append((parent.id, [child.version.id for child in children.items], settled))

    def record_failure(self, parent: Parent, error: str) -> None:
        self.failures.append((parent.id, error))


def parent(key: int = 1, *, updated_at: int = NOW, synced: int | None = None, fetched: int | None = None) -> Parent:
    return Parent(key, key, updated_at, synced, fetched)


def sync(nest: Nest, scripts: dict[int, Script], server_now: int | None = NOW, concurrency: int = 2) -> DependentTally:
    work = DependentSync(nest, lambda p: scripts[p.id], concurrency=concurrency, settle_ms=SETTLE_MS)
    return asyncio.run(work.run(server_now))


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
def test_a_parent_is_due_until_its_version_was_read_settled(
    synced: int | None, fetched: int | None, server_now: int | None, due: Due
) -> None:
    assert decide(parent(synced=synced, fetched=fetched), server_now, SETTLE_MS) is due


def test_settling_is_measured_on_the_servers_clock_alone() -> None:
    assert is_settled(NOW, NOW + SETTLE_MS, SETTLE_MS)
    assert not is_settled(NOW, NOW + SETTLE_MS - 1, SETTLE_MS)
    assert not is_settled(NOW, None, SETTLE_MS)


def test_one_page_is_read_once_and_several_until_two_passes_agree() -> None:
    one = Script(Page([item(1, 1)], server_at=NOW))
    assert asyncio.run(read_all(one)).pages == 1
    first, second = Page([item(1, 1)], next_token="2", server_at=NOW), Page([item(2, 1)], server_at=NOW + 5)
    children = asyncio.run(read_all(Script(first, second, first, second)))
    assert ([child.version.id for child in children.items], children.pages) == ([1, 2], 4)
    assert children.server_at == NOW


def test_a_child_that_slid_between_two_pages_is_found_by_the_next_pass() -> None:
    script = Script(
        Page([item(1, 1), item(2, 1)], next_token="2"), Page([item(4, 1)]),
        Page([item(2, 1), item(3, 1)], next_token="2"), Page([item(4, 1)]),
        Page([item(2, 1), item(3, 1)], next_token="2"), Page([item(4, 1)]),
    )  # fmt: skip
    assert [child.version.id for child in asyncio.run(read_all(script)).items] == [2, 3, 4]


def test_children_that_never_hold_still_are_given_up() -> None:
    pages = [page for n in range(MAX_PASSES) for page in (Page([item(n, 1)], next_token="2"), Page([item(-1, 1)]))]
    script = Script(*pages)
    with pytest.raises(RemoteTransient) as raised:
        asyncio.run(read_all(script))
    assert raised.value.reason == "unstable_list"
    assert len(script.asked) == 2 * MAX_PASSES


def test_nothing_is_written_before_all_pages_are_understood() -> None:
    scripts = {
        1: Script(Page([item(1, 1)], next_token="2"), RemoteTransient("down")),
        2: Script(Page([item(2, 1)], rejected=(BAD,))),
        3: Script(Page([item(3, 1)], server_at=NOW)),
    }
    nest = Nest(parent(1), parent(2), parent(3))
    tally = sync(nest, scripts)
    assert nest.written == [(3, [3], False)]
    assert sorted(nest.failures) == [(1, "down"), (2, "unreadable")]
    assert (tally.fetched, tally.failed, tally.settled) == (1, 2, 0)


def test_a_parent_counts_as_settled_by_the_clock_of_its_own_answer() -> None:
    nest = Nest(parent(1), parent(2))
    scripts = {1: Script(Page(server_at=NOW + SETTLE_MS)), 2: Script(Page(server_at=NOW + SETTLE_MS - 1))}
    assert sync(nest, scripts).settled == 1
    assert sorted(nest.written) == [(1, [], True), (2, [], False)]


def test_a_parent_that_was_read_and_has_not_settled_is_not_read_again() -> None:
    nest = Nest(parent(1, fetched=NOW))
    tally = sync(nest, {1: Script()}, server_now=NOW + 10)
    assert (tally.waiting, tally.fetched) == (1, 0)


def test_rejected_credentials_stop_the_whole_stage() -> None:
    nest = Nest(parent(1), parent(2))
    scripts = {1: Script(CredentialsRejected("no", status=401)), 2: Script(Page(server_at=NOW))}
    with pytest.raises(CredentialsRejected):
        sync(nest, scripts, concurrency=1)
    assert nest.written == []
    assert nest.failures == []


def test_one_refused_parent_stays_one_parents_failure() -> None:
    nest = Nest(parent(1), parent(2))
    scripts = {1: Script(RemotePermanent("forbidden", status=403)), 2: Script(Page(server_at=NOW))}
    assert sync(nest, scripts, concurrency=1).failed == 1
    assert nest.written == [(2, [], False)]
