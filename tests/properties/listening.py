"""Random talk on followed pull requests, as data that hypothesis can shrink, and what a full scan would make of it.

Every text is written once, so a version of a comment is known by its body. The reference scan sees what the remote
shows at the instant of a poll, and knows nothing of cursors, pages, feeds or transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from tests.situations.feedback.bench import REPO, Bench, instant

from tidelore.store.work.effects import body_digest
from tidelore.store.work.tracked_pull_requests import TERMINAL
from tidelore_world.world import World

PULLS = 3
ActKind = Literal[
    "comment", "remark", "review", "edit", "edit_review", "touch", "delete", "stranger", "elsewhere", "command",
    "rewrite", "push", "unblock", "track", "close", "tick",
]  # fmt: skip
ACTS: tuple[ActKind, ...] = (
    "comment", "comment", "comment", "remark", "remark", "review", "edit", "edit", "edit", "edit_review", "touch",
    "delete", "delete", "stranger", "elsewhere", "command", "rewrite", "push", "unblock", "unblock", "track", "close",
    "tick", "tick", "tick",
)  # fmt: skip
DURING: tuple[ActKind, ...] = ("comment", "remark", "review", "edit", "touch", "delete", "elsewhere", "rewrite", "tick")


@dataclass(frozen=True)
class Act:
    """One thing that happens; `pick` chooses the pull request and the comment, `amount` how long or how many."""

    kind: ActKind
    pick: int
    amount: int


acts = st.builds(Act, st.sampled_from(ACTS), st.integers(0, 30), st.integers(0, 4))
interruptions = st.builds(Act, st.sampled_from(DURING), st.integers(0, 30), st.integers(0, 4))


@dataclass(frozen=True)
class Version:
    """A version of something somebody said, as the remote shows it."""

    number: int
    kind: str
    id: int
    updated_s: int
    body: str
    author: str

    @property
    def key(self) -> str:
        return f"{self.number}:{self.kind}:{self.id}:{instant(self.updated_s)}"


class Talkers:
    """Lets people talk in a repository with three pull requests and an issue that nobody follows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hub = world.github
        self._texts = 0
        self.bodies: set[str] = set()
        self._hub.create_repo(REPO)
        for number in range(PULLS):
            self._hub.create_pull(REPO, f"Change {number}", author="robin")
        self._elsewhere = self._hub.create_issue(REPO, "Elsewhere").number
        world.advance(60)

    def act(self, act: Act, benches: Sequence[Bench]) -> None:
        """Let one thing happen; what an operator does is done at every bench."""
        number = act.pick % PULLS + 1
        if act.kind == "tick":
            self._world.advance((0.3, 1, 2, 7, 300)[act.amount])
        elif act.kind in ("unblock", "track"):
            for bench in benches:
                self._operate(act.kind, bench, number)
        elif act.kind in ("rewrite", "push"):
            self._hub.push(REPO, number, force=act.kind == "rewrite")
        elif act.kind == "close":
            # Rarely: what has ended is read once more, and then never again.
            if act.pick % 5 == 0 and act.amount == 0:
                self._hub.close(REPO, number)
        elif act.kind in ("edit", "touch", "delete"):
            self._alter(act)
        elif act.kind == "edit_review":
            self._edit_review(number, act.amount)
        else:
            self._say(act, number)

    def _say(self, act: Act, number: int) -> None:
        for _ in range(act.amount + 1 if act.kind == "comment" else 1):
            body = self._text()
            if act.kind == "remark":
                self._hub.review_comment(REPO, number, body)
            elif act.kind == "review":
                self._hub.review(REPO, number, "CHANGES_REQUESTED", body)
            elif act.kind == "command":
                self._hub.comment(REPO, number, f"/lore status\n{body}", "boss")
            elif act.kind == "elsewhere":
                self._hub.comment(REPO, self._elsewhere, body)
            else:
                self._hub.comment(REPO, number, body, "somebody" if act.kind == "stranger" else "octo")

    def _alter(self, act: Act) -> None:
        repo = self._hub.repository(REPO)
        said = [row for row in (*repo.comments, *repo.review_comments) if not row.body.startswith("/")]
        if not said:
            return
        row = said[act.pick % len(said)]
        if act.kind == "edit":
            self._hub.edit_comment(row.id, self._text())
        elif act.kind == "touch":
            self._hub.touch_comment(row.id)
        else:
            self._hub.delete_comment(row.id)

    def _edit_review(self, number: int, amount: int) -> None:
        found = [row.id for row in self._hub.repository(REPO).reviews[number].values() if row.body]
        if found:
            self._hub.edit_review(REPO, number, found[amount % len(found)], self._text())

    def _operate(self, kind: str, bench: Bench, number: int) -> None:
        status = status_of(bench).get(number)
        if self._hub.repository(REPO).thread(number).state != "open":
            return
        if kind == "unblock" and status == "blocked":
            bench.unblock(number)
        elif kind == "track" and status is None:
            bench.track(number)

    def _text(self) -> str:
        self._texts += 1
        body = f"text {self._texts}"
        self.bodies.add(body)
        return body


@dataclass
class Reference:
    """What a full scan of everything at each poll would have made of it.

    With `holds_all`, comments of pull requests that are not tracked are stored too.
    """

    world: World
    holds_all: bool = False
    seen: dict[tuple[str, int], Version] = field(default_factory=dict)
    held: dict[tuple[str, int], Version] = field(default_factory=dict)
    """What was last shown while its pull request was blocked, or not tracked: it counts when that ends, whatever became
    of it since."""
    keys: set[str] = field(default_factory=set)
    commands: set[tuple[int, int]] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)

    def scan(self, statuses: dict[int, str], tracked_s: dict[int, int]) -> None:
        """Take in what the remote shows now, of pull requests in these statuses, or that ended since the last scan."""
        ended = {number for number, status in statuses.items() if status in TERMINAL}
        now = statuses | dict.fromkeys(ended - self.ended, "awaiting_feedback")
        for version in [*self.held.values()]:
            if now.get(version.number) == "awaiting_feedback":
                self._take(self.held.pop((version.kind, version.id)))
        for version in visible(self.world):
            status = now.get(version.number)
            if version.body.startswith("/lore"):
                if status in ("awaiting_feedback", "blocked") and version.updated_s >= tracked_s[version.number] - 5:
                    self.commands.add((version.id, version.updated_s * 1000))
            elif status == "awaiting_feedback":
                self._take(version)
            elif status == "blocked" or (status is None and self.holds_all):
                self.held[version.kind, version.id] = version
        self.ended |= ended

    def _take(self, version: Version) -> None:
        known = self.seen.get((version.kind, version.id))
        self.seen[version.kind, version.id] = version
        if version.author == "octo" and (known is None or known.body != version.body):
            again = known is not None and known.updated_s == version.updated_s
            mark = f"#{body_digest(version.body).hex()[:8]}" if again else ""
            self.keys.add(version.key + mark)


def visible(world: World) -> Iterator[Version]:
    """Everything the remote shows of the pull requests, wrappers of remarks left out."""
    repo = world.github.repository(REPO)
    for number in range(1, PULLS + 1):
        for said in repo.comments.of(number):
            yield Version(number, "issue_comment", said.id, said.updated_s, said.body, said.author.login)
        for remark in repo.review_comments.of(number):
            yield Version(number, "review_comment", remark.id, remark.updated_s, remark.body, remark.author.login)
        for review in repo.reviews[number].values():
            if review.body:
                yield Version(number, "review_summary", review.id, review.submitted_s, review.body, review.author.login)


def status_of(bench: Bench) -> dict[int, str]:
    return dict(bench.read("SELECT pr_number, status FROM tracked_prs"))


def tracked_since(bench: Bench) -> dict[int, int]:
    """Since which second each pull request is followed."""
    rows: list[tuple[Any, ...]] = bench.read("SELECT pr_number, created_at FROM tracked_prs")
    return {number: at // 1000 for number, at in rows}


def stored_commands(bench: Bench) -> set[tuple[int, int]]:
    return {(key, at) for key, at in bench.read("SELECT comment_id, commented_at FROM operator_commands")}
