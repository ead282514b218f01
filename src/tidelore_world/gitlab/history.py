"""The months before the world's start: projects, stories, and the people who talk them through.

Owns what happens when, in a populated instance. Refuses to change rows itself; it calls the mutations at
planned instants. Invariant: an issue and the merge request that closes it are about one topic.
"""

from __future__ import annotations

import random
from functools import partial

from tidelore_world.clock import DAY_US, HOUR_US, MINUTE_US
from tidelore_world.gitlab.review import image_position, place_review
from tidelore_world.gitlab.state import Issue, Item, MergeRequest, Position, Project
from tidelore_world.gitlab.timeline import Timeline
from tidelore_world.gitlab.view import View
from tidelore_world.prose import Topic, Turn

ISSUES_PER_PROJECT = 60
MERGE_REQUESTS_PER_PROJECT = 45
PROJECT_SHARES = (1.3, 1.0, 0.7)
SPAN_US = 170 * DAY_US
QUIET_US = 2 * HOUR_US
BUSY_DISCUSSIONS = 110


def write_history(forge: View, scale: float) -> None:
    """Populate an instance; `scale` multiplies the number of items."""
    clock, rng = forge.world.clock, forge.world.rng
    begin_us = clock.now_us - SPAN_US
    nested = [path for path in forge.world.prose.project_paths() if path.count("/") >= 2]
    flat = [path for path in forge.world.prose.project_paths() if path.count("/") < 2]
    timeline = Timeline(rng, clock.now_us - QUIET_US)
    for path, share in zip([*nested[:2], *flat, *nested[2:]], PROJECT_SHARES, strict=False):
        project = forge.create_project(path, description=f"The home of {path.rpartition('/')[2]}.", at_us=begin_us)
        _Chronicle(forge, rng, timeline, project, begin_us, clock.now_us - QUIET_US).plan(scale * share)
    timeline.play()


class _Chronicle:
    """Plans the history of one project."""

    def __init__(
        self,
        forge: View,
        rng: random.Random,
        timeline: Timeline,
        project: Project,
        begin_us: int,
        end_us: int,
    ) -> None:
        self.forge = forge
        self.rng = rng
        self.timeline = timeline
        self.project = project
        self.begin_us = begin_us
        self.end_us = end_us
        self.pictured = False

    def plan(self, size: float) -> None:
        """Plan every story, one bulk edit, and (in a project of full size) one issue that never ends."""
        issues = max(1, round(ISSUES_PER_PROJECT * size))
        requests = max(1, round(MERGE_REQUESTS_PER_PROJECT * size))
        for number in range(issues):
            answered = number < round(requests * 0.7)
            busy = number == 0 and size >= 1
            self._at_random(partial(self._open_issue, answered=answered, busy=busy))
        for _ in range(requests - min(issues, round(requests * 0.7))):
            self._at_random(partial(self._open_change, topic=None, closes=None))
        self.timeline.plan(self.end_us - 20 * DAY_US, self._edit_many)

    def _at_random(self, step: partial[None]) -> None:
        latest = self.end_us - DAY_US
        self.timeline.plan(self.rng.randint(self.begin_us + HOUR_US, latest), step)

    def _open_issue(self, at_us: int, *, answered: bool, busy: bool) -> None:
        forge, rng = self.forge, self.rng
        topic = forge.world.prose.topic(self.project.path)
        issue = forge.create_issue(
            self.project,
            topic=topic,
            labels=topic.labels,
            milestone=self._milestone(at_us),
            assignees=[forge.user() for _ in range(rng.choice((0, 1, 1, 2)))],
            at_us=at_us,
            upvotes=rng.choice((0, 0, 0, 1, 3)),
            confidential=rng.random() < 0.05,
            issue_type="incident" if rng.random() < 0.06 else "issue",
            discussion_locked=True if rng.random() < 0.04 else None,
        )
        if rng.random() < 0.04:
            issue.description = None
        for _ in range(BUSY_DISCUSSIONS if busy else rng.randint(1, 6)):
            self._plan_talk(issue, at_us)
        self._plan_edits(issue, at_us)
        if answered:
            later = at_us + rng.randint(4 * HOUR_US, 6 * DAY_US)
            self.timeline.plan(later, partial(self._open_change, topic=topic, closes=issue))
        elif rng.random() < 0.45:
            self.timeline.plan(at_us + rng.randint(DAY_US, 30 * DAY_US), partial(self._close_issue, issue=issue))

    def _open_change(self, at_us: int, *, topic: Topic | None, closes: Issue | None) -> None:
        forge, rng = self.forge, self.rng
        topic = topic or forge.world.prose.topic(self.project.path)
        change = forge.create_merge_request(
            self.project,
            topic=topic,
            labels=topic.labels,
            milestone=self._milestone(at_us),
            assignees=[forge.user()],
            reviewers=[forge.user() for _ in range(rng.randint(0, 2))],
            closes=[closes.iid] if closes is not None else (),
            at_us=at_us,
            has_conflicts=rng.random() < 0.08,
            squash=rng.random() < 0.3,
        )
        for _ in range(rng.randint(1, 6)):
            self._plan_talk(change, at_us)
        self._plan_edits(change, at_us)
        for _ in range(rng.choice((0, 1, 1, 2))):
            self.timeline.plan(at_us + rng.randint(HOUR_US, 3 * DAY_US), partial(self._push, change=change))
        self.timeline.plan(at_us + rng.randint(DAY_US, 9 * DAY_US), partial(self._finish, change=change))

    def _plan_talk(self, item: Item, from_us: int) -> None:
        """Plan one conversation: a lone comment, a thread, or on merge requests a review of some lines."""
        rng, prose = self.rng, self.forge.world.prose
        topic = item.topic or prose.topic()
        at_us = from_us + rng.randint(5 * MINUTE_US, 5 * DAY_US)
        if rng.random() < 0.3:
            turns = [prose.comment(topic)]
        else:
            review = isinstance(item, MergeRequest) and rng.random() < 0.7
            turns = prose.thread(topic, rng.randint(1, 5), review=review)
        self.timeline.plan(at_us, partial(self._speak, item=item, turns=turns, discussion=None))

    def _speak(self, at_us: int, *, item: Item, turns: list[Turn], discussion: str | None) -> None:
        turn, rest = turns[0], turns[1:]
        forge, rng = self.forge, self.rng
        position = self._position(item, turn) if isinstance(item, MergeRequest) and turn.path else None
        note = forge.add_note(
            item,
            turn.body,
            author=turn.author,
            discussion=discussion,
            thread=bool(rest),
            position=position,
            at_us=at_us,
        )
        home = forge.note(item, note)[0]
        if rest:
            pause = rng.choice((20_000_000, 8 * MINUTE_US, 3 * HOUR_US, DAY_US))
            step = partial(self._speak, item=item, turns=rest, discussion=home.id)
            self.timeline.plan(at_us + pause, step)
        elif isinstance(item, MergeRequest) and home.notes[0].resolvable and rng.random() < 0.6:
            forge.resolve(item, home, by=turn.author, at_us=at_us)

    def _position(self, change: MergeRequest, turn: Turn) -> Position:
        """The first review of a project is about a picture, all others are about lines."""
        if self.pictured:
            return place_review(self.rng, change, turn)
        self.pictured = True
        return image_position(self.rng, change)

    def _plan_edits(self, item: Item, from_us: int) -> None:
        rng = self.rng
        if rng.random() < 0.35:
            at_us = from_us + rng.randint(MINUTE_US, 4 * DAY_US)
            self.timeline.plan(at_us, partial(self._edit, item=item))
        if rng.random() < 0.15:
            at_us = from_us + rng.randint(HOUR_US, 6 * DAY_US)
            self.timeline.plan(at_us, partial(self._say_by_system, item=item))

    def _edit(self, at_us: int, *, item: Item) -> None:
        edit = self.forge.edit_merge_request if isinstance(item, MergeRequest) else self.forge.edit_issue
        dice = self.rng.random()
        names = [label.name for label in item.labels]
        if dice < 0.3:
            edit(item.project, item.iid, at_us=at_us, labels=[*names[1:], "customer"])
        elif dice < 0.45:
            edit(item.project, item.iid, at_us=at_us, milestone=self._milestone(at_us))
        elif dice < 0.6:
            edit(item.project, item.iid, at_us=at_us, assignees=[self.forge.user()])
        else:
            edit(item.project, item.iid, at_us=at_us)

    def _say_by_system(self, at_us: int, *, item: Item) -> None:
        kind = "approved" if isinstance(item, MergeRequest) else "related"
        body = self.forge.world.prose.system_note(kind)
        self.forge.add_note(item, body, system=True, at_us=at_us)

    def _edit_many(self, at_us: int) -> None:
        """Move a dozen issues to a milestone in one instant, as a bulk edit does."""
        chosen = [issue for issue in self.project.issues if issue.state == "opened"][:12]
        for issue in chosen:
            self.forge.edit_issue(self.project, issue.iid, at_us=at_us, milestone="Spring hardening")

    def _push(self, at_us: int, *, change: MergeRequest) -> None:
        if change.state == "opened":
            self.forge.push(self.project, change.iid, at_us=at_us)

    def _close_issue(self, at_us: int, *, issue: Issue) -> None:
        if issue.state == "opened":
            self.forge.close_issue(self.project, issue.iid, at_us=at_us)

    def _finish(self, at_us: int, *, change: MergeRequest) -> None:
        dice = self.rng.random()
        if dice < 0.62:
            self.forge.merge_merge_request(self.project, change.iid, at_us=at_us)
        elif dice < 0.74:
            self.forge.close_merge_request(self.project, change.iid, at_us=at_us)
        elif dice < 0.77:
            self.forge.lock_merge_request(self.project, change.iid, at_us=at_us)

    def _milestone(self, at_us: int) -> str | None:
        quarter = (at_us - self.begin_us) * 3 // SPAN_US + 1
        return f"Release {quarter}" if self.rng.random() < 0.5 else None
