"""What people say on the simulated GitHub: comments, review comments and reviews, their edits and deletions.

Owns the effect of each on rows, counts and `updated_at`. Refuses to know requests. Invariants: writing
something new moves its thread's `updated_at`; editing or deleting a comment does not, a deletion
leaves no trace.
"""

from __future__ import annotations

from dataclasses import replace

from tidelore_world.github.hosting import Hosting
from tidelore_world.github.records import Comment, Review, ReviewComment, ReviewState
from tidelore_world.github.repository import Repository


class Talking(Hosting):
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
        row = Comment(self.hub.new_id(), number, self.hub.user(author), body, at_s - trailing, at_s)
        repo.comments.put(row)
        repo.count(number, at_s)
        return row

    def review_comment(
        self,
        full_name: str,
        number: int,
        body: str = "A remark.",
        author: str = "octo",
        *,
        path: str = "src/main.py",
        line: int = 1,
        in_reply_to: int | None = None,
        review_id: int | None = None,
        trailing: bool = False,
        at_us: int | None = None,
    ) -> ReviewComment:
        """Comment on a line of the diff; outside a review it makes one of its own, without a body."""
        repo, at_s = self.repository(full_name), self._second(at_us)
        if in_reply_to is not None:
            first = self._review_comment(repo, in_reply_to)
            path, line, in_reply_to = first.path, first.line, first.in_reply_to or first.id
        head_sha = repo.thread(number).require_pull().head_sha
        if review_id is None:
            review_id = self._submit(repo, number, "COMMENTED", "", author, at_s).id
        row = ReviewComment(
            id=self.hub.new_id(),
            number=number,
            author=self.hub.user(author),
            body=body,
            created_s=at_s - trailing,
            updated_s=at_s,
            review_id=review_id,
            path=path,
            line=line,
            commit_sha=head_sha,
            in_reply_to=in_reply_to,
        )
        repo.review_comments.put(row)
        repo.count(number, at_s)
        return row

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
        """Submit a review."""
        return self._submit(self.repository(full_name), number, state, body, author, self._second(at_us))

    def edit_review(self, full_name: str, number: int, review_id: int, body: str) -> Review:
        """Edit a review's summary: no instant of the review moves, only the pull request's `updated_at`."""
        repo = self.repository(full_name)
        edited = replace(repo.reviews[number][review_id], body=body)
        repo.reviews[number][review_id] = edited
        repo.count(number, self._second(None))
        return edited

    def edit_comment(self, comment_id: int, body: str, *, at_us: int | None = None) -> Comment | ReviewComment:
        """Edit a comment of either kind."""
        return self._rewrite(comment_id, body, self._second(at_us))

    def touch_comment(self, comment_id: int, *, at_us: int | None = None) -> Comment | ReviewComment:
        """Move a comment's `updated_at` without an edit, as the real service has been seen to do."""
        return self._rewrite(comment_id, None, self._second(at_us))

    def delete_comment(self, comment_id: int) -> None:
        """Delete a comment of either kind; nothing tells of it."""
        repo = self._repository_of(comment_id)
        remarks = repo.comments if repo.comments.get(comment_id) else repo.review_comments
        repo.count(remarks.remove(comment_id).number, None)

    def _submit(self, repo: Repository, number: int, state: ReviewState, body: str, author: str, at_s: int) -> Review:
        head_sha = repo.thread(number).require_pull().head_sha
        row = Review(self.hub.new_id(), number, self.hub.user(author), body, state, at_s, head_sha)
        repo.reviews[number][row.id] = row
        repo.count(number, at_s)
        return row

    def _rewrite(self, comment_id: int, body: str | None, at_s: int) -> Comment | ReviewComment:
        repo = self._repository_of(comment_id)
        spoken = repo.comments.get(comment_id)
        if spoken is not None:
            spoken = replace(spoken, body=spoken.body if body is None else body, updated_s=at_s)
            repo.comments.put(spoken)
            return spoken
        remark = self._review_comment(repo, comment_id)
        remark = replace(remark, body=remark.body if body is None else body, updated_s=at_s)
        repo.review_comments.put(remark)
        return remark

    def _repository_of(self, comment_id: int) -> Repository:
        for repo in self.hub.repositories.values():
            if repo.comments.get(comment_id) or repo.review_comments.get(comment_id):
                return repo
        raise LookupError(f"no comment {comment_id}")

    @staticmethod
    def _review_comment(repo: Repository, comment_id: int) -> ReviewComment:
        row = repo.review_comments.get(comment_id)
        if row is None:
            raise LookupError(f"no review comment {comment_id}")
        return row
