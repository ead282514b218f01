"""Vectors of documents: what is due, what is kept, what is freed, and what is near; in blocks and in rows alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.databases.letters import (
    DIMENSION,
    TITLES,
    Words,
    document,
    embedded,
    in_a_thread,
    index_of,
    retitle,
    titles_near,
    vector_of,
)
from tests.databases.samples import CREATED, add_project, issue
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note

from tidelore.core.errors import CredentialsRejected, RemotePermanent, RemoteTransient
from tidelore.core.model import Document
from tidelore.core.progress import EmbedReport
from tidelore.documents.embed import MOST, next_step
from tidelore.engine.crashpoint import Seam
from tidelore.search.sign_scan import SignScan
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.reading.vector_models import VectorModel, count_places, ensure_model, find_model, in_rows
from tidelore.store.reading.vectors import Embedded, Piece, VectorTable, count_due


class Killed(BaseException):
    pass


@pytest.fixture(params=["sqlite", "postgres", "postgres-in-rows"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param).partition("-")[0]


@pytest.fixture
def postgres_change(request: pytest.FixtureRequest) -> str:
    """The schema of a database that had vectors before migration 3, on a server with pgvector."""
    return "ALTER TABLE embeddings ADD COLUMN vector halfvec" if "in-rows" in request.node.callspec.id else ""


@pytest.fixture
def copy(database: Database, request: pytest.FixtureRequest) -> Database:
    """A copy with eight issues that have documents."""
    assert in_rows(database) == ("in-rows" in request.node.callspec.id)
    project = add_project(database)
    keep(database, project, ISSUES, [issue(number, title=title) for number, title in enumerate(TITLES, 1)])
    document(database)
    return database


def test_every_document_is_embedded_once(copy: Database) -> None:
    model = Words()
    first = embedded(copy, model)
    assert (first.embedded, first.chunks, first.unchanged, first.failed, first.error) == (8, 8, 0, 0, None)
    again = embedded(copy, model)
    assert (again.embedded, again.chunks, again.unchanged) == (0, 0, 8)
    assert len(model.texts) == 8


def test_the_nearest_documents_are_found_in_the_order_of_an_exact_comparison(copy: Database) -> None:
    embedded(copy)
    texts: dict[int, str] = dict(copy.read("SELECT id, title || ' ' || content FROM documents"))
    for query in ("bbbb", "the crane stops", "hhhhh ffff"):
        exact = sorted(
            texts, key=lambda row_id: -float(vector_of(texts[row_id].replace(" ", "\n\n", 1)) @ vector_of(query))
        )
        hits = index_of(copy).nearest(copy, vector_of(query), 3)
        assert [hit.document_id for hit in hits][:1] == exact[:1]
        assert hits[0].score == pytest.approx(
            float(vector_of("\n\n".join(texts[exact[0]].split(" ", 1))) @ vector_of(query)), abs=0.01
        )


def test_a_search_finds_only_documents_in_the_filter(copy: Database) -> None:
    embedded(copy)
    (wanted,) = copy.read("SELECT id FROM documents WHERE title = 'gggg'")[0]
    hits = index_of(copy).nearest(copy, vector_of("bbbb"), 5, [wanted])
    assert [hit.document_id for hit in hits] == [wanted]
    assert index_of(copy).nearest(copy, vector_of("bbbb"), 5, []) == []


def test_a_document_is_ranked_by_its_nearest_chunk_and_found_once(copy: Database) -> None:
    project = add_project(copy)
    attach(
        copy, project, "issues", 1, DISCUSSIONS,
        discussion("d1", note(1, "zzz " * 15), note(2, "qqq " * 15), note(3, "zzz " * 15)),
    )  # fmt: skip
    document(copy)
    report = embedded(copy)
    assert report.chunks > report.embedded
    (thread,) = copy.read("SELECT id FROM documents WHERE source_type = 'discussion'")[0]
    hits = index_of(copy).nearest(copy, vector_of("qqqqqq"), 9)
    assert hits[0].document_id == thread
    assert hits[0].position in {1, 2}
    assert len({hit.document_id for hit in hits}) == len(hits) == 9


def test_a_changed_document_is_embedded_again_and_its_old_vector_deleted(copy: Database) -> None:
    embedded(copy)
    kept = index_of(copy)
    assert titles_near(copy, "bbbb", 1, kept) == ["bbbb"]
    retitle(copy, 2, "xxxx")
    assert embedded(copy).embedded == 1
    assert titles_near(copy, "xxxx", 1, kept) == ["xxxx"], "an index that is kept sees it"
    assert copy.read("SELECT COUNT(*) FROM embeddings") == [(8,)]
    assert len(kept.nearest(copy, vector_of("abcdefghx the crane"), 100)) == 8


def test_a_change_outside_the_text_embeds_nothing(copy: Database) -> None:
    model = Words()
    embedded(copy, model)
    keep(copy, add_project(copy), ISSUES, [issue(3, CREATED + 1, title="cccc", labels=("bug",))])
    document(copy)
    report = embedded(copy, model)
    assert (report.embedded, report.chunks, report.failed) == (1, 0, 0)
    assert len(model.texts) == 8
    assert embedded(copy, model).embedded == 0


def test_only_changed_chunks_are_embedded(copy: Database) -> None:
    project, model = add_project(copy), Words()
    talk = [note(1, "one " * 18), note(2, "two " * 18), note(3, "six " * 18)]
    attach(copy, project, "issues", 1, DISCUSSIONS, discussion("d1", *talk[:2]))
    document(copy)
    embedded(copy, model)
    model.texts.clear()
    attach(copy, project, "issues", 1, DISCUSSIONS, discussion("d1", *talk))
    document(copy)
    report = embedded(copy, model)
    assert report.chunks == len(model.texts)
    assert all("one" not in text for text in model.texts)
    assert any("six" in text for text in model.texts)
    attach(copy, project, "issues", 1, DISCUSSIONS, discussion("d1", *talk[:1]))
    document(copy)
    assert embedded(copy, model).removed > 0


def test_a_removed_document_is_not_found_and_its_slot_is_reused(copy: Database) -> None:
    embedded(copy)
    kept = index_of(copy)
    kept.nearest(copy, vector_of("bbbb"), 1)
    keep(copy, add_project(copy), ISSUES, [], gone=[2])
    document(copy)
    for index in (kept, index_of(copy)):
        assert "bbbb" not in titles_near(copy, "bbbb", 100, index)
    retitle(copy, 9, "iiii")
    retitle(copy, 10, "jjjj")
    embedded(copy)
    assert set(titles_near(copy, "ij the crane", 100, kept)) == (set(TITLES) - {"bbbb"}) | {"iiii", "jjjj"}
    if not in_rows(copy):
        assert copy.read("SELECT slots FROM embedding_models") == [(9,)], "one place was free"
        assert copy.read("SELECT COUNT(*) FROM embedding_holes") == [(0,)]


def test_a_document_reusing_a_removed_id_is_not_found_by_the_old_vector(copy: Database) -> None:
    embedded(copy)
    (last,) = copy.read("SELECT MAX(id) FROM documents")[0]
    columns = ", ".join(("id", *Document.__struct_fields__, "generated_at", "content_hash"))
    with copy.transaction() as tx:
        row = tx.execute(f"SELECT {columns} FROM documents WHERE id = :id", {"id": last})[0]
        tx.execute("DELETE FROM documents WHERE id = :id", {"id": last})
        names = [f"v{place}" for place in range(len(row))]
        values = ", ".join(f":{name}" for name in names)
        tx.execute(f"INSERT INTO documents ({columns}) VALUES ({values})", dict(zip(names, row, strict=True)))
    assert last not in {hit.document_id for hit in index_of(copy).nearest(copy, vector_of("hhhh"), 100)}
    assert embedded(copy).embedded == 1
    assert titles_near(copy, "hhhh", 1) == ["hhhh"]


def test_a_new_model_embeds_everything_and_replaces_the_old_one_when_complete(copy: Database) -> None:
    embedded(copy)

    def fail(texts: Sequence[str]) -> None:
        if any("eeee" in text for text in texts):
            raise RemoteTransient("the server is down", reason="connection")

    half = embedded(copy, Words("2", fail))
    assert 0 < half.embedded < 8
    assert half.failed == 8 - half.embedded
    assert isinstance(half.error, RemoteTransient)
    assert "the server is down" in (half.notice or "")
    assert titles_near(copy, "eeee", 1) == ["eeee"], "the former model still serves"
    assert len(index_of(copy, "2").nearest(copy, vector_of("abc the crane"), 100)) == half.embedded
    whole = embedded(copy, Words("2"))
    assert (whole.embedded, whole.removed, whole.failed) == (8 - half.embedded, 8, 0)
    assert find_model(copy, "letters", "1", DIMENSION) is None
    assert len(index_of(copy, "2").nearest(copy, vector_of("abc the crane"), 100)) == 8


def test_new_chunk_settings_make_all_documents_due_and_embed_only_changed_chunks(copy: Database) -> None:
    model = Words()
    embedded(copy, model)
    report = embedded(copy, model, words=21)
    assert (report.embedded, report.chunks) == (8, 0)
    assert embedded(copy, model, words=21).embedded == 0


def test_a_full_run_embeds_every_document_again(copy: Database) -> None:
    model = Words()
    embedded(copy, model)
    report = embedded(copy, model, full=True)
    assert (report.embedded, report.chunks, len(model.texts)) == (8, 8, 16)
    assert copy.read("SELECT COUNT(*) FROM embeddings") == [(8,)]


def test_only_the_named_documents_are_embedded(copy: Database) -> None:
    ids = [row[0] for row in copy.read("SELECT id FROM documents ORDER BY id")][:2]
    report = embedded(copy, only=[*ids, 999_999])
    assert (report.embedded, report.unchanged) == (2, 0)
    assert embedded(copy).embedded == 6


def test_a_document_that_changes_while_it_is_embedded_stays_due(
    copy: Database, connect: Callable[[], Database]
) -> None:
    other = connect()

    def change(texts: Sequence[str]) -> None:
        if any("aaaa" in text for text in texts):
            in_a_thread(lambda: retitle(other, 1, "kkkk"))

    report = embedded(copy, Words(before=change))
    assert report.embedded == 7
    model = find_model(copy, "letters", "1", DIMENSION)
    assert model is not None
    assert count_due(copy, model.id) == (8, 1)
    assert embedded(copy).embedded == 1
    assert titles_near(copy, "kkkk", 1) == ["kkkk"]


def test_a_document_deleted_while_being_embedded_gets_no_vector(
    copy: Database, connect: Callable[[], Database]
) -> None:
    other = connect()

    def remove(texts: Sequence[str]) -> None:
        if any("aaaa" in text for text in texts):
            with other.transaction() as tx:
                tx.execute("DELETE FROM documents WHERE title = 'aaaa'")

    assert embedded(copy, Words(before=remove)).embedded == 7
    assert copy.read("SELECT COUNT(*) FROM embeddings") == [(7,)]


def test_two_concurrent_runs_store_every_vector_once(copy: Database, connect: Callable[[], Database]) -> None:
    other = connect()
    done: list[EmbedReport] = []

    def race(texts: Sequence[str]) -> None:
        if not done:
            done.append(in_a_thread(lambda: embedded(other)))

    report = embedded(copy, Words(before=race))
    assert done[0].embedded == 8
    assert report.error is None
    assert copy.read("SELECT COUNT(*) FROM embeddings") == [(8,)]
    assert len(index_of(copy).nearest(copy, vector_of("abc the crane"), 100)) == 8
    if not in_rows(copy):
        places = copy.read("SELECT block, slot FROM embeddings UNION ALL SELECT block, slot FROM embedding_holes")
        assert len(places) == len(set(places)) == copy.read("SELECT slots FROM embedding_models")[0][0]


@pytest.mark.parametrize("seam", [Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT])
def test_after_a_kill_at_a_commit_the_next_run_embeds_the_missing_documents(copy: Database, seam: Seam) -> None:
    visits: list[Seam] = []

    def die(here: Seam) -> None:
        visits.append(here)
        if visits.count(seam) == 2:
            raise Killed

    with pytest.raises(Killed):
        embedded(copy, seam=die)
    left = 8 - copy.read("SELECT COUNT(*) FROM embeddings")[0][0]
    assert left == (4 if seam is Seam.INSIDE_COMMIT else 0)
    assert embedded(copy).embedded == left
    assert len(index_of(copy).nearest(copy, vector_of("abc the crane"), 100)) == 8


def test_a_refused_text_does_not_block_other_documents(copy: Database) -> None:
    def refuse(texts: Sequence[str]) -> None:
        if any("cccc" in text for text in texts):
            raise RemotePermanent("too long", status=400, reason="refused")

    report = embedded(copy, Words(before=refuse))
    assert (report.embedded, report.failed, report.error) == (7, 1, None)
    assert "too long" in (report.notice or "")


def test_a_server_that_refuses_everything_is_not_retried_for_each_document(copy: Database) -> None:
    asked = 0

    def refuse(_texts: Sequence[str]) -> None:
        nonlocal asked
        asked += 1
        raise RemotePermanent("no", status=400, reason="refused")

    report = embedded(copy, Words(before=refuse))
    assert (report.embedded, report.failed) == (0, 8)
    assert report.error is not None
    assert asked < 8


def test_a_rejected_api_key_stops_the_run_at_once(copy: Database) -> None:
    def refuse(_texts: Sequence[str]) -> None:
        raise CredentialsRejected("no", status=401, reason="unauthorized")

    report = embedded(copy, Words(before=refuse))
    assert (report.embedded, report.failed) == (0, 8)
    assert isinstance(report.error, CredentialsRejected)


def test_a_blank_document_gets_a_zero_vector_that_is_never_found(copy: Database) -> None:
    keep(copy, add_project(copy), ISSUES, [issue(1, CREATED + 1, title=" ", description="")])
    document(copy)
    assert embedded(copy).embedded == 8
    assert embedded(copy).embedded == 0
    assert len(index_of(copy).nearest(copy, vector_of("abc the crane"), 100)) == 7


def test_more_vectors_than_one_block_are_stored_found_and_freed(copy: Database) -> None:
    model = ensure_model(copy, "letters", "1", DIMENSION, "20/0", CREATED)
    (row,) = copy.read("SELECT id, content_hash FROM documents WHERE title = 'aaaa'")
    rows = np.eye(DIMENSION, dtype=np.float32)
    table = VectorTable(copy, model)
    write(copy, table, row, [rows[place % 8] for place in range(2 * MOST + 5)])
    index = VectorIndex(copy, model)
    assert [hit.document_id for hit in index.nearest(copy, rows[3], 10)] == [row[0]]
    assert index.nearest(copy, rows[3], 10)[0].score == pytest.approx(1, abs=0.01)
    assert index.nearest(copy, rows[9], 10) == []
    write(copy, table, row, [rows[9]])
    assert [(hit.position, round(hit.score, 2)) for hit in index.nearest(copy, rows[9], 10)] == [(0, 1.0)]
    assert index.nearest(copy, rows[3], 10) == []
    write(copy, table, row, [rows[place % 8] for place in range(2 * MOST)])
    assert len(index.vectors_of(copy, [row[0]])) == 2 * MOST
    if not in_rows(copy):
        assert copy.read("SELECT slots FROM embedding_models") == [(2 * MOST + 5,)], "the free places were used"


def write(database: Database, table: VectorTable, row: tuple[int, bytes], vectors: list[np.ndarray]) -> None:
    pieces = tuple(Piece(bytes([len(vectors) % 256]), vector) for vector in vectors)
    with database.transaction() as tx:
        table.write(tx, [Embedded(row[0], bytes(row[1]), pieces)])


def test_the_vectors_of_given_documents_can_be_read(copy: Database) -> None:
    embedded(copy)
    row_id, title, content = copy.read("SELECT id, title, content FROM documents WHERE title = 'dddd'")[0]
    vectors = index_of(copy).vectors_of(copy, [row_id])
    assert vectors.shape == (1, DIMENSION)
    assert vectors[0] == pytest.approx(vector_of(f"{title}\n\n{content}"), abs=0.01)


def test_a_run_whose_model_was_replaced_meanwhile_stops_with_an_error(
    copy: Database, connect: Callable[[], Database]
) -> None:
    other = connect()

    def replace(_texts: Sequence[str]) -> None:
        in_a_thread(lambda: embedded(other, Words("2")))

    report = embedded(copy, Words("1", replace))
    assert (report.embedded, report.failed) == (0, 8)
    assert "another process replaced" in (report.notice or "")
    assert len(index_of(copy, "2").nearest(copy, vector_of("abc the crane"), 100)) == 8


def test_vectors_of_two_models_are_never_mixed(copy: Database) -> None:
    first = ensure_model(copy, "letters", "1", DIMENSION, "20/0", CREATED)
    second = ensure_model(copy, "letters", "2", DIMENSION, "20/0", CREATED)
    (row,) = copy.read("SELECT id, content_hash FROM documents WHERE title = 'aaaa'")
    rows = np.eye(DIMENSION, dtype=np.float32)
    write(copy, VectorTable(copy, first), row, [rows[0]])
    write(copy, VectorTable(copy, second), row, [rows[1]])

    def found(model: VectorModel, vector: np.ndarray) -> int:
        return len(VectorIndex(copy, model).nearest(copy, vector, 10))

    assert (found(first, rows[0]), found(first, rows[1])) == (1, 0)
    assert (found(second, rows[0]), found(second, rows[1])) == (0, 1)


@pytest.mark.parametrize(
    ("size", "seconds", "expected"), [(4, 0.1, 8), (1024, 0.1, 1024), (512, 3.0, 256), (4, 9.0, 4), (64, 1.0, 64)]
)
def test_the_step_size_grows_while_steps_are_fast_and_shrinks_when_slow(
    size: int, seconds: float, expected: int
) -> None:
    assert next_step(size, seconds, least=4) == expected


def test_a_process_that_searches_once_finds_the_same_documents(copy: Database) -> None:
    embedded(copy)
    index = index_of(copy)
    if in_rows(copy):
        assert count_places(copy, index.model.id) == 0, "there is nothing to scan"
        return
    for title in TITLES:
        vector = vector_of(title)
        scanned = SignScan(index.model).nearest(copy, vector.tolist(), 3)
        assert [hit.document_id for hit in scanned] == [hit.document_id for hit in index.nearest(copy, vector, 3)]
