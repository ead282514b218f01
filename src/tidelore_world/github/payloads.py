"""How GitHub writes its objects: users, repositories, labels and issues.

Owns the shapes of the JSON. Refuses to choose what is shown or in which order. Pure: a payload depends on
its arguments alone, which is what lets a rendered copy be kept.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

from tidelore_world.clock import SECOND_US, iso_seconds
from tidelore_world.github.records import Thread, User
from tidelore_world.github.repository import Repository

Payload = dict[str, Any]

GHOST = "ghost"
"""Whoever writes under this login has deleted the account since."""

_LABEL_COLOURS = ("d73a4a", "0075ca", "a2eeef", "7057ff", "008672", "e4e669", "cfd3d7", "fbca04")


def instant(second: int) -> str:
    """An instant as GitHub shows it."""
    return iso_seconds(second * SECOND_US)


def maybe_instant(second: int | None) -> str | None:
    """An instant that may not have come."""
    return None if second is None else instant(second)


def node_id(prefix: str, row_id: int) -> str:
    """An opaque global id of the modern kind, such as `IC_kwDO...`."""
    digits = base64.urlsafe_b64encode(row_id.to_bytes(9, "big")).decode()
    return f"{prefix}_kwDO{digits}"


def author(origin: str, account: User) -> Payload | None:
    """Whose work something is; None when the account is gone."""
    return None if account.login == GHOST else user(origin, account)


def user(origin: str, account: User) -> Payload:
    """A user as embedded in other objects."""
    login = account.login
    url = f"{origin}/users/{login}"
    return {
        "login": login,
        "id": account.id,
        "node_id": node_id("BOT" if account.kind == "Bot" else "U", account.id),
        "avatar_url": f"{origin}/avatars/u/{account.id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{origin}/{login}",
        "followers_url": f"{url}/followers",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "type": account.kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def association(repo: Repository, account: User) -> str:
    """How an author stands to the repository."""
    if account == repo.owner:
        return "OWNER"
    return repo.associations.get(account.login, "NONE")


def reactions(url: str) -> Payload:
    """The reaction counts every comment carries."""
    counts = dict.fromkeys(("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"), 0)
    return {"url": f"{url}/reactions", "total_count": 0, **counts}


def repository(origin: str, repo: Repository) -> Payload:
    """A repository."""
    url = f"{origin}/repos/{repo.full_name}"
    open_threads = sum(1 for thread in repo.threads if thread.state == "open")
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "owner": user(origin, repo.owner),
        "html_url": f"{origin}/{repo.full_name}",
        "description": repo.description,
        "fork": False,
        "url": url,
        "issues_url": f"{url}/issues{{/number}}",
        "pulls_url": f"{url}/pulls{{/number}}",
        "created_at": instant(repo.created_s),
        "updated_at": instant(repo.updated_s),
        "pushed_at": instant(repo.pushed_s),
        "has_issues": True,
        "archived": False,
        "disabled": False,
        "open_issues_count": open_threads,
        "open_issues": open_threads,
        "visibility": "private" if repo.private else "public",
        "default_branch": repo.default_branch,
        "permissions": {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True},
    }


def label(url: str, name: str) -> Payload:
    """A label; its id and colour follow from its name."""
    number = zlib.crc32(name.encode())
    return {
        "id": number,
        "node_id": node_id("LA", number),
        "url": f"{url}/labels/{name}",
        "name": name,
        "color": _LABEL_COLOURS[number % len(_LABEL_COLOURS)],
        "default": False,
        "description": None,
    }


def issue(origin: str, repo: Repository, thread: Thread) -> Payload:
    """A thread as the issues endpoints show it; a pull request carries `pull_request`."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/issues/{thread.number}"
    kind = "issues" if thread.pull is None else "pull"
    shown: Payload = {
        "url": url,
        "repository_url": base,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"{origin}/{repo.full_name}/{kind}/{thread.number}",
        "id": thread.id,
        "node_id": node_id("I" if thread.pull is None else "PR", thread.id),
        "number": thread.number,
        "title": thread.title,
        "user": author(origin, thread.author),
        "labels": [label(base, name) for name in thread.labels],
        "state": thread.state,
        "locked": False,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": thread.comments,
        "created_at": instant(thread.created_s),
        "updated_at": instant(thread.updated_s),
        "closed_at": maybe_instant(thread.closed_s),
        "author_association": association(repo, thread.author),
        "active_lock_reason": None,
        "body": thread.body,
        "closed_by": None if thread.closed_by is None else user(origin, thread.closed_by),
        "reactions": reactions(url),
        "timeline_url": f"{url}/timeline",
        "state_reason": thread.state_reason,
    }
    if thread.pull is not None:
        shown["draft"] = thread.pull.draft
        shown["pull_request"] = {
            "url": f"{base}/pulls/{thread.number}",
            "html_url": f"{origin}/{repo.full_name}/pull/{thread.number}",
            "diff_url": f"{origin}/{repo.full_name}/pull/{thread.number}.diff",
            "patch_url": f"{origin}/{repo.full_name}/pull/{thread.number}.patch",
            "merged_at": maybe_instant(thread.pull.merged_s),
        }
    return shown
