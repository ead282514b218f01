"""The scan of a list ordered by id with a `since` filter, against the comments of one simulated GitHub thread."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.properties.inprocess import Killed, Reaper
from tests.properties.memory import MemoryScopeStore, ask

from tidelore.core.clock import format_instant, parse_instant
from tidelore.core.errors import RemoteError
from tidelore.core.model import Item, Version
from tidelore.engine.intake import Intake
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.walk import Plan, Walk
from tidelore.engine.window import Order
from tidelore.http.limits import parse_http_date
from tidelore_world.wire import Request
from tidelore_world.world import World

REPO = "owner/repo"
OVERLAP_MS = 5000


class ThreadLister:
    """The comments of thread 1 as the engine reads them."""

    def __init__(self, world: World, per_page: int) -> None:
        self._world = world
        self._per_page = per_page

    async def fetch(self, request: ListRequest) -> Page[Any]:
        params: dict[str, str | int] = {"per_page": self._per_page}
        if request.since:
            params["since"] = format_instant(request.since)[:19] + "Z"
        path = request.token or f"/repos/{REPO}/issues/1/comments"
        response = await ask(self._world, path, None if request.token else params)
        found = re.search(r'<([^>]+)>; rel="next"', response.headers.get("link", ""))
        return Page(
            items=[comment_item(row) for row in response.json()],
            next_token=found[1] if found else None,
            server_at=parse_http_date(response.headers.get("date")),
        )

    async def fetch_one(self, locator: str) -> Page[Any]:
        raise AssertionError(locator)


def comment_item(row: dict[str, Any]) -> Item[Any]:
    payload = msgspec.json.encode({name: row[name] for name in ("id", "body", "updated_at")})
    at = parse_instant(row["updated_at"])
    return Item(Version(row["id"], at, payload), at, payload, json.loads(payload))


class Talk:
    """Makes comments come, change and go; no two texts are equal."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._forge = world.github
        self._texts = 0
        self._forge.create_repo(REPO)
        self._forge.create_issue(REPO)

    def act(self, kind: str, amount: int) -> None:
        """Let one thing happen."""
        ids = [row["id"] for row in self._forge.truth_comments(REPO, 1)]
        self._texts += 1
        if kind == "tick":
            self._world.advance(amount)
        elif kind == "comment" or not ids:
            self._forge.comment(REPO, 1, f"text {self._texts}")
        elif kind == "edit":
            self._forge.edit_comment(ids[amount % len(ids)], f"text {self._texts}")
        else:
            self._forge.delete_comment(ids[amount % len(ids)])


def scan(world: World, store: MemoryScopeStore, per_page: int, reaper: Reaper) -> None:
    """One scan in a process of its own."""
    store.seam = reaper
    intake: Intake[Any] = Intake(store, lambda: world.clock.now_us // 1000, reaper)
    walk = Walk(ThreadLister(world, per_page), intake, Plan(order=Order.ID, overlap_ms=OVERLAP_MS))
    try:
        asyncio.run(walk.run())
    except (Killed, RemoteError):
        return


acts = st.tuples(st.sampled_from(("comment", "comment", "edit", "delete", "tick")), st.integers(0, 12))
scans = st.tuples(
    st.lists(acts, max_size=6), st.lists(st.tuples(st.integers(0, 8), acts), max_size=4), st.none() | st.integers(0, 20)
)


@examples(few=90, many=2000)
@given(st.lists(scans, min_size=1, max_size=4), st.integers(2, 4), st.booleans(), st.booleans())
def test_no_comment_is_lost_when_pages_shift_in_an_id_ordered_list(
    history: list[Any], per_page: int, exclusive: bool, numeric: bool
) -> None:
    world = World()
    world.github.settings.since_exclusive = exclusive
    world.github.settings.numeric_links_from_page = 2 if numeric else None
    talk, store = Talk(world), MemoryScopeStore()
    for before, during, death in history:
        for kind, amount in before:
            talk.act(kind, amount)
        served = [0]

        def strike(_request: Request, during: Any = during, served: list[int] = served) -> None:
            for place, (kind, amount) in during:
                if place == served[0]:
                    talk.act(kind, amount)
            served[0] += 1

        world.before_request.append(strike)
        scan(world, store, per_page, Reaper(death))
        world.before_request.clear()
    world.advance(3600)
    for _ in range(2):
        scan(world, store, per_page, Reaper())
    wanted = {row["id"]: comment_item(row).version for row in world.github.truth_comments(REPO, 1)}
    assert wanted == {key: item.version for key, item in store.items.items() if key in wanted}
    store.check()
