"""Which statements become one statement over many rows, and how rows are divided."""

from __future__ import annotations

import json

from tidelore.store.database import postgres_batch
from tidelore.store.database.postgres_batch import batch_of, in_statements, types_of

UPSERT = (
    "INSERT INTO notes (id, body, payload) VALUES (:id, :body, (SELECT p.id FROM payloads p WHERE p.hash = :hash))"
    " ON CONFLICT (id) DO UPDATE SET body = excluded.body"
)
TYPES = {"id": "bigint", "body": "text", "payload": "bigint"}


def test_an_upsert_selects_its_values_from_the_rows() -> None:
    batch = batch_of(UPSERT)
    assert batch is not None
    assert (batch.names, batch.key, batch.columns) == (("id", "body", "hash"), ("id",), {"id": "id", "body": "body"})
    types = types_of(batch, ("id", "body", "hash"), [(1, None, None), (2, None, b"x")], TYPES)
    assert types == {"id": "bigint", "body": "text", "hash": "bytea"}
    assert batch.text(types) == (
        "INSERT INTO notes (id, body, payload) SELECT r.p_id, r.p_body,"
        " (SELECT p.id FROM payloads p WHERE p.hash = r.p_hash) FROM json_to_recordset(CAST(%(rows)s AS json))"
        " AS r (p_id bigint, p_body text, p_hash bytea) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
    )


def test_updates_and_deletions_join_the_rows() -> None:
    update = batch_of("UPDATE notes SET body = :body, seen = seen + 1 WHERE id = :id AND kind = 'x'")
    delete = batch_of("DELETE FROM notes WHERE id = :id AND body LIKE 'a%'")
    assert update is not None
    assert delete is not None
    assert (update.before, update.after, update.key) == (
        "UPDATE notes SET body = r.p_body, seen = seen + 1 FROM",
        " WHERE id = r.p_id AND kind = 'x'",
        ("id",),
    )
    assert delete.key == ()
    assert delete.text({"id": "bigint"}).endswith("AS r (p_id bigint) WHERE id = r.p_id AND body LIKE 'a%%'")


def test_a_statement_of_another_form_has_no_batch() -> None:
    for sql in (
        "INSERT INTO notes (id) SELECT :id",
        "INSERT INTO notes (id) VALUES (:id) RETURNING id",
        "INSERT INTO notes (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET body = :body",
        "INSERT INTO notes (id) VALUES (:id + 1) ON CONFLICT (id) DO UPDATE SET body = 'x'",
        "UPDATE notes SET body = (SELECT 'x') WHERE id = :id",
        "DELETE FROM notes WHERE NOT EXISTS (SELECT 1 FROM other WHERE other.id = :id)",
        "DELETE FROM notes WHERE id = 1",
    ):
        assert batch_of(sql) is None, sql


def test_a_parameter_with_only_nulls_and_no_column_has_no_type() -> None:
    batch = batch_of(UPSERT)
    assert batch is not None
    assert types_of(batch, ("id", "body", "hash"), [(1, "a", None)], TYPES) is None


def test_rows_with_the_same_key_are_written_by_one_statement_after_another() -> None:
    batch = batch_of(UPSERT)
    assert batch is not None
    rows = [(1, "a", None), (2, "b", b"\x01\xff"), (1, "c", None)]
    found = [json.loads(part) for part in in_statements(batch, ("id", "body", "hash"), rows)]
    assert found == [
        [{"p_id": 1, "p_body": "a"}, {"p_id": 2, "p_body": "b", "p_hash": "\\x01ff"}],
        [{"p_id": 1, "p_body": "c"}],
    ]


def test_large_rows_are_divided() -> None:
    batch = batch_of("DELETE FROM notes WHERE body = :body")
    assert batch is not None
    rows = [("x" * (postgres_batch.MOST_BYTES // 2 + 1),)] * 5
    assert [len(json.loads(part)) for part in in_statements(batch, ("body",), rows)] == [2, 2, 1]
