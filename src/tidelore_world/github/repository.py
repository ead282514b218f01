"""One simulated repository: its threads, comments, reviews, events, discussions and commits, and their indexes.

Owns the coherence of those indexes: a comment is on the repository's shelf and on its thread's shelf, or on
neither. Refuses to decide when something happens; callers bring the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidelore_world.github.commits import CommitGraph
from tidelore_world.github.records import (
    Category,
    Comment,
    Discussion,
    DiscussionComment,
    Event,
    Milestone,
    Review,
    ReviewComment,
    ReviewThread,
    Thread,
    User,
)
from tidelore_world.github.shelf import Shelf

Said = TypeVar("Said", bound=Comment | ReviewComment | DiscussionComment)


class Conversation(Shelf[Said]):
    """Comments of one kind, in the whole repository and thread by thread."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        super().__init__()
        self._threads: defaultdict[int, Shelf[Said]] = defaultdict(Shelf)

    def of(self, number: int) -> Shelf[Said]:
        """The comments of one thread."""
        return self._threads[number]

    def put(self, row: Said) -> None:
        """Add or replace a comment, here and in its thread."""
        super().put(row)
        self._threads[row.number].put(row)

    def remove(self, row_id: int) -> Said:
        """Take a comment away, here and in its thread."""
        row = super().remove(row_id)
        self._threads[row.number].remove(row_id)
        return row


@dataclass(slots=True, eq=False)
class Repository:
    """A repository. Its id never changes; its name may."""

    id: int
    name: str
    owner: User
    created_s: int
    updated_s: int
    pushed_s: int
    description: str = ""
    private: bool = False
    default_branch: str = "main"
    next_number: int = 1
    graph: CommitGraph = field(default_factory=CommitGraph)
    threads: Shelf[Thread] = field(default_factory=Shelf)
    pulls: Shelf[Thread] = field(default_factory=Shelf)
    comments: Conversation[Comment] = field(default_factory=Conversation)
    review_comments: Conversation[ReviewComment] = field(default_factory=Conversation)
    reviews: defaultdict[int, dict[int, Review]] = field(default_factory=lambda: defaultdict(dict))
    review_threads: dict[int, ReviewThread] = field(default_factory=dict)
    events: defaultdict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    milestones: dict[int, Milestone] = field(default_factory=dict)
    discussions: Shelf[Discussion] = field(default_factory=Shelf)
    discussion_comments: Conversation[DiscussionComment] = field(default_factory=Conversation)
    categories: dict[str, Category] = field(default_factory=dict)
    deleted_numbers: set[int] = field(default_factory=set)
    transferred: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where an issue went: the id of its new repository and its number there."""
    has_issues: bool = True
    has_discussions: bool = False
    archived: bool = False
    disabled: bool = False
    fork: bool = False
    readers: set[str] | None = None
    """The logins who may see the repository; None for everybody."""
    associations: dict[str, str] = field(default_factory=dict)
    """How accounts stand to the repository, such as MEMBER, by their login; NONE for others."""
    pending_comments: dict[int, int] = field(default_factory=dict)
    """How many review comments of a pull request wait in reviews that are not submitted."""
    revision: int = 0
    """Counts changes of what many rows show, such as a milestone's title, so that no rendered copy outlives them."""
    on_event: Callable[[str, str, int], None] | None = None
    """Told of what a webhook reports: the event, its action and the number of the thread."""
    _ids: dict[int, int] = field(default_factory=dict)
    _pull_numbers: dict[int, int] = field(default_factory=dict)
    _discussion_ids: dict[int, int] = field(default_factory=dict)
    _threads_of: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"

    def thread(self, number: int) -> Thread:
        """The issue or pull request with this number; LookupError when there is none."""
        found = self.threads.get(self._ids.get(number, -1))
        if found is None:
            raise LookupError(f"{self.full_name} has no #{number}")
        return found

    def find_thread(self, number: int) -> Thread | None:
        """The issue or pull request with this number, if there is one."""
        return self.threads.get(self._ids.get(number, -1))

    def report(self, event: str, action: str, number: int) -> None:
        """Tell the sender of webhooks, if there is one."""
        if self.on_event is not None:
            self.on_event(event, action, number)

    def put_thread(self, thread: Thread, event: str | None = None, action: str = "edited") -> None:
        """Add or replace a thread; `event` is what webhooks report, by default a change of the thread itself."""
        self._ids[thread.number] = thread.id
        self.threads.put(thread)
        if thread.pull is not None:
            self._pull_numbers[thread.pull.id] = thread.number
            self.pulls.put(thread)
        self.report(event or ("issues" if thread.pull is None else "pull_request"), action, thread.number)

    def pull_by_id(self, pull_id: int) -> Thread | None:
        """The pull request with this id of its own, which is not the id of its thread."""
        number = self._pull_numbers.get(pull_id)
        return None if number is None or number not in self._ids else self.thread(number)

    def threads_of(self, number: int) -> list[ReviewThread]:
        """The review threads of a pull request that still have a comment, oldest first."""
        return [self.review_threads[thread_id] for thread_id in self._threads_of[number]]

    def put_review_thread(self, thread: ReviewThread) -> None:
        """Add or replace a review thread; one without comments is taken away."""
        known = self._threads_of[thread.number]
        if thread.comments:
            if thread.id not in self.review_threads:
                known.append(thread.id)
            self.review_threads[thread.id] = thread
        elif self.review_threads.pop(thread.id, None) is not None:
            known.remove(thread.id)

    def discussion(self, number: int) -> Discussion:
        """The discussion with this number; LookupError when there is none."""
        found = self.discussions.get(self._discussion_ids.get(number, -1))
        if found is None:
            raise LookupError(f"{self.full_name} has no discussion #{number}")
        return found

    def put_discussion(self, discussion: Discussion) -> None:
        """Add or replace a discussion."""
        self._discussion_ids[discussion.number] = discussion.id
        self.discussions.put(discussion)

    def remove_discussion(self, number: int) -> None:
        """Take a discussion and its comments away."""
        discussion = self.discussion(number)
        for row in list(self.discussion_comments.of(number)):
            self.discussion_comments.remove(row.id)
        self.discussions.remove(discussion.id)
        del self._discussion_ids[number]
        self.deleted_numbers.add(number)

    def remove_thread(self, number: int) -> None:
        """Take a thread and all that was said in it away."""
        thread = self.thread(number)
        for row in list(self.comments.of(number)):
            self.comments.remove(row.id)
        for remark in list(self.review_comments.of(number)):
            self.review_comments.remove(remark.id)
        self.reviews.pop(number, None)
        self.events.pop(number, None)
        for review_thread in self._threads_of.pop(number, []):
            self.review_threads.pop(review_thread, None)
        self.threads.remove(thread.id)
        if thread.pull is not None:
            self.pulls.remove(thread.id)
        del self._ids[number]
        self.deleted_numbers.add(number)

    def count(self, number: int, updated_s: int | None, action: str = "created") -> None:
        """Bring a thread's comment counts up to date; move its `updated_at` when an instant is given."""
        thread = self.thread(number)
        moved = thread.updated_s if updated_s is None else max(thread.updated_s, updated_s)
        pull = thread.pull
        if pull is not None:
            shown = self.review_comments.of(number)
            pull = replace(pull, review_comments=len(shown) - self.pending_comments.get(number, 0))
        changed = replace(thread, comments=len(self.comments.of(number)), updated_s=moved, pull=pull)
        self.put_thread(changed, "issue_comment", action)
