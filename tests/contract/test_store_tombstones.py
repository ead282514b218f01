"""What the forge deleted is deleted here: a tombstone keeps identity and times, and nothing that was said."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.letters import document, embedded
from tests.databases.samples import CREATED, add_project, dump, issue, merge_request, scope_of, stored_payload
from tests.databases.talk import (
    CLOSES_ISSUES,
    DIFFS,
    DISCUSSIONS,
    RESOURCE_EVENTS,
    attach,
    closed_issue,
    discussion,
    file_change,
    keep,
    note,
    placed,
    state_event,
)

from tidelore.core.model import Item, Rejected
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.child_writer import ChildWriter
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow

SECRET = "xyzzy"
"""In every word of the item that is deleted."""
KEPT = {"id", "remote_id", "project_id", "iid", "state", "references_short", "references_full", "created_at",
        "updated_at", "closed_at", "merged_at", "last_seen_at", "deleted_at", "web_url", "confidential"}  # fmt: skip


class Copy:
    """A project with one item that will be deleted and one that stays."""

    def __init__(self, database: Database, table: str) -> None:
        self.database, self.table = database, table
        self.project: ProjectRow = add_project(database)
        self.family: Any = ISSUES if table == "issues" else MERGE_REQUESTS
        self.doomed = self._make(1, description=f"{SECRET} said so", labels=(f"{SECRET}-label",))
        self.store()
        if table == "issues":
            keep(database, self.project, MERGE_REQUESTS, [merge_request(3)])
            closing = closed_issue(1, 1, "port/harbour#1", f"{SECRET} title")
            attach(database, self.project, "merge_requests", 3, CLOSES_ISSUES, closing)
        document(database)
        embedded(database)

    def _make(self, number: int, **changes: Any) -> Item[Any]:
        if self.table == "issues":
            people: dict[str, Any] = {"assignees": (f"{SECRET}-user",)}
            return issue(number, title=f"{SECRET} title", milestone_title=SECRET, **people, **changes)
        people = {"assignees": (f"{SECRET}-user",), "reviewers": (f"{SECRET}-reviewer",)}
        return merge_request(number, title=f"{SECRET} title", source_branch=SECRET, **people, **changes)

    def store(self) -> None:
        """Store the doomed item as a run does: an earlier version, the last one, and its children."""
        other = issue(2) if self.table == "issues" else merge_request(2)
        self.commit(self._make(1, updated_at=CREATED - 5, description=f"{SECRET} before"), other)
        self.commit(self.doomed)
        talk = discussion("d1", note(11, f"{SECRET} note"), placed(12, f"{SECRET} placed", f"{SECRET}.py", 4))
        self.attach(DISCUSSIONS, talk, iid=1)
        self.attach(DISCUSSIONS, discussion("d2", note(21, "This note stays.")), iid=2)
        self.attach(RESOURCE_EVENTS, state_event(31), iid=1)
        if self.table == "merge_requests":
            self.attach(DIFFS, file_change(f"{SECRET}.py", f"{SECRET}.py"), iid=1)
            self.attach(CLOSES_ISSUES, closed_issue(51, 51, "port/harbour#51", f"{SECRET} issue"), iid=1)

    def commit(self, *items: Item[Any], **batch: Any) -> None:
        keep(self.database, self.project, self.family, items, **batch)

    def attach(self, kind: Any, *items: Item[Any], iid: int) -> None:
        attach(self.database, self.project, self.table, iid, kind, *items)

    def child_writer(self) -> ChildWriter:
        scope = scope_of(self.project, f"gitlab.{self.table}")
        return ChildWriter(self.database, scope, PARENT_KINDS[self.table], DISCUSSIONS, lambda: CREATED + 99)

    def progress(self) -> dict[str, tuple[int, int | None, int | None]]:
        """How far the children of the doomed item were read, by kind."""
        rows = self.database.read(
            "SELECT c.kind, c.parent_updated_at, c.synced_for, c.last_attempt_at FROM child_sync c"
            f" JOIN {self.table} p ON p.id = c.parent_id WHERE c.parent_kind = :table AND p.remote_id = 1",
            {"table": self.table},
        )
        return {kind: (version, synced_for, read_at) for kind, version, synced_for, read_at in rows}

    def row(self) -> dict[str, Any]:
        names = self.database.read(
            f"SELECT name FROM pragma_table_info('{self.table}')"
            if self.database.dialect == "sqlite"
            else "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            f" AND table_name = '{self.table}'"
        )
        columns = [name for (name,) in names]
        values = self.database.read(f"SELECT {', '.join(columns)} FROM {self.table} WHERE remote_id = 1")[0]
        return dict(zip(columns, values, strict=True))

    def texts(self) -> dict[str, str]:
        """Return the tables in which a word of the deleted item can be read."""
        tables = dump(self.database)
        numbers = self.database.read("SELECT id FROM raw_payloads")
        # A project keeps its labels, as the forge does.
        del tables["labels"]
        tables["raw_payloads"] = [(row_id, stored_payload(self.database, row_id)) for (row_id,) in numbers]
        return {name: repr(rows) for name, rows in tables.items() if SECRET in repr(rows)}

    def unsound(self) -> list[str]:
        return [
            f"{found.check}: {found.detail}" for found in check_database(self.database, CREATED + 99) if not found.ok
        ]


@pytest.fixture(params=["issues", "merge_requests"])
def copy(request: pytest.FixtureRequest, database: Database) -> Copy:
    return Copy(database, request.param)


def test_no_table_contains_text_of_a_deleted_item(copy: Copy) -> None:
    assert {"notes", "documents", "raw_payloads", copy.table} <= copy.texts().keys()
    copy.commit(gone=[1])
    assert copy.texts() == {}
    assert copy.database.read("SELECT body FROM notes") == [("This note stays.",)]
    assert copy.unsound() == []


def test_a_tombstone_keeps_identity_and_times_only(copy: Copy) -> None:
    before = copy.row()
    copy.commit(gone=[1])
    after = copy.row()
    kept = KEPT & before.keys()
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept} | {"deleted_at": CREATED + 99}
    words = {name: value for name, value in after.items() if name not in KEPT and isinstance(value, str) and value}
    assert words == {}


def test_vectors_of_a_deleted_item_are_deleted_with_its_documents(copy: Copy) -> None:
    (before,) = copy.database.read("SELECT COUNT(*) FROM embeddings")[0]
    copy.commit(gone=[1])
    (documents,) = copy.database.read("SELECT COUNT(*) FROM documents")[0]
    (after,) = copy.database.read("SELECT COUNT(*) FROM embeddings")[0]
    assert (before - after, after) == (2, documents)


def test_quarantine_entries_of_a_deleted_item_are_deleted(copy: Copy) -> None:
    copy.commit(rejected=[Rejected("1", "1", SECRET.encode(), "title missing")])
    assert len(copy.database.read("SELECT 1 FROM quarantine")) == 1
    copy.commit(gone=[1])
    assert copy.database.read("SELECT 1 FROM quarantine") == []


def test_a_deleted_item_that_reappears_is_restored_completely(copy: Copy) -> None:
    ignored = {"raw_payloads", "dirty_sources", "cursors", "documents", "embeddings", "embedding_blocks",
               "embedding_holes", "embedding_models", "document_words", "mr_closes_issues", "leases",
               "sync_runs"}  # fmt: skip

    def contents() -> dict[str, list[str]]:
        rows = {name: rows for name, rows in dump(copy.database).items() if name not in ignored}
        # The numbers of rows that were made anew differ.
        for name in ("discussions", "notes", "resource_state_events", "mr_file_changes", copy.table):
            rows[name] = copy.database.read(f"SELECT {LASTING[name]} FROM {name} ORDER BY 1, 2")
        return {name: list(map(repr, found)) for name, found in rows.items()}

    before = contents()
    copy.commit(gone=[1])
    copy.commit(copy.doomed)
    due = copy.child_writer().due(10)
    assert [parent.iid for parent in due] == [1], "its discussions are due, though its `updated_at` did not move"
    assert copy.row()["content_hash"] == copy.doomed.version.digest
    copy.store()
    document(copy.database)
    assert contents() == before
    assert copy.unsound() == []


def test_the_status_of_a_restored_issue_is_due(database: Database) -> None:
    copy = Copy(database, "issues")
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET status_name = 'Doing'")
        tx.execute("UPDATE child_sync SET synced_for = parent_updated_at WHERE kind = 'status'")
    copy.commit(gone=[1])
    assert (copy.row()["status_name"], "status" in copy.progress()) == (None, False)
    copy.commit(copy.doomed)
    assert copy.progress()["status"] == (CREATED, None, None)


def test_children_fetched_before_their_parent_was_found_deleted_are_not_stored(copy: Copy) -> None:
    copy.commit(gone=[1])
    copy.attach(DISCUSSIONS, discussion("d1", note(11, f"{SECRET} note")), iid=1)
    assert copy.texts() == {}
    assert copy.progress() == {}


def test_tombstones_are_excluded_from_due_and_unverified_indexes(copy: Copy) -> None:
    copy.commit(gone=[1])
    assert copy.progress() == {}
    copy.commit(copy.doomed)
    assert copy.progress().keys() == set(PARENT_KINDS[copy.table].kinds)


LASTING = {
    "issues": "remote_id, title, description, state, author_username, milestone_title, content_hash, deleted_at",
    "merge_requests": "remote_id, title, description, state, author_username, source_branch, head_sha, content_hash,"
    " deleted_at",
    "discussions": "remote_id, noteable_type, first_note_at, content_hash",
    "notes": "remote_id, body, author_username, position_new_path",
    "resource_state_events": "remote_id, state",
    "mr_file_changes": "new_path, head_sha",
}
