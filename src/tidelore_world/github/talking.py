"""What people say on the simulated GitHub: comments, review comments and reviews, their edits and deletions.

Owns the effect of each on rows, counts, `updated_at` and the timeline. Refuses to know requests. Invariants: writing
something new moves its thread's `updated_at`; editing or deleting a comment does not unless the settings say so; only
a deleted comment of the conversation stands in the timeline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tidelore_world.github.files import hunk_at
from tidelore_world.github.records import Comment, Review, ReviewComment, ReviewState, ReviewThread, Side, Subject
from tidelore_world.github.repository import Repository
from tidelore_world.github.triage import Triage

Remark = Literal["comment", "review_comment"]


class Talking(Triage):
    """The events of conversations, on top of those of repositories and threads."""

    def comment(
        self,
        full_name: str,
        number: int,
        body: str = "A comment.",
        author: str = "octo",
        *,
        trailing: bool = False,
        at_us: int | None = None,
    ) -> Comment:
        """Comment on an issue or pull request.

        `trailing`: its `updated_at` is one second after `created_at` although nobody edited it.
        """
        repo, at_s = self.repository(full_name), self._second(at_us)
        repo.thread(number)
        who = self.hub.user(author)
        row = Comment(self.hub.new_id("comment"), number, who, body, at_s - trailing, at_s)
        repo.comments.put(row)
        repo.count(number, at_s)
        self._cross_reference(repo, number, body, who, at_s)
        return row

    def review_comment(
        self,
        full_name: str,
        number: int,
        body: str = "A remark.",
        author: str = "octo",
        *,
        path: str = "src/main.py",
        line: int | None = 1,
        start_line: int | None = None,
        side: Side = "RIGHT",
        subject: Subject = "line",
        in_reply_to: int | None = None,
        review_id: int | None = None,
        trailing: bool = False,
        at_us: int | None = None,
    ) -> ReviewComment:
        """Comment on a line of the diff or on a file; outside a review it makes one of its own, without a body.

        A first comment begins a review thread; an answer joins the thread of the one it answers.
        """
        repo, at_s = self.repository(full_name), self._second(at_us)
        head_sha = repo.thread(number).require_pull().head_sha
        if review_id is None:
            review_id = self._submit(repo, number, "COMMENTED", "", author, at_s).id
        review = repo.reviews[number].get(review_id)
        row = ReviewComment(
            id=self.hub.new_id("review_comment"),
            number=number,
            author=self.hub.user(author),
            body=body,
            created_s=at_s - trailing,
            updated_s=at_s,
            review_id=review_id,
            path=path,
            line=None if subject == "file" else line,
            commit_sha=head_sha,
            start_line=start_line,
            side=side,
            start_side=None if start_line is None else side,
            subject=subject,
            original_commit_sha=head_sha,
            pending=review is not None and review.state == "PENDING",
        )
        row = self._placed(repo, row, in_reply_to)
        repo.review_comments.put(row)
        if row.pending:
            repo.pending_comments[number] = repo.pending_comments.get(number, 0) + 1
        repo.count(number, None if row.pending else at_s)
        return row

    def _placed(self, repo: Repository, row: ReviewComment, in_reply_to: int | None) -> ReviewComment:
        """Put a review comment into its thread: a new one, or that of the comment it answers."""
        if in_reply_to is None:
            thread = ReviewThread(self.hub.new_id("thread"), row.number, (row.id,))
            repo.put_review_thread(thread)
            return replace(row, thread_id=thread.id, diff_hunk=hunk_at(row.path, row.line))
        first = self._review_comment(repo, in_reply_to)
        joined = repo.review_threads[first.thread_id]
        repo.put_review_thread(replace(joined, comments=(*joined.comments, row.id)))
        return replace(
            first,
            id=row.id,
            author=row.author,
            body=row.body,
            created_s=row.created_s,
            updated_s=row.updated_s,
            review_id=row.review_id,
            in_reply_to=first.in_reply_to or first.id,
            pending=row.pending,
            edited_s=None,
            reactions=(),
        )

    def review(
        self,
        full_name: str,
        number: int,
        state: ReviewState = "COMMENTED",
        body: str = "",
        author: str = "octo",
        *,
        at_us: int | None = None,
    ) -> Review:
        """Submit a review, or begin one that only its author sees (PENDING)."""
        return self._submit(self.repository(full_name), number, state, body, author, self._second(at_us))

    def submit_review(
        self,
        full_name: str,
        number: int,
        review_id: int,
        state: ReviewState = "COMMENTED",
        *,
        at_us: int | None = None,
    ) -> Review:
        """Submit a pending review: it and its comments become visible to everybody.

        The comments keep the time at which they were drafted; their last update is this moment.
        """
        repo, at_s = self.repository(full_name), self._second(at_us)
        submitted = replace(repo.reviews[number][review_id], state=state, submitted_s=at_s, updated_s=at_s)
        repo.reviews[number][review_id] = submitted
        for row in [row for row in repo.review_comments.of(number) if row.review_id == review_id]:
            repo.review_comments.put(replace(row, pending=False, updated_s=at_s))
            repo.pending_comments[number] -= 1
        self._answer_request(repo, number, submitted)
        repo.count(number, at_s)
        return submitted

    def dismiss_review(
        self,
        full_name: str,
        number: int,
        review_id: int,
        message: str = "",
        *,
        actor: str = "octo",
        at_us: int | None = None,
    ) -> Review:
        """Dismiss a review: its state changes, its `submitted_at` does not."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        old = repo.reviews[number][review_id]
        dismissed = replace(old, state="DISMISSED", updated_s=at_s)
        repo.reviews[number][review_id] = dismissed
        repo.count(number, at_s)
        told = {"state": old.state.lower(), "review_id": review_id, "message": message}
        self._record(repo, number, "review_dismissed", self.hub.user(actor), at_s, dismissed=told)
        return dismissed

    def edit_review(self, full_name: str, number: int, review_id: int, body: str) -> Review:
        """Edit a review's summary: no instant of the review moves, only the pull request's `updated_at`."""
        repo = self.repository(full_name)
        edited = replace(repo.reviews[number][review_id], body=body, updated_s=self._second(None))
        repo.reviews[number][review_id] = edited
        repo.count(number, self._second(None))
        return edited

    def edit_comment(
        self, comment_id: int, body: str, *, kind: Remark | None = None, at_us: int | None = None
    ) -> Comment | ReviewComment:
        """Edit a comment of either kind; `kind` tells two with the same id apart."""
        return self._rewrite(comment_id, body, self._second(at_us), kind)

    def touch_comment(self, comment_id: int, *, at_us: int | None = None) -> Comment | ReviewComment:
        """Move a comment's `updated_at` without an edit, as the real service has been seen to do."""
        return self._rewrite(comment_id, None, self._second(at_us), None)

    def delete_comment(
        self, comment_id: int, *, kind: Remark | None = None, actor: str | None = None, at_us: int | None = None
    ) -> None:
        """Delete a comment of either kind; the timeline tells of one of the conversation only."""
        repo, at_s = self._repository_of(comment_id, kind), self._second(at_us)
        moved = at_s if self.settings.deletions_move_the_parent else None
        spoken = None if kind == "review_comment" else repo.comments.get(comment_id)
        row: Comment | ReviewComment
        if spoken is not None:
            row = repo.comments.remove(comment_id)
        else:
            row = repo.review_comments.remove(comment_id)
            self._leave_thread(repo, row)
        repo.count(row.number, moved, "deleted")
        if spoken is not None or self.settings.review_deletions_in_timeline:
            who = row.author if actor is None else self.hub.user(actor)
            self._record(repo, row.number, "comment_deleted", who, at_s, author=row.author)

    def _submit(self, repo: Repository, number: int, state: ReviewState, body: str, author: str, at_s: int) -> Review:
        head_sha = repo.thread(number).require_pull().head_sha
        pending = state == "PENDING"
        row = Review(
            id=self.hub.new_id("review"),
            number=number,
            author=self.hub.user(author),
            body=body,
            state=state,
            submitted_s=at_s,
            commit_sha=head_sha,
            created_s=at_s,
            updated_s=at_s,
        )
        repo.reviews[number][row.id] = row
        if not pending:
            self._answer_request(repo, number, row)
            repo.count(number, at_s)
        return row

    @staticmethod
    def _answer_request(repo: Repository, number: int, review: Review) -> None:
        """Take the author of a review off the list of those who were asked for one."""
        thread = repo.thread(number)
        asked = thread.require_pull().requested_reviewers
        if review.author in asked:
            left = tuple(who for who in asked if who != review.author)
            repo.put_thread(thread.with_pull(thread.updated_s, requested_reviewers=left))

    @staticmethod
    def _leave_thread(repo: Repository, row: ReviewComment) -> None:
        thread = repo.review_threads[row.thread_id]
        left = tuple(comment_id for comment_id in thread.comments if comment_id != row.id)
        repo.put_review_thread(replace(thread, comments=left))
        if row.pending:
            repo.pending_comments[row.number] -= 1

    def _rewrite(self, comment_id: int, body: str | None, at_s: int, kind: Remark | None) -> Comment | ReviewComment:
        repo = self._repository_of(comment_id, kind)
        spoken = None if kind == "review_comment" else repo.comments.get(comment_id)
        row: Comment | ReviewComment
        if spoken is not None:
            edited_s = spoken.edited_s if body is None else at_s
            row = replace(spoken, body=spoken.body if body is None else body, updated_s=at_s, edited_s=edited_s)
            repo.comments.put(row)
        else:
            remark = self._review_comment(repo, comment_id)
            edited_s = remark.edited_s if body is None else at_s
            row = replace(remark, body=remark.body if body is None else body, updated_s=at_s, edited_s=edited_s)
            repo.review_comments.put(row)
        if body is not None and self.settings.edits_move_the_parent:
            repo.count(row.number, at_s)
        return row

    def _repository_of(self, comment_id: int, kind: Remark | None = None) -> Repository:
        for repo in self.hub.repositories.values():
            if kind != "review_comment" and repo.comments.get(comment_id):
                return repo
            if kind != "comment" and repo.review_comments.get(comment_id):
                return repo
        raise LookupError(f"no comment {comment_id}")

    @staticmethod
    def _review_comment(repo: Repository, comment_id: int) -> ReviewComment:
        row = repo.review_comments.get(comment_id)
        if row is None:
            raise LookupError(f"no review comment {comment_id}")
        return row
