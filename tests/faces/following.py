"""A desk that follows pull requests: two repositories on a simulated GitHub whose clock goes with ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faces.desk import Desk, Outcome

from tidelore.core.clock import SystemClock, format_instant
from tidelore_world.server import serve
from tidelore_world.world import World

REPO = "harborline/ledger"
OTHER = "harborline/console"
OWNER = "harborline"
AGENT = "tidelore-agent"
TOKEN = "ghp_0123456789abcdef0123"


@dataclass
class Follower(Desk):
    """Runs `lore` against a GitHub on which people talk."""

    pr: int = 0

    @property
    def forge(self) -> Any:
        """The GitHub of the world, at our present instant."""
        behind = SystemClock().now_ms() / 1000 - self.world.clock.now_us / 1_000_000
        self.world.advance(max(behind, 0.0))
        return self.world.github

    def settle(self, *repos: str, extra: str = "", own: str = "", tail: str = "", mirror: str = "followed") -> None:
        """Write a configuration: `extra` for the host, `own` for each repository, `tail` for the rest."""
        listed = "".join(f'[[github.repos]]\nname = "{repo}"\n{own}\n' for repo in repos)
        self.config.write_text(
            f'[[github]]\nbase_url = "{self.url}"\nwrite_interval_seconds = 0\nhandler_backoff_seconds = 0\n'
            f'mirror = "{mirror}"\n{extra}\n'
            f"{listed}[http]\nmax_retries = 0\ntimeout_seconds = 5\n{tail}"
        )

    def say(self, body: str, author: str = OWNER, number: int | None = None, repo: str = REPO) -> int:
        """Comment on a thread."""
        made: int = self.forge.comment(repo, number or self.pr, body, author).id
        return made

    def remark(self, body: str, author: str = OWNER, **where: Any) -> int:
        """Comment on a line of the diff."""
        made: int = self.forge.review_comment(REPO, self.pr, body, author, **where).id
        return made

    def track(self, *argv: str) -> None:
        assert self.run("feedback", "track", "--pr", str(self.pr), *argv).code == 0

    def poll(self, *argv: str) -> dict[str, Any]:
        """Poll once, well, and return what robots are told."""
        data: dict[str, Any] = self.robot("poll", "github", *argv).data
        return data

    def take(self, *argv: str) -> dict[str, Any] | None:
        """The next event."""
        event: dict[str, Any] | None = self.robot("feedback", "next", *argv).data["event"]
        return event

    def answer(self, body: str, *argv: str, command: str = "reply") -> Outcome:
        """Answer on the pull request."""
        path = self.folder / "body.md"
        path.write_text(body)
        where = () if "--issue" in argv else ("--pr", str(self.pr))
        return self.robot("feedback", command, *where, "--body-file", str(path), *argv)

    def counted(self, work: Callable[[], object]) -> list[tuple[str, str, int]]:
        """The requests some work costs."""
        before = len(self.world.log)
        work()
        return self.world.log[before:]

    def ours(self, repo: str = REPO) -> list[str]:
        """The bodies of our own comments on the remote."""
        github = self.world.github
        every = [*github.truth_comments(repo), *github.truth_review_comments(repo)]
        return [str(row["body"]) for row in every if "lore-action:" in row["body"]]

    def handler(self, code: str) -> str:
        """A line of the configuration that runs this program; it has the event as `event`."""
        path = self.folder / "handler.py"
        path.write_text(f"import json, sys\nevent = json.load(sys.stdin)\n{code}\n")
        return f"handler = {json.dumps([sys.executable, str(path)])}"


@contextmanager
def following(folder: Path, read: Callable[[], tuple[str, str]]) -> Iterator[Follower]:
    """A desk with one pull request that nobody follows yet."""
    world = World(3, start=format_instant(SystemClock().now_ms() - 60_000))
    with serve(world) as server:
        desk = Follower(folder, server.url, world, read)
        world.github.create_repo(REPO)
        world.github.create_repo(OTHER)
        desk.pr = world.github.create_pull(REPO, "Count the containers", author=OWNER).number
        desk.settle(REPO)
        yield desk


def failed(done: Outcome, exit_code: int, error: str) -> dict[str, Any]:
    """The error of a command that ended so."""
    assert (done.code, done.error["code"]) == (exit_code, error), done
    return done.error
