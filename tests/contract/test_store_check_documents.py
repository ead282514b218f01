"""`check_database` finds documents and vectors that cannot be true, and names them; what is only due is no damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.databases.letters import TITLES, document, embedded, retitle
from tests.databases.samples import CREATED, add_project, issue
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note

from tidelore.store.database.port import Database
from tidelore.store.mirror.check import CheckFinding, check_database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.reading import vectors as vector_check
from tidelore.store.reading.vector_models import in_rows

FIRST = "(SELECT MIN({0}) FROM {1})"
IN_BLOCKS = pytest.mark.parametrize("dialect", ["sqlite", "postgres"], indirect=True)
Execute = Callable[..., None]


@pytest.fixture(params=["sqlite", "postgres", "postgres-in-rows"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param).partition("-")[0]


@pytest.fixture
def postgres_change(request: pytest.FixtureRequest) -> str:
    """The schema of a database that had vectors before migration 3, on a server with pgvector."""
    return "ALTER TABLE embeddings ADD COLUMN vector halfvec" if "in-rows" in request.node.callspec.id else ""


@pytest.fixture
def copy(database: Database) -> Database:
    """Eight issues, one of them with a thread; documents, vectors of several pieces, and holes between them."""
    project = add_project(database)
    long = "The crane stops at 40 %. " * 10
    items = [issue(number, title=title, description=long) for number, title in enumerate(TITLES, 1)]
    keep(database, project, ISSUES, items)
    attach(database, project, "issues", 1, DISCUSSIONS, discussion("d1", note(1, "It does not.")))
    document(database)
    embedded(database)
    keep(database, project, ISSUES, [], gone=[7])
    document(database)
    assert embedded(database).error is None
    return database


@pytest.fixture
def break_it(copy: Database) -> Execute:
    """Change the database in a way the program never would: neither constraints nor triggers hold."""

    def execute(sql: str, **params: object) -> None:
        if copy.dialect == "sqlite":
            copy.read("PRAGMA foreign_keys = OFF")
            copy.read("DROP TRIGGER IF EXISTS embeddings_deleted")
        else:
            copy.read("SET session_replication_role = replica")
        with copy.transaction() as tx:
            assert tx.change(sql, params) >= 1

    return execute


def findings(database: Database) -> dict[str, CheckFinding]:
    return {found.check: found for found in check_database(database, CREATED + 9000) if not found.ok}


def named(database: Database, check: str, *others: str) -> str:
    """Return what one check says; besides it, only these may have failed."""
    found = findings(database)
    # SQLite itself sees dangling references as well.
    assert found.keys() - {"database", *others} == {check}, found
    return found[check].detail


def test_a_healthy_database_with_vectors_passes_every_check(copy: Database) -> None:
    assert findings(copy) == {}
    assert copy.read("SELECT COUNT(*) FROM embeddings WHERE position > 0")[0][0] > 0
    if not in_rows(copy):
        assert copy.read("SELECT COUNT(*) FROM embedding_holes")[0][0] > 0


def test_documents_and_vectors_still_to_be_built_are_not_reported(copy: Database) -> None:
    keep(copy, add_project(copy), ISSUES, [issue(2, CREATED + 5, title="zzzz"), issue(9)])
    assert findings(copy) == {}, "marked, and not made yet"
    document(copy)
    assert findings(copy) == {}, "made, and not embedded yet"
    retitle(copy, 3, "yyyy", 7)
    assert embedded(copy).embedded > 0
    assert findings(copy) == {}


@pytest.mark.parametrize("source_type", ["issue", "discussion"])
def test_an_item_without_document_and_without_mark_is_found(
    copy: Database, break_it: Execute, source_type: str
) -> None:
    break_it("DELETE FROM documents WHERE source_type = :type", type=source_type)
    break_it("DELETE FROM embeddings WHERE document_id NOT IN (SELECT id FROM documents)")
    assert f" {source_type} " in named(copy, "documents", "vector-places", "vectors")


def test_a_thread_without_comments_needs_no_document(copy: Database) -> None:
    silent = discussion("d2", note(2, "changed the milestone", is_system=True, payload=None))
    attach(copy, add_project(copy), "issues", 2, DISCUSSIONS, silent)
    document(copy)
    assert copy.read("SELECT COUNT(*) FROM discussions") == [(2,)]
    assert copy.read("SELECT COUNT(*) FROM documents WHERE source_type = 'discussion'") == [(1,)]
    assert findings(copy) == {}


def test_a_document_of_a_thread_without_its_issue_is_found(copy: Database, break_it: Execute) -> None:
    break_it("DELETE FROM documents WHERE source_type = 'issue' AND source_id = 1")
    break_it("DELETE FROM embeddings WHERE document_id NOT IN (SELECT id FROM documents)")
    break_it("UPDATE issues SET deleted_at = 5 WHERE id = 1")
    break_it("DELETE FROM child_sync WHERE parent_kind = 'issues' AND parent_id = 1")
    assert "documents " in named(copy, "documents-of-nothing", "vector-places", "vectors")


def test_a_document_missing_from_the_full_text_index_is_found(copy: Database, break_it: Execute) -> None:
    if copy.dialect == "sqlite":
        break_it("DELETE FROM documents_trigram_docsize WHERE id = 3")
        assert named(copy, "full-text").endswith(": documents 3 documents_trigram")
    else:
        copy.read("ALTER TABLE documents ALTER COLUMN search_vector DROP EXPRESSION")
        break_it("UPDATE documents SET search_vector = NULL WHERE id = 3")
        assert named(copy, "full-text").endswith(": documents 3")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_full_text_entry_without_a_document_is_found(copy: Database) -> None:
    with copy.transaction() as tx:
        tx.execute("INSERT INTO documents_fts (rowid, title) VALUES (4711, 'forged')")
    assert named(copy, "full-text").endswith(": documents_fts 4711")


def test_a_vector_without_its_document_is_found(copy: Database, break_it: Execute) -> None:
    break_it(
        "INSERT INTO embeddings (model_id, document_id, position, content_hash, chunk_hash)"
        " SELECT id, 4711, 0, :hash, :hash FROM embedding_models",
        hash=b"",
    )
    assert named(copy, "vector-owners", "vectors").endswith(": embeddings 4711 0")


def test_vectors_whose_model_is_missing_are_found(copy: Database, break_it: Execute) -> None:
    count = copy.read("SELECT COUNT(*) FROM embeddings")[0][0]
    for table in ("embedding_blocks", "embedding_holes"):
        count += copy.read(f"SELECT COUNT(*) FROM {table}")[0][0]
    break_it("DELETE FROM embedding_models")
    assert named(copy, "vector-owners")
    assert findings(copy)["vector-owners"].count == count


@pytest.mark.parametrize("place", [0, 1, 99])
def test_a_document_with_missing_vectors_is_found(copy: Database, break_it: Execute, place: int) -> None:
    (first,) = copy.read("SELECT MIN(document_id) FROM embeddings WHERE position > 1")[0]
    if place == 99:
        break_it("UPDATE embeddings SET position = 99 WHERE document_id = :id AND position = 0", id=first)
    else:
        break_it("DELETE FROM embeddings WHERE document_id = :id AND position = :place", id=first, place=place)
    assert named(copy, "vector-pieces", "vector-places", "vectors").endswith(f": documents {first}")


def test_vectors_of_two_versions_of_a_document_are_found(copy: Database, break_it: Execute) -> None:
    break_it("UPDATE embeddings SET content_hash = :other WHERE document_id = 2 AND position = 1", other=b"other")
    assert named(copy, "vector-pieces").endswith(": documents 2")


def test_an_embedding_row_without_a_vector_is_found(copy: Database, break_it: Execute) -> None:
    column = "vector" if in_rows(copy) else "block"
    break_it(f"UPDATE embeddings SET {column} = NULL WHERE document_id = 2 AND position = 0")
    others = () if in_rows(copy) else ("vector-places",)
    assert "embeddings 2 0" in named(copy, "vectors", *others)


@IN_BLOCKS
def test_a_vector_slot_used_twice_is_found(copy: Database, break_it: Execute) -> None:
    ((model, block, slot),) = copy.read("SELECT model_id, block, slot FROM embeddings ORDER BY slot LIMIT 1")
    place = {"model": model, "block": block, "slot": slot}
    break_it("INSERT INTO embedding_holes (model_id, block, slot) VALUES (:model, :block, :slot)", **place)
    assert f"embedding_blocks {model} {block} {slot}" in named(copy, "vector-places")


@IN_BLOCKS
def test_a_vector_slot_that_is_neither_used_nor_free_is_found(copy: Database, break_it: Execute) -> None:
    break_it(f"DELETE FROM embedding_holes WHERE slot = {FIRST.format('slot', 'embedding_holes')}")
    assert "embedding_models " in named(copy, "vector-places", "vectors")


@IN_BLOCKS
def test_an_embedding_row_with_a_missing_block_is_found(copy: Database, break_it: Execute) -> None:
    break_it("UPDATE embeddings SET block = 5 WHERE document_id = 2 AND position = 0")
    assert "embeddings 1 5 " in named(copy, "vector-places", "vectors")


@IN_BLOCKS
@pytest.mark.parametrize("part", ["documents", "positions"])
def test_a_vector_block_naming_another_document_is_found(copy: Database, break_it: Execute, part: str) -> None:
    """Among them a document that does not exist: a search would answer with it."""
    ((slot,),) = copy.read("SELECT slot FROM embeddings WHERE document_id = 2 AND position = 0")
    ((stored,),) = copy.read(f"SELECT {part} FROM embedding_blocks")
    width = {"documents": 8, "positions": 4}[part]
    forged = bytearray(stored)
    forged[slot * width : (slot + 1) * width] = (4711).to_bytes(width, "little")
    break_it(f"UPDATE embedding_blocks SET {part} = :forged", forged=bytes(forged))
    assert named(copy, "vectors").endswith(f": embedding_blocks 0 {slot}")


@IN_BLOCKS
@pytest.mark.parametrize("part", ["documents", "positions", "scales", "signs", "vectors"])
def test_a_vector_block_of_a_wrong_size_is_found(copy: Database, break_it: Execute, part: str) -> None:
    ((stored,),) = copy.read(f"SELECT {part} FROM embedding_blocks")
    break_it(f"UPDATE embedding_blocks SET {part} = :cut", cut=bytes(stored)[:-1])
    assert named(copy, "vectors").endswith(": embedding_blocks 0")


@IN_BLOCKS
def test_every_vector_block_is_checked(copy: Database, break_it: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_check, "_AT_ONCE", 1)
    columns = "model_id, generation, documents, positions, scales, signs, vectors"
    break_it(f"INSERT INTO embedding_blocks (block, {columns}) SELECT 2, {columns} FROM embedding_blocks")
    assert named(copy, "vectors").endswith(": embedding_blocks 2")
