"""Marks and documents: a mark with every change, a document for every source, nothing written twice."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import DIFFS, DISCUSSIONS, attach, discussion, file_change, keep, note, placed
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config
from tidelore.core.progress import DocumentReport
from tidelore.documents.generation import BATCH, make_documents
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.documents import DocumentSource, count_dirty, due_sources, mark, marks_of, wipe
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.work.session import Workshop, open_session


def made(database: Database, only: list[DocumentSource] | None = None, seam: Crashpoint = no_seam) -> DocumentReport:
    async def run() -> DocumentReport:
        shop = Workshop(database, Config(), ManualClock(CREATED + 5000), seam, "test")
        async with open_session(shop, force=True, phase="docs") as session:
            return await make_documents(session, only=only)

    return asyncio.run(run())


def marked(database: Database) -> set[tuple[str, int]]:
    return {(entry.type, entry.id) for entry in due_sources(database, 10_000)}


def texts(database: Database) -> dict[tuple[str, int], str]:
    rows = database.read("SELECT source_type, source_id, title || '|' || labels || '|' || content FROM documents")
    return {(source_type, source_id): text for source_type, source_id, text in rows}


def test_every_change_marks_the_affected_documents_in_the_same_transaction(database: Database) -> None:
    project = add_project(database)
    keep(database, project, MERGE_REQUESTS, [merge_request(1)])
    assert marked(database) == {("merge_request", 1)}
    made(database)
    assert marked(database) == set()
    attach(database, project, "merge_requests", 1, DISCUSSIONS, discussion("d1", note(1, "A word")))
    assert marked(database) == {("merge_request", 1), ("discussion", 1)}
    made(database)
    attach(database, project, "merge_requests", 1, DISCUSSIONS, discussion("d1", note(1, "A word")))
    assert marked(database) == set(), "what did not change is not marked"
    attach(database, project, "merge_requests", 1, DIFFS, file_change("a.py", "a.py"))
    assert marked(database) == {("merge_request", 1)}
    keep(database, project, MERGE_REQUESTS, [merge_request(1, CREATED + 1, title="New title")])
    assert marked(database) == {("merge_request", 1), ("discussion", 1)}, "a thread carries its parent's title"


def test_a_parent_and_its_threads_have_a_document_each(database: Database) -> None:
    project = add_project(database)
    keep(database, project, MERGE_REQUESTS, [merge_request(1, labels=("bug", "db"))])
    attach(
        database, project, "merge_requests", 1, DISCUSSIONS,
        discussion("d1", placed(1, "Why?", "a/b.py", 4), note(2, "Because.")),
        discussion("d2", note(3, "only the system", is_system=True)),
    )  # fmt: skip
    attach(database, project, "merge_requests", 1, DIFFS, file_change("a/b.py", "a/b.py"))
    report = made(database)
    assert sorted(kind for kind, _ in texts(database)) == ["discussion", "merge_request"]
    assert report.regenerated == 2
    found = texts(database)
    assert "bug\ndb" in found["discussion", 1]
    assert "[a/b.py:4]: Why?" in found["discussion", 1]
    assert database.read("SELECT paths FROM documents WHERE source_type = 'merge_request'") == [("a/b.py",)]


def test_a_document_whose_content_is_the_same_is_not_written_again(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    first = made(database)
    assert (first.regenerated, len(first.document_ids)) == (2, 2)
    before = database.read("SELECT * FROM documents ORDER BY id")
    with database.transaction() as tx:
        mark(tx, "issue", [1, 2], CREATED + 7)
    again = made(database)
    assert (again.regenerated, again.unchanged, again.document_ids) == (0, 2, [])
    assert database.read("SELECT * FROM documents ORDER BY id") == before


def test_deleting_an_item_deletes_its_documents(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    attach(database, project, "issues", 1, DISCUSSIONS, discussion("d1", note(1, "x")), discussion("d2", note(2, "y")))
    made(database)
    attach(database, project, "issues", 1, DISCUSSIONS, discussion("d1", note(1, "x")))
    assert made(database).removed == 1
    keep(database, project, ISSUES, [], gone=[1])
    assert set(texts(database)) == {("issue", 2)}, "in the transaction that finds it gone"
    assert made(database).removed == 0


def test_a_restored_parent_gets_its_document_again(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1)])
    keep(database, project, ISSUES, [], gone=[1])
    assert made(database).regenerated == 0
    keep(database, project, ISSUES, [issue(1)])
    assert made(database).regenerated == 1


def test_only_the_named_documents_are_built_and_other_marks_stay(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2), issue(3)])
    assert made(database, [DocumentSource("issue", 2), DocumentSource("issue", 99)]).regenerated == 1
    assert marked(database) == {("issue", 1), ("issue", 3)}


def test_a_mark_set_while_its_document_is_being_built_stays(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1)])
    (seen,) = marks_of(database, [DocumentSource("issue", 1)])
    with database.transaction() as tx:
        mark(tx, "issue", [1], seen.queued_at + 1)
        wipe(tx, [seen])
    assert count_dirty(database) == 1


def test_several_batches_of_documents_are_built_and_each_source_once(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(number) for number in range(1, BATCH + 30)])
    report = made(database)
    assert (report.regenerated, count_dirty(database)) == (BATCH + 29, 0)


def test_after_a_kill_inside_a_batch_the_next_run_builds_all_its_documents(database: Database) -> None:
    class Killed(BaseException):
        pass

    def die(seam: Seam) -> None:
        if seam is Seam.INSIDE_COMMIT:
            raise Killed

    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    with pytest.raises(Killed):
        made(database, seam=die)
    assert (texts(database), count_dirty(database)) == ({}, 2)
    assert made(database).regenerated == 2


def test_the_full_text_index_follows_every_change_of_a_document(database: Database) -> None:
    def hits(word: str) -> int:
        sql = (
            "SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH :word"
            if database.dialect == "sqlite"
            else "SELECT COUNT(*) FROM documents WHERE search_vector @@ plainto_tsquery('lore_words', :word)"
        )
        return int(database.read(sql, {"word": word})[0][0])

    project = add_project(database)
    keep(database, project, ISSUES, [issue(1, title="Zebra crossing")])
    made(database)
    assert (hits("zebra"), hits("giraffe")) == (1, 0)
    keep(database, project, ISSUES, [issue(1, CREATED + 1, title="Giraffe crossing")])
    made(database)
    assert (hits("zebra"), hits("giraffe")) == (0, 1)
    keep(database, project, ISSUES, [], gone=[1])
    made(database)
    assert hits("giraffe") == 0


def findings(database: Database) -> dict[str, str]:
    return {found.check: found.detail for found in check_database(database, CREATED + 9000) if not found.ok}


def test_an_item_without_document_and_without_mark_is_found(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    assert findings(database) == {}
    with database.transaction() as tx:
        tx.execute("DELETE FROM dirty_sources WHERE source_id = 2")
    assert findings(database) == {"documents": "items without a document and without a mark: issue 2"}


def test_a_document_without_its_source_is_found(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1)])
    attach(database, project, "issues", 1, DISCUSSIONS, discussion("d1", note(1, "x")))
    made(database)
    assert findings(database) == {}
    with database.transaction() as tx:
        tx.execute("DELETE FROM discussions")
    assert set(findings(database)) == {"documents-of-nothing"}


def test_a_document_with_an_endless_word_is_written_at_once(database: Database) -> None:
    project = add_project(database)
    # PostgreSQL needs 11 minutes to parse this as one word.
    keep(database, project, ISSUES, [issue(1, description=f"{'a_' * 150_000} after"), issue(2)])
    began = time.monotonic()
    made(database)
    assert time.monotonic() - began < 30
    assert "after" in texts(database)["issue", 1]


def test_a_document_with_too_many_words_for_the_index_does_not_hold_up_the_others(database: Database) -> None:
    project = add_project(database)
    words = " ".join(f"{number * 7919:x}-{number:x}" for number in range(100_000))
    keep(database, project, ISSUES, [issue(1, description=words), issue(2)])
    made(database)
    assert count_dirty(database) == 0
    assert texts(database)["issue", 1].partition("|0-0")[2].startswith(" 1eef-1 ")
    assert ("issue", 2) in texts(database)


def test_a_text_cut_for_the_index_ends_with_a_whole_character(database: Database) -> None:
    text = "x" + "ü" * 400_000
    assert text.startswith(database.indexable(text))
