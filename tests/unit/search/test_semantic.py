"""The scan by meaning: exact against a comparison in full, whatever is allowed, repeated or free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.databases.migrated_file import lay_out

from tidelore.core.config import Embedding, Http
from tidelore.core.errors import StorageFailed
from tidelore.embedding.embedder import Embedder, ModelIdentity, Unavailable
from tidelore.embedding.registry import open_embedder
from tidelore.search import vector_index
from tidelore.search.find import SearchRequest
from tidelore.search.kept_meaning import KeptMeaning
from tidelore.search.query import parse_query
from tidelore.search.semantic import make_ranker, mean_direction, open_index
from tidelore.search.similarity import MeaningRanker
from tidelore.search.vector_index import VectorIndex, best_places
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.reading.fulltext import FilterShare
from tidelore.store.reading.vector_blocks import (
    BLOCK,
    WORTH_FILLING,
    BlockState,
    VectorEntry,
    choose_blocks,
    put,
    quantised,
)
from tidelore.store.reading.vector_models import VectorModel, ensure_model

DIMENSION = 32


@pytest.fixture
def database(tmp_path: Path) -> Database:
    lay_out(tmp_path / "lore.db")
    return open_database(str(tmp_path / "lore.db"))


@pytest.fixture
def model(database: Database) -> VectorModel:
    return ensure_model(database, "m", "1", DIMENSION, "180/30", 1)


def directions(count: int, seed: int = 1) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def store(database: Database, model: VectorModel, owners: list[int], rows: NDArray[np.float32]) -> None:
    with database.transaction() as tx:
        tx.execute("UPDATE embedding_models SET generation = generation + 1")
        put(
            tx,
            model.id,
            DIMENSION,
            [VectorEntry(owner, at, row) for at, (owner, row) in enumerate(zip(owners, rows, strict=True))],
        )


def test_an_index_scan_finds_the_same_as_a_full_comparison(database: Database, model: VectorModel) -> None:
    owners = [at // 3 + 1 for at in range(2 * BLOCK + 100)]
    rows = directions(len(owners))
    store(database, model, owners, rows)
    index = VectorIndex(database, model)
    for query in directions(5, seed=9):
        cosines = rows @ query
        best = {
            owner: max(cosines[at] for at in range(3 * owner - 3, 3 * owner) if at < len(rows)) for owner in set(owners)
        }
        exact = sorted(best, key=lambda owner: -best[owner])
        hits = index.nearest(database, query, 20)
        assert len({hit.document_id for hit in hits}) == 20
        assert {hit.document_id for hit in hits[:5]} <= set(exact[:7]), "eight bits blur neighbours, no more"
        assert [hit.score for hit in hits] == pytest.approx([best[hit.document_id] for hit in hits], abs=0.02)
        assert all(owners[hit.position] == hit.document_id for hit in hits)


def test_comparing_signs_first_finds_nearly_all_of_the_nearest(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = directions(2_000)
    store(database, model, list(range(1, len(rows) + 1)), rows)
    with database.transaction() as tx:
        tx.execute("INSERT INTO embedding_holes (model_id, block, slot) VALUES (1, 1, 0)")
    exact = VectorIndex(database, model)
    allowed = list(range(2, len(rows), 2))
    queries = directions(10, seed=9)
    whole = [(exact.nearest(database, query, 10), exact.nearest(database, query, 10, allowed)) for query in queries]
    monkeypatch.setattr("tidelore.search.vector_index.WHOLE", 100)
    monkeypatch.setattr("tidelore.search.vector_index.COMPARED", 300)
    index = VectorIndex(database, model)
    found = [(index.nearest(database, query, 10), index.nearest(database, query, 10, allowed)) for query in queries]
    for kind in (0, 1):
        pairs = list(zip(found, whole, strict=True))
        shared = sum(
            len({hit.document_id for hit in one[kind]} & {hit.document_id for hit in other[kind]})
            for one, other in pairs
        )
        assert shared >= 90, "of 100"
        assert shared < 100 or kind, "the signs decide here"
        assert all(len(one[kind]) == 10 for one, _ in pairs)
    assert not any(hit.document_id == BLOCK + 1 for one, _ in found for hit in one)
    best = index.nearest(database, rows[7], 1)[0]
    assert best.document_id == 8
    assert best.score == pytest.approx(1, abs=0.01)


def test_deleted_and_filtered_documents_are_not_found(database: Database, model: VectorModel) -> None:
    rows = directions(40)
    store(database, model, list(range(1, 41)), rows)
    with database.transaction() as tx:
        tx.execute("INSERT INTO embedding_holes (model_id, block, slot) VALUES (1, 0, 4)")
    index = VectorIndex(database, model)
    assert 5 not in {hit.document_id for hit in index.nearest(database, rows[4], 40)}
    assert [hit.document_id for hit in index.nearest(database, rows[7], 40, [5, 8])] == [8]
    assert len(index.vectors_of(database, [5, 8])) == 1


def test_a_reused_index_reads_only_new_vectors(database: Database, model: VectorModel) -> None:
    rows = directions(BLOCK + 10)
    store(database, model, list(range(1, BLOCK + 1)), rows[:BLOCK])
    index = VectorIndex(database, model)
    index.nearest(database, rows[0], 1)
    with database.transaction() as tx:
        # Not seen, because it does not say that it was written: so the block was not read again.
        tx.execute("UPDATE embedding_blocks SET scales = zeroblob(length(scales))")
    assert index.nearest(database, rows[0], 1)[0].document_id == 1
    store(database, model, [7000], rows[BLOCK : BLOCK + 1])
    assert index.nearest(database, rows[BLOCK], 1)[0].document_id == 7000
    assert index.nearest(database, rows[0], 1)[0].document_id == 1


def test_a_model_that_was_never_used_has_no_index(database: Database, model: VectorModel) -> None:
    assert open_index(database, ModelIdentity("m", "2", DIMENSION)) is None
    index = open_index(database, ModelIdentity("m", "1", DIMENSION))
    assert index is not None
    assert index.nearest(database, directions(1)[0], 5) == []
    assert len(index.vectors_of(database, [1])) == 0


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0.0, 0.25, 0.5, 0.75, -0.5])), min_size=1, max_size=40),
    st.integers(1, 8),
)
@settings(max_examples=300, deadline=None)
def test_the_top_results_equal_those_of_a_full_sort(lines: list[tuple[int, float]], limit: int) -> None:
    documents = np.array([document for document, _ in lines], np.int64)
    scores = np.array([score for _, score in lines], np.float32)
    best = {document: max(float(score) for other, score in lines if other == document) for document, _ in lines}
    expected = sorted((score for score in best.values() if score > 0), reverse=True)[:limit]
    places = best_places(scores, documents, limit)
    assert [float(scores[at]) for at in places] == expected
    assert len({int(documents[at]) for at in places}) == len(places)


def test_a_quantised_vector_is_close_to_the_original_and_zero_stays_zero() -> None:
    rows = np.concatenate([directions(50), np.zeros((1, DIMENSION), np.float32)])
    steps, scales = quantised(rows)
    assert steps.dtype == np.int8
    assert np.abs(steps * scales[:, np.newaxis] - rows).max() < 0.005
    assert scales[-1] == 0
    assert not steps[-1].any()


@pytest.mark.parametrize(
    ("holes", "tail", "count", "expected"),
    [
        ({}, 0, 5, []),
        ({0: 3}, 0, 5, [0]),
        ({0: 3, 1: WORTH_FILLING - 1}, 2, 5, []),
        ({0: 40, 1: 90, 2: 1}, 2, 50, [2, 1]),
        ({0: 40, 1: 90, 2: 1}, 2, 500, [2, 1, 0]),
    ],
)
def test_free_slots_are_reused_only_when_that_is_cheaper_than_appending(
    holes: dict[int, int], tail: int, count: int, expected: list[int]
) -> None:
    assert choose_blocks(holes, tail, count) == expected


def test_a_filtered_search_equals_a_search_within_the_listed_documents(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = directions(300)
    store(database, model, list(range(1, 301)), rows)
    index = VectorIndex(database, model)
    third = set(range(3, 301, 3))
    asked: list[int] = []

    def passing(ids: Sequence[int]) -> set[int]:
        asked.extend(ids)
        return third & set(ids)

    monkeypatch.setattr("tidelore.search.vector_index.ENOUGH", 5)
    named = index.nearest(database, rows[0], 10, sorted(third))
    found = index.nearest_passing(database, rows[0], 10, passing)
    assert found is not None
    assert found == named[: len(found)]
    assert 5 <= len(found) <= 10
    assert len(asked) == len(set(asked)) < 100
    # Where hardly anything passes, asking one by one is given up.
    monkeypatch.setattr("tidelore.search.vector_index.MOST_ASKED", 40)
    assert index.nearest_passing(database, rows[0], 10, lambda _ids: set()) is None


def test_a_comparison_begun_in_another_thread_finds_the_same(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = directions(2_000)
    store(database, model, list(range(1, len(rows) + 1)), rows)
    index = VectorIndex(database, model)

    def even(ids: Sequence[int]) -> set[int]:
        return {row_id for row_id in ids if row_id % 2 == 0}

    assert index.ahead(database, rows[0], 20, is_filtered=False) is None, "so few are compared sooner than handed over"
    monkeypatch.setattr("tidelore.search.vector_index.WHOLE", 100)
    monkeypatch.setattr("tidelore.search.vector_index.COMPARED", 300)
    for query in directions(5, seed=9):
        all_of_them = index.ahead(database, query, 20, is_filtered=False)
        some = index.ahead(database, query, 20, is_filtered=True)
        assert all_of_them is not None
        assert some is not None
        assert all_of_them.nearest(database, query, 20) == index.nearest(database, query, 20)
        assert some.nearest(database, query, 20, [2, 4]) == index.nearest(database, query, 20, [2, 4])
        expected = index.nearest_passing(database, query, 20, even)
        assert expected
        assert some.nearest_passing(database, query, 20, even) == expected


def test_what_a_ranker_has_begun_serves_one_request_only(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.search.vector_index.WHOLE", 10)
    rows = directions(40)
    store(database, model, list(range(1, 41)), rows)
    ranker = MeaningRanker(VectorIndex(database, model), rows[0], 1.0, 10, floor=0.0)
    request = SearchRequest(query=parse_query("x"))
    expected = ranker(database, request, 40, alone=True)
    ranker.begin(database, request, FilterShare(), 40)
    with database.transaction() as tx:
        tx.execute("INSERT INTO embedding_holes (model_id, block, slot) VALUES (1, 0, 0)")
    assert ranker(database, request, 40, alone=True) == expected, "begun before the first vector was deleted"
    assert ranker(database, request, 40, alone=True).ids == expected.ids[1:]


def test_a_refresh_that_failed_is_made_up_for_by_the_next_search(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = directions(20)
    store(database, model, list(range(1, 11)), rows[:10])
    index = VectorIndex(database, model)
    index.nearest(database, rows[0], 1)
    store(database, model, [500], rows[10:11])
    with monkeypatch.context() as patch:
        patch.setattr("tidelore.search.vector_index.read_states", refuse)
        with pytest.raises(StorageFailed):
            index.nearest(database, rows[10], 1)
    assert index.nearest(database, rows[10], 1)[0].document_id == 500


def refuse(*_args: object) -> list[BlockState]:
    raise StorageFailed("the database is busy")


def test_a_kept_index_is_changed_and_compared_by_one_thread_at_a_time(
    database: Database, model: VectorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = directions(300)
    store(database, model, list(range(1, 201)), rows[:200])
    monkeypatch.setattr("tidelore.search.vector_index.WHOLE", 10)
    kept = KeptMeaning()
    index = kept.index(database, model)
    assert kept.index(database, model) is index
    inside: list[str] = []

    def alone(name: str) -> Callable[..., Any]:
        work = getattr(vector_index._Table, name)

        def checked(*args: Any) -> Any:
            assert index._lock.locked(), name
            inside.append(name)
            return work(*args)

        return checked

    for name in ("update", "nearest", "places_of"):
        monkeypatch.setattr(vector_index._Table, name, alone(name))
    begun = index.ahead(database, rows[7], 20, is_filtered=False)
    store(database, model, list(range(201, 301)), rows[200:])
    assert index.nearest(database, rows[250], 1, [251])[0].document_id == 251
    assert begun is not None
    assert begun.nearest(database, rows[7], 1)[0].document_id == 8
    assert len(index.vectors_of(database, [251])) == 1
    assert sorted(set(inside)) == ["nearest", "places_of", "update"]
    assert inside.count("update") == 2


def test_a_model_that_was_made_anew_gets_an_index_of_its_own(database: Database, model: VectorModel) -> None:
    rows = directions(2)
    store(database, model, [1], rows[:1])
    kept = KeptMeaning()
    assert kept.index(database, model).nearest(database, rows[0], 1)[0].document_id == 1
    with database.transaction() as tx:
        for table in ("embedding_holes", "embeddings", "embedding_blocks", "embedding_models"):
            tx.execute(f"DELETE FROM {table}")
    again = ensure_model(database, "m", "1", DIMENSION, "180/30", 2)
    assert again.id == model.id, "SQLite gives the number out again"
    store(database, again, [2], rows[1:])
    assert kept.index(database, again).nearest(database, rows[1], 2)[0].document_id == 2
    assert kept.index(database, again) is not kept.index(database, model)


def test_an_embedder_in_this_process_is_kept_until_its_settings_change() -> None:
    kept, opened = KeptMeaning(), list[Embedding]()

    def open_one(settings: Embedding) -> Embedder | Unavailable | None:
        def open_now() -> Embedder | Unavailable | None:
            opened.append(settings)
            return open_embedder(settings, Http(), {})

        return kept.embedder(settings, open_now)

    local, server = Embedding(), Embedding(provider="ollama", base_url="http://127.0.0.1:9")
    assert open_one(local) is open_one(local)
    assert open_one(server) is not open_one(server), "its connections belong to one event loop"
    tuned = Embedding(min_similarity=0.1)
    assert open_one(tuned) is open_one(tuned)
    assert opened == [local, server, server, tuned]


def test_the_mean_vector_has_unit_length_and_is_zero_for_opposites() -> None:
    rows = directions(7)
    mean = mean_direction(rows)
    assert mean is not None
    assert float(np.linalg.norm(mean)) == pytest.approx(1, abs=1e-5)
    assert mean_direction(np.stack([rows[0], -rows[0]])) is None
    assert mean_direction(np.zeros((0, DIMENSION), np.float32)) is None


def test_a_ranker_uses_its_embedders_weight_and_only_vectors_of_its_model(database: Database) -> None:
    embedder = opened()
    assert make_ranker(database, embedder, "anything") is None
    identity = ModelIdentity("wordllama-l2-supercat-256", embedder.identity.version, 256)  # type: ignore[attr-defined]
    stored = ensure_model(database, identity.name, identity.version, identity.dimension, "180/30", 1)
    texts = ["the card was charged twice", "the crane reports its position late"]
    with database.transaction() as tx:
        tx.execute("UPDATE embedding_models SET generation = generation + 1")
        vectors = embedder.embed_now(texts)  # type: ignore[attr-defined]
        put(tx, stored.id, 256, [VectorEntry(at, 0, vector) for at, vector in enumerate(vectors, 1)])
    ranker = make_ranker(database, embedder, "duplicate payment by card")
    assert ranker is not None
    ranking = ranker(database, SearchRequest(query=parse_query("duplicate payment by card")), 10, alone=True)
    assert ranking.ids == (1,), "the other text is about something else"
    assert (ranking.name, ranking.weight, ranker.rrf_k) == ("semantic", 0.4, 33)


def test_a_query_below_the_similarity_floor_finds_nothing(database: Database) -> None:
    embedder = opened()
    identity = embedder.identity  # type: ignore[attr-defined]
    stored = ensure_model(database, identity.name, identity.version, identity.dimension, "180/30", 1)
    texts = ["the card was charged twice", "the crane reports its position late", "invoices are sent at midnight"]
    with database.transaction() as tx:
        tx.execute("UPDATE embedding_models SET generation = generation + 1")
        vectors = embedder.embed_now(texts)  # type: ignore[attr-defined]
        put(tx, stored.id, 256, [VectorEntry(at, 0, vector) for at, vector in enumerate(vectors, 1)])
    for text in ("zzxqv wqpfk", "marmalade saxophone", "qjxv"):
        ranker = make_ranker(database, embedder, text)
        assert ranker is not None
        assert ranker(database, SearchRequest(query=parse_query(text)), 10, alone=True).ids == ()


def test_the_similarity_floor_is_configurable_and_zero_disables_it(database: Database) -> None:
    rows = directions(40)
    model = ensure_model(database, "m", "1", DIMENSION, "180/30", 1)
    store(database, model, list(range(1, 41)), rows)
    index = VectorIndex(database, model)
    request = SearchRequest(query=parse_query("x"))
    near = [hit for hit in index.nearest(database, rows[0], 40) if hit.score > 0.3]
    strict = MeaningRanker(index, rows[0], 1.0, 10, floor=0.3)
    ranking = strict(database, request, 40, alone=True)
    assert ranking.ids == tuple(hit.document_id for hit in near)
    # The nearest is the text itself, and what has less than 70 % of its similarity counts only beside words.
    assert ranking.sure == 1
    lax = MeaningRanker(index, rows[0], 1.0, 10, floor=0.0)
    assert len(lax(database, request, 40, alone=True).ids) > len(near)


def opened() -> Embedder:
    embedder = open_embedder(Embedding(fusion_weight=0.4, rrf_k=33), Http(), {})
    assert embedder is not None
    assert not isinstance(embedder, Unavailable)
    return embedder
