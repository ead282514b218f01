"""Payload shapes of users, projects, issues and merge requests, as GitLab 18 sends them.

Owns the field names. Refuses to read a query or to change a row. Invariant: a payload is a pure function of
the row and of the server's age, so what the API shows and what the truth reports can never differ.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any

from tidelore_world.clock import iso_millis
from tidelore_world.gitlab.state import Issue, Item, MergeRequest, Milestone, Project, User

WEB_ORIGIN = "https://gitlab.harborline.example"
Payload = dict[str, Any]

_NEWER_FIELDS = frozenset({"imported", "imported_from"})


def instant(us: int | None) -> str | None:
    """An optional instant with milliseconds."""
    return None if us is None else iso_millis(us)


def user_payload(user: User) -> Payload:
    """The short form of a user that every other payload embeds."""
    if user.shown is None:
        user.shown = _user(user)
    return user.shown


def project_payload(project: Project) -> Payload:
    """One project."""
    namespace, _, slug = project.path.rpartition("/")
    url = f"{WEB_ORIGIN}/{project.path}"
    return {
        "id": project.id,
        "description": project.description,
        "name": slug.replace("-", " ").title(),
        "name_with_namespace": " / ".join(part.replace("-", " ").title() for part in project.path.split("/")),
        "path": slug,
        "path_with_namespace": project.path,
        "created_at": iso_millis(project.created_at_us),
        "default_branch": "main",
        "tag_list": [],
        "topics": [],
        "ssh_url_to_repo": f"git@gitlab.harborline.example:{project.path}.git",
        "http_url_to_repo": f"{url}.git",
        "web_url": url,
        "readme_url": f"{url}/-/blob/main/README.md",
        "forks_count": 0,
        "avatar_url": None,
        "star_count": 0,
        "last_activity_at": iso_millis(project.last_activity_at_us),
        "visibility": "private",
        "archived": project.archived,
        "empty_repo": False,
        "issues_enabled": "issues" not in project.hidden,
        "issues_access_level": "disabled" if "issues" in project.hidden else "enabled",
        "merge_requests_enabled": "merge_requests" not in project.hidden,
        "merge_requests_access_level": "disabled" if "merge_requests" in project.hidden else "enabled",
        "open_issues_count": project.open_issues,
        "namespace": {
            "id": project.id + 1_000_000,
            "name": namespace.rpartition("/")[2].replace("-", " ").title(),
            "path": namespace.rpartition("/")[2],
            "kind": "group",
            "full_path": namespace,
            "web_url": f"{WEB_ORIGIN}/groups/{namespace}",
        },
    }


def milestone_payload(milestone: Milestone, project: Project) -> Payload:
    """One milestone, as items and events embed it."""
    return {
        "id": milestone.id,
        "iid": milestone.iid,
        "project_id": project.id,
        "title": milestone.title,
        "description": "",
        "state": "active",
        "created_at": iso_millis(milestone.created_at_us),
        "updated_at": iso_millis(milestone.created_at_us),
        "due_date": milestone.due_date,
        "start_date": None,
        "expired": False,
        "web_url": f"{WEB_ORIGIN}/{project.path}/-/milestones/{milestone.iid}",
    }


def issue_payload(issue: Issue, *, old_server: bool = False) -> Payload:
    """One issue as lists show it; an old server lacks the newest fields."""
    api = f"{WEB_ORIGIN}/api/v4/projects/{issue.project.id}"
    payload = {
        **_shared(issue, "#"),
        "type": issue.issue_type.upper(),
        "due_date": issue.due_date,
        "confidential": issue.confidential,
        "issue_type": issue.issue_type,
        "merge_requests_count": issue.merge_requests_count,
        "has_tasks": "- [" in (issue.description or ""),
        "task_status": _task_status(issue.description),
        "_links": {
            "self": f"{api}/issues/{issue.iid}",
            "notes": f"{api}/issues/{issue.iid}/notes",
            "award_emoji": f"{api}/issues/{issue.iid}/award_emoji",
            "project": api,
            "closed_as_duplicate_of": None,
        },
        "severity": "UNKNOWN",
        "moved_to_id": None,
        "service_desk_reply_to": None,
    }
    return _without_newer(payload) if old_server else payload


def merge_request_payload(mr: MergeRequest, *, old_server: bool = False) -> Payload:
    """One merge request as lists show it; an old server knows only the old names."""
    status = _merge_status(mr)
    merger = None if mr.merge_user is None else user_payload(mr.merge_user)
    payload = {
        **_shared(mr, "!"),
        "merged_by": merger,
        "merged_at": instant(mr.merged_at_us),
        "target_branch": mr.target_branch,
        "source_branch": mr.source_branch,
        "reviewers": [user_payload(user) for user in mr.reviewers],
        "source_project_id": mr.project.id,
        "target_project_id": mr.project.id,
        "work_in_progress": mr.draft,
        "merge_when_pipeline_succeeds": False,
        "merge_status": "can_be_merged" if status == "mergeable" else "cannot_be_merged",
        "sha": mr.sha,
        "merge_commit_sha": mr.merge_commit_sha,
        "squash_commit_sha": None,
        "should_remove_source_branch": None,
        "force_remove_source_branch": True,
        "reference": f"!{mr.iid}",
        "squash": mr.squash,
        "has_conflicts": mr.has_conflicts,
        "blocking_discussions_resolved": _threads_resolved(mr),
        "approvals_before_merge": None,
    }
    if not old_server:
        payload |= {
            "merge_user": merger,
            "merge_after": None,
            "prepared_at": iso_millis(mr.created_at_us),
            "draft": mr.draft,
            "detailed_merge_status": status,
            "squash_on_merge": mr.squash,
            "allow_collaboration": False,
        }
    return _without_newer(payload) if old_server else payload


def single_merge_request_payload(mr: MergeRequest, *, old_server: bool = False) -> Payload:
    """One merge request as its own endpoint shows it: the list form and what only that endpoint knows."""
    latest = mr.versions[-1]
    return {
        **merge_request_payload(mr, old_server=old_server),
        "subscribed": False,
        "changes_count": str(latest.files),
        "latest_build_started_at": None,
        "latest_build_finished_at": None,
        "first_deployed_to_production_at": None,
        "pipeline": None,
        "head_pipeline": None,
        "diff_refs": {
            "base_sha": latest.base_sha,
            "head_sha": latest.head_sha,
            "start_sha": latest.start_sha,
        },
        "merge_error": None,
        "first_contribution": False,
        "user": {"can_merge": True},
    }


def _user(user: User) -> Payload:
    digest = md5(user.username.encode(), usedforsecurity=False).hexdigest()
    return {
        "id": user.id,
        "username": user.username,
        "public_email": None,
        "name": user.name,
        "state": "active",
        "locked": False,
        "avatar_url": f"https://avatars.harborline.example/{digest}?s=80&d=identicon",
        "web_url": f"{WEB_ORIGIN}/{user.username}",
    }


def _shared(item: Item, mark: str) -> Payload:
    path = item.project.path
    return {
        "id": item.id,
        "iid": item.iid,
        "project_id": item.project.id,
        "title": item.title,
        "description": item.description,
        "state": item.state,
        "created_at": iso_millis(item.created_at_us),
        "updated_at": iso_millis(item.updated_at_us),
        "closed_at": instant(item.closed_at_us),
        "closed_by": None if item.closed_by is None else user_payload(item.closed_by),
        "labels": sorted(label.name for label in item.labels),
        "milestone": None if item.milestone is None else milestone_payload(item.milestone, item.project),
        "assignees": [user_payload(user) for user in item.assignees],
        "assignee": user_payload(item.assignees[0]) if item.assignees else None,
        "author": user_payload(item.author),
        "user_notes_count": item.user_notes_count,
        "upvotes": item.upvotes,
        "downvotes": item.downvotes,
        "discussion_locked": item.discussion_locked,
        "web_url": f"{WEB_ORIGIN}/{path}/-/{item.kind}/{item.iid}",
        "time_stats": {
            "time_estimate": 0,
            "total_time_spent": 0,
            "human_time_estimate": None,
            "human_total_time_spent": None,
        },
        "task_completion_status": _tasks(item.description),
        "references": {
            "short": f"{mark}{item.iid}",
            "relative": f"{mark}{item.iid}",
            "full": f"{path}{mark}{item.iid}",
        },
        "imported": False,
        "imported_from": "none",
    }


def _without_newer(payload: Payload) -> Payload:
    return {name: value for name, value in payload.items() if name not in _NEWER_FIELDS}


def _tasks(text: str | None) -> dict[str, int]:
    done = (text or "").count("- [x]")
    return {"count": done + (text or "").count("- [ ]"), "completed_count": done}


def _task_status(text: str | None) -> str:
    tasks = _tasks(text)
    return f"{tasks['completed_count']} of {tasks['count']} checklist items completed"


def _merge_status(mr: MergeRequest) -> str:
    if mr.state != "opened":
        return "not_open"
    if mr.draft:
        return "draft_status"
    if mr.has_conflicts:
        return "conflict"
    return "mergeable" if _threads_resolved(mr) else "discussions_not_resolved"


def _threads_resolved(mr: MergeRequest) -> bool:
    return all(
        note.resolved_at_us is not None
        for discussion in mr.discussions
        for note in discussion.notes[:1]
        if note.resolvable
    )
