"""Turns GitHub's payloads into records, and recognises bots.

Pure functions. A timestamp that cannot be parsed, or a URL without a thread number, is an error of that item, never 0.
"""

from __future__ import annotations

import msgspec

from tidelore.core.content import digest
from tidelore.core.model import (
    ISSUE_COMMENT,
    REVIEW_COMMENT,
    REVIEW_SUMMARY,
    CommentRecord,
    EventRecord,
    FileChangeRecord,
    IssueRecord,
    Item,
    LabelEventRecord,
    MergeRequestRecord,
    MilestoneEventRecord,
    ProjectRecord,
    PullIssueRecord,
    RepositoryRecord,
    StateEventRecord,
    TimelineEventRecord,
    Version,
)
from tidelore.sources.github.payloads import (
    ChangedFile,
    Comment,
    Issue,
    IssueType,
    Milestone,
    PullPage,
    Repository,
    Review,
    ReviewComment,
    TimelineEvent,
    TimelineKind,
    User,
)
from tidelore.sources.items import instant, optional_instant

_STATES = {"open": "opened"}
"""Our name for a state, where GitHub uses another one."""
_FAMILIES = {
    **dict.fromkeys(("closed", "reopened", "merged"), "state"),
    **dict.fromkeys(("labeled", "unlabeled"), "label"),
    **dict.fromkeys(("milestoned", "demilestoned"), "milestone"),
}
"""The kinds of timeline entries that are stored, with the group of events that each belongs to."""
_REFERENCE = "cross-referenced"
_FAMILIES |= dict.fromkeys(
    (
        *("assigned", "unassigned", "review_requested", "review_request_removed", "review_dismissed", "renamed"),
        *("locked", "unlocked", "convert_to_draft", "ready_for_review", "head_ref_force_pushed", "head_ref_deleted"),
        *("head_ref_restored", "base_ref_changed", "base_ref_force_pushed", "comment_deleted", "transferred"),
        *("marked_as_duplicate", "unmarked_as_duplicate", "converted_to_discussion", "connected", "disconnected"),
        *("auto_merge_enabled", "auto_merge_disabled", "added_to_merge_queue", "removed_from_merge_queue"),
        _REFERENCE,
    ),
    "timeline",
)
_ACTIONS = {"labeled": "add", "milestoned": "add", "unlabeled": "remove", "demilestoned": "remove"}
_GHOST = "ghost"
"""The account that GitHub shows as the author of comments of deleted accounts."""


def transform_comment(payload: Comment) -> CommentRecord:
    """Normalise a conversation comment, or raise ValueError naming the field."""
    return CommentRecord(
        remote_id=payload.id,
        kind=ISSUE_COMMENT,
        number=_number("issue_url", payload.issue_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        url=payload.html_url,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        association=payload.author_association,
    )


def transform_review_comment(payload: ReviewComment) -> CommentRecord:
    """Normalise a comment on the diff, or raise ValueError naming the field."""
    placed = payload.line is not None
    return CommentRecord(
        remote_id=payload.id,
        kind=REVIEW_COMMENT,
        number=_number("pull_request_url", payload.pull_request_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        path=payload.path,
        line=payload.line if placed else payload.original_line,
        side=payload.side,
        commit_sha=payload.commit_id if placed else payload.original_commit_id or payload.commit_id,
        in_reply_to=payload.in_reply_to_id,
        review_id=payload.pull_request_review_id,
        url=payload.html_url,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        association=payload.author_association,
        start_line=payload.start_line if placed else payload.original_start_line,
        subject_type=payload.subject_type,
        diff_hunk=payload.diff_hunk,
    )


def transform_review(payload: Review) -> CommentRecord | None:
    """Normalise the text of a review, or raise ValueError naming the field; None for one not submitted yet."""
    if payload.submitted_at is None:
        return None
    submitted_at = instant("submitted_at", payload.submitted_at)
    return CommentRecord(
        remote_id=payload.id,
        kind=REVIEW_SUMMARY,
        number=_number("pull_request_url", payload.pull_request_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        commit_sha=payload.commit_id,
        review_id=payload.id,
        review_state=payload.state,
        url=payload.html_url,
        created_at=submitted_at,
        updated_at=submitted_at,
        association=payload.author_association,
    )


def transform_issue(payload: Issue) -> IssueRecord | PullIssueRecord:
    """Normalise an entry of the list of issues, or raise ValueError naming the field."""
    created_at = instant("created_at", payload.created_at)
    updated_at = instant("updated_at", payload.updated_at)
    if payload.pull_request is not None:
        return PullIssueRecord(
            remote_id=payload.id,
            node_id=payload.node_id,
            iid=payload.number,
            comments=payload.comments or 0,
            reactions=payload.reactions.total_count if payload.reactions else 0,
            created_at=created_at,
            updated_at=updated_at,
        )
    return IssueRecord(
        remote_id=payload.id,
        iid=payload.number,
        title=payload.title,
        description=payload.body,
        state=_STATES.get(payload.state, payload.state),
        author_username=author(payload.user),
        milestone_title=_title(payload.milestone),
        due_date=None,
        confidential=False,
        discussion_locked=bool(payload.locked),
        issue_type=payload.type.name if isinstance(payload.type, IssueType) else payload.type,
        user_notes_count=payload.comments or 0,
        time_estimate_seconds=0,
        time_spent_seconds=0,
        references_short=f"#{payload.number}",
        references_full=_reference(_repository_name(payload.repository_url), payload.number),
        created_at=created_at,
        updated_at=updated_at,
        closed_at=optional_instant("closed_at", payload.closed_at),
        web_url=payload.html_url,
        labels=tuple(label if isinstance(label, str) else label.name for label in payload.labels or ()),
        assignees=_logins(payload.assignees),
        state_reason=payload.state_reason,
        author_association=payload.author_association,
        reactions=payload.reactions.total_count if payload.reactions else 0,
        node_id=payload.node_id,
    )


def transform_merge_request(payload: PullPage) -> MergeRequestRecord:
    """Normalise a pull request as a merge request, or raise ValueError naming the field.

    The number of comments is not part of it: the list does not send it, the issue side of the pull request does.
    """
    merged_at, repo = optional_instant("merged_at", payload.merged_at), payload.base.repo
    merged = bool(payload.merged) or merged_at is not None
    return MergeRequestRecord(
        remote_id=payload.id,
        iid=payload.number,
        title=payload.title,
        description=payload.body,
        state="merged" if merged else _STATES.get(payload.state, payload.state),
        draft=bool(payload.draft),
        author_username=author(payload.user),
        source_branch=payload.head.ref,
        target_branch=payload.base.ref,
        head_sha=payload.head.sha,
        references_short=f"#{payload.number}",
        references_full=_reference(None if repo is None else repo.full_name, payload.number),
        detailed_merge_status=None,
        merge_user_username=author(payload.merged_by),
        milestone_title=_title(payload.milestone),
        user_notes_count=0,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        merged_at=merged_at,
        closed_at=optional_instant("closed_at", payload.closed_at),
        web_url=payload.html_url,
        labels=tuple(label.name for label in payload.labels or ()),
        assignees=_logins(payload.assignees),
        reviewers=_logins(payload.requested_reviewers),
        author_association=payload.author_association,
        # Before the merge it is a test merge, which changes by itself.
        merge_commit_sha=payload.merge_commit_sha if merged else None,
        node_id=payload.node_id,
    )


_timeline_kind = msgspec.json.Decoder(TimelineKind)
_timeline_event = msgspec.json.Decoder(TimelineEvent)
_changed_file = msgspec.json.Decoder(ChangedFile)


def read_timeline_entry(number: int, payload: bytes) -> Item[EventRecord] | None:
    """Parse one entry of the timeline of an item; None for one without an id or of a kind that is not stored."""
    kind = _timeline_kind.decode(payload)
    family = _FAMILIES.get(kind.event or "")
    if family is None or (bytes(kind.id) == b"null" and kind.event != _REFERENCE):
        return None
    event = _timeline_event.decode(payload)
    if kind.event == _REFERENCE and (event.source is None or event.source.issue is None):
        return None
    record = _event_record(family, event, number)
    key = record.event_key if isinstance(record, TimelineEventRecord) else record.remote_id
    version = Version(f"{family}:{key}", record.created_at, digest(msgspec.json.encode(record)))
    return Item(version, record.created_at, payload, record)


def _event_record(family: str, event: TimelineEvent, number: int) -> EventRecord:
    who, at = author(event.actor), instant("created_at", event.created_at)
    if family == "timeline":
        return TimelineEventRecord(_event_key(event, number), who, event.event, _event_subject(event), at)
    assert event.id is not None, "entries of these kinds without an id are passed over"
    if family == "state":
        return StateEventRecord(event.id, who, event.event, event.commit_id, None, at)
    action = _ACTIONS[event.event]
    if family == "label":
        return LabelEventRecord(event.id, who, action, None if event.label is None else event.label.name, at)
    return MilestoneEventRecord(event.id, who, action, _title(event.milestone), None, at)


def _event_key(event: TimelineEvent, number: int) -> str:
    """Return what identifies an event in its repository: one issue may mention several others at the same time."""
    referrer = None if event.source is None else event.source.issue
    return str(event.id) if referrer is None else f"{number} {referrer.id} {event.created_at}"


def _event_subject(event: TimelineEvent) -> str | None:
    """Return the person, team, title, item, reason or commit that an event is about."""
    person = event.requested_reviewer or event.assignee
    if person is not None:
        return author(person)
    if event.requested_team is not None:
        return event.requested_team.slug
    if event.rename is not None:
        return event.rename.to
    if event.source is not None and event.source.issue is not None:
        other = event.source.issue
        return other.html_url if other.repository is None else _reference(other.repository.full_name, other.number)
    return event.lock_reason or (None if event.commit_id is None else event.commit_id[:12])


def read_changed_file(payload: bytes) -> Item[FileChangeRecord]:
    """Parse one changed file; its patch is not stored."""
    file = _changed_file.decode(payload)
    record = FileChangeRecord(
        old_path=file.previous_filename or file.filename,
        new_path=file.filename,
        new_file=file.status in ("added", "copied"),
        renamed_file=file.status == "renamed",
        deleted_file=file.status == "removed",
    )
    version = Version(f"{record.old_path} -> {record.new_path}", 0, digest(msgspec.json.encode(record)))
    return Item(version, 0, payload, record)


def transform_repository(payload: Repository) -> RepositoryRecord:
    """Normalise a repository."""
    project = ProjectRecord(
        remote_id=payload.id,
        path=payload.full_name,
        name=payload.name,
        web_url=payload.html_url,
        archived=bool(payload.archived),
        node_id=payload.node_id,
        has_topics=bool(payload.has_discussions) and payload.node_id is not None,
    )
    return RepositoryRecord(project, payload.node_id, bool(payload.fork), payload.has_issues, payload.has_discussions)


def author(user: User | None) -> str | None:
    """Return the login of the author; None if the account is deleted."""
    return None if user is None or user.login.casefold() == _GHOST else user.login


def is_bot(user: User | None) -> bool:
    """Return whether the author is a bot."""
    return user is not None and (user.kind == "Bot" or user.login.casefold().endswith("[bot]"))


def _logins(users: tuple[User, ...] | None) -> tuple[str, ...]:
    return tuple(user.login for user in users or ())


def _title(milestone: Milestone | None) -> str | None:
    return None if milestone is None else milestone.title


def _repository_name(url: str | None) -> str | None:
    """Return the name in the URL of a repository."""
    parts = (url or "").rpartition("/repos/")[2].split("/")
    return "/".join(parts) if len(parts) == 2 else None


def _reference(name: str | None, number: int) -> str | None:
    return None if name is None else f"{name}#{number}"


def _number(field: str, url: str) -> int:
    text = url.rpartition("/")[2]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"{field}: names no thread: {url[:200]!r}")
    return int(text)
