"""Random histories: what may happen to a world between and during runs, as data that hypothesis can shrink.

A history is a list of rounds; a round is changes, changes that strike while a walk runs, faults, and perhaps a
death. Every change writes a text of its own, so no two versions of an item are ever equal by accident.
The one thing a list promises is kept: a change is visible at most `OVERLAP_US` after the instant it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st
from tests.properties.inprocess import PROJECT, House, Reaper

from tidelore.sync.report import RunReport
from tidelore_world.faults import Fault
from tidelore_world.gitlab import churn
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.state import Item
from tidelore_world.wire import Request
from tidelore_world.world import World

OVERLAP_US = 2_000_000

ChangeKind = Literal[
    "create", "create_late", "edit", "edit_late", "edit_in_place", "join", "burst", "close", "relabel", "delete", "tick"
]
FaultKind = Literal[
    "status",
    "refused",
    "timeout",
    "disconnect",
    "truncated",
    "not_json",
    "duplicate",
    "edit_between",
    "delete_between",
    "invalid_timestamp",
    "malformed_item",
    "slow",
]


@dataclass(frozen=True)
class Change:
    """One thing that happens; `pick` chooses the item, `amount` how late, how many or how long."""

    kind: ChangeKind
    pick: int
    amount: int


@dataclass(frozen=True)
class Trouble:
    """One fault and the request it waits for."""

    kind: FaultKind
    after: int
    times: int


@dataclass(frozen=True)
class Round:
    """One run and what surrounds it. `death` is the visit of a seam at which the process dies."""

    before: tuple[Change, ...]
    during: tuple[tuple[int, Change], ...]
    troubles: tuple[Trouble, ...]
    death: int | None


@dataclass(frozen=True)
class Setting:
    """How this world and this program differ from the usual ones.

    A keyset list names its next page in the link alone, so it keeps its link.
    """

    per_page: int
    start: tuple[Change, ...]
    keyset: bool
    ties_follow_sort: bool
    strip: frozenset[str]
    foreign: bool
    skew_ms: int


CHANGES: tuple[ChangeKind, ...] = (
    "create", "create_late", "edit", "edit_late", "edit_in_place", "join", "burst", "close", "relabel", "delete",
    "tick",
)  # fmt: skip
FAULTS: tuple[FaultKind, ...] = (
    "status", "refused", "timeout", "disconnect", "truncated", "not_json", "duplicate", "edit_between",
    "delete_between", "invalid_timestamp", "malformed_item", "slow",
)  # fmt: skip

changes = st.builds(Change, st.sampled_from(CHANGES), st.integers(0, 30), st.integers(0, 5))
beginnings = st.builds(
    Change, st.sampled_from(("create", "create_late", "burst", "tick")), st.integers(0, 30), st.integers(0, 5)
)
troubles = st.builds(Trouble, st.sampled_from(FAULTS), st.integers(0, 8), st.integers(1, 5))
rounds = st.builds(
    Round,
    st.lists(changes, max_size=5).map(tuple),
    st.lists(st.tuples(st.integers(0, 12), changes), max_size=5).map(tuple),
    st.lists(troubles, max_size=2).map(tuple),
    st.none() | st.integers(0, 60),
)
histories = st.lists(rounds, min_size=1, max_size=4)
settings = st.builds(
    Setting,
    st.integers(2, 5),
    st.lists(beginnings, max_size=10).map(tuple),
    st.booleans(),
    st.booleans(),
    st.sampled_from((frozenset[str](), frozenset({"link"}), frozenset({"link", "x-next-page"}))),
    st.booleans(),
    st.sampled_from((0, -200_000, 200_000)),
).filter(lambda setting: not (setting.keyset and (setting.strip or setting.foreign)))


class Player:
    """Makes changes happen in one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._forge = world.gitlab
        self._texts = 0

    def play(self, change: Change) -> None:
        """Let one thing happen."""
        kind = change.kind
        if kind == "tick":
            self._world.advance((0.001, 0.4, 1, 3, 61, 600)[change.amount])
        elif kind in ("create", "create_late"):
            self._create(change.pick, self._late(change.amount) if kind == "create_late" else None)
        elif kind == "burst":
            self._burst(change)
        elif (item := self._choose(change.pick)) is not None:
            self._alter(kind, item, change)

    def _alter(self, kind: ChangeKind, item: Item, change: Change) -> None:
        forge, now = self._forge, self._world.clock.now_us
        noun = "issue" if item.kind == "issues" else "merge_request"
        edit = getattr(forge, f"edit_{noun}")
        if kind == "delete":
            getattr(forge, f"delete_{noun}")(PROJECT, item.iid)
            return
        if kind == "close":
            getattr(forge, f"{'close' if item.state == 'opened' else 'reopen'}_{noun}")(PROJECT, item.iid)
        at = {"edit_late": self._late(change.amount), "join": self._newest(item)}.get(kind, now)
        if kind == "edit_in_place":
            at = item.updated_at_us
        # No forge lets an item's own update time run backwards, or a change surface later than the overlap.
        at = max(at, item.updated_at_us, now - OVERLAP_US)
        fields: dict[str, Any] = {"description": self._text()}
        if kind == "relabel":
            names = ("bug", "docs", "infra", "ux")
            fields |= {"labels": names[: change.amount], "assignees": ["ada", "bo"][: change.amount % 3]}
            if noun == "merge_request":
                fields["reviewers"] = ["cy", "di"][: change.pick % 3]
            fields["milestone"] = ("v1", "v2", None)[change.pick % 3]
        edit(PROJECT, item.iid, at_us=at, **fields)

    def _create(self, pick: int, at_us: int | None = None) -> None:
        make = self._forge.create_issue if pick % 3 else self._forge.create_merge_request
        make(PROJECT, title=self._text(), description=self._text(), at_us=at_us)

    def _burst(self, change: Change) -> None:
        """Several items at one instant: some new, some edited."""
        at = self._late(change.amount)
        for number in range(change.amount + 1):
            item = self._choose(change.pick + number)
            if item is None or number % 2:
                self._create(change.pick, at)
            else:
                self._alter("edit", item, change) if item.updated_at_us > at else self._edit_at(item, at)

    def _edit_at(self, item: Item, at: int) -> None:
        edit = self._forge.edit_issue if item.kind == "issues" else self._forge.edit_merge_request
        edit(PROJECT, item.iid, at_us=at, description=self._text())

    def disturb(self, request: Request, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:
        """What a fault does between two pages; its edits too write a text of their own, so none undoes another."""
        if change == "delete" or "iid" not in row:
            return churn.disturb(self._forge, request, row, change)
        try:
            item = self._forge.item("merge_requests" if "source_branch" in row else "issues", PROJECT, row["iid"])
        except NotHere:
            return False
        self._edit_at(item, max(self._world.clock.now_us, item.updated_at_us))
        return True

    def _late(self, amount: int) -> int:
        return self._world.clock.now_us - (0, 400, 999_000, 1_000, 1_500_000, OVERLAP_US)[amount]

    def _newest(self, item: Item) -> int:
        """The newest instant of the item's own list: where its watermark stands, or will."""
        instants: list[int] = [other.updated_at_us for other in item.project.shelf(item.kind)]
        return max(instants)

    def _choose(self, pick: int) -> Item | None:
        project = self._forge.project(PROJECT)
        items: list[Item] = sorted([*project.issues, *project.merge_requests], key=lambda item: item.id)
        return items[pick % len(items)] if items else None

    def _text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"


def prepare(house: House, setting: Setting) -> Player:
    """Give the world its ways and its beginnings."""
    forge = house.world.gitlab
    forge.ties_follow_sort = setting.ties_follow_sort
    forge.strip_headers = setting.strip
    forge.foreign_next_link = "http://elsewhere.example/next?page=2" if setting.foreign else None
    player = Player(house.world)
    forge.disturb = player.disturb  # type: ignore[method-assign]
    for change in setting.start:
        player.play(change)
    return player


def play_round(house: House, player: Player, planned: Round, run: Callable[[Reaper], RunReport | None]) -> None:
    """Change the world, then run while it changes, fails and perhaps kills."""
    for change in planned.before:
        player.play(change)
    world, served = house.world, [0]

    def strike(_request: Request) -> None:
        for place, change in planned.during:
            if place == served[0]:
                player.play(change)
        served[0] += 1

    world.before_request.append(strike)
    for trouble in planned.troubles:
        add_fault(world, trouble)
    run(Reaper(planned.death))
    world.before_request.remove(strike)
    world.faults.clear()


def add_fault(world: World, trouble: Trouble) -> Fault:
    """Plan one fault on the lists."""
    kind, times, after = trouble.kind, trouble.times, trouble.after
    add = world.faults.add
    if kind == "status":
        return add("status", None, times, after, status=(429, 500, 502, 503), retry_after=3)
    if kind == "refused":
        return add("status", None, times, after, status=(400, 404, 422))
    if kind == "truncated":
        return add("truncated", None, times, after, mode="json" if after % 2 else "length")
    if kind == "malformed_item":
        # What has lost even its number is found by verification alone, and has a test of its own.
        return add("malformed_item", None, times, after, shape="no_id")
    return add(kind, None, times, after)
