"""`lore reply` and `lore resolve` killed at every seam, with lost answers and in two processes: one effect each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.crash.write_driver import HUB, LAB, make_app, write
from tests.support.fork_server import fork_script

from tidelore.app.mirroring import mirror
from tidelore.core.clock import SystemClock, format_instant
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore.sync.mirror import MirrorRequest
from tidelore_world.server import serve
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

DRIVER = Path(__file__).with_name("write_driver.py")
PATIENCE_SECONDS = 60.0
SEAMS = (Seam.BEFORE_COMMIT, Seam.BEFORE_POST, Seam.AFTER_POST, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT)
VERBS = ("reply", "reply --resolve", "resolve")
TOPIC_VERBS = ("topic", "topic thread")
"""Only GitHub has topics."""
FATES = ("whole", "lost", "twins")
TRIALS = 50
"""For each forge and each database: 200 in all."""


class CountingWorld(World):
    """A world that counts how often the state of its one review thread changes."""

    forge = ""
    comment = 0
    changes = 0

    def is_resolved(self) -> bool:
        if self.forge == "github":
            return self.github.thread_of(HUB, self.comment).resolved
        home, _ = self.gitlab.note(self.gitlab.merge_request(LAB, 1), self.comment)
        return all(note.resolved_at_us is not None for note in home.notes if note.resolvable)

    def handle(self, request: Request) -> Response:
        before = self.is_resolved()
        try:
            return super().handle(request)
        finally:
            self.changes += before != self.is_resolved()

    def bodies(self) -> list[str]:
        if self.forge == "github":
            told = [str(row["body"]) for row in self.github.truth_review_comments(HUB)]
            return told + [row.body for row in self.github.repository(HUB).discussion_comments]
        return [note.body for home in self.gitlab.merge_request(LAB, 1).discussions for note in home.notes]


@dataclass
class Bench:
    """One review thread, its copy, and what was asked for so far."""

    world: CountingWorld
    url: str
    address: str
    thread: str = ""
    topics: tuple[str, ...] = ()
    deaths: int = 0
    environ: dict[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    )

    def lose(self, count: int) -> None:
        self.world.github.settings.lost_answers = self.world.gitlab.lost_answers = count

    def try_once(self, number: int, verb: str, fate: str, seam: Seam | None) -> None:
        """Ask for something in a process that may die, then again until it is confirmed: it took effect once.

        A reply to a topic is written `topic`, one into its thread `topic thread`.
        """
        resolved, body = self.world.is_resolved(), f"Answer {number}."
        goal = self.thread
        if verb.startswith("topic"):
            verb, goal = "reply", self.topics[verb.endswith("thread")]
        verb = "unresolve" if verb == "resolve" and resolved else verb
        expected = 0 if verb == "reply" or (resolved and verb != "unresolve") else 1
        self.world.changes = 0
        self.lose(1 if fate == "lost" else 0)
        words = [self.address, self.url, verb, goal, body, seam.value if seam else "none"]
        processes = [fork_script(DRIVER, words, self.environ) for _ in range(2 if fate == "twins" else 1)]
        for process in processes:
            _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode in {0, 7, -signal.SIGKILL}, stderr
            self.deaths += process.returncode == -signal.SIGKILL
        self._finish(verb, goal, body)
        where = f"trial {number}: {verb}, {fate}, {seam}"
        assert sum(body in text for text in self.world.bodies()) == verb.startswith("reply"), where
        assert self.world.changes == expected, where
        assert self.world.is_resolved() == (resolved if not expected else verb != "unresolve"), where

    def _finish(self, verb: str, goal: str, body: str) -> None:
        app, deadline = make_app(self.address, self.url), time.monotonic() + PATIENCE_SECONDS
        while True:
            code = write(app, verb, goal, body)
            with closing(open_database(self.address)) as database:
                waiting = database.read("SELECT 1 FROM outbox WHERE status IN ('planned', 'posted')")
            if code == 0 and not waiting:
                return
            assert time.monotonic() < deadline, "never confirmed"
            time.sleep(0.1)


@contextmanager
def bench(forge: str, address: str) -> Iterator[Bench]:
    world = CountingWorld(3, start=format_instant(SystemClock().now_ms() - 600_000))
    lab, hub = world.gitlab, world.github
    lab.create_project(LAB)
    hub.create_repo(HUB)
    hub.settings.content_per_minute = hub.settings.content_per_hour = 10_000
    request, pull = lab.create_merge_request(LAB, author="robin"), hub.create_pull(HUB, author="robin").number
    note, remark = lab.add_note(request, "Why?", author="mira", thread=True), hub.review_comment(HUB, pull, "Why?")
    topic = hub.create_discussion(HUB).number
    said = hub.comment_discussion(HUB, topic).id
    world.forge, world.comment = forge, note.id if forge == "gitlab" else remark.id
    world.advance(600)
    with serve(world) as server:
        made = Bench(world, server.url, address)
        made.topics = (f"{HUB}#{topic}", f"discussioncomment-{said}") if forge == "github" else ()
        asyncio.run(mirror(make_app(address, server.url), MirrorRequest(("issues", "merge_requests")), "test"))
        with closing(open_database(address)) as database:
            ((made.thread,),) = database.read(
                "SELECT d.remote_id FROM discussions d JOIN notes n ON n.discussion_id = d.id WHERE n.remote_id = :id",
                {"id": world.comment},
            )
        yield made


@pytest.mark.parametrize("forge", ["gitlab", "github"])
def test_a_write_killed_or_unanswered_takes_effect_once(migrated_sqlite_address: str, forge: str) -> None:
    with bench(forge, migrated_sqlite_address) as made:
        made.try_once(0, "reply --resolve", "whole", Seam.AFTER_POST)
        made.try_once(1, "resolve", "lost", Seam.AFTER_POST)
        made.try_once(2, "resolve", "twins", None)
        assert made.deaths == 2
        if made.topics:
            made.try_once(3, "topic thread", "whole", Seam.AFTER_POST)
            made.try_once(4, "topic", "lost", None)
            assert made.deaths == 3


@pytest.mark.deep
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize("forge", ["gitlab", "github"])
def test_every_write_takes_effect_once_in_random_crash_and_loss_trials(
    request: pytest.FixtureRequest, forge: str, dialect: str
) -> None:
    dice = random.Random(f"{forge} {dialect} 20261118")
    with bench(forge, request.getfixturevalue(f"migrated_{dialect}_address")) as made:
        for number in range(TRIALS):
            made.try_once(
                number,
                dice.choice((*VERBS, *TOPIC_VERBS) if made.topics else VERBS),
                dice.choice(FATES),
                dice.choice((*SEAMS, None)),
            )
        assert made.deaths > TRIALS // 4
