"""One simulated repository: its threads, comments, reviews and commits, and the indexes over them.

Owns the coherence of those indexes: a comment is on the repository's shelf and on its thread's shelf, or on
neither. Refuses to decide when something happens; callers bring the second.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidelore_world.github.commits import CommitGraph
from tidelore_world.github.records import Comment, Review, ReviewComment, Thread, User
from tidelore_world.github.shelf import Shelf

Said = TypeVar("Said", bound=Comment | ReviewComment)


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
    deleted_numbers: set[int] = field(default_factory=set)
    associations: dict[str, str] = field(default_factory=dict)
    """How accounts stand to the repository, such as MEMBER, by their login; NONE for others."""
    _ids: dict[int, int] = field(default_factory=dict)

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

    def put_thread(self, thread: Thread) -> None:
        """Add or replace a thread."""
        self._ids[thread.number] = thread.id
        self.threads.put(thread)
        if thread.pull is not None:
            self.pulls.put(thread)

    def remove_thread(self, number: int) -> None:
        """Take a thread and all that was said in it away."""
        thread = self.thread(number)
        for row in list(self.comments.of(number)):
            self.comments.remove(row.id)
        for remark in list(self.review_comments.of(number)):
            self.review_comments.remove(remark.id)
        self.reviews.pop(number, None)
        self.threads.remove(thread.id)
        if thread.pull is not None:
            self.pulls.remove(thread.id)
        del self._ids[number]
        self.deleted_numbers.add(number)

    def count(self, number: int, updated_s: int | None) -> None:
        """Bring a thread's comment counts up to date; move its `updated_at` when an instant is given."""
        thread = self.thread(number)
        moved = thread.updated_s if updated_s is None else max(thread.updated_s, updated_s)
        pull = thread.pull
        if pull is not None:
            pull = replace(pull, review_comments=len(self.review_comments.of(number)))
        self.put_thread(replace(thread, comments=len(self.comments.of(number)), updated_s=moved, pull=pull))
