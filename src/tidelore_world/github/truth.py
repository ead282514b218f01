"""The truth of the simulated GitHub: what a faithful mirror of it holds.

Owns what a test compares a mirror with, in the shape the API shows at this moment, without paging, limits or faults.
Invariant: the truth and the API shape the same row by the same function.
"""

from __future__ import annotations

from tidelore_world.github import changes, payloads, remarks
from tidelore_world.github.discussing import Discussing
from tidelore_world.github.files import MOST_FILES, file_payload
from tidelore_world.github.payloads import Payload, maybe_instant, node_id
from tidelore_world.github.records import Discussion, DiscussionComment
from tidelore_world.github.repository import Repository
from tidelore_world.github.timeline import is_visible, timeline

ORIGIN = "http://127.0.0.1"


class Truth(Discussing):
    """A GitHub that can tell everything it shows, without its routes."""

    def land_late_writes(self) -> None:
        """Let everything happen that was accepted and is due."""

    def truth_repos(self) -> list[str]:
        """The full names of all repositories, oldest first."""
        return [repo.full_name for repo in self.hub.repositories.values()]

    def truth_issues(self, full_name: str, origin: str = ORIGIN) -> list[Payload]:
        """All threads as the issues endpoint shows them (pull requests among them), by id."""
        repo = self.repository(full_name)
        return [payloads.issue(origin, repo, row) for row in repo.threads]

    def truth_pulls(self, full_name: str, origin: str = ORIGIN) -> list[Payload]:
        """All pull requests as the list shows them, by id."""
        repo = self.repository(full_name)
        return [changes.pull(origin, repo, row) for row in repo.pulls]

    def truth_comments(self, full_name: str, number: int | None = None, origin: str = ORIGIN) -> list[Payload]:
        """All issue comments of a repository or of one thread, by id."""
        self.land_late_writes()
        repo = self.repository(full_name)
        rows = repo.comments if number is None else repo.comments.of(number)
        return [remarks.comment(origin, repo, row) for row in rows]

    def truth_review_comments(self, full_name: str, number: int | None = None, origin: str = ORIGIN) -> list[Payload]:
        """All submitted review comments of a repository or of one pull request, by id."""
        self.land_late_writes()
        repo = self.repository(full_name)
        rows = repo.review_comments if number is None else repo.review_comments.of(number)
        return [remarks.review_comment(origin, repo, row) for row in rows if not row.pending]

    def truth_reviews(self, full_name: str, number: int, origin: str = ORIGIN) -> list[Payload]:
        """All submitted reviews of one pull request, oldest first."""
        repo = self.repository(full_name)
        return [remarks.review(origin, repo, row) for row in repo.reviews[number].values() if is_visible(row, "")]

    def truth_timeline(self, full_name: str, number: int, origin: str = ORIGIN) -> list[Payload]:
        """Everything in the timeline of one thread, oldest first."""
        repo = self.repository(full_name)
        with_lines = self.settings.line_comments_in_timeline
        return timeline(origin, self.hub, repo, number, "", line_comments=with_lines)

    def truth_files(self, full_name: str, number: int, origin: str = ORIGIN) -> list[Payload]:
        """The files one pull request changes."""
        repo = self.repository(full_name)
        pull = repo.thread(number).require_pull()
        base, html = f"{origin}/repos/{repo.full_name}", f"{payloads.web(origin)}/{repo.full_name}"
        return [file_payload(base, html, pull.head_sha, file) for file in pull.files[:MOST_FILES]]

    def truth_threads(self, full_name: str, number: int) -> list[Payload]:
        """The review threads of one pull request in GraphQL's words, with the ids of their submitted comments."""
        repo = self.repository(full_name)
        shown: list[Payload] = []
        for thread in repo.threads_of(number):
            found = (repo.review_comments.get(comment_id) for comment_id in thread.comments)
            rows = [row for row in found if row is not None and not row.pending]
            if rows:
                first, resolver = rows[0], thread.resolved_by
                shown.append(
                    {
                        "id": node_id("PRRT", thread.id),
                        "isResolved": thread.resolved,
                        "isOutdated": first.outdated,
                        "resolvedBy": None if resolver is None else resolver.login,
                        "path": first.path,
                        "line": None if first.outdated else first.line,
                        "comments": [row.id for row in rows],
                    }
                )
        return shown

    def truth_closing_issues(self, full_name: str, number: int) -> list[int]:
        """The numbers of the issues that merging a pull request closes."""
        return [issue.number for issue in self.closing_issues(full_name, number)]

    def truth_milestones(self, full_name: str, origin: str = ORIGIN) -> list[Payload]:
        """All milestones of a repository."""
        repo = self.repository(full_name)
        return [payloads.milestone(origin, repo, row) for row in repo.milestones.values()]

    def truth_discussions(self, full_name: str) -> list[Payload]:
        """All discussions in GraphQL's words with their comments and replies, by id; none while they are off."""
        repo = self.repository(full_name)
        return [_discussion(repo, row) for row in repo.discussions] if repo.has_discussions else []


def _discussion(repo: Repository, row: Discussion) -> Payload:
    rows = list(repo.discussion_comments.of(row.number))
    comments = [
        _comment(comment) | {"replies": [_comment(reply) for reply in rows if reply.reply_to == comment.id]}
        for comment in rows
        if comment.reply_to is None
    ]
    return {
        "id": node_id("D", row.id),
        "databaseId": row.id,
        "number": row.number,
        "title": row.title,
        "body": row.body,
        "author": row.author.login,
        "category": row.category.name,
        "createdAt": maybe_instant(row.created_s),
        "updatedAt": maybe_instant(row.updated_s),
        "closed": row.closed_s is not None,
        "closedAt": maybe_instant(row.closed_s),
        "stateReason": row.state_reason,
        "locked": row.locked,
        "isAnswered": row.answer_id is not None if row.category.answerable else None,
        "answerChosenAt": maybe_instant(row.answer_s),
        "answer": None if row.answer_id is None else node_id("DC", row.answer_id),
        "upvoteCount": row.upvotes,
        "comments": comments,
    }


def _comment(row: DiscussionComment) -> Payload:
    return {
        "id": node_id("DC", row.id),
        "databaseId": row.id,
        "body": row.body,
        "author": None if row.deleted_s is not None else row.author.login,
        "createdAt": maybe_instant(row.created_s),
        "updatedAt": maybe_instant(row.updated_s),
        "deletedAt": maybe_instant(row.deleted_s),
        "upvoteCount": row.upvotes,
    }
