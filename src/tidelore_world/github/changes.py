"""How GitHub writes pull requests, commits and comparisons.

Owns the shapes of the JSON. Refuses to choose what is shown. Pure, like the other payloads.
"""

from __future__ import annotations

from tidelore_world.github.commits import Commit, Comparison
from tidelore_world.github.payloads import (
    Payload,
    association,
    author,
    instant,
    label,
    maybe_instant,
    milestone,
    node_id,
    team,
    user,
    web,
)
from tidelore_world.github.records import Pull, Thread
from tidelore_world.github.repository import Repository


def pull(origin: str, repo: Repository, thread: Thread) -> Payload:
    """A pull request as the list shows it."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/pulls/{thread.number}"
    html_url = f"{web(origin)}/{repo.full_name}/pull/{thread.number}"
    part = thread.require_pull()
    return {
        "url": url,
        "id": part.id,
        "node_id": node_id("PR", part.id),
        "html_url": html_url,
        "diff_url": f"{html_url}.diff",
        "patch_url": f"{html_url}.patch",
        "issue_url": f"{base}/issues/{thread.number}",
        "number": thread.number,
        "state": thread.state,
        "locked": thread.locked,
        "title": thread.title,
        "user": author(origin, thread.author),
        "body": thread.body or None,
        "created_at": instant(thread.created_s),
        "updated_at": instant(thread.updated_s),
        "closed_at": maybe_instant(thread.closed_s),
        "merged_at": maybe_instant(part.merged_s),
        "merge_commit_sha": part.merge_sha,
        "assignee": user(origin, thread.assignees[0]) if thread.assignees else None,
        "assignees": [user(origin, who) for who in thread.assignees],
        "requested_reviewers": [user(origin, who) for who in part.requested_reviewers],
        "requested_teams": [team(origin, repo.owner.login, slug) for slug in part.requested_teams],
        "labels": [label(base, name) for name in thread.labels],
        "milestone": None if thread.milestone is None else milestone(origin, repo, thread.milestone),
        "draft": part.draft,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{base}/pulls/comments{{/number}}",
        "comments_url": f"{base}/issues/{thread.number}/comments",
        "statuses_url": f"{base}/statuses/{part.head_sha}",
        "head": _head(origin, repo, part),
        "base": _branch(origin, repo, part.base_ref, part.base_sha),
        "author_association": association(repo, thread.author),
        "auto_merge": None,
        "active_lock_reason": thread.lock_reason,
    }


def pull_detail(origin: str, repo: Repository, thread: Thread) -> Payload:
    """A pull request as its own address shows it: with counts and the state of the merge."""
    part = thread.require_pull()
    return {**pull(origin, repo, thread), **_merge_state(origin, thread, part)}


def _merge_state(origin: str, thread: Thread, part: Pull) -> Payload:
    merged = part.merged_s is not None
    is_open = thread.state == "open"
    return {
        "merged": merged,
        "mergeable": True if is_open else None,
        "rebaseable": True if is_open else None,
        "mergeable_state": "clean" if is_open else "unknown",
        "merged_by": None if part.merged_by is None else user(origin, part.merged_by),
        "comments": thread.comments,
        "review_comments": part.review_comments,
        "maintainer_can_modify": False,
        "commits": part.commits,
        "additions": sum(file.additions for file in part.files),
        "deletions": sum(file.deletions for file in part.files),
        "changed_files": len(part.files),
    }


def _head(origin: str, repo: Repository, part: Pull) -> Payload:
    """Where a pull request comes from; the repository is null when somebody has deleted the copy it was in."""
    shown = _branch(origin, repo, part.head_ref, part.head_sha)
    if part.fork_owner is not None:
        login = part.fork_owner.login
        copy = shown["repo"] | {
            "id": part.fork_id,
            "node_id": node_id("R", part.fork_id),
            "full_name": f"{login}/{repo.name}",
            "owner": user(origin, part.fork_owner),
            "url": f"{origin}/repos/{login}/{repo.name}",
            "fork": True,
        }
        shown |= {"label": f"{login}:{part.head_ref}", "user": user(origin, part.fork_owner), "repo": copy}
    return shown | {"repo": None} if part.fork_deleted else shown


def _branch(origin: str, repo: Repository, ref: str, sha: str) -> Payload:
    return {
        "label": f"{repo.owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user(origin, repo.owner),
        "repo": {
            "id": repo.id,
            "node_id": node_id("R", repo.id),
            "name": repo.name,
            "full_name": repo.full_name,
            "private": repo.private,
            "owner": user(origin, repo.owner),
            "fork": repo.fork,
            "url": f"{origin}/repos/{repo.full_name}",
            "default_branch": repo.default_branch,
        },
    }


def commit(origin: str, repo: Repository, made: Commit) -> Payload:
    """A commit as the compare endpoint shows it."""
    url = f"{origin}/repos/{repo.full_name}/commits"
    signature = {
        "name": made.author.name or made.author.login,
        "email": f"{made.author.login}@users.noreply.example",
        "date": instant(made.at_s),
    }
    return {
        "sha": made.sha,
        "node_id": f"C_kwDO{made.sha[:20]}",
        "commit": {"author": signature, "committer": signature, "message": made.message},
        "url": f"{url}/{made.sha}",
        "html_url": f"{web(origin)}/{repo.full_name}/commit/{made.sha}",
        "author": user(origin, made.author),
        "committer": user(origin, made.author),
        "parents": [{"sha": sha, "url": f"{url}/{sha}"} for sha in made.parents],
    }


def comparison(origin: str, repo: Repository, basehead: str, found: Comparison) -> Payload:
    """The answer of the compare endpoint; at most 250 commits are listed."""
    return {
        "url": f"{origin}/repos/{repo.full_name}/compare/{basehead}",
        "html_url": f"{web(origin)}/{repo.full_name}/compare/{basehead}",
        "base_commit": commit(origin, repo, found.base),
        "merge_base_commit": commit(origin, repo, found.merge_base),
        "status": found.status,
        "ahead_by": len(found.ahead),
        "behind_by": found.behind_by,
        "total_commits": len(found.ahead),
        "commits": [commit(origin, repo, made) for made in found.ahead[:250]],
        "files": [],
    }
