"""A desk with a merge request on a simulated GitLab and a pull request on a simulated GitHub, each with a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faces.desk import Desk

from tidelore.core.clock import SystemClock, format_instant
from tidelore_world.server import serve
from tidelore_world.world import World

LAB, HUB = "port/harbour", "harborline/ledger"
REVIEWER = "mira"
TOKENS = {"GITLAB_TOKEN": "a-token-of-the-tests", "GITHUB_TOKEN": "ghp_0123456789abcdef0123"}


@dataclass
class Writer(Desk):
    """Runs `lore` against two forges; `forge` names the one that a test works on."""

    forge: str = "gitlab"
    thread: str = ""
    item: str = ""
    comment: int = 0
    topic: str = ""
    remark: int = 0
    """A comment of the topic."""

    @property
    def request(self) -> Any:
        """The merge request on GitLab."""
        return self.world.gitlab.merge_request(LAB, 1)

    def ours(self) -> list[str]:
        """The first lines of our own comments on the server."""
        github = self.world.github
        bodies = [row["body"] for row in (*github.truth_comments(HUB), *github.truth_review_comments(HUB))]
        bodies += [note.body for item in (self.request, self.world.gitlab.issue(LAB, 1)) for home in item.discussions
                   for note in home.notes]  # fmt: skip
        bodies += [row.body for row in github.repository(HUB).discussion_comments]
        return [str(body).partition("\n")[0] for body in bodies if "lore-action:" in body]

    def in_topic(self) -> list[tuple[int | None, str]]:
        """The comments of the topic on the server in order: what each replies to, and its first line."""
        rows = self.world.github.repository(HUB).discussion_comments
        return [(row.reply_to, row.body.partition("\n")[0]) for row in sorted(rows, key=lambda row: row.id)]

    def in_thread(self) -> list[str]:
        """The first lines of the comments in the thread on the server, in order."""
        if self.forge == "gitlab":
            return [note.body.partition("\n")[0] for note in self.home.notes]
        repo = self.world.github.repository(HUB)
        bodies = {row.id: row.body for row in repo.review_comments}
        return [bodies[key].partition("\n")[0] for key in self.home.comments]

    @property
    def home(self) -> Any:
        """The thread on the server."""
        if self.forge == "gitlab":
            return self.world.gitlab.note(self.request, self.comment)[0]
        return self.world.github.thread_of(HUB, self.comment)

    @property
    def is_resolved(self) -> bool:
        if self.forge == "gitlab":
            return all(note.resolved_at_us is not None for note in self.home.notes if note.resolvable)
        return bool(self.home.resolved)

    def state(self) -> str:
        """The state of the thread in the copy."""
        found = {item["id"]: item["state"] for item in self.robot("threads", self.item).data["items"]}
        return str(found[self.thread])

    def writes(self) -> list[str]:
        """The writes that reached the server, as method and path; queries are reads."""
        return [f"{method} {path}" for method, path, _ in self.world.log if method != "GET" and "graphql" not in path]

    def lose_answers(self, count: int = 1) -> None:
        if self.forge == "gitlab":
            self.world.gitlab.lost_answers = count
        else:
            self.world.github.settings.lost_answers = count

    def settle(self) -> None:
        """Let the time pass that an unclear write is waited for."""
        self.query("UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 600000"
                   " WHERE status IN ('planned', 'posted') AND attempted_at IS NOT NULL")  # fmt: skip


def configure(desk: Desk, extra: str = "") -> None:
    desk.config.write_text(
        f'[[gitlab]]\nbase_url = "{desk.url}"\nprojects = ["{LAB}"]\nwrite_interval_seconds = 0\n{extra}'
        f'[[github]]\nbase_url = "{desk.url}"\nrepos = ["{HUB}"]\nmirror = "all"\nwrite_interval_seconds = 0\n{extra}'
        '[http]\nmax_retries = 0\ntimeout_seconds = 1\n[embedding]\nprovider = "none"\n'
    )


@contextmanager
def writing(folder: Path, read: Callable[[], tuple[str, str]], forge: str) -> Iterator[Writer]:
    """A desk whose copy is complete."""
    world = World(3, start=format_instant(SystemClock().now_ms() - 600_000))
    lab, hub = world.gitlab, world.github
    lab.create_project(LAB)
    lab.create_issue(LAB)
    hub.create_repo(HUB)
    request = lab.create_merge_request(LAB, title="Rename the crane", author="robin")
    pull = hub.create_pull(HUB, "Count the containers", author="robin").number
    comments = {
        "gitlab": lab.add_note(request, "Why 40?", author=REVIEWER, thread=True).id,
        "github": hub.review_comment(HUB, pull, "Why 40?", REVIEWER).id,
    }
    topic = hub.create_discussion(HUB, "How do we count?", "Tell me.", REVIEWER, category="Q&A").number
    remark = hub.comment_discussion(HUB, topic, "Twice.", REVIEWER).id
    world.advance(540)
    with serve(world) as server:
        desk = Writer(folder, server.url, world, read, dict(TOKENS), forge=forge)
        desk.comment = comments[forge]
        desk.item = f"{LAB}!1" if forge == "gitlab" else f"{HUB}#{pull}"
        desk.topic, desk.remark = f"{HUB}#{topic}", remark
        configure(desk)
        assert desk.run("sync", "--no-embed").code == 0
        (desk.thread,) = [item["id"] for item in desk.robot("threads", desk.item).data["items"] if item["state"]]
        yield desk
