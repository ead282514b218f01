"""One conversation, whole and in order, and which one is meant; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, issue, merge_request
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

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import ProjectRecord
from tidelore.core.references import Kind, Reference
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.reading.conversations import Conversation, MergeRequestRow, read_conversation, resolve
from tidelore.store.reading.counts import NoteCount, count_discussions, count_events, count_files, count_notes
from tidelore.store.reading.lists import DiscussionCounts, ListFilter, list_parents

SPOKEN = discussion("b", placed(20, "Why?", "src/a.py", 45), note(21, "Because."))
RESOLVED = discussion(
    "c", placed(30, "Nit.", "src/a.py", 46, resolved=True), placed(31, "Done.", "src/a.py", 46, resolved=True)
)
WRITTEN_BY_THE_FORGE = discussion("a", note(10, "added 1 commit", is_system=True))


def talk_of(database: Database, kind: Kind, iid: int, **named: Any) -> Conversation:
    return read_conversation(database, kind, resolve(database, kind, Reference(iid), **named))


@pytest.fixture
def harbour(database: Database) -> ProjectRow:
    return add_project(database)


@pytest.fixture
def filled(database: Database, harbour: ProjectRow) -> Database:
    first = merge_request(1, labels=("b", "A"), assignees=("zoe", "arjun"), reviewers=("mira",))
    keep(database, harbour, MERGE_REQUESTS, [first, merge_request(2)])
    keep(database, harbour, ISSUES, [issue(1, labels=("crane",)), issue(2)])
    # Stored out of order: a conversation is read in the order in which it was held.
    attach(database, harbour, "merge_requests", 1, DISCUSSIONS, RESOLVED, SPOKEN, WRITTEN_BY_THE_FORGE)
    attach(database, harbour, "merge_requests", 2, DISCUSSIONS, discussion("other", note(90, "Elsewhere.")))
    attach(database, harbour, "issues", 1, DISCUSSIONS, discussion("i", note(50, "Seen again."), note(51, "Same.")))
    attach(database, harbour, "merge_requests", 1, RESOURCE_EVENTS, state_event(1), state_event(2, "reopened"))
    attach(database, harbour, "merge_requests", 1, CLOSES_ISSUES, closed_issue(1, 1, "port/harbour#1"))
    attach(
        database, harbour, "merge_requests", 1, DIFFS, file_change("b", "b"), file_change("a", "c", renamed_file=True)
    )
    return database


def test_a_conversation_contains_exactly_its_own_items(filled: Database) -> None:
    talk = talk_of(filled, "mr", 1)
    assert isinstance(talk.parent, MergeRequestRow)
    assert (talk.project, talk.parent.iid, talk.parent.title) == ("port/harbour", 1, "Change 1")
    assert (talk.labels, talk.assignees, talk.reviewers) == (("A", "b"), ("arjun", "zoe"), ("mira",))
    assert [thread.remote_id for thread in talk.threads] == ["a", "b", "c"]
    assert [[each.body for each in thread.notes] for thread in talk.threads[1:]] == [
        ["Why?", "Because."],
        ["Nit.", "Done."],
    ]
    assert [thread.resolved for thread in talk.threads] == [0, 0, 1]
    assert talk.threads[1].notes[0].position_new_line == 45
    assert talk.events == {"state": 2, "label": 0, "milestone": 0, "timeline": 0}
    assert [found.reference for found in talk.closes] == ["port/harbour#1"]
    assert [(found.old_path, found.new_path, found.renamed_file) for found in talk.files] == [
        ("b", "b", False),
        ("a", "c", True),
    ]
    assert talk.parent.discussions_read
    assert talk.parent.discussions_fresh


def test_an_issue_lists_the_merge_requests_that_close_it(filled: Database) -> None:
    talk = talk_of(filled, "issue", 1)
    assert [(found.project, found.iid, found.state) for found in talk.closed_by] == [("port/harbour", 1, "opened")]
    assert [len(thread.notes) for thread in talk.threads] == [2]
    assert talk.labels == ("crane",)
    assert talk_of(filled, "issue", 2).closed_by == ()
    assert not talk_of(filled, "issue", 2).parent.discussions_read


def test_a_merge_request_does_not_close_an_issue_of_another_host(filled: Database) -> None:
    record = ProjectRecord(1, "port/elsewhere", "elsewhere", None, archived=False)
    with filled.transaction() as tx:
        elsewhere = save_project(tx, "other", "port/elsewhere", record, CREATED)
    keep(filled, elsewhere, ISSUES, [issue(1)])
    assert talk_of(filled, "issue", 1, project="elsewhere").closed_by == ()


def test_the_file_list_is_that_of_the_newest_head_read(filled: Database, harbour: ProjectRow) -> None:
    keep(filled, harbour, MERGE_REQUESTS, [merge_request(1, CREATED + 1, head_sha="b" * 40)])
    assert [found.new_path for found in talk_of(filled, "mr", 1).files] == ["b", "c"]
    assert not talk_of(filled, "mr", 1).parent.discussions_fresh
    attach(filled, harbour, "merge_requests", 1, DIFFS, file_change("d", "d", new_file=True))
    assert [found.new_path for found in talk_of(filled, "mr", 1).files] == ["d"]


def test_a_number_found_in_one_project_needs_no_project(filled: Database) -> None:
    keep(filled, add_project(filled, 2, "port/quay"), MERGE_REQUESTS, [merge_request(7)])
    assert talk_of(filled, "mr", 7).project == "port/quay"


@pytest.fixture
def shared(filled: Database) -> Database:
    """Number 1 exists twice."""
    keep(filled, add_project(filled, 2, "port/quay"), MERGE_REQUESTS, [merge_request(1)])
    return filled


def test_a_number_found_in_two_projects_is_refused_with_the_candidates(shared: Database) -> None:
    with pytest.raises(UserError, match="!1 exists in 2 projects") as refused:
        resolve(shared, "mr", Reference(1))
    assert refused.value.exit_code == 2
    assert refused.value.details["candidates"] == ["port/harbour", "port/quay"]
    assert "--project" in str(refused.value.fix)


@pytest.mark.parametrize(
    ("reference", "named", "meant"),
    [
        (Reference(1), {"project": "quay"}, "port/quay"),
        (Reference(1), {"default": "port/quay"}, "port/quay"),
        (Reference(1), {"default": "harbour"}, "port/harbour"),
        (Reference(1, "quay"), {"default": "harbour"}, "port/quay"),
        (Reference(1, "quay"), {"project": "port/quay"}, "port/quay"),
        (Reference(1, "root/port/quay", "https://FORGE.test/port/quay"), {}, "port/quay"),
        (Reference(1, "port/quay", "https://alias.test/port/quay"), {}, "port/quay"),
    ],
)
def test_an_ambiguous_number_is_resolved_by_project_address_or_default(
    shared: Database, reference: Reference, named: dict[str, str], meant: str
) -> None:
    assert read_conversation(shared, "mr", resolve(shared, "mr", reference, **named)).project == meant


@pytest.mark.parametrize("default", ["port/nowhere", "port", ""])
def test_a_default_project_without_that_number_does_not_resolve_it(shared: Database, default: str) -> None:
    with pytest.raises(UserError, match="exists in 2 projects"):
        resolve(shared, "mr", Reference(1), default=default)


def test_projects_with_one_path_on_two_hosts_are_distinguished_by_address(filled: Database) -> None:
    record = ProjectRecord(1, "port/harbour", "harbour", "https://other.test/port/harbour", archived=False)
    with filled.transaction() as tx:
        twin = save_project(tx, "other", "port/harbour", record, CREATED)
    keep(filled, twin, MERGE_REQUESTS, [merge_request(1, title="The twin")])
    with pytest.raises(UserError) as refused:
        resolve(filled, "mr", Reference(1))
    addresses = ["https://forge.test/port/harbour", "https://other.test/port/harbour"]
    assert refused.value.details["candidates"] == addresses
    chosen = resolve(filled, "mr", Reference(1, "port/harbour", addresses[1]))
    assert read_conversation(filled, "mr", chosen).parent.title == "The twin"


def test_a_reference_and_a_project_that_disagree_are_refused(shared: Database) -> None:
    with pytest.raises(UserError, match="names port/quay, --project names port/harbour"):
        resolve(shared, "mr", Reference(1, "quay"), project="harbour")


def test_a_live_item_is_preferred_to_a_deleted_one_which_is_found_when_alone(shared: Database) -> None:
    quay = next(row[0] for row in shared.read("SELECT id FROM projects WHERE path = 'port/quay'"))
    with shared.transaction() as tx:
        tx.execute("UPDATE merge_requests SET deleted_at = 5 WHERE project_id = :id", {"id": quay})
    assert talk_of(shared, "mr", 1).project == "port/harbour"
    assert talk_of(shared, "mr", 1, project="quay").parent.deleted_at == 5


def test_a_missing_item_is_not_found_and_the_other_kind_is_suggested(filled: Database, harbour: ProjectRow) -> None:
    keep(filled, harbour, ISSUES, [issue(40)])
    with pytest.raises(NotFound, match="no merge request !40") as missing:
        resolve(filled, "mr", Reference(40))
    assert missing.value.fix == "there is an issue of that number: `lore show issue 40`"
    with pytest.raises(NotFound, match="no issue #41 of port/harbour") as missing:
        resolve(filled, "issue", Reference(41), project="harbour")
    assert "lore sync" in str(missing.value.fix)
    with pytest.raises(NotFound, match="no project matches"):
        resolve(filled, "issue", Reference(1, "no/where"))


def test_children_are_counted_by_the_kind_of_their_parent(filled: Database) -> None:
    assert (count_discussions(filled, "mr", None), count_discussions(filled, "issue", None)) == (4, 1)
    assert count_notes(filled, "mr", None) == NoteCount(total=5, system=1, diff_notes=3)
    assert count_notes(filled, "issue", None) == NoteCount(total=2)
    assert count_events(filled, "mr", None) == {"state": 2, "label": 0, "milestone": 0, "timeline": 0}
    assert count_events(filled, "issue", None) == {"state": 0, "label": 0, "milestone": 0, "timeline": 0}
    assert count_files(filled, None) == 2


def test_children_are_counted_for_one_project_and_for_live_parents_only(filled: Database, harbour: ProjectRow) -> None:
    quay = add_project(filled, 2, "port/quay")
    assert count_notes(filled, "mr", quay.id) == NoteCount()
    assert (count_discussions(filled, "mr", quay.id), count_files(filled, quay.id)) == (0, 0)
    assert count_notes(filled, "mr", harbour.id).total == 5
    keep(filled, harbour, MERGE_REQUESTS, [], gone=[1])
    assert count_notes(filled, "mr", None) == NoteCount(total=1)
    assert (count_discussions(filled, "mr", None), count_files(filled, None)) == (1, 0)
    assert count_events(filled, "mr", harbour.id)["state"] == 0


def test_a_list_includes_discussion_counts_only_when_requested(filled: Database) -> None:
    said = {row.iid: row.talk for row in list_parents(filled, MERGE_REQUEST, ListFilter(with_talk=True)).items}
    assert said == {1: DiscussionCounts(discussions=2, unresolved=1), 2: DiscussionCounts(discussions=1)}
    unasked = list_parents(filled, MERGE_REQUEST, ListFilter()).items
    assert {row.talk for row in unasked} == {DiscussionCounts()}


def test_issues_are_listed_by_their_status(filled: Database) -> None:
    with filled.transaction() as tx:
        tx.execute("UPDATE issues SET status_name = 'In progress' WHERE iid = 2")
    found = list_parents(filled, ISSUE, ListFilter(status="In progress")).items
    assert [(row.iid, row.status_name) for row in found] == [(2, "In progress")]
    assert list_parents(filled, ISSUE, ListFilter(status="Done")).total == 0


def test_a_conversation_is_read_without_table_scans(tmp_path: Any) -> None:
    from tidelore.store.database.migrate import migrate
    from tidelore.store.database.sqlite import SqliteDatabase

    asked: list[tuple[str, Any]] = []

    class Watched(SqliteDatabase):
        def read(self, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
            asked.append((sql, params))
            return self.execute(sql, params)

    database = Watched(str(tmp_path / "lore.db"))
    try:
        migrate(database, 1)
        project = add_project(database)
        keep(database, project, MERGE_REQUESTS, [merge_request(1)])
        keep(database, project, ISSUES, [issue(1)])
        asked.clear()
        kinds: tuple[Kind, ...] = ("issue", "mr")
        for kind in kinds:
            talk_of(database, kind, 1)
        for parent in (ISSUE, MERGE_REQUEST):
            list_parents(database, parent, ListFilter(with_talk=True))
        steps = [step for sql, params in asked for *_, step in database.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
    finally:
        database.close()
    # Lists may walk an index of their parents, never their rows; `p` and `projects` are few. What grows with the
    # conversations may not be walked at all.
    walked = {step.split()[1] for step in steps if step.startswith("SCAN")}
    assert "SCAN t" not in steps, steps
    assert any(" notes " in sql for sql, _ in asked)
    assert walked <= {"p", "t", "projects", "json_each"}, walked
