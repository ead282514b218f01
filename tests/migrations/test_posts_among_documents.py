"""A copy of schema 6 with documents, full text and vectors takes in posts and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from tests.databases.feeds import MIRA, follow, post, share, uri_of
from tests.databases.letters import document, embedded, titles_near
from tests.databases.samples import CREATED

from tidelore.errors import IntegrityError
from tidelore.search.finding import Request, find
from tidelore.search.query import parse_query
from tidelore.store.check import check_database
from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter
from tidelore.store.migrate import migrate
from tidelore.store.opening import open_database

BEFORE = 6
KEPT = (
    "projects", "issues", "documents", "dirty_sources", "embedding_models", "embeddings", "embedding_blocks",
    "embedding_holes",
)  # fmt: skip
FIRST = 101
"""So far from the first rows that a sequence of PostgreSQL, which these rows pass by, does not meet them."""
TITLES = ("aaaa crane", "bbbb tide", "cccc quay")


def fill(database: Database) -> None:
    """Rows as the program of that schema wrote them, in the words of that schema."""
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO projects (id, source, remote_id, path, name, configured, created_at, updated_at)"
            " VALUES (1, 'gitlab', 1, 'port/harbour', 'harbour', 'port/harbour', 1, 1)"
        )
        for number, title in enumerate(TITLES, FIRST):
            values = {"id": number, "title": title, "at": CREATED + number, "hash": bytes([number]) * 20}
            tx.execute(
                "INSERT INTO raw_payloads (id, content_hash, project_id, resource_type, remote_id, encoding, payload,"
                " fetched_at) VALUES (:id, :hash, 1, 'issue', CAST(:id AS TEXT), 'identity', :hash, 1)",
                values,
            )
            tx.execute(
                "INSERT INTO issues (id, remote_id, project_id, iid, title, state, created_at, updated_at,"
                " last_seen_at, content_hash, raw_payload_id)"
                " VALUES (:id, :id, 1, :id, :title, 'opened', :at, :at, :at, :hash, :id)",
                values,
            )
            tx.execute(
                "INSERT INTO documents (id, source_type, source_id, project_id, thread_type, thread_id, title, state,"
                " participants, labels, paths, identifiers, content, created_at, updated_at, generated_at,"
                " content_hash)"
                " VALUES (:id, 'issue', :id, 1, 'issue', :id, :title, 'opened', 'mira', 'bug', '', 'dock/crane.py',"
                " 'It stops at noon.', :at, :at, :at, :hash)",
                values,
            )
        tx.execute("INSERT INTO dirty_sources (source_type, source_id, queued_at) VALUES ('issue', 103, 7)")
    embedded(database)


def contents(database: Database) -> dict[str, list[str]]:
    return {table: sorted(map(repr, database.read(f"SELECT * FROM {table}"))) for table in KEPT}


def found(database: Database, query: str, wanted: DocumentFilter | None = None) -> list[str]:
    request = Request(query=parse_query(query), wanted=wanted or DocumentFilter(), mode="lexical")
    return [thread.title for thread in find(database, request).threads]


@pytest.fixture
def upgraded(connect: Callable[[], Database], address: str) -> Database:
    old = connect()
    migrate(old, 1, upto=BEFORE)
    fill(old)
    before = contents(old)
    beside = connect()
    assert len(beside.read("SELECT id FROM documents")) == 3
    assert BEFORE + 1 in migrate(old, 2)
    assert contents(old) == before
    assert contents(beside) == before, "a program that had the database open sees the same"
    return old


def test_after_the_upgrade_every_document_is_found_by_words_paths_and_vectors(upgraded: Database, address: str) -> None:
    for database in (upgraded, open_database(address)):
        with closing(database):
            assert found(database, "tide") == ["bbbb tide"]
            assert sorted(found(database, "", DocumentFilter(path="dock/crane"))) == sorted(TITLES)
            assert titles_near(database, "cccc cccc", 1) == ["cccc quay"]
            assert database.problems() == []
            if database.dialect == "sqlite":
                for index in ("documents_fts", "documents_trigram"):
                    database.read(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")


def test_after_the_upgrade_full_text_and_vectors_follow_changes(upgraded: Database) -> None:
    with upgraded.transaction() as tx:
        tx.execute("UPDATE documents SET title = 'eeee gull' WHERE id = 101")
        tx.execute("DELETE FROM documents WHERE id = 102")
    assert (found(upgraded, "crane"), found(upgraded, "gull"), found(upgraded, "tide")) == ([], ["eeee gull"], [])
    assert upgraded.read("SELECT COUNT(*) FROM embeddings WHERE document_id = 102") == [(0,)]
    assert titles_near(upgraded, "bbbb", 3)[0] != "bbbb tide"


def test_after_the_upgrade_posts_are_searched_with_older_documents(upgraded: Database) -> None:
    follow(upgraded, MIRA)
    share(upgraded, post(MIRA, "a", text="The tide turns."))
    document(upgraded)
    embedded(upgraded)
    request = Request(query=parse_query("tide"), mode="lexical")
    assert {thread.reference for thread in find(upgraded, request).threads} == {uri_of(MIRA, "a"), "port/harbour#102"}
    assert found(upgraded, "tide", DocumentFilter(type="post")) == ["@mira.test"]
    bad = {finding.check for finding in check_database(upgraded, CREATED + 1) if not finding.ok}
    assert bad <= {"payloads-intact"}, "only the payloads of this test are made up"


@pytest.mark.parametrize(
    ("source_type", "project"),
    [("post", 1), ("issue", None), ("toot", None)],
    ids=["owned-post", "lost-issue", "unknown"],
)
def test_a_post_has_no_project_and_every_other_document_has_one(
    upgraded: Database, source_type: str, project: int | None
) -> None:
    with pytest.raises(IntegrityError), upgraded.transaction() as tx:
        tx.execute(
            "INSERT INTO documents (source_type, source_id, project_id, thread_type, thread_id, title, state,"
            " participants, labels, paths, identifiers, content, created_at, updated_at, generated_at, content_hash)"
            " SELECT :type, 99, :project, thread_type, 99, title, state, participants, labels, paths, identifiers,"
            " content, created_at, updated_at, generated_at, content_hash FROM documents WHERE id = 101",
            {"type": source_type, "project": project},
        )
