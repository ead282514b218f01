"""Turns GitLab's payloads into records: projects, issues, merge requests, discussions, events, changes.

Pure functions. New field names are preferred over old ones. A timestamp that cannot be parsed is an error of that item,
never 0. All notes of a discussion are parsed before anything is written; one that cannot be parsed is an error of the
whole discussion, so a partially parsed one never replaces stored rows (invariant 7). The version of a child is derived
from its record and not from its payload: a user's new avatar, or a comment on a closed issue, does not change it. The
version of a discussion is the same whether it was read by REST or by GraphQL (`discussion_item`).
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from tidelore.core.content import digest
from tidelore.core.model import (
    ClosedIssueRecord,
    DiscussionRecord,
    FileChangeRecord,
    IssueRecord,
    Item,
    LabelEventRecord,
    MergeRequestRecord,
    MilestoneEventRecord,
    NoteRecord,
    ProjectRecord,
    ReviewerRecord,
    StateEventRecord,
    Version,
)
from tidelore.sources.gitlab.payloads import (
    ClosedIssue,
    Diff,
    DiffLine,
    DiffLineRange,
    Discussion,
    EventMilestone,
    Issue,
    Label,
    LabelEvent,
    MergeRequest,
    MilestoneEvent,
    Note,
    Project,
    References,
    Reviewer,
    StateEvent,
    TimeStats,
    User,
)
from tidelore.sources.items import instant, optional_instant

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


_LINE_CODE = re.compile(r"[0-9a-f]+_([0-9]{1,18})_([0-9]{1,18})")
_NO_RANGE = DiffLineRange()
_UNVERSIONED = frozenset(
    {
        "position", "payload", "created_at", "updated_at", "resolved_at", "position_line_range_start",
        "position_line_range_end", "position_range_unknown",
    }
)  # fmt: skip
_versioned_fields = attrgetter(*(name for name in NoteRecord.__struct_fields__ if name not in _UNVERSIONED))
_discussion = msgspec.json.Decoder(Discussion)
_note = msgspec.json.Decoder(Note)


def read_discussion(payload: bytes) -> Item[DiscussionRecord]:
    """Parse one discussion with all its notes, or raise ValueError naming the note and the field."""
    return discussion_item(payload, transform_discussion(payload))


def discussion_item(payload: bytes, record: DiscussionRecord) -> Item[DiscussionRecord]:
    """Return a discussion with its version.

    GraphQL shows whole seconds and no line ranges, so the version has neither milliseconds nor ranges. Nor does it
    depend on `individual_note`: a reply to an individual note changes its type.
    """
    shown = [record.remote_id, *[_versioned(note) for note in record.notes]]
    moment = max([note.updated_at for note in record.notes], default=0)
    version = Version(record.remote_id, moment, digest(msgspec.json.encode(shown)))
    return Item(version, record.first_note_at or 0, payload, record)


def _versioned(note: NoteRecord) -> tuple[object, ...]:
    resolved_at = None if note.resolved_at is None else note.resolved_at // 1000
    return (*_versioned_fields(note), note.created_at // 1000, note.updated_at // 1000, resolved_at)


def transform_discussion(payload: bytes) -> DiscussionRecord:
    """Normalise a discussion."""
    parsed = _discussion.decode(payload)
    notes = tuple(_named_note(bytes(raw), place) for place, raw in enumerate(parsed.notes))
    return make_discussion(parsed.id, notes, individual=bool(parsed.individual_note))


def make_discussion(remote_id: str, notes: tuple[NoteRecord, ...], *, individual: bool) -> DiscussionRecord:
    """Return a discussion of these notes; it is resolved if all its resolvable notes are."""
    states = [note.resolved for note in notes if note.resolvable]
    written = [note.created_at for note in notes]
    return DiscussionRecord(
        remote_id=remote_id,
        individual_note=individual,
        first_note_at=min(written, default=None),
        last_note_at=max(written, default=None),
        resolvable=bool(states),
        resolved=bool(states) and all(states),
        notes=notes,
    )


def transform_note(payload: bytes, place: int) -> NoteRecord:
    """Normalise one note; `place` is its position in the discussion."""
    note = _note.decode(payload)
    try:
        created_at = instant("created_at", note.created_at)
        is_edited = note.updated_at != note.created_at
        updated_at = instant("updated_at", note.updated_at) if is_edited else created_at
        resolved_at = optional_instant("resolved_at", note.resolved_at)
    except ValueError as error:
        raise ValueError(f"note {note.id}: {error}") from None
    record = NoteRecord(
        remote_id=note.id,
        note_type=note.note_type,
        is_system=bool(note.system),
        author_username=username(note.author),
        body=note.body or "",
        created_at=created_at,
        updated_at=updated_at,
        position=place,
        resolvable=bool(note.resolvable),
        resolved=bool(note.resolved),
        resolved_by=username(note.resolved_by),
        resolved_at=resolved_at,
        payload=payload,
        # Servers before 15.3 send only `confidential`.
        is_internal=bool(note.internal or note.confidential),
    )
    at = note.position
    if at is None:
        return record
    span = at.line_range or _NO_RANGE
    return replace(
        record,
        position_old_path=at.old_path,
        position_new_path=at.new_path,
        position_old_line=at.old_line,
        position_new_line=at.new_line,
        position_type=at.position_type,
        position_line_range_start=_line(span.start),
        position_line_range_end=_line(span.end),
        position_base_sha=at.base_sha,
        position_start_sha=at.start_sha,
        position_head_sha=at.head_sha,
    )


def _named_note(payload: bytes, place: int) -> NoteRecord:
    try:
        return transform_note(payload, place)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"notes[{place}]: {error}") from None


def _line(end: DiffLine | None) -> int | None:
    """Return the line of one end of a range: the new line if present, else the old one.

    If only the line code is sent, it ends in the old and the new line, and `type` selects one of them.
    """
    if end is None:
        return None
    line = end.old_line if end.new_line is None else end.new_line
    code = _LINE_CODE.fullmatch(end.line_code or "")
    if line is not None or code is None:
        return line
    return int(code[1] if end.side == "old" else code[2])


E = TypeVar("E", StateEventRecord, LabelEventRecord, MilestoneEventRecord)


def transform_state_event(payload: StateEvent) -> StateEventRecord:
    """Normalise a state event, or raise ValueError naming the field."""
    return StateEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        state=payload.state,
        source_commit=payload.source_commit,
        source_merge_request_id=payload.source_merge_request_id,
        created_at=instant("created_at", payload.created_at),
    )


def transform_label_event(payload: LabelEvent) -> LabelEventRecord:
    """Normalise a label event, or raise ValueError naming the field."""
    return LabelEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        action=payload.action,
        label_name=payload.label.name if payload.label else None,
        created_at=instant("created_at", payload.created_at),
    )


def transform_milestone_event(payload: MilestoneEvent) -> MilestoneEventRecord:
    """Normalise a milestone event, or raise ValueError naming the field."""
    milestone = payload.milestone or EventMilestone()
    return MilestoneEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        action=payload.action,
        milestone_title=milestone.title,
        milestone_remote_id=milestone.id,
        created_at=instant("created_at", payload.created_at),
    )


_state = msgspec.json.Decoder(StateEvent)
_label = msgspec.json.Decoder(LabelEvent)
_milestone = msgspec.json.Decoder(MilestoneEvent)


def read_state_event(payload: bytes) -> Item[StateEventRecord]:
    """Parse one state event."""
    return _event_item("state", payload, transform_state_event(_state.decode(payload)))


def read_label_event(payload: bytes) -> Item[LabelEventRecord]:
    """Parse one label event."""
    return _event_item("label", payload, transform_label_event(_label.decode(payload)))


def read_milestone_event(payload: bytes) -> Item[MilestoneEventRecord]:
    """Parse one milestone event."""
    return _event_item("milestone", payload, transform_milestone_event(_milestone.decode(payload)))


def _event_item(family: str, payload: bytes, record: E) -> Item[E]:
    # The three lists have separate id sequences, but events of one parent are stored in one set.
    version = Version(f"{family}:{record.remote_id}", record.created_at, digest(msgspec.json.encode(record)))
    return Item(version, record.created_at, payload, record)


C = TypeVar("C", ClosedIssueRecord, FileChangeRecord)


_closed_issue = msgspec.json.Decoder(ClosedIssue)
_diff = msgspec.json.Decoder(Diff)
_reviewer = msgspec.json.Decoder(Reviewer)


def read_closed_issue(payload: bytes) -> Item[ClosedIssueRecord]:
    """Parse one issue that the merge request closes."""
    parsed = _closed_issue.decode(payload)
    record = ClosedIssueRecord(
        issue_key=str(parsed.id),
        issue_remote_id=parsed.id if isinstance(parsed.id, int) else None,
        issue_iid=parsed.iid,
        issue_project_remote_id=parsed.project_id,
        reference=parsed.references.full if parsed.references else None,
        title=parsed.title,
        web_url=parsed.web_url,
    )
    return _change_item(record.issue_key, payload, record)


def read_diff(payload: bytes) -> Item[FileChangeRecord]:
    """Parse one changed file; its diff is not stored."""
    parsed = _diff.decode(payload)
    record = FileChangeRecord(
        old_path=parsed.old_path,
        new_path=parsed.new_path,
        new_file=bool(parsed.new_file),
        renamed_file=bool(parsed.renamed_file),
        deleted_file=bool(parsed.deleted_file),
    )
    return _change_item(f"{record.old_path} -> {record.new_path}", payload, record)


def read_reviewer(payload: bytes) -> Item[ReviewerRecord]:
    """Parse one reviewer."""
    record = ReviewerRecord(_reviewer.decode(payload).user.username)
    return Item(Version(record.username, 0, b""), 0, payload, record)


def _change_item(key: str, payload: bytes, record: C) -> Item[C]:
    return Item(Version(key, 0, digest(msgspec.json.encode(record))), 0, payload, record)
