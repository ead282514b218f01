"""How GitHub writes what people say: issue comments, review comments and reviews.

Owns the shapes of the three. Refuses to choose what is shown. Pure, like the other payloads.
"""

from __future__ import annotations

from tidelore_world.github.files import hunk_at
from tidelore_world.github.payloads import GHOST, Payload, association, author, instant, node_id, reactions, user, web
from tidelore_world.github.records import Comment, Review, ReviewComment
from tidelore_world.github.repository import Repository


def comment(origin: str, repo: Repository, row: Comment) -> Payload:
    """A comment of the conversation."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/issues/comments/{row.id}"
    kind = "issues" if repo.thread(row.number).pull is None else "pull"
    return {
        "url": url,
        "html_url": f"{web(origin)}/{repo.full_name}/{kind}/{row.number}#issuecomment-{row.id}",
        "issue_url": f"{base}/issues/{row.number}",
        "id": row.id,
        "node_id": node_id("IC", row.id),
        "user": author(origin, row.author),
        "created_at": instant(row.created_s),
        "updated_at": instant(row.updated_s),
        "author_association": association(repo, row.author),
        "body": row.body,
        "reactions": reactions(url, row.reactions),
        "performed_via_github_app": None,
    }


def review_comment(origin: str, repo: Repository, row: ReviewComment) -> Payload:
    """A comment on a line of the diff or on a file.

    Only an answer carries `in_reply_to_id`; an outdated one has lost its place in the present diff.
    """
    position = None if row.outdated or row.subject == "file" else row.position
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/pulls/comments/{row.id}"
    html_url = f"{web(origin)}/{repo.full_name}/pull/{row.number}#discussion_r{row.id}"
    pull_url = f"{base}/pulls/{row.number}"
    shown: Payload = {
        "url": url,
        "pull_request_review_id": row.review_id,
        "id": row.id,
        "node_id": node_id("PRRC", row.id),
        "diff_hunk": hunk_at(row.path, row.line) if row.diff_hunk is None else row.diff_hunk,
        "path": row.path,
        "commit_id": row.commit_sha,
        "original_commit_id": row.original_commit_sha or row.commit_sha,
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
        "reactions": reactions(url, row.reactions),
        "start_line": None if row.outdated else row.start_line,
        "original_start_line": row.start_line,
        "start_side": row.start_side,
        "line": None if row.outdated else row.line,
        "original_line": row.line,
        "side": row.side,
        "original_position": None if row.subject == "file" else row.position,
        "position": position,
        "subject_type": row.subject,
    }
    if row.in_reply_to is not None:
        shown["in_reply_to_id"] = row.in_reply_to
    return shown


def review(origin: str, repo: Repository, row: Review) -> Payload:
    """A review; one that is pending has no `submitted_at`."""
    pull_url = f"{origin}/repos/{repo.full_name}/pulls/{row.number}"
    html_url = f"{web(origin)}/{repo.full_name}/pull/{row.number}#pullrequestreview-{row.id}"
    shown: Payload = {
        "id": row.id,
        "node_id": node_id("PRR", row.id),
        "user": None if row.author.login == GHOST else user(origin, row.author),
        "body": row.body,
        "state": row.state,
        "html_url": html_url,
        "pull_request_url": pull_url,
        "author_association": association(repo, row.author),
        "_links": {"html": {"href": html_url}, "pull_request": {"href": pull_url}},
        "commit_id": row.commit_sha,
    }
    if row.shown_s is not None:
        shown["submitted_at"] = instant(row.shown_s)
    return shown
