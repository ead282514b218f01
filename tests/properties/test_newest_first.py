"""The walk over a newest-first list, against the simulated Bluesky: every post above the floor, once, no hole."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.properties.inprocess import Killed, Reaper
from tests.properties.memory import MemoryScopeStore, ask

from tidelore.core.clock import parse_instant
from tidelore.core.errors import RemoteError
from tidelore.core.model import Item, Version
from tidelore.engine.intake import Intake
from tidelore.engine.newest_first import NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import ListRequest, Page
from tidelore_world.wire import Request
from tidelore_world.world import World

ACTOR = "ada.example"
OTHER = "bo.example"
FEED = "/xrpc/app.bsky.feed.getAuthorFeed"


class FeedLister:
    """The author feed as the engine reads it: a repost is an item of its own. Pins are not asked for."""

    def __init__(self, world: World, limit: int) -> None:
        self._world = world
        self._limit = limit

    async def fetch(self, request: ListRequest) -> Page[Any]:
        params: dict[str, str | int] = {"actor": ACTOR, "limit": self._limit}
        if request.token is not None:
            params["cursor"] = request.token
        reply = (await ask(self._world, FEED, params)).json()
        items = [feed_item(row) for row in reply["feed"]]
        return Page(items=items, next_token=reply.get("cursor"))

    async def fetch_one(self, locator: str) -> Page[Any]:
        raise AssertionError(locator)


def feed_item(row: dict[str, Any]) -> Item[Any]:
    """Key and place of one feed item: the repost's own, or the post's."""
    post, reason = row["post"], row.get("reason", {})
    if "uri" in reason:
        key, at, cid = reason["uri"], parse_instant(reason["indexedAt"]), reason["cid"]
    else:
        at = min(parse_instant(post["record"]["createdAt"]), parse_instant(post["indexedAt"]))
        key, cid = post["uri"], post["cid"]
    return Item(Version(key, at, cid.encode()), at, json.dumps(row).encode(), row)


@dataclass(frozen=True)
class Poll:
    """What happens before one poll, what strikes while it runs, and whether it dies."""

    before: tuple[tuple[str, int], ...]
    during: tuple[tuple[int, tuple[str, int]], ...]
    death: int | None
    broken_token: bool


happenings = st.tuples(
    st.sampled_from(("post", "repost", "twin", "burst", "delete", "hide", "tick")), st.integers(0, 9)
)
polls = st.builds(
    Poll,
    st.lists(happenings, max_size=4).map(tuple),
    st.lists(st.tuples(st.integers(0, 6), happenings), max_size=3).map(tuple),
    st.none() | st.integers(0, 20),
    st.sampled_from((False, False, False, True)),
)


class Author:
    """Makes things happen on one account."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._forge = world.bluesky
        self._texts = 0
        for handle in (ACTOR, OTHER):
            self._forge.create_account(handle)

    def act(self, kind: str, amount: int) -> None:
        """Let one thing happen."""
        forge, own = self._forge, [row["post"]["uri"] for row in self._forge.truth_feed(ACTOR)]
        if kind == "post":
            self._post()
        elif kind == "twin":
            # Two posts of one millisecond, in no order of their ids.
            self._post(step=0)
            self._post()
        elif kind == "burst":
            for _ in range(amount * 2):
                self._post()
        elif kind == "repost":
            forge.repost(ACTOR, forge.post(OTHER, self._text()).uri if amount % 2 or not own else own[-1])
            self._world.advance(1)
        elif kind == "tick":
            self._world.advance(60 * amount)
        elif own:
            uri = own[amount % len(own)]
            # More hidden posts on top than a poll may read would keep it from ever getting below them.
            (forge.delete if kind == "delete" or len(forge.network.hidden) == 2 else forge.hide)(uri)

    def _post(self, step: float = 1) -> None:
        self._forge.post(ACTOR, self._text())
        self._world.advance(step)

    def _text(self) -> str:
        self._texts += 1
        return f"post {self._texts}"


def poll_once(world: World, store: MemoryScopeStore, limit: int, max_pages: int, reaper: Reaper) -> None:
    """One poll in a process of its own."""
    store.seam = reaper
    intake: Intake[Any] = Intake(store, lambda: world.clock.now_us // 1000, reaper)
    descent = NewestFirstWalk(FeedLister(world, limit), intake, NewestFirstPlan(max_pages=max_pages))
    try:
        asyncio.run(descent.run())
    except (Killed, RemoteError):
        return


def play(world: World, author: Author, store: MemoryScopeStore, poll: Poll, limit: int, max_pages: int) -> None:
    """One poll and what surrounds it."""
    for kind, amount in poll.before:
        author.act(kind, amount)
    served = [0]

    def strike(_request: Request) -> None:
        for place, (kind, amount) in poll.during:
            if place == served[0]:
                author.act(kind, amount)
        served[0] += 1

    world.before_request.append(strike)
    # A server that was replaced does not read the cursors of the one before.
    world.bluesky.settings.cursor_format = "iso" if poll.broken_token else "millis__cid"
    poll_once(world, store, limit, max_pages, Reaper(poll.death))
    world.bluesky.settings.cursor_format = "millis__cid"
    world.before_request.clear()


def check(world: World, store: MemoryScopeStore) -> None:
    """All that the feed shows is stored; each version was taken once; nothing is left open."""
    shown = {feed_item(row).version for row in world.bluesky.truth_feed(ACTOR)}
    assert shown <= set(store.taken), shown - set(store.taken)
    assert store.gaps() == ()
    store.check()


STARVING = [
    Poll((("post", 0), ("post", 0), ("repost", 0), ("twin", 0)), (), None, broken_token=False),
    Poll((("repost", 0), ("delete", 0)), (), None, broken_token=False),
]


@examples(few=90, many=2000)
@given(st.lists(polls, min_size=1, max_size=5), st.integers(2, 4), st.integers(1, 5), st.integers(0, 12))
@example(STARVING, 2, 1, 3)  # the head alone took every page a walk might read, poll after poll
def test_no_post_is_lost_when_a_descending_walk_is_interrupted(
    history: list[Poll], limit: int, max_pages: int, posts: int
) -> None:
    world = World()
    author, store = Author(world), MemoryScopeStore()
    for _ in range(posts):
        author.act("post", 0)
    for poll in history:
        play(world, author, store, poll, limit, max_pages)
    for _ in range(60):
        poll_once(world, store, limit, max_pages, Reaper())
        if not store.gaps():
            break
    check(world, store)


def test_a_burst_larger_than_one_poll_leaves_no_gap() -> None:
    world = World()
    author, store = Author(world), MemoryScopeStore()
    author.act("post", 0)
    poll_once(world, store, 5, 3, Reaper())
    for _ in range(4):
        author.act("burst", 20)
        poll_once(world, store, 5, 3, Reaper())
    assert store.gaps()
    for _ in range(30):
        poll_once(world, store, 5, 3, Reaper())
    check(world, store)


def test_a_poll_with_nothing_new_costs_one_request() -> None:
    world = World()
    author, store = Author(world), MemoryScopeStore()
    author.act("burst", 9)
    poll_once(world, store, 5, 100, Reaper())
    before = sum(world.requests.values())
    poll_once(world, store, 5, 100, Reaper())
    assert sum(world.requests.values()) - before == 1
