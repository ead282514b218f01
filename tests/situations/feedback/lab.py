"""A project on a simulated GitLab with merge requests that are followed, and the whole program beside it.

Each call is a process of its own, which may die; the clock is the world's, so nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.properties.inprocess import (
    BASE_URL,
    NEVER_SECONDS,
    TOKEN,
    Killed,
    MortalApp,
    Reaper,
    WorldTime,
    WorldTransport,
)

from tidelore.app.feedback_events import post_answer
from tidelore.app.feedback_polling import FeedbackPollRequest, PollOutcome, poll_places
from tidelore.app.feedback_tracking import track, unblock
from tidelore.core.clock import format_instant
from tidelore.core.config_file import parse_config
from tidelore.feedback.outbox import AnswerRequest, PostedAnswer
from tidelore.feedback.repositories import ConfiguredRepo, choose_repo
from tidelore.store.database.opening import open_database
from tidelore_world.gitlab.forge import GitLabForge
from tidelore_world.gitlab.state import MergeRequest, Note
from tidelore_world.world import World

T = TypeVar("T")
PROJECT = "harbor/cranes"
PEOPLE = {"mira": 50, "robin": 30, "guest": 10}
"""The members of the project: an owner, a developer and a guest."""


@dataclass
class Lab:
    """One project, its merge requests, and runs of the program over a database."""

    address: str
    world: World = field(default_factory=World)
    host: dict[str, Any] = field(default_factory=dict)
    per_page: int = 100
    settings: dict[str, Any] = field(default_factory=dict)
    token: str = TOKEN

    def __post_init__(self) -> None:
        self.lab.create_project(PROJECT)
        self.lab.caller = self.lab.user("lore-agent")
        for name, level in PEOPLE.items():
            self.lab.set_member(PROJECT, name, level)

    @property
    def lab(self) -> GitLabForge:
        return self.world.gitlab

    def app(self, reaper: Reaper | None = None) -> MortalApp:
        """A fresh process."""
        host = {"base_url": BASE_URL, "projects": [PROJECT], "operator_logins": ["mira"], "shadow_sample": 0}
        config = parse_config(
            {
                "http": {"max_retries": 0, "per_page": self.per_page},
                "sync": {"heartbeat_interval_seconds": NEVER_SECONDS, "scrub_share": 0.0},
                "gitlab": [host | self.host],
                **self.settings,
            }
        )
        transport = WorldTransport(self.world)
        environ = {"GITLAB_TOKEN": self.token}
        return MortalApp(config, environ, self.address, WorldTime(self.world), reaper or Reaper(), transport)

    @property
    def place(self) -> ConfiguredRepo:
        return choose_repo(self.app().config, None)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def open(self, count: int = 1) -> Sequence[MergeRequest]:
        """Open merge requests, a while ago."""
        made = [self.lab.create_merge_request(PROJECT, title=f"Change {n}", author="robin") for n in range(count)]
        self.world.advance(120)
        return made

    def follow(self, number: int = 1, issue: int | None = None) -> None:
        self.run(track(self.app(), self.place, pr=number, issue=issue))

    def poll(self, reaper: Reaper | None = None, *, force: bool = False) -> PollOutcome | None:
        """Poll once; None when the process died on the way."""
        request = FeedbackPollRequest(kind="gitlab", force=force)
        try:
            outcome = self.run(poll_places(self.app(reaper), [self.place], request))
        except Killed:
            return None
        (repo,) = outcome.report.repos
        assert repo.error is None, repo.error
        return outcome

    def settle(self, polls: int = 2, seconds: float = 120) -> None:
        for _ in range(polls):
            self.world.advance(seconds)
            self.poll()

    def unblock(self, number: int = 1) -> None:
        self.run(unblock(self.app(), self.place, number, None))

    def answer(self, body: str, reaper: Reaper | None = None, **where: Any) -> PostedAnswer | None:
        """Answer as `lore feedback reply` does; None when the process died on the way."""
        request = AnswerRequest(where.pop("kind", "pr"), where.pop("number", 1), body, "reply", **where)
        try:
            return self.run(post_answer(self.app(reaper), self.place, request))
        except Killed:
            return None

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(open_database(self.address)) as database:
            return database.read(sql)

    def bodies(self) -> list[str]:
        """What the events say, in the order in which they are handed out."""
        return [body for (body,) in self.read("SELECT body FROM feedback_events ORDER BY updated_at, id")]

    def keys(self) -> list[str]:
        return [key for (key,) in self.read("SELECT event_key FROM feedback_events ORDER BY updated_at, id")]

    def status(self, number: int = 1) -> str:
        ((found,),) = self.read(f"SELECT status FROM tracked_prs WHERE pr_number = {number}")
        return str(found)

    def ours(self, *, kind: str = "merge_requests", number: int = 1) -> list[Note]:
        """Our notes on an issue or a merge request."""
        item = self.lab.merge_request(PROJECT, number) if kind == "merge_requests" else self.lab.issue(PROJECT, number)
        notes = [note for home in item.discussions for note in home.notes]
        return [note for note in notes if note.author is self.lab.caller]

    def posts(self) -> int:
        return sum(times for route, times in self.world.requests.items() if route.startswith("POST /projects"))


def key(number: int, note: Note) -> str:
    """The key of the event that a note is at this moment."""
    return f"{number}:note:{note.id}:{format_instant(note.updated_at_us // 1000)}"
