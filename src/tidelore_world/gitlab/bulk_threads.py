"""What hangs under items made in bulk: threads, notes, events, changed files.

Owns the shape of these children: how many, in which order of time, which threads sit on a diff, which are
resolved. Texts, changed files, labels and milestones are drawn once and shared by all items, so that a million
notes fit in memory. Refuses to make items. Invariant: every instant lies between the item's creation and its
`updated_at`, and what the events say last is what the item shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from tidelore_world.clock import DAY_US
from tidelore_world.gitlab.patches import make_diff
from tidelore_world.gitlab.records import Records
from tidelore_world.gitlab.state import (
    Discussion,
    Event,
    FileDiff,
    Item,
    MergeRequest,
    Note,
    Position,
    Project,
    User,
)
from tidelore_world.prose import Topic

CONVERSATION_US = 2 * DAY_US
BODIES_PER_TOPIC = 6
PASSING_LABEL = "needs-triage"
MILESTONE = "Release 1"

# An odd factor permutes the numbers below 2**160: thread ids look random and never repeat.
_SCATTER = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276B
_ID_SPACE = (1 << 160) - 1


@dataclass(frozen=True, slots=True)
class Children:
    """How many children each item gets: threads, notes in each, events of each family, changed files."""

    discussions: int = 0
    notes: int = 0
    events: int = 0
    files: int = 0

    def __post_init__(self) -> None:
        if min(self.discussions, self.notes, self.events, self.files) < 0:
            raise ValueError("an item cannot have fewer than no children")
        if (self.discussions > 0) != (self.notes > 0):
            raise ValueError("discussions and notes come together: a thread has at least one note")

    def __bool__(self) -> bool:
        return bool(self.discussions or self.events or self.files)


@dataclass(frozen=True, slots=True)
class _Script:
    """What the items of one topic share."""

    bodies: tuple[str, ...]
    diffs: tuple[FileDiff, ...]
    path: str


class Hanger:
    """Hangs children under items of one project; items of one topic say the same words."""

    def __init__(
        self, forge: Records, project: Project, children: Children, topics: Sequence[Topic], people: Sequence[User]
    ) -> None:
        self.forge = forge
        self.children = children
        self.people = people
        self.scripts = [_script(forge, topic, children) for topic in topics]
        self.passing = forge.label(project, PASSING_LABEL) if children.events else None
        self.milestone = forge.milestone(project, MILESTONE, project.created_at_us) if children.events else None

    def dress(self, item: Item, number: int) -> None:
        """Give an item its threads and its events."""
        self._hang_threads(item, self.scripts[number % len(self.scripts)])
        if self.children.events:
            self._hang_events(item)

    def dress_merge_request(self, request: MergeRequest, number: int) -> None:
        """Give a merge request its changed files, then what every item gets."""
        request.diffs = list(self.scripts[number % len(self.scripts)].diffs)
        request.versions[-1].files = len(request.diffs)
        self.dress(request, number)

    def _hang_threads(self, item: Item, script: _Script) -> None:
        threads, length = self.children.discussions, self.children.notes
        step = CONVERSATION_US // (threads * length + 1)
        at = item.created_at_us
        for index in range(threads):
            item.discussions.append(self._thread(item, script, index, at, step))
            at += step * length
        item.user_notes_count = threads * length

    def _thread(self, item: Item, script: _Script, index: int, at: int, step: int) -> Discussion:
        """One thread. On merge requests every third sits on the diff and every second is resolved."""
        new_id, people, bodies = self.forge.new_id, self.people, script.bodies
        length, turn = self.children.notes, item.iid + index
        on_change = isinstance(item, MergeRequest)
        position = _position(item, script, index) if isinstance(item, MergeRequest) and turn % 3 == 0 else None
        alone = length == 1 and position is None and turn % 2 == 0
        note_type: Literal["DiffNote", "DiscussionNote"] | None = (
            "DiffNote" if position is not None else None if alone else "DiscussionNote"
        )
        resolvable = on_change and not alone
        resolver = people[turn % len(people)] if resolvable and turn % 2 else None
        resolved_at = at + step * length if resolver else None
        notes = []
        for number in range(1, length + 1):
            # By position: keywords more than double the cost of making one of a million notes.
            written = at + step * number
            notes.append(
                Note(
                    new_id(),
                    people[(turn + number) % len(people)],
                    bodies[(turn * length + number) % len(bodies)],
                    written,
                    written,
                    note_type,
                    False,
                    resolvable,
                    resolver,
                    resolved_at,
                    position,
                )
            )
        return Discussion(f"{notes[0].id * _SCATTER & _ID_SPACE:040x}", alone, notes)

    def _hang_events(self, item: Item) -> None:
        """Each family alternates; states end open, an odd last label or milestone event leaves it in place."""
        count, new_id = self.children.events, self.forge.new_id
        step = CONVERSATION_US // (count + 1)
        kept = count % 2 == 1
        label = item.labels[0] if kept and item.labels else self.passing
        item.milestone = self.milestone if kept else None
        if kept and label is self.passing and label is not None:
            item.labels = [label]
        for number in range(1, count + 1):
            at, user = item.created_at_us + step * number, self.people[(item.iid + number) % len(self.people)]
            state = "closed" if (count - number) % 2 else "reopened"
            action = "add" if number % 2 else "remove"
            item.events.append(Event(new_id(), "state", user, at, state))
            item.events.append(Event(new_id(), "label", user, at, action, label))
            item.events.append(Event(new_id(), "milestone", user, at, action, None, self.milestone))


def _script(forge: Records, topic: Topic, children: Children) -> _Script:
    prose, rng = forge.world.prose, forge.world.rng
    spoken = min(BODIES_PER_TOPIC, children.discussions * children.notes)
    bodies = tuple(prose.comment(topic).body for _ in range(spoken))
    paths = topic.paths or ("README.md",)
    diffs = tuple(make_diff(rng, _path(paths, number)) for number in range(children.files))
    return _Script(bodies, diffs, paths[0])


def _path(paths: Sequence[str], number: int) -> str:
    """The number-th of endlessly many different paths: the topic's own, then numbered neighbours."""
    own, round_ = paths[number % len(paths)], number // len(paths)
    path = PurePosixPath(own)
    return own if round_ == 0 else str(path.with_name(f"{path.stem}_{round_}{path.suffix}"))


def _position(request: MergeRequest, script: _Script, index: int) -> Position:
    """A line of one of the changed files; every second spans several, a removed file has old lines only."""
    latest = request.versions[-1]
    diff = script.diffs[index % len(script.diffs)] if script.diffs else None
    old_path, new_path = (diff.old_path, diff.new_path) if diff else (script.path, script.path)
    position = Position(latest.base_sha, latest.start_sha, latest.head_sha, old_path, new_path)
    line = 10 + (request.iid * 7 + index) % 190
    first = line - 3 if (request.iid // 3 + index) % 2 else None
    if diff is not None and diff.deleted_file:
        position.old_line, position.first_old_line = line, first
    else:
        position.new_line, position.first_new_line = line, first
    return position
