"""Stores payloads as they were received, each version once (table `raw_payloads`).

A payload is identified by remote id and content hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import NamedTuple

from tidelore.store.database.port import Transaction

_COLUMNS = ("content_hash", "project_id", "resource_type", "remote_id", "encoding", "payload", "fetched_at")
_INSERT = (
    f"INSERT INTO raw_payloads ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    " ON CONFLICT (remote_id, content_hash) DO NOTHING"
)
Pack = Callable[[bytes], tuple[str, bytes]]
_SMALL = 128
"""Payloads smaller than this grow when compressed."""
LEFT_OUT_PAYLOAD = "left_out"
"""The `resource_type` of a payload whose bytes a snapshot leaves out; its row stays, because other rows refer to it."""


class Content(NamedTuple):
    """A payload, the remote id it belongs to, and its digest."""

    remote_id: str
    digest: bytes
    payload: bytes


def store_contents(
    tx: Transaction,
    project_id: int | None,
    resource_type: str,
    contents: Iterable[Content],
    *,
    pack: Pack,
    now_ms: int,
) -> None:
    """Store each payload that is not stored yet."""
    tx.execute_rows(
        _INSERT,
        _COLUMNS,
        [
            (address, project_id, resource_type, remote_id, *pack(payload), now_ms)
            for remote_id, address, payload in contents
        ],
    )


def forget_payloads(
    tx: Transaction, project_id: int, resource_type: str, table: str, remote_ids: Sequence[str]
) -> None:
    """Delete the payloads of these objects that no row of their table refers to any more."""
    tx.execute_many(
        "DELETE FROM raw_payloads WHERE remote_id = :remote_id AND resource_type = :resource_type"
        " AND project_id = :project_id"
        f" AND NOT EXISTS (SELECT 1 FROM {table} t WHERE t.raw_payload_id = raw_payloads.id)",
        [{"remote_id": key, "resource_type": resource_type, "project_id": project_id} for key in remote_ids],
    )


def unpacked(encoding: str, payload: bytes) -> bytes:
    """Decompress a stored payload."""
    if encoding == "identity":
        return bytes(payload)
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(payload)
    except zstandard.ZstdError as error:
        raise ValueError(f"a stored payload cannot be unpacked: {error}") from None


def packer(*, compress: bool) -> Pack:
    """Return a function that encodes payloads for storage. Expensive to create."""
    if not compress:
        return lambda payload: ("identity", payload)
    import zstandard

    # zstd level 1 compresses as well as zlib in a third of the time.
    squeeze = zstandard.ZstdCompressor(level=1).compress
    # One compressor must not be used by two threads at the same time.
    lock = Lock()

    def pack(payload: bytes) -> tuple[str, bytes]:
        if len(payload) < _SMALL:
            return "identity", payload
        with lock:
            return "zstd", squeeze(payload)

    return pack
