"""From GitLab's payloads to our records. Pure; owns the preference of new field names over old ones.

A timestamp that cannot be parsed is an error of that item, never 0.
"""

from __future__ import annotations

from tidelore.core.model import IssueRecord, MergeRequestRecord, ProjectRecord
from tidelore.sources.gitlab.payloads import Issue, Label, MergeRequest, Project, References, TimeStats, User
from tidelore.sources.reading import instant, optional_instant

_NO_REFERENCES = References()
_NO_TIME = TimeStats()


def transform_issue(payload: Issue) -> IssueRecord:
    """Normalise an issue, or raise ValueError naming the field."""
    references = payload.references or _NO_REFERENCES
    spent = payload.time_stats or _NO_TIME
    return IssueRecord(
        remote_id=payload.id,
        iid=payload.iid,
        title=payload.title,
        description=payload.description,
        state=payload.state,
        author_username=username(payload.author),
        milestone_title=payload.milestone.title if payload.milestone else None,
        due_date=payload.due_date,
        confidential=bool(payload.confidential),
        discussion_locked=bool(payload.discussion_locked),
        issue_type=payload.issue_type,
        user_notes_count=payload.user_notes_count or 0,
        time_estimate_seconds=spent.time_estimate,
        time_spent_seconds=spent.total_time_spent,
        references_short=references.short,
        references_full=references.full,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        closed_at=optional_instant("closed_at", payload.closed_at),
        web_url=payload.web_url,
        labels=_label_names(payload.labels),
        assignees=_usernames(payload.assignees),
    )


def transform_merge_request(payload: MergeRequest) -> MergeRequestRecord:
    """Normalise a merge request, or raise ValueError naming the field."""
    references = payload.references or _NO_REFERENCES
    return MergeRequestRecord(
        remote_id=payload.id,
        iid=payload.iid,
        title=payload.title,
        description=payload.description,
        state=payload.state,
        draft=bool(payload.draft or payload.work_in_progress),
        author_username=username(payload.author),
        source_branch=payload.source_branch,
        target_branch=payload.target_branch,
        head_sha=payload.sha,
        references_short=references.short,
        references_full=references.full,
        detailed_merge_status=payload.detailed_merge_status or payload.merge_status,
        merge_user_username=username(payload.merge_user or payload.merged_by),
        milestone_title=payload.milestone.title if payload.milestone else None,
        user_notes_count=payload.user_notes_count or 0,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        merged_at=optional_instant("merged_at", payload.merged_at),
        closed_at=optional_instant("closed_at", payload.closed_at),
        web_url=payload.web_url,
        labels=_label_names(payload.labels),
        assignees=_usernames(payload.assignees),
        reviewers=_usernames(payload.reviewers),
    )


def transform_project(payload: Project) -> ProjectRecord:
    """Normalise a project."""
    return ProjectRecord(
        remote_id=payload.id,
        path=payload.path_with_namespace,
        name=payload.name,
        web_url=payload.web_url,
        archived=bool(payload.archived),
    )


def username(user: User | None) -> str | None:
    return user.username if user else None


def _label_names(labels: tuple[str | Label, ...] | None) -> tuple[str, ...]:
    return tuple(label if isinstance(label, str) else label.name for label in labels or ())


def _usernames(users: tuple[User, ...] | None) -> tuple[str, ...]:
    return tuple(user.username for user in users or ())
