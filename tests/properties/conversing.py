"""Random conversations: what people do under issues and merge requests, as data that hypothesis can shrink.

Half of it leaves no trace in the parent's `updated_at`: what is said within a minute of the last touch, what is
deleted, resolved or pushed. Every text is new, so no two versions of a note are equal by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hypothesis import strategies as st
from tests.properties.inprocess import PROJECT, House, Reaper
from tests.properties.machine import Trouble, add_fault, troubles

from tidelore_world.gitlab.state import Item, MergeRequest, Note, Position
from tidelore_world.wire import Request
from tidelore_world.world import World

ActKind = Literal[
    "say", "reply", "review", "edit_note", "delete_note", "resolve", "reopen_thread", "push", "relabel", "milestone",
    "state", "rewrite", "reviewers", "create", "delete", "wait",
]  # fmt: skip
PAUSES = (0.3, 4.0, 31.0, 59.0, 61.0, 80.0, 600.0)


@dataclass(frozen=True)
class Act:
    """One thing somebody does; `pick` chooses where, `amount` how long or which."""

    kind: ActKind
    pick: int
    amount: int


@dataclass(frozen=True)
class Episode:
    """One run, what happened before it, what happens during it, and where the process dies."""

    before: tuple[Act, ...]
    during: tuple[tuple[int, Act], ...]
    troubles: tuple[Trouble, ...]
    death: int | None


acts = st.builds(Act, st.sampled_from(get_args(ActKind)), st.integers(0, 20), st.integers(0, len(PAUSES) - 1))
episodes = st.builds(
    Episode,
    st.lists(acts, max_size=8).map(tuple),
    st.lists(st.tuples(st.integers(0, 40), acts), max_size=5).map(tuple),
    st.lists(troubles, max_size=2).map(tuple),
    st.none() | st.integers(0, 120),
)
conversations = st.lists(episodes, min_size=1, max_size=4)


class Crowd:
    """People who talk in one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._forge = world.gitlab
        self._texts = 0

    def act(self, act: Act) -> None:
        """Let one thing happen; where it finds nothing to happen to, nothing does."""
        if act.kind == "wait":
            self._world.advance(PAUSES[act.amount])
            return
        if act.kind == "create":
            make = self._forge.create_issue if act.pick % 2 else self._forge.create_merge_request
            make(PROJECT, title=self._text(), labels=("bug", "docs")[: act.amount % 3])
            return
        item = self._item(
            act.pick, only_requests=act.kind in ("review", "resolve", "reopen_thread", "push", "reviewers")
        )
        if item is not None:
            self._do(act, item)

    def _do(self, act: Act, item: Item) -> None:
        forge, noun = self._forge, "merge_request" if isinstance(item, MergeRequest) else "issue"
        match act.kind:
            case "push":
                forge.push(PROJECT, item.iid)
            case "delete":
                getattr(forge, f"delete_{noun}")(PROJECT, item.iid)
            case "state":
                verb = "close" if item.state == "opened" else "reopen"
                getattr(forge, f"{verb}_{noun}")(PROJECT, item.iid)
            case "relabel" | "milestone" | "rewrite" | "reviewers":
                getattr(forge, f"edit_{noun}")(PROJECT, item.iid, **self._fields(act))
            case _:
                self._speak(act, item)

    def _fields(self, act: Act) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = {
            "relabel": {"labels": ("bug", "docs", "infra")[: act.amount % 4]},
            "milestone": {"milestone": ("v1", "v2", None)[act.amount % 3]},
            "rewrite": {"description": self._text()},
            "reviewers": {"reviewers": ("ada", "bo", "cy")[: act.amount % 4]},
        }
        return fields[act.kind]

    def _speak(self, act: Act, item: Item) -> None:
        forge = self._forge
        threads = [found for found in item.discussions if not found.notes[0].system]
        if act.kind == "say" or (act.kind == "reply" and not threads):
            forge.add_note(item, self._text(), thread=bool(act.amount % 2), system=act.amount == 4)
        elif act.kind == "reply":
            forge.add_note(item, self._text(), discussion=threads[act.amount % len(threads)])
        elif act.kind == "review" and isinstance(item, MergeRequest):
            forge.add_note(item, self._text(), position=_place(item, act.amount))
        elif act.kind in ("resolve", "reopen_thread") and isinstance(item, MergeRequest) and threads:
            forge.resolve(item, threads[act.amount % len(threads)], resolved=act.kind == "resolve")
        elif act.kind in ("edit_note", "delete_note"):
            notes: list[Note] = [note for found in item.discussions for note in found.notes if not note.system]
            if notes and act.kind == "edit_note":
                forge.edit_note(item, notes[act.amount % len(notes)], self._text())
            elif notes:
                forge.delete_note(item, notes[act.amount % len(notes)])

    def _item(self, pick: int, *, only_requests: bool) -> Item | None:
        project = self._forge.project(PROJECT)
        items: list[Item] = [*project.merge_requests] if only_requests else [*project.issues, *project.merge_requests]
        items.sort(key=lambda item: item.id)
        return items[pick % len(items)] if items else None

    def _text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"


def _place(request: MergeRequest, line: int) -> Position:
    latest, path = request.versions[-1], request.diffs[0].new_path
    return Position(latest.base_sha, latest.start_sha, latest.head_sha, path, path, new_line=1 + line)


def play_episode(house: House, crowd: Crowd, planned: Episode, run: Callable[[Reaper], object]) -> None:
    """Talk, then run while the talking goes on, requests fail, and the process perhaps dies."""
    for act in planned.before:
        crowd.act(act)
    world, served = house.world, [0]

    def strike(_request: Request) -> None:
        for place, act in planned.during:
            if place == served[0]:
                crowd.act(act)
        served[0] += 1

    world.before_request.append(strike)
    for trouble in planned.troubles:
        add_fault(world, trouble)
    run(Reaper(planned.death))
    world.before_request.remove(strike)
    world.faults.clear()
