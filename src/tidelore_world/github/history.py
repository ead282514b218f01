"""The past of the simulated GitHub: months of issues, pull requests, comments, reviews and discussions.

Owns the plan of what happens when. Refuses to write text (the prose does) or rows (the events do). Invariant:
events happen in the order of their instants, so ids grow with time as they do on the real service.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelore_world.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from tidelore_world.prose import Prose, Topic, Turn

if TYPE_CHECKING:
    from tidelore_world.github.discussing import Discussing

_REPOSITORIES = 2
_ISSUES, _PULLS, _DISCUSSIONS = 25, 20, 6
_MILESTONES = ("2026.1", "2026.2", "2026.3")
_CATEGORIES = ("Q&A", "Q&A", "Ideas", "General", "Show and tell")
_SPAN_US = 120 * DAY_US
_BOT = "harborline-ci[bot]"
_TRAILING_SHARE, _EDITED_SHARE = 0.05, 0.08

Action = Callable[[int], object]


def login_of(username: str) -> str:
    """A GitHub login for a person: the service allows no dots."""
    return username.replace(".", "-")


def write_history(events: Discussing, prose: Prose, rng: random.Random, now_us: int, scale: float) -> None:
    """Create the repositories and everything that happened in them before `now_us`."""
    for person in prose.people:
        events.hub.user(login_of(person.username), "User", person.name)
    historian = _Historian(events, prose, rng, now_us)
    for path in prose.project_paths()[:_REPOSITORIES]:
        full_name = f"{path.split('/')[0]}/{path.split('/')[-1]}"
        begin_us = now_us - _SPAN_US - DAY_US
        repo = events.create_repo(full_name, description=path, at_us=begin_us)
        repo.associations |= {login_of(person.username): "MEMBER" for person in prose.people[::3]}
        for title in _MILESTONES:
            events.create_milestone(full_name, title, f"What we ship in {title}.", at_us=begin_us)
        for _ in range(max(1, round(_ISSUES * scale))):
            historian.plan_issue(full_name, prose.topic(path))
        for index in range(max(1, round(_PULLS * scale))):
            # One stays open, so that however small a world is, something can still be said.
            historian.plan_pull(full_name, prose.topic(path), ends=index > 0)
        for _ in range(max(1, round(_DISCUSSIONS * scale))):
            historian.plan_discussion(full_name, prose.topic(path))
    historian.tell()


@dataclass(slots=True)
class _Historian:
    events: Discussing
    prose: Prose
    rng: random.Random
    now_us: int
    _plan: list[tuple[int, int, Action]] = field(default_factory=list)
    _issues: dict[str, list[list[int]]] = field(default_factory=dict)
    """The numbers of the planned issues of each repository; an issue has one once it is open."""

    def tell(self) -> None:
        """Let everything happen, in order; what would lie after the present does not happen."""
        for at_us, _, action in sorted(self._plan, key=lambda entry: entry[:2]):
            if at_us < self.now_us:
                action(at_us)

    def plan_issue(self, repo: str, topic: Topic) -> None:
        """An issue, its discussion, and mostly its end."""
        title, body = self.prose.issue_title(topic), self.prose.issue_body(topic)
        numbers: list[int] = []
        author = self._somebody()
        instants = self._instants()
        self._at(
            next(instants),
            lambda at_us: numbers.append(
                self.events.create_issue(repo, title, body, author, labels=topic.labels, at_us=at_us).number
            ),
        )
        self._issues.setdefault(repo, []).append(numbers)
        self._plan_triage(repo, numbers, instants)
        self._plan_talk(repo, numbers, self.prose.thread(topic, self.rng.randint(1, 6)), instants)
        if self.rng.random() < 0.6:
            closer, reason = self._somebody(), self.rng.choices(("completed", "not_planned", "duplicate"), (8, 2, 1))[0]
            self._at(
                next(instants),
                lambda at_us: self.events.close(repo, numbers[0], closer, reason=reason, at_us=at_us),  # type: ignore[arg-type]
            )

    def plan_discussion(self, repo: str, topic: Topic) -> None:
        """A discussion, what people say to it, and mostly its answer."""
        title, body, author = self.prose.issue_title(topic), self.prose.issue_body(topic), self._somebody()
        category = self.rng.choice(_CATEGORIES)
        numbers: list[int] = []
        made: list[int] = []
        instants = self._instants()

        def begin(at_us: int) -> None:
            events = self.events
            row = events.create_discussion(repo, title, body, author, category=category, at_us=at_us)
            numbers.append(row.number)
            events.upvote_discussion(repo, row.number, self.rng.randint(0, 9))

        self._at(next(instants), begin)
        for place, turn in enumerate(self.prose.thread(topic, self.rng.randint(1, 5))):

            def say(at_us: int, turn: Turn = turn, place: int = place) -> None:
                speaker = login_of(turn.author.username)
                parent = made[-1] if place % 3 == 2 else None
                row = self.events.comment_discussion(repo, numbers[0], turn.body, speaker, reply_to=parent, at_us=at_us)
                made.append(row.id)

            self._at(next(instants), say)
        if category == "Q&A":
            self._at(
                next(instants),
                lambda at_us: self.events.choose_answer(repo, made[0], numbers[0], author, at_us=at_us),
            )

    def _plan_triage(self, repo: str, numbers: list[int], instants: Iterator[int]) -> None:
        """Somebody takes it on, and it gets a milestone."""
        if self.rng.random() < 0.7:
            who = self._somebody()
            self._at(next(instants), lambda at_us: self.events.assign(repo, numbers[0], who, actor=who, at_us=at_us))
        if self.rng.random() < 0.5:
            milestone, who = self.rng.randint(1, len(_MILESTONES)), self._somebody()
            self._at(
                next(instants),
                lambda at_us: self.events.set_milestone(repo, numbers[0], milestone, actor=who, at_us=at_us),
            )

    def plan_pull(self, repo: str, topic: Topic, *, ends: bool) -> None:
        """A pull request, its checks, reviews, pushes and, if it ends, mostly its merge."""
        title, body = self.prose.change_title(topic), self.prose.change_body(topic)
        branch, author, reviewer = self.prose.branch(topic), self._somebody(), self._somebody()
        closes = self.rng.choice(self._issues.get(repo) or [[]]) if self.rng.random() < 0.5 else []
        draft = self.rng.random() < 0.15
        numbers: list[int] = []
        instants = self._instants()

        def begin(at_us: int) -> None:
            text = f"{body}\n\nFixes #{closes[0]}" if closes else body
            made = self.events.create_pull(
                repo,
                title,
                text,
                author,
                branch=branch,
                labels=topic.labels,
                draft=draft,
                files=topic.paths,
                at_us=at_us,
            )
            numbers.append(made.number)
            self.events.request_review(repo, made.number, reviewer, at_us=at_us)

        self._at(next(instants), begin)
        if draft:
            self._at(next(instants), lambda at_us: self.events.ready_for_review(repo, numbers[0], at_us=at_us))
        if self.rng.random() < 0.4:
            text = f"All checks have passed for `{branch}`."
            self._at(next(instants), lambda at_us: self.events.comment(repo, numbers[0], text, _BOT, at_us=at_us))
        for _ in range(self.rng.randint(0, 3)):
            turns = self.prose.thread(topic, self.rng.randint(1, 4), review=True)
            self._plan_review(repo, numbers, turns, instants)
        self._plan_talk(repo, numbers, self.prose.thread(topic, self.rng.randint(1, 3)), instants)
        if self.rng.random() < 0.5:
            force = self.rng.random() < 0.2
            self._at(next(instants), lambda at_us: self.events.push(repo, numbers[0], force=force, at_us=at_us))
        if ends:
            self._plan_end(repo, numbers, topic, instants)

    def _plan_end(self, repo: str, numbers: list[int], topic: Topic, instants: Iterator[int]) -> None:
        reviewer, draw = self._somebody(), self.rng.random()
        if draw < 0.7:
            summary = self.prose.comment(topic).body
            self._at(
                next(instants),
                lambda at_us: self.events.review(repo, numbers[0], "APPROVED", summary, reviewer, at_us=at_us),
            )
            self._at(next(instants), lambda at_us: self.events.merge(repo, numbers[0], reviewer, at_us=at_us))
        elif draw < 0.8:
            self._at(next(instants), lambda at_us: self.events.close(repo, numbers[0], reviewer, at_us=at_us))

    def _plan_talk(self, repo: str, numbers: list[int], turns: Sequence[Turn], instants: Iterator[int]) -> None:
        for turn in turns:
            trailing = self.rng.random() < _TRAILING_SHARE
            made: list[int] = []

            def say(at_us: int, turn: Turn = turn, made: list[int] = made, *, late: bool = trailing) -> None:
                author = login_of(turn.author.username)
                row = self.events.comment(repo, numbers[0], turn.body, author, trailing=late, at_us=at_us)
                made.append(row.id)

            at_us = next(instants)
            self._at(at_us, say)
            self._plan_edit(made, turn.body, at_us)

    def _plan_review(self, repo: str, numbers: list[int], turns: Sequence[Turn], instants: Iterator[int]) -> None:
        made: list[int] = []
        path, line = turns[0].path or "README.md", turns[0].line or 1
        for turn in turns:

            def remark(at_us: int, turn: Turn = turn) -> None:
                row = self.events.review_comment(
                    repo,
                    numbers[0],
                    turn.body,
                    login_of(turn.author.username),
                    path=path,
                    line=line,
                    in_reply_to=made[0] if made else None,
                    at_us=at_us,
                )
                made.append(row.id)

            self._at(next(instants), remark)
        if self.rng.random() < 0.6:
            resolver = self._somebody()

            def resolve(_at_us: int) -> None:
                thread = self.events.thread_of(repo, made[0])
                self.events.resolve_thread(repo, thread.id, resolver)

            self._at(next(instants), resolve)

    def _plan_edit(self, made: list[int], body: str, at_us: int) -> None:
        if self.rng.random() < _EDITED_SHARE:
            revised = self.prose.revise(body)
            later_us = at_us + self.rng.randint(5, 900) * SECOND_US
            self._at(later_us, lambda then_us: self.events.edit_comment(made[0], revised, at_us=then_us))

    def _at(self, at_us: int, action: Action) -> None:
        self._plan.append((at_us, len(self._plan), action))

    def _instants(self) -> Iterator[int]:
        """The instants of one thread: from a random start on, minutes to days apart."""
        at_us = self.now_us - self.rng.randrange(HOUR_US, _SPAN_US)
        while True:
            yield at_us
            at_us += MINUTE_US + int(self.rng.expovariate(1 / (9 * HOUR_US)))

    def _somebody(self) -> str:
        return login_of(self.rng.choice(self.prose.people).username)
