"""Payloads as they came, each stored once. Owns `raw_payloads`; the content hash is the address."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from tidelore.errors import NotFound
from tidelore.model import Item
from tidelore.store.database import Database, Transaction

_SMALL = 128
"""Below this many bytes compression only adds."""


def store_payloads(
    tx: Transaction,
    project_id: int,
    resource_type: str,
    items: Sequence[Item[Any]],
    *,
    compress: bool,
    now_ms: int,
) -> None:
    """Store each payload that is not stored yet."""
    tx.execute_many(
        "INSERT INTO raw_payloads"
        " (content_hash, project_id, resource_type, remote_id, encoding, payload, fetched_at)"
        " VALUES (:content_hash, :project_id, :resource_type, :remote_id, :encoding, :payload, :fetched_at)"
        " ON CONFLICT (content_hash) DO NOTHING",
        [
            {
                "content_hash": item.version.digest,
                "project_id": project_id,
                "resource_type": resource_type,
                "remote_id": str(item.version.id),
                "encoding": "zlib" if compress and len(item.payload) >= _SMALL else "identity",
                "payload": _packed(item.payload, compress=compress),
                "fetched_at": now_ms,
            }
            for item in items
        ],
    )


def read_payload(database: Database, payload_id: int) -> bytes:
    """Return a payload as it came."""
    rows = database.read("SELECT encoding, payload FROM raw_payloads WHERE id = :id", {"id": payload_id})
    if not rows:
        raise NotFound(f"no payload {payload_id} is stored")
    return unpacked(*rows[0])


def unpacked(encoding: str, payload: bytes) -> bytes:
    """Return the bytes behind a stored payload."""
    return zlib.decompress(payload) if encoding == "zlib" else bytes(payload)


def _packed(payload: bytes, *, compress: bool) -> bytes:
    # Level 1: three quarters of the saving of level 6 at a third of its time.
    return zlib.compress(payload, 1) if compress and len(payload) >= _SMALL else payload
