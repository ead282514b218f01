"""Payloads as they came, each stored once. Owns `raw_payloads`; the content hash is the address."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from tidelore.errors import NotFound
from tidelore.model import Item
from tidelore.store.database import Database, Transaction

_COLUMNS = ("content_hash", "project_id", "resource_type", "remote_id", "encoding", "payload", "fetched_at")
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
    tx.execute_rows(
        f"INSERT INTO raw_payloads ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
        " ON CONFLICT (content_hash) DO NOTHING",
        _COLUMNS,
        [
            (
                item.version.digest,
                project_id,
                resource_type,
                str(item.version.id),
                *_packed(item.payload, compress=compress),
                now_ms,
            )
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


def _packed(payload: bytes, *, compress: bool) -> tuple[str, bytes]:
    """Return how a payload is encoded, and the bytes to store."""
    if not compress or len(payload) < _SMALL:
        return "identity", payload
    # Level 1: within three percent of the size of level 6, in two thirds of its time.
    return "zlib", zlib.compress(payload, 1)
