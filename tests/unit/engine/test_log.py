"""The walk and the verification of a list that is read by key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, Script, item

from tidelore.core.errors import RemoteError, RemotePermanent, RemoteTransient
from tidelore.core.model import Item, Position, RemoteId
from tidelore.engine.cursor import Census, Cursor, LogPosition
from tidelore.engine.intake import Intake
from tidelore.engine.log import KeyScheme, LogPlan, LogWalk, PartProgress, start_key
from tidelore.engine.ports import ListRequest, Page, Quarantined
from tidelore.engine.scrub import MAX_QUESTIONS, LogScrub, first_key
from tidelore.engine.whole import REPEATED


def split(key: RemoteId) -> tuple[str, str]:
    part, _, place = str(key).partition("/")
    return part, place


def instant(key: str) -> int | None:
    return int(key) if key.isdecimal() else None


KEYS = KeyScheme(split, instant, lambda at: f"{at - 1:04}" if at > 0 else None)


def written(*keys: str) -> list[Item[str]]:
    return [item(key, instant(split(key)[1]) or 0) for key in keys]


def page(*keys: str, to: str | None = None, server_at: int = NOW) -> Page[str]:
    return Page(written(*keys), next_token=to, server_at=server_at)


def walk(listers: Mapping[str, Script], store: PlainScopeStore, max_pages: int = 9) -> LogWalk[str]:
    found = LogWalk(listers, Intake(store, lambda: NOW), LogPlan(KEYS, 5, max_pages))
    asyncio.run(found.run())
    return found


def tokens(script: Script) -> list[str | None]:
    return [request.token for request in script.asked]


def reading(floor: int, keys: Mapping[str, str] | None = None, *, behind: bool = False) -> PlainScopeStore:
    return PlainScopeStore(Cursor(log=LogPosition(floor, keys or {}, behind)))


def test_each_page_is_committed_with_its_key_and_only_the_last_ends_the_walk() -> None:
    store = reading(100)
    posts = Script(page("posts/0100", "posts/0110", to="0110"), page("posts/0120"))
    likes = Script(page("likes/0105"))
    found = walk({"posts": posts, "likes": likes}, store)
    assert (tokens(posts), tokens(likes)) == (["0099", "0110"], ["0099"])
    assert [batch.cursor.log for batch in store.batches] == [
        LogPosition(100, {"posts": "0110"}, behind=True),
        LogPosition(100, {"posts": "0120"}, behind=True),
        LogPosition(100, {"posts": "0120", "likes": "0105"}),
    ]
    assert [batch.cursor.complete for batch in store.batches] == [False, False, True]
    assert store.cursor.watermark == Position(120, "posts/0120")
    assert not found.behind


def test_a_walk_at_its_page_limit_is_continued_exactly_there_without_an_overlap() -> None:
    store = reading(0, {"posts": "0010"})
    script = Script(page("posts/0006", "posts/0020", to="0020"), page("posts/0030", to="0030"))
    assert walk({"posts": script}, store, max_pages=2).behind
    assert tokens(script) == ["0004", "0020"], "five before the key it knows"
    assert store.cursor.log == LogPosition(0, {"posts": "0030"}, behind=True)
    assert not store.cursor.complete
    script = Script(page("posts/0040"))
    assert not walk({"posts": script}, store, max_pages=2).behind
    assert tokens(script) == ["0030"]
    assert store.cursor.complete


def test_a_list_that_was_read_completely_stays_complete_while_a_later_walk_is_unfinished() -> None:
    store = reading(100)
    walk({"posts": Script(page("posts/0100"))}, store)
    assert store.cursor.complete
    assert walk({"posts": Script(page("posts/0110", to="0110"))}, store, max_pages=1).behind
    assert store.cursor.complete


def test_pages_of_the_overlap_do_not_count_as_new_and_a_long_overlap_is_left() -> None:
    known = "0010"
    progress = PartProgress("0004", known).after("0007", 2)
    assert progress == PartProgress("0007", known, again=1)
    assert progress.after("0012", 2) == PartProgress("0012", known, again=1, new=1)
    assert progress.after("0008", 2) == PartProgress(known, known, again=2), "verification reads the rest"
    assert progress.after(None, 2) == PartProgress(None, known, again=1, new=1)


def test_a_page_limit_in_one_part_keeps_the_walk_unfinished_after_the_others() -> None:
    store = reading(0)
    posts, likes = Script(page("posts/0001", to="0001")), Script(page("likes/0001"))
    assert walk({"posts": posts, "likes": likes}, store, max_pages=1).behind
    assert store.cursor.log == LogPosition(0, {"posts": "0001", "likes": "0001"}, behind=True)
    assert not store.cursor.complete


class Backwards:
    """A list that answers every request with the same page, from before the known key."""

    def __init__(self, *answers: Page[str]) -> None:
        self.answers = answers
        self.asked = 0

    async def fetch(self, _request: ListRequest) -> Page[str]:
        self.asked += 1
        assert self.asked < 100, "the walk does not end"
        return self.answers[self.asked % len(self.answers)]

    async def fetch_one(self, locator: str) -> Page[str]:
        raise AssertionError(locator)


def test_a_server_that_always_leads_back_is_refused_and_not_asked_for_ever() -> None:
    store = reading(0, {"posts": "0050"})
    lister = Backwards(page("posts/0020", to="0020"))
    with pytest.raises(RemotePermanent) as caught:
        asyncio.run(LogWalk({"posts": lister}, Intake(store, lambda: NOW), LogPlan(KEYS, 5, 2)).run())
    assert caught.value.reason == REPEATED
    assert store.cursor.log is not None
    assert store.cursor.log.keys == {"posts": "0050"}


def test_a_list_without_a_position_is_read_from_its_watermark() -> None:
    store = PlainScopeStore(Cursor(watermark=Position(70, "posts/0070")))
    script = Script(page("posts/0080"))
    walk({"posts": script}, store)
    assert tokens(script) == ["0069"]
    assert store.cursor.log == LogPosition(70, {"posts": "0080"})
    assert start_key(LogPosition(0), "posts", LogPlan(KEYS, 5)) is None


def test_a_walk_ends_with_the_quarantined_items_and_keeps_its_position() -> None:
    store = reading(0)
    store.quarantined = [Quarantined("posts/0003", "posts/0003", 1)]
    script = Script(page("posts/0009"), singles={"posts/0003": page("posts/0003")})
    walk({"posts": script}, store)
    assert set(store.items) == {"posts/0003", "posts/0009"}
    assert store.batches[-1].released == ("posts/0003",)
    assert store.cursor.log == LogPosition(0, {"posts": "0009"})


def verify(scripts: Mapping[str, Script], store: PlainScopeStore, strides: int = 1) -> list[bool]:
    work = LogScrub(scripts, Intake(store, lambda: NOW), KEYS)

    async def run() -> list[bool]:
        return [await work.stride() for _ in range(strides)]

    return asyncio.run(run())


def holding(floor: int, *keys: str) -> PlainScopeStore:
    store = reading(floor)
    store.created = {key: (0, key) for key in keys}
    return store


def gone_of(store: PlainScopeStore) -> list[Sequence[RemoteId]]:
    return [list(batch.gone) for batch in store.batches]


def test_verification_goes_through_the_parts_page_by_page_and_then_starts_anew() -> None:
    store = holding(100, "posts/0100")
    scripts = {
        "posts": Script(page("posts/0100", to="0100", server_at=NOW + 1), page("posts/0110")),
        "likes": Script(page()),
    }
    assert verify(scripts, store, 3) == [False, False, True]
    assert [batch.cursor.census for batch in store.batches] == [
        Census(part="posts", token="0100", started_at=NOW + 1),
        Census(part="likes", started_at=NOW + 1),
        Census(verified_at=NOW + 1),
    ]
    assert tokens(scripts["posts"]) == ["0099", "0100"]
    assert tokens(scripts["likes"]) == ["0099"]


def test_a_missing_item_is_gone_only_if_the_server_says_so() -> None:
    store = holding(100, "posts/0101", "posts/0102", "likes/0101")
    singles: dict[str, Page[str] | RemoteError] = {"posts/0101": Page(), "posts/0102": page("posts/0102")}
    verify({"posts": Script(page("posts/0105"), singles=singles), "likes": Script()}, store)
    assert gone_of(store) == [["posts/0101"]]
    assert set(store.items) == {"posts/0105", "posts/0102"}


def test_a_missing_item_that_cannot_be_fetched_is_not_gone_and_its_page_is_verified_again() -> None:
    store = holding(100, "posts/0101")
    script = Script(page("posts/0105"), singles={"posts/0101": RemoteTransient("no response")})
    with pytest.raises(RemoteTransient):
        verify({"posts": script}, store)
    assert store.batches == []
    assert store.cursor.census == Census()


def test_items_outside_the_page_are_not_missing() -> None:
    store = holding(100, "posts/0100", "posts/0150", "posts/0200")
    store.cursor = Cursor(log=LogPosition(100), census=Census(part="posts", token="0100"))
    script = Script(page("posts/0160", to="0160"), singles={"posts/0150": Page()})
    verify({"posts": script}, store)
    assert script.asked_alone == ["posts/0150"], "0100 was verified before, 0200 is on a later page"


def test_a_page_with_many_missing_items_is_read_again_until_all_were_asked_for() -> None:
    keys = [f"posts/{number:04}" for number in range(101, 101 + MAX_QUESTIONS + 1)]
    store = holding(100, *keys)
    store.cursor = Cursor(log=LogPosition(100), census=Census(part="posts", token="0100", started_at=7))
    script = Script(page(to="0900"), page(to="0900"), page(), singles=dict.fromkeys(keys, Page()))
    work = LogScrub({"posts": script}, Intake(store, lambda: NOW), KEYS)
    assert not asyncio.run(work.stride())
    assert len(store.batches[0].gone) == MAX_QUESTIONS
    assert store.cursor.census.token == "0100"
    store.created = {keys[-1]: (0, keys[-1])}
    assert not asyncio.run(work.stride())
    assert store.cursor.census.token == "0900"
    store.created = {}
    assert asyncio.run(work.stride())


def test_verification_of_a_list_that_leads_back_is_refused() -> None:
    store = holding(0)
    lister = Backwards(page("posts/0020", to="0020"), page("posts/0030", to="0030"))
    work = LogScrub({"posts": lister}, Intake(store, lambda: NOW), KEYS)

    async def run() -> None:
        while not await work.stride():
            pass

    with pytest.raises(RemotePermanent) as caught:
        asyncio.run(run())
    assert caught.value.reason == REPEATED


def test_items_from_before_the_stored_range_are_taken_only_if_they_are_stored() -> None:
    store = holding(100, "posts/0050")
    verify({"posts": Script(page("posts/0040", "posts/0050", "posts/0120"))}, store)
    assert set(store.items) == {"posts/0050", "posts/0120"}
    assert first_key(["posts/0050"], 100, KEYS) < "0050"
    assert first_key([], 100, KEYS) == "0099"
    unknown = PlainScopeStore()
    verify({"posts": Script(page("posts/0120"))}, unknown)
    assert not unknown.items, "where the stored range starts is not known"
