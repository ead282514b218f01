"""The value types of the prose: people, decision stories, topics drawn from them, and what is written.

Owns the shapes only. Refuses to draw anything at random: every value here is complete and frozen, so
an issue, its merge request, its threads and a post made from one `Topic` cannot disagree about the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Person:
    """A member of the fictional company."""

    username: str
    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """One way to solve a problem: a noun phrase, then what speaks for and against it (lower case first)."""

    name: str
    pro: str
    con: str


@dataclass(frozen=True, slots=True)
class Spot:
    """A range of lines in a file of the product."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Story:
    """A hand-made decision story. Texts may hold `{slots}` that a `Topic` fills once and for all.

    `decision` is a bare infinitive ("keep ..."), `reason` a clause that follows "because"; both read
    well after any lead. `chosen` is the index of the option that wins.
    """

    slug: str
    component: str
    labels: tuple[str, ...]
    titles: tuple[str, ...]
    changes: tuple[str, ...]
    problems: tuple[str, ...]
    options: tuple[Option, ...]
    chosen: int
    objection: str
    answer: str
    question: str
    reply: str
    measure: str
    decision: str
    reason: str
    spots: tuple[Spot, ...]
    code: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A story with every slot filled: what one issue, its change, its threads and its posts are about."""

    slug: str
    component: str
    title: str
    labels: tuple[str, ...]
    paths: tuple[str, ...]
    story: Story = field(repr=False)
    facts: Mapping[str, str] = field(repr=False, hash=False)

    @property
    def decision(self) -> str:
        """What is decided, as a bare infinitive."""
        return self.facts["decision"]

    @property
    def reason(self) -> str:
        """Why it is decided, as a clause after "because"."""
        return self.facts["reason"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a thread; a review thread's first message points at a line of a file."""

    author: Person
    body: str
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A page a post refers to, with what a preview card shows."""

    url: str
    title: str
    description: str
