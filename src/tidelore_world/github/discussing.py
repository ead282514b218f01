"""Review threads and discussions of the simulated GitHub: resolving, answering, voting, closing.

Owns their effect on rows and `updated_at`. Refuses to know requests. Invariants: resolving a review thread moves no
instant anywhere; a deleted discussion comment with replies stays as an empty one, any other is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tidelore_world.github.records import Category, Discussion, DiscussionComment, ReviewThread
from tidelore_world.github.repository import Repository
from tidelore_world.github.talking import Talking

StateReason = Literal["RESOLVED", "OUTDATED", "DUPLICATE"]

_CATEGORIES = (
    ("Announcements", "announcements", ":mega:", False),
    ("General", "general", ":speech_balloon:", False),
    ("Ideas", "ideas", ":bulb:", False),
    ("Q&A", "q-a", ":pray:", True),
    ("Show and tell", "show-and-tell", ":raised_hands:", False),
)
"""What a repository has from the start: name, slug, emoji, whether a comment can be the answer."""


class Discussing(Talking):
    """Everything that can happen on the simulated GitHub."""

    def thread_of(self, full_name: str, comment_id: int) -> ReviewThread:
        """The review thread a review comment stands in."""
        repo = self.repository(full_name)
        return repo.review_threads[self._review_comment(repo, comment_id).thread_id]

    def resolve_thread(self, full_name: str, thread_id: int, actor: str = "octo") -> ReviewThread:
        """Mark a review thread as resolved; nothing else shows that anything happened."""
        repo = self.repository(full_name)
        thread = repo.review_threads[thread_id]
        resolved = thread if thread.resolved else replace(thread, resolved=True, resolved_by=self.hub.user(actor))
        repo.put_review_thread(resolved)
        repo.report("pull_request_review_thread", "resolved", thread.number)
        return resolved

    def unresolve_thread(self, full_name: str, thread_id: int) -> ReviewThread:
        """Take the mark away again."""
        repo = self.repository(full_name)
        opened = replace(repo.review_threads[thread_id], resolved=False, resolved_by=None)
        repo.put_review_thread(opened)
        repo.report("pull_request_review_thread", "unresolved", opened.number)
        return opened

    def outdate_thread(self, full_name: str, thread_id: int) -> None:
        """Let the lines of a review thread vanish from the diff: its comments lose their place, no instant moves."""
        repo = self.repository(full_name)
        for comment_id in repo.review_threads[thread_id].comments:
            repo.review_comments.put(replace(self._review_comment(repo, comment_id), outdated=True))

    def category(self, full_name: str, name: str) -> Category:
        """The category of this name; a repository has the five of the real service from the start."""
        repo = self.repository(full_name)
        if not repo.categories:
            for title, slug, emoji, answerable in _CATEGORIES:
                made = Category(self.hub.new_id("category"), title, slug, emoji, answerable, repo.created_s)
                repo.categories[title] = made
        return repo.categories[name]

    def create_discussion(
        self,
        full_name: str,
        title: str = "A discussion",
        body: str = "",
        author: str = "octo",
        *,
        category: str = "General",
        labels: tuple[str, ...] = (),
        at_us: int | None = None,
    ) -> Discussion:
        """Begin a discussion; the repository's Discussions are switched on by the first one."""
        chosen = self.category(full_name, category)
        repo, at_s = self.repository(full_name), self._second(at_us)
        repo.has_discussions = True
        number = repo.next_number
        repo.next_number += 1
        row_id, who = self.hub.new_id("discussion"), self.hub.user(author)
        made = Discussion(row_id, number, title, body, who, chosen, at_s, at_s, labels=labels)
        repo.put_discussion(made)
        return made

    def edit_discussion(
        self,
        full_name: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        category: str | None = None,
        at_us: int | None = None,
    ) -> Discussion:
        """Edit a discussion, or move it to another category."""
        row = self.repository(full_name).discussion(number)
        at_s = self._second(at_us)
        return self._put(
            full_name,
            row,
            at_s,
            title=row.title if title is None else title,
            body=row.body if body is None else body,
            category=row.category if category is None else self.category(full_name, category),
            edited_s=row.edited_s if body is None else at_s,
        )

    def close_discussion(
        self, full_name: str, number: int, reason: StateReason = "RESOLVED", *, at_us: int | None = None
    ) -> Discussion:
        """Close a discussion."""
        at_s = self._second(at_us)
        return self._put(full_name, self._row(full_name, number), at_s, closed_s=at_s, state_reason=reason)

    def reopen_discussion(self, full_name: str, number: int, *, at_us: int | None = None) -> Discussion:
        """Open a closed discussion again."""
        row = self._row(full_name, number)
        return self._put(full_name, row, self._second(at_us), closed_s=None, state_reason="REOPENED")

    def lock_discussion(self, full_name: str, number: int, reason: str | None = None) -> Discussion:
        """Lock a discussion."""
        return self._put(full_name, self._row(full_name, number), self._second(None), locked=True, lock_reason=reason)

    def upvote_discussion(self, full_name: str, number: int, votes: int = 1) -> Discussion:
        """Vote for a discussion; a vote moves no `updatedAt`."""
        row = self._row(full_name, number)
        return self._put(full_name, row, row.updated_s, upvotes=row.upvotes + votes)

    def delete_discussion(self, full_name: str, number: int) -> None:
        """Delete a discussion with all its comments."""
        self.repository(full_name).remove_discussion(number)

    def comment_discussion(
        self,
        full_name: str,
        number: int,
        body: str = "A comment.",
        author: str = "octo",
        *,
        reply_to: int | None = None,
        at_us: int | None = None,
    ) -> DiscussionComment:
        """Comment on a discussion, or reply to one of its comments; a reply to a reply joins the same comment."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        discussion = repo.discussion(number)
        if reply_to is not None:
            parent = self._discussion_comment(repo, reply_to)
            reply_to = parent.reply_to or parent.id
        row_id, who = self.hub.new_id("discussion_comment"), self.hub.user(author)
        row = DiscussionComment(row_id, number, who, body, at_s, at_s, reply_to)
        repo.discussion_comments.put(row)
        repo.put_discussion(replace(discussion, updated_s=max(discussion.updated_s, at_s)))
        return row

    def edit_discussion_comment(
        self, full_name: str, comment_id: int, body: str, *, at_us: int | None = None
    ) -> DiscussionComment:
        """Edit a discussion comment."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        row = replace(self._discussion_comment(repo, comment_id), body=body, updated_s=at_s, edited_s=at_s)
        repo.discussion_comments.put(row)
        if self.settings.edits_move_the_parent:
            self._put(full_name, repo.discussion(row.number), at_s)
        return row

    def delete_discussion_comment(self, full_name: str, comment_id: int, *, at_us: int | None = None) -> None:
        """Delete a discussion comment; one with replies stays, empty and marked as deleted."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        row = self._discussion_comment(repo, comment_id)
        if any(other.reply_to == comment_id for other in repo.discussion_comments.of(row.number)):
            repo.discussion_comments.put(replace(row, body="", deleted_s=at_s, updated_s=at_s))
        else:
            repo.discussion_comments.remove(comment_id)
        discussion = repo.discussion(row.number)
        if discussion.answer_id == comment_id:
            discussion = replace(discussion, answer_id=None, answer_by=None, answer_s=None)
        moved = at_s if self.settings.deletions_move_the_parent else discussion.updated_s
        repo.put_discussion(replace(discussion, updated_s=moved))

    def choose_answer(
        self, full_name: str, comment_id: int | None, number: int, actor: str = "octo", *, at_us: int | None = None
    ) -> Discussion:
        """Mark a comment as the answer of its discussion, or with None take the mark away."""
        row, at_s = self._row(full_name, number), self._second(at_us)
        if comment_id is None:
            return self._put(full_name, row, at_s, answer_id=None, answer_by=None, answer_s=None)
        if not row.category.answerable:
            raise ValueError(f"the category {row.category.name} has no answers")
        return self._put(full_name, row, at_s, answer_id=comment_id, answer_by=self.hub.user(actor), answer_s=at_s)

    def _row(self, full_name: str, number: int) -> Discussion:
        return self.repository(full_name).discussion(number)

    def _put(self, full_name: str, row: Discussion, updated_s: int, **changes: object) -> Discussion:
        changed = replace(row, updated_s=updated_s, **changes)  # type: ignore[arg-type]
        self.repository(full_name).put_discussion(changed)
        return changed

    @staticmethod
    def _discussion_comment(repo: Repository, comment_id: int) -> DiscussionComment:
        row = repo.discussion_comments.get(comment_id)
        if row is None:
            raise LookupError(f"no discussion comment {comment_id}")
        return row
