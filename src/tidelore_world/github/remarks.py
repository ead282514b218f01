"""How GitHub writes what people say: issue comments, review comments and reviews.

Owns the shapes of the three. Refuses to choose what is shown. Pure, like the other payloads.
"""

from __future__ import annotations

from tidelore_world.github.payloads import Payload, association, author, instant, node_id, reactions
from tidelore_world.github.records import Comment, Review, ReviewComment
from tidelore_world.github.repository import Repository


def comment(origin: str, repo: Repository, row: Comment) -> Payload:
    """A comment of the conversation."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/issues/comments/{row.id}"
    kind = "issues" if repo.thread(row.number).pull is None else "pull"
    return {
        "url": url,
        "html_url": f"{origin}/{repo.full_name}/{kind}/{row.number}#issuecomment-{row.id}",
        "issue_url": f"{base}/issues/{row.number}",
        "id": row.id,
        "node_id": node_id("IC", row.id),
        "user": author(origin, row.author),
        "created_at": instant(row.created_s),
        "updated_at": instant(row.updated_s),
        "author_association": association(repo, row.author),
        "body": row.body,
        "reactions": reactions(url),
        "performed_via_github_app": None,
    }


def review_comment(origin: str, repo: Repository, row: ReviewComment) -> Payload:
    """A comment on a line of the diff; only an answer carries `in_reply_to_id`."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/pulls/comments/{row.id}"
    html_url = f"{origin}/{repo.full_name}/pull/{row.number}#discussion_r{row.id}"
    pull_url = f"{base}/pulls/{row.number}"
    shown: Payload = {
        "url": url,
        "pull_request_review_id": row.review_id,
        "id": row.id,
        "node_id": node_id("PRRC", row.id),
        "diff_hunk": f"@@ -{row.line},3 +{row.line},4 @@",
        "path": row.path,
        "commit_id": row.commit_sha,
        "original_commit_id": row.commit_sha,
        "user": author(origin, row.author),
        "body": row.body,
        "created_at": instant(row.created_s),
        "updated_at": instant(row.updated_s),
        "html_url": html_url,
        "pull_request_url": pull_url,
        "author_association": association(repo, row.author),
        "_links": {
            "self": {"href": url},
            "html": {"href": html_url},
            "pull_request": {"href": pull_url},
        },
        "reactions": reactions(url),
        "start_line": None,
        "original_start_line": None,
        "start_side": None,
        "line": row.line,
        "original_line": row.line,
        "side": "RIGHT",
        "original_position": 1,
        "position": 1,
        "subject_type": "line",
    }
    if row.in_reply_to is not None:
        shown["in_reply_to_id"] = row.in_reply_to
    return shown


def review(origin: str, repo: Repository, row: Review) -> Payload:
    """A submitted review."""
    pull_url = f"{origin}/repos/{repo.full_name}/pulls/{row.number}"
    html_url = f"{origin}/{repo.full_name}/pull/{row.number}#pullrequestreview-{row.id}"
    return {
        "id": row.id,
        "node_id": node_id("PRR", row.id),
        "user": author(origin, row.author),
        "body": row.body,
        "state": row.state,
        "html_url": html_url,
        "pull_request_url": pull_url,
        "author_association": association(repo, row.author),
        "_links": {"html": {"href": html_url}, "pull_request": {"href": pull_url}},
        "submitted_at": instant(row.submitted_s),
        "commit_id": row.commit_sha,
    }
