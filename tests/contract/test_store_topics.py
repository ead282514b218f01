"""Topics are stored with all their comments, replaced as a whole, and leave nothing behind that was deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.letters import document
from tests.databases.samples import CREATED, add_project, dump, issue, scope_of, topic, topic_comment
from tests.databases.talk import keep

from tidelore.core.errors import NotFound, UserError
from tidelore.core.model import Item, TopicRecord
from tidelore.core.references import Reference
from tidelore.engine.cursor import Cursor
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Batch, Page
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.mirror.topics import TopicTable
from tidelore.store.reading.conversations import resolve
from tidelore.store.reading.found_documents import read_documents
from tidelore.store.reading.topics import TopicFilter, list_topics, read_topic, resolve_topic

SECRET = "xyzzy"


class Topics:
    """A project with topics."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.project: ProjectRow = add_project(database)
        scope = scope_of(self.project, "github.topics")
        self.writer: PageWriter[TopicRecord] = PageWriter(database, scope, TopicTable(), lambda: CREATED + 99)

    def commit(self, *items: Item[TopicRecord], **batch: Any) -> None:
        self.writer.commit(Batch(items, Cursor(), **batch))

    def read(self, sql: str) -> list[Any]:
        return self.database.read(sql)


@pytest.fixture
def topics(database: Database) -> Topics:
    return Topics(database)


def test_a_topic_is_stored_with_its_comments_in_order(topics: Topics) -> None:
    said = [
        topic_comment(5, "first", is_answer=True, upvotes=3),
        topic_comment(9, "reply", parent_id=5),
        topic_comment(7, "", author=None, deleted_at=CREATED + 1),
    ]
    topics.commit(topic(1, *said, is_answered=True, answer_id=5, locked=True, state="closed", state_reason="resolved"))
    assert topics.read(
        "SELECT iid, node_id, title, body, author_username, author_association, category, is_answered,"
        " answer_remote_id, upvotes, state, state_reason, locked, web_url FROM topics"
    ) == [
        (
            1, "D_1", "Topic 1", "How do I moor?", "mira", "MEMBER", "Q&A", 1, 5, 1, "closed", "resolved", 1,
            "https://forge.test/d/1",
        )
    ]  # fmt: skip
    assert topics.read(
        "SELECT remote_id, in_reply_to, author_username, body, is_answer, upvotes, deleted_at FROM topic_comments"
        " ORDER BY position"
    ) == [
        (5, None, "noor", "first", 1, 3, None),
        (9, 5, "noor", "reply", 0, 0, None),
        (7, None, None, "", 0, 0, CREATED + 1),
    ]


def test_a_category_without_answers_leaves_the_answered_state_unknown(topics: Topics) -> None:
    topics.commit(topic(1, is_answered=None))
    assert topics.read("SELECT is_answered FROM topics") == [(None,)]


def test_a_new_version_replaces_all_comments_and_the_payload(topics: Topics) -> None:
    topics.commit(topic(1, topic_comment(5, SECRET), topic_comment(6, "kept")), topic(2, topic_comment(8)))
    topics.commit(topic(1, topic_comment(6, "edited"), updated_at=CREATED + 5))
    assert topics.read("SELECT remote_id, body FROM topic_comments ORDER BY remote_id") == [
        (6, "edited"),
        (8, "With a rope."),
    ]
    assert topics.read("SELECT COUNT(*) FROM raw_payloads") == [(2,)]


def test_a_page_that_is_read_again_changes_nothing(topics: Topics) -> None:
    items = [topic(1, topic_comment(5)), topic(2)]
    topics.commit(*items)
    before = dump(topics.database)
    intake: Intake[TopicRecord] = Intake(topics.writer, lambda: CREATED + 500)
    intake.take(Page(items), Cursor())
    assert dump(topics.database) == before
    assert (intake.tally.created, intake.tally.changed, intake.tally.replayed) == (0, 0, 2)


def test_a_comment_that_appears_twice_is_stored_once(topics: Topics) -> None:
    topics.commit(topic(1, topic_comment(5, "old"), topic_comment(5, "new")))
    assert topics.read("SELECT body FROM topic_comments") == [("new",)]


def test_a_deleted_topic_keeps_nothing_that_was_said(topics: Topics) -> None:
    secret = topic(
        1,
        topic_comment(5, f"{SECRET} comment", author=f"{SECRET}-user", is_answer=True),
        title=f"{SECRET} title", body=f"{SECRET} body", author=f"{SECRET}-author", category=f"{SECRET} category",
        is_answered=True, answer_id=5,
    )  # fmt: skip
    topics.commit(secret, topic(2, topic_comment(8)))
    document(topics.database)
    topics.commit(gone=[1])
    kept = [row for table in dump(topics.database).values() for row in table if SECRET in repr(row)]
    assert kept == []
    assert topics.read("SELECT iid, deleted_at, is_answered, answer_remote_id FROM topics WHERE remote_id = 1") == [
        (1, CREATED + 99, None, None)
    ]
    assert topics.read("SELECT remote_id FROM topic_comments") == [(8,)]
    assert topics.read("SELECT title FROM documents") == [("Topic 2",)]
    assert [found for found in check_database(topics.database, CREATED + 100) if not found.ok] == []
    assert topics.writer.stored([1, 2]).keys() == {2}
    assert topics.writer.held(0, None) == {2: "2"}


def test_a_deleted_topic_that_appears_again_is_stored_like_a_new_one(topics: Topics) -> None:
    item = topic(1, topic_comment(5))
    topics.commit(item)
    topics.commit(gone=[1])
    topics.commit(item)
    assert topics.read("SELECT title, deleted_at FROM topics") == [("Topic 1", None)]
    assert topics.read("SELECT remote_id FROM topic_comments") == [(5,)]


def test_a_topic_becomes_one_document_with_its_comments(topics: Topics) -> None:
    said = [topic_comment(5, "Use a bollard.", is_answer=True), topic_comment(6, "", deleted_at=CREATED)]
    topics.commit(topic(1, *said))
    document(topics.database)
    (row,) = topics.read(
        "SELECT source_type, thread_type, title, state, author_username, participants, labels, content, url"
        " FROM documents"
    )
    assert row[:7] == ("topic", "topic", "Topic 1", "opened", "mira", "mira\nnoor", "Q&A")
    assert row[7].split("\n\f\n") == ["How do I moor?", "@noor (2023-11-14) [answer]: Use a bollard."]
    assert row[8] == "https://forge.test/d/1"


def test_a_changed_topic_gets_a_new_document(topics: Topics) -> None:
    topics.commit(topic(1, topic_comment(5, SECRET)))
    document(topics.database)
    topics.commit(topic(1))
    document(topics.database)
    assert topics.read("SELECT content FROM documents") == [("How do I moor?",)]
    assert topics.read("SELECT COUNT(*) FROM dirty_sources") == [(0,)]


def test_the_readable_view_counts_the_comments_that_exist(topics: Topics) -> None:
    topics.commit(topic(1, topic_comment(5), topic_comment(6, "", deleted_at=CREATED)), topic(2))
    topics.commit(gone=[2])
    assert topics.read("SELECT project, iid, category, comments, created FROM v_topics") == [
        ("port/harbour", 1, "Q&A", 1, "2023-11-14T22:13:20.000Z")
    ]


def test_topics_are_listed_in_pages_by_filters(topics: Topics) -> None:
    topics.commit(
        topic(1, topic_comment(5), topic_comment(6, "", deleted_at=CREATED), updated_at=CREATED + 9),
        topic(2, is_answered=True, category="Ideas", author="noor", state="closed"),
        topic(3, is_answered=None, created_at=CREATED - 5),
        topic(4),
    )
    topics.commit(gone=[4])

    def found(**wanted: Any) -> list[int]:
        return [row.iid for row in list_topics(topics.database, TopicFilter(**wanted)).items]

    assert found() == [1, 3, 2]
    assert found(sort="created", ascending=True) == [3, 1, 2]
    assert (found(answered=True), found(answered=False)) == ([2], [1])
    assert (found(category="Ideas"), found(author="noor"), found(state="closed")) == ([2], [2], [2])
    assert (found(since=CREATED + 1), found(deleted=True)) == ([1], [4])
    assert (found(project_id=topics.project.id), found(project_id=topics.project.id + 1)) == ([1, 3, 2], [])
    first = list_topics(topics.database, TopicFilter(limit=2))
    assert (first.total, first.items[0].comments) == (3, 1)
    assert found(limit=2, after=first.next) == [2]
    assert list_topics(topics.database, TopicFilter(limit=3)).next is None


def test_a_reference_resolves_to_the_topic_of_its_project(topics: Topics) -> None:
    topics.commit(topic(7, topic_comment(5), topic_comment(6, parent_id=5)))
    row_id = resolve_topic(topics.database, Reference(7, "port/harbour"))
    row, comments = read_topic(topics.database, row_id)
    assert (row.project, row.iid, [comment.in_reply_to for comment in comments]) == ("port/harbour", 7, [None, 5])
    other = add_project(topics.database, 2, "port/quay")
    scope = scope_of(other, "github.topics")
    PageWriter(topics.database, scope, TopicTable(), lambda: CREATED).commit(Batch([topic(7)], Cursor()))
    with pytest.raises(UserError, match="exists in 2 projects"):
        resolve_topic(topics.database, Reference(7))
    assert resolve_topic(topics.database, Reference(7), default="port/harbour") == row_id
    assert resolve_topic(topics.database, Reference(7), project="quay") != row_id


def test_a_number_of_another_kind_of_item_is_named_in_the_error(topics: Topics) -> None:
    topics.commit(topic(7))
    keep(topics.database, topics.project, ISSUES, [issue(8)])
    with pytest.raises(NotFound) as missing:
        resolve(topics.database, "issue", Reference(7))
    assert "lore show topic 7" in (missing.value.fix or "")
    with pytest.raises(NotFound) as missing:
        resolve_topic(topics.database, Reference(8))
    assert "lore show issue 8" in (missing.value.fix or "")


def test_the_document_of_a_topic_names_its_thread(topics: Topics) -> None:
    topics.commit(topic(7))
    document(topics.database)
    ((row_id,),) = topics.read("SELECT id FROM documents")
    row = read_documents(topics.database, [row_id])[row_id]
    assert (row.thread_type, row.project, row.iid) == ("topic", "port/harbour", 7)
