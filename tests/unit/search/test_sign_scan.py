"""The scan without numpy finds what the index with numpy finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.databases.migrated_file import lay_out
from tests.unit.search.test_semantic import DIMENSION, directions, store

from tidelore.search.sign_scan import SignScan
from tidelore.search.vector_index import VectorIndex
from tidelore.store.database.opening import open_database
from tidelore.store.reading import vector_blocks, vector_models
from tidelore.store.reading.vector_models import ensure_model


def test_without_numpy_the_same_documents_are_nearest_whatever_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "lore.db")
    database = open_database(str(tmp_path / "lore.db"))
    model = ensure_model(database, "m", "1", DIMENSION, "180/30", 1)
    rows = directions(700)
    store(database, model, [at // 2 + 1 for at in range(len(rows))], rows)
    with database.transaction() as tx:
        tx.execute("INSERT INTO embedding_holes (model_id, block, slot) VALUES (1, 0, 4), (1, 0, 5)")
    index, scan = VectorIndex(database, model), SignScan(model)
    for query in directions(4, seed=5):
        for allowed in (None, list(range(2, 300, 3))):
            exact = index.nearest(database, query, 20, allowed)
            found = scan.nearest(database, query.tolist(), 20, allowed)
            shared = {hit.document_id for hit in exact[:10]} & {hit.document_id for hit in found}
            assert len(shared) >= 9
            scores = {hit.document_id: hit.score for hit in exact}
            for hit in found:
                assert hit.score == pytest.approx(scores.get(hit.document_id, hit.score), abs=1e-4)
                assert allowed is None or hit.document_id in allowed
    gone = scan.nearest(database, rows[4].tolist(), 400)
    assert 3 not in {hit.document_id for hit in gone}
    opposite = scan.nearest(database, (-rows[0]).tolist(), 400)
    assert 1 not in {hit.document_id for hit in opposite[:50]}
    database.close()


def test_both_readers_of_blocks_agree_about_their_size() -> None:
    assert vector_models.BLOCK == vector_blocks.BLOCK
