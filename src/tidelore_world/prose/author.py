"""The author: one object that writes every text of a simulated world.

Owns nothing but the order of draws: it hands one generator to the modules that know issues, changes,
threads, notes, edits and posts. Invariant: the same generator state and the same calls give the same texts.
"""

from __future__ import annotations

import random

from . import changes, edits, issues, notes, posts, threads
from .cast import PEOPLE
from .dice import Dice
from .model import Link, Person, Topic, Turn
from .setting import PROJECTS
from .topics import TopicSource


class Prose:
    """Seeded texts about one fictional product."""

    __slots__ = ("_dice", "_topics", "people")

    def __init__(self, rng: random.Random) -> None:
        self._dice = Dice(rng)
        self._topics = TopicSource(self._dice)
        self.people: tuple[Person, ...] = PEOPLE

    def topic(self, project: str | None = None) -> Topic:
        """Draw a decision to talk about; a project path limits it to the matters of that repository."""
        return self._topics.draw(project)

    def issue_title(self, topic: Topic) -> str:
        """Title an issue."""
        return issues.issue_title(self._dice, topic)

    def issue_body(self, topic: Topic) -> str:
        """Describe an issue."""
        return issues.issue_body(self._dice, topic)

    def change_title(self, topic: Topic) -> str:
        """Title a merge or pull request about the topic."""
        return changes.change_title(self._dice, topic)

    def change_body(self, topic: Topic) -> str:
        """Describe a merge or pull request that does what the topic decides."""
        return changes.change_body(self._dice, topic)

    def thread(self, topic: Topic, turns: int, review: bool = False) -> list[Turn]:  # noqa: FBT001 the contract
        """Discuss the topic in this many turns; the last or the last but one states the decision."""
        return threads.thread(self._dice, topic, turns, review=review)

    def comment(self, topic: Topic, author: Person | None = None) -> Turn:
        """Make one standalone remark."""
        return threads.comment(self._dice, topic, author)

    def system_note(self, kind: str, **facts: object) -> str:
        """Write what the forge itself notes; `notes.KINDS` lists the kinds and their facts."""
        return notes.system_note(self._dice, kind, facts)

    def revise(self, text: str) -> str:
        """Edit a text as a person would; the result always differs."""
        return edits.revise(self._dice, text)

    def post(self, topic: Topic) -> tuple[str, list[Link]]:
        """Write a social post of at most 300 graphemes; a link whose address is not in the text is a card."""
        return posts.post(self._dice, topic)

    def project_paths(self) -> tuple[str, ...]:
        """The repositories of the company."""
        return tuple(PROJECTS)

    def branch(self, topic: Topic) -> str:
        """Name a source branch."""
        return changes.branch(self._dice, topic)

    def sha(self) -> str:
        """Draw a commit id of 40 hexadecimal digits."""
        return self._dice.hexadecimal(40)
