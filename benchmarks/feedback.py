"""Benchmark `feedback`: what following conversations costs in requests and in comments fetched.

Only followed pull requests are stored (`mirror = "followed"`); the benchmark `github` counts a whole repository. For
short and long threads, for few and many pull requests, by feeds and thread by thread. Counts only, so the server may
live in this process; sizes are the same at every scale, because the promise is about the largest.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from tidelore.app.feedback_polling import FeedbackPollRequest, poll_places
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.feedback.repositories import choose_repos
from tidelore_world.server import serve
from tidelore_world.world import World

REPO = "harbour/archive"
COMMENTS = (100, 1_000, 10_000)
PULLS = (1, 10, 100, 500)
THREADS = (1, 10, 50)
FEEDS = 3
_HOUR_US = 3_600_000_000


class Cost(Struct, frozen=True):
    """What one poll took: requests, those among them not answered 'not modified', and comments that were sent."""

    requests: int
    answered: int
    comments: int
    seconds: float


def run(_scale: Scale) -> Iterator[Finding]:
    """Let people talk, poll until everything is known, then count what polls cost."""
    for comments in COMMENTS:
        quiet, new = _costs(pulls=1, comments=comments, fetch="repo")
        what = f"{comments:,} old comments"
        yield Finding("feedback", f"requests of a quiet poll, {what}", quiet.requests, bound=FEEDS)
        yield Finding("feedback", f"comments fetched by a quiet poll, {what}", quiet.comments, bound=0)
        # The new comment moved its pull request, whose reviews are read for that.
        yield Finding("feedback", f"requests with one new comment, {what}", new.requests, bound=FEEDS + 1)
        yield Finding("feedback", f"comments fetched with one new comment, {what}", new.comments, bound=1)
    for pulls in PULLS:
        quiet, _ = _costs(pulls=pulls, comments=0, fetch="repo")
        yield Finding("feedback", f"requests of a quiet poll, {pulls} followed", quiet.requests, bound=FEEDS)
        yield Finding("feedback", f"of them not answered 304, {pulls} followed", quiet.answered, bound=0)
        yield Finding("feedback", f"seconds of it, {pulls} followed", quiet.seconds, "s")
    for pulls in THREADS:
        quiet, _ = _costs(pulls=pulls, comments=0, fetch="thread")
        what = f"{pulls} followed"
        yield Finding("feedback", f"requests thread by thread, {what}", quiet.requests, bound=3 * pulls)


def _costs(*, pulls: int, comments: int, fetch: str) -> tuple[Cost, Cost]:
    world = _build(pulls, comments)
    with serve(world) as server, tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "lore.db")
        # A rule finds the pull requests; without it, threads alone are read thread by thread.
        _poll(App(_config(server.url, fetch, track=["robin"]), {}, db=database), world)
        app = App(_config(server.url, fetch, track=[]), {}, db=database)
        for _ in range(3):
            _poll(app, world)
        quiet = _poll(app, world)
        world.github.comment(REPO, 1, "one new comment", "harbour")
        return quiet, _poll(app, world)


def _build(pulls: int, comments: int) -> World:
    world = World()
    world.github.settings.anonymous_limit = None
    world.github.create_repo(REPO)
    for number in range(pulls):
        world.github.create_pull(REPO, f"Change {number}", author="robin")
        world.advance(60)
    begin = world.clock.now_us - comments * _HOUR_US
    for number in range(comments):
        world.github.comment(REPO, 1, f"comment {number}", "harbour", at_us=begin + number * _HOUR_US)
    return world


def _config(url: str, fetch: str, track: list[str]) -> Config:
    host = {"base_url": url, "mirror": "followed", "fetch": fetch, "track_authors": track}
    return parse_config({"github": [host | {"repos": [{"name": REPO}]}]})


def _poll(app: App, world: World) -> Cost:
    world.advance(60)
    before, began = len(world.log), time.monotonic()
    report = asyncio.run(poll_places(app, choose_repos(app.config, None), FeedbackPollRequest())).report.repos[0]
    seconds = time.monotonic() - began
    for error in (report.error, *report.failures.values()):
        if error is not None:
            raise error
    spent = world.log[before:]
    comments = sum(tally.fetched for surface, tally in report.surfaces.items() if surface != "pulls")
    return Cost(len(spent), sum(status != 304 for _, _, status in spent), comments, seconds)
