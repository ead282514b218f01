"""Reads payloads as they were received, by the row that refers to them."""

from __future__ import annotations

from typing import NamedTuple

from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import LEFT_OUT_PAYLOAD, PayloadReader

_TABLES = {"issue": "issues", "merge_request": "merge_requests", "topic": "topics", "post": "posts"}
_COLUMNS = {"issue": "issue_id", "merge_request": "merge_request_id"}
_PAYLOAD = "r.resource_type, r.remote_id, r.fetched_at, r.encoding, r.payload, r.dictionary_id"
_HELD = "r.resource_type NOT IN (:left_out, 'tombstone')"


class RawPayload(NamedTuple):
    """A payload, decompressed."""

    type: str
    remote_id: str
    fetched_at: int
    payload: bytes


def read_payload(database: Database, source_type: str, row_id: int) -> RawPayload | None:
    """Return the payload of an item; None if it is deleted or left out."""
    found = _read(
        database,
        f"SELECT {_PAYLOAD} FROM {_TABLES[source_type]} t JOIN raw_payloads r ON r.id = t.raw_payload_id"
        f" WHERE t.id = :id AND {_HELD}",
        row_id,
    )
    return found[0] if found else None


def read_payloads_below(database: Database, source_type: str, row_id: int) -> list[RawPayload]:
    """Return the payloads of the discussions and comments of an issue or merge request, in their order.

    A topic's payload contains its comments.
    """
    column = _COLUMNS.get(source_type)
    if column is None:
        return []
    return _read(
        database,
        f"SELECT {_PAYLOAD}, d.first_note_at AS begun, d.id AS thread, -1 AS place"
        f" FROM discussions d JOIN raw_payloads r ON r.id = d.raw_payload_id WHERE d.{column} = :id AND {_HELD}"
        f" UNION ALL SELECT {_PAYLOAD}, d.first_note_at, d.id, n.position FROM discussions d"
        " JOIN notes n ON n.discussion_id = d.id JOIN raw_payloads r ON r.id = n.raw_payload_id"
        f" WHERE d.{column} = :id AND {_HELD} ORDER BY begun, thread, place",
        row_id,
    )


def _read(database: Database, sql: str, row_id: int) -> list[RawPayload]:
    reader = PayloadReader(database.read)
    rows = database.read(sql, {"id": row_id, "left_out": LEFT_OUT_PAYLOAD})
    return [
        RawPayload(kind, remote_id, fetched_at, reader.unpack(*packed[:3]))
        for kind, remote_id, fetched_at, *packed in rows
    ]
