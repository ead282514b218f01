"""Projects, issues and merge requests to store, each with a payload of its own; and a dump of every table."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace
from tests.databases.catalogue import columns_of

from tidelore.core.content import digest
from tidelore.core.model import (
    IssueRecord,
    Item,
    MergeRequestRecord,
    ProjectRecord,
    Scope,
    TopicCommentRecord,
    TopicRecord,
    Version,
)
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import PayloadReader
from tidelore.store.mirror.projects import ProjectRow, save_project

CREATED = 1_700_000_000_000
TABLES = (
    "project_members",
    "projects", "cursors", "gaps", "leases", "sync_runs", "quarantine", "raw_payloads", "labels", "issues",
    "issue_labels", "issue_assignees", "merge_requests", "mr_labels", "mr_assignees", "mr_reviewers",
    "discussions", "notes", "resource_state_events", "resource_label_events", "resource_milestone_events",
    "timeline_events", "mr_closes_issues", "mr_file_changes", "topics", "topic_comments", "dirty_sources", "documents",
    "document_words",
    "embedding_models", "embeddings", "embedding_blocks", "embedding_holes",
    "tracked_prs", "tracked_pr_history", "feedback_events", "action_tokens", "outbox",
    "operator_commands", "issue_comment_cursors", "issue_followups", "metric_counters", "poll_costs",
    "accounts", "posts", "links", "post_links", "service_jobs", "source_budgets", "local_secrets",
    "child_sync", "refused_children", "source_pauses", "source_access", "rate_budgets", "own_logins", "saved_searches",
    "hook_deliveries", "hook_projects",
)  # fmt: skip

NUMBERED = frozenset({"changes", "change_counter", "payload_dictionaries"})
"""Tables that depend on how a copy came about, so that copies of the same content differ in them."""


def add_project(
    database: Database, remote_id: int = 1, path: str = "port/harbour", now_ms: int = CREATED
) -> ProjectRow:
    record = ProjectRecord(remote_id, path, path.rpartition("/")[2], f"https://forge.test/{path}", archived=False)
    with database.transaction() as tx:
        return save_project(tx, "gitlab", path, record, now_ms)


def add_older_project(database: Database) -> ProjectRow:
    """Add the project to a database whose schema is older than the program's: projects had fewer columns."""
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO projects (source, remote_id, path, name, archived, configured, created_at, updated_at)"
            " VALUES ('gitlab', 1, 'port/harbour', 'harbour', 0, 'port/harbour', :now, :now)",
            {"now": CREATED},
        )
    return ProjectRow(1, "gitlab", 1, "port/harbour", "harbour", "port/harbour", 0, CREATED)


def scope_of(project: ProjectRow, surface: str = "gitlab.issues") -> Scope:
    return Scope("gitlab", surface, str(project.remote_id), project.id, project.path)


def issue(remote_id: int, updated_at: int = CREATED, **changes: Any) -> Item[IssueRecord]:
    record = IssueRecord(
        remote_id=remote_id, iid=remote_id % 1000, title=f"Issue {remote_id}", description="The crane stops at 40 %.",
        state="opened", author_username="mira", milestone_title=None, due_date=None, confidential=False,
        discussion_locked=False, issue_type="issue", user_notes_count=0, time_estimate_seconds=0,
        time_spent_seconds=0, references_short=None, references_full=None, created_at=CREATED,
        updated_at=updated_at, closed_at=None, web_url=None, labels=(), assignees=(),
    )  # fmt: skip
    return _item(replace(record, **changes))


def merge_request(remote_id: int, updated_at: int = CREATED, **changes: Any) -> Item[MergeRequestRecord]:
    record = MergeRequestRecord(
        remote_id=remote_id, iid=remote_id % 1000, title=f"Change {remote_id}", description=None, state="opened",
        draft=False, author_username="mira", source_branch="topic", target_branch="main", head_sha="a" * 40,
        references_short=None, references_full=None, detailed_merge_status="mergeable", merge_user_username=None,
        milestone_title=None, user_notes_count=0, created_at=CREATED, updated_at=updated_at, merged_at=None,
        closed_at=None, web_url=None, labels=(), assignees=(), reviewers=(),
    )  # fmt: skip
    return _item(replace(record, **changes))


def topic(remote_id: int, *comments: TopicCommentRecord, **changes: Any) -> Item[TopicRecord]:
    record = TopicRecord(
        remote_id=remote_id, node_id=f"D_{remote_id}", iid=remote_id % 1000, title=f"Topic {remote_id}",
        body="How do I moor?", author="mira", association="MEMBER", category="Q&A", is_answered=False, answer_id=None,
        answer_chosen_at=None, upvotes=1, state="opened", state_reason=None, locked=False, created_at=CREATED,
        updated_at=CREATED, closed_at=None, url=f"https://forge.test/d/{remote_id}", comments=comments,
    )  # fmt: skip
    record = replace(record, **changes)
    payload = repr(record).encode()
    return Item(Version(remote_id, record.updated_at, digest(payload)), record.updated_at, payload, record)


def topic_comment(remote_id: int, body: str = "With a rope.", **changes: Any) -> TopicCommentRecord:
    record = TopicCommentRecord(
        remote_id=remote_id, node_id=f"DC_{remote_id}", parent_id=None, author="noor", association="NONE", body=body,
        is_answer=False, upvotes=0, created_at=CREATED, updated_at=CREATED, deleted_at=None, url=None, payload=b"{}",
    )  # fmt: skip
    return replace(record, **changes)


def stored_payload(database: Database, payload_id: int) -> bytes:
    """Return a payload as it came."""
    rows = database.read("SELECT encoding, payload, dictionary_id FROM raw_payloads WHERE id = :id", {"id": payload_id})
    return PayloadReader(database.read).unpack(*rows[0])


def dump(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table that the schema of this database has."""
    known = columns_of(database).keys()
    return {table: sorted(database.read(f"SELECT * FROM {table}"), key=repr) for table in TABLES if table in known}


def _item(record: Any) -> Item[Any]:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    payload = json.dumps({"kind": type(record).__name__, **fields}).encode()
    return Item(Version(record.remote_id, record.updated_at, digest(payload)), record.updated_at, payload, record)
