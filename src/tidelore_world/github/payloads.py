"""How GitHub writes its objects: users, repositories, labels and issues.

Owns the shapes of the JSON. Refuses to choose what is shown or in which order. Pure: a payload depends on
its arguments alone, which is what lets a rendered copy be kept.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

from tidelore_world.clock import SECOND_US, iso_seconds
from tidelore_world.github.records import Milestone, Reactions, Thread, User
from tidelore_world.github.repository import Repository

Payload = dict[str, Any]

GHOST = "ghost"
"""Whoever writes under this login has deleted the account since."""
COPILOTS = frozenset({"copilot-pull-request-reviewer[bot]", "copilot-swe-agent[bot]"})
"""Accounts that REST calls "Copilot", except as the author of a review."""

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


def read_node_id(text: str) -> tuple[str, int] | None:
    """The kind and the id in a global id; None when it is none of ours."""
    prefix, mark, digits = text.partition("_kwDO")
    try:
        number = int.from_bytes(base64.urlsafe_b64decode(digits), "big")
    except ValueError:
        return None
    return (prefix, number) if mark and node_id(prefix, number) == text else None


def web(origin: str) -> str:
    """Where the pages for people are; the API of an Enterprise Server is below it."""
    return origin.removesuffix("/api/v3")


def author(origin: str, account: User) -> Payload | None:
    """Whose work something is; None when the account is gone."""
    if account.login not in COPILOTS:
        return None if account.login == GHOST else user(origin, account)
    app = f"{web(origin)}/apps/{account.login.removesuffix('[bot]')}"
    return user(origin, account) | {"login": "Copilot", "html_url": app}


def user_node_id(account: User) -> str:
    """The global id of an account."""
    return node_id({"Bot": "BOT", "Organization": "O"}.get(account.kind, "U"), account.id)


def user(origin: str, account: User) -> Payload:
    """A user as embedded in other objects."""
    login = account.login
    url = f"{origin}/users/{login}"
    return {
        "login": login,
        "id": account.id,
        "node_id": user_node_id(account),
        "avatar_url": f"{origin}/avatars/u/{account.id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{web(origin)}/{login}",
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


def reactions(url: str, given: Reactions = ()) -> Payload:
    """The reaction counts every comment carries."""
    counts = dict.fromkeys(("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"), 0) | dict(given)
    return {"url": f"{url}/reactions", "total_count": sum(counts.values()), **counts}


def milestone(origin: str, repo: Repository, row: Milestone) -> Payload:
    """A milestone."""
    url = f"{origin}/repos/{repo.full_name}/milestones/{row.number}"
    return {
        "url": url,
        "html_url": f"{web(origin)}/{repo.full_name}/milestone/{row.number}",
        "labels_url": f"{url}/labels",
        "id": row.id,
        "node_id": node_id("MI", row.id),
        "number": row.number,
        "state": row.state,
        "title": row.title,
        "description": row.description or None,
        "creator": author(origin, row.creator),
        "open_issues": 0,
        "closed_issues": 0,
        "created_at": instant(row.created_s),
        "updated_at": instant(row.updated_s),
        "closed_at": maybe_instant(row.closed_s),
        "due_on": maybe_instant(row.due_s),
    }


def team(origin: str, owner: str, slug: str) -> Payload:
    """A team that was asked for a review; its id follows from its name."""
    number = zlib.crc32(f"{owner}/{slug}".encode())
    return {
        "id": number,
        "node_id": node_id("T", number),
        "name": slug.replace("-", " ").title(),
        "slug": slug,
        "description": None,
        "privacy": "closed",
        "permission": "push",
        "url": f"{origin}/organizations/{owner}/team/{number}",
        "html_url": f"{web(origin)}/orgs/{owner}/teams/{slug}",
    }


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
        "html_url": f"{web(origin)}/{repo.full_name}",
        "description": repo.description,
        "fork": repo.fork,
        "url": url,
        "issues_url": f"{url}/issues{{/number}}",
        "pulls_url": f"{url}/pulls{{/number}}",
        "created_at": instant(repo.created_s),
        "updated_at": instant(repo.updated_s),
        "pushed_at": instant(repo.pushed_s),
        "has_issues": repo.has_issues,
        "has_projects": True,
        "has_wiki": True,
        "has_discussions": repo.has_discussions,
        "archived": repo.archived,
        "disabled": repo.disabled,
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


def thread_node_id(thread: Thread) -> str:
    """The global id of a thread; the two sides of a pull request have two ids and one global id."""
    return node_id("I", thread.id) if thread.pull is None else node_id("PR", thread.pull.id)


def issue_detail(origin: str, repo: Repository, thread: Thread) -> Payload:
    """A thread as its own address shows it: with whoever closed it."""
    closed_by = None if thread.closed_by is None else user(origin, thread.closed_by)
    return issue(origin, repo, thread) | {"closed_by": closed_by}


def issue(origin: str, repo: Repository, thread: Thread) -> Payload:
    """A thread as the list of issues shows it; a pull request carries `pull_request`."""
    base = f"{origin}/repos/{repo.full_name}"
    url = f"{base}/issues/{thread.number}"
    html = f"{web(origin)}/{repo.full_name}"
    kind = "issues" if thread.pull is None else "pull"
    shown: Payload = {
        "url": url,
        "repository_url": base,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"{html}/{kind}/{thread.number}",
        "id": thread.id,
        "node_id": thread_node_id(thread),
        "number": thread.number,
        "title": thread.title,
        "user": author(origin, thread.author),
        "labels": [label(base, name) for name in thread.labels],
        "state": thread.state,
        "locked": thread.locked,
        "assignee": user(origin, thread.assignees[0]) if thread.assignees else None,
        "assignees": [user(origin, who) for who in thread.assignees],
        "milestone": None if thread.milestone is None else milestone(origin, repo, thread.milestone),
        "comments": thread.comments,
        "created_at": instant(thread.created_s),
        "updated_at": instant(thread.updated_s),
        "closed_at": maybe_instant(thread.closed_s),
        "author_association": association(repo, thread.author),
        "active_lock_reason": thread.lock_reason,
        "body": thread.body or None,
        "reactions": reactions(url, thread.reactions),
        "timeline_url": f"{url}/timeline",
        "state_reason": thread.state_reason,
    }
    if thread.pull is not None:
        shown["draft"] = thread.pull.draft
        shown["pull_request"] = {
            "url": f"{base}/pulls/{thread.number}",
            "html_url": f"{html}/pull/{thread.number}",
            "diff_url": f"{html}/pull/{thread.number}.diff",
            "patch_url": f"{html}/pull/{thread.number}.patch",
            "merged_at": maybe_instant(thread.pull.merged_s),
        }
    return shown
