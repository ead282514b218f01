"""Reads vectors from blocks without numpy, for a search that starts a process: first the signs, then a few numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from msgspec import Struct

from tidelore.store.database.port import Database

BLOCK = 64
"""As in `vector_blocks`, which imports numpy. All blocks but the last are full."""


class SignTable(Struct, frozen=True):
    """The documents and signs of all places, and the free ones. A place is a block times its size plus a slot."""

    documents: bytes
    signs: bytes
    holes: frozenset[int]

    def owners(self) -> tuple[int, ...]:
        """Return the document of each place."""
        return struct.unpack(f"<{len(self.documents) // 8}q", self.documents)

    def owner(self, place: int) -> int:
        """Return the document of one place."""
        return int.from_bytes(self.documents[8 * place : 8 * place + 8], "little", signed=True)


class NumberBlock(Struct, frozen=True):
    """The positions, scales and numbers of one block."""

    positions: bytes
    scales: bytes
    vectors: bytes


def count_places(database: Database, model_id: int) -> int:
    """Return how many places for vectors a model has."""
    rows = database.read("SELECT slots FROM embedding_models WHERE id = :id", {"id": model_id})
    return int(rows[0][0]) if rows else 0


def read_signs(database: Database, model_id: int) -> SignTable:
    """Return the signs of all vectors of a model."""
    own = {"model": model_id}
    holes = database.read("SELECT block, slot FROM embedding_holes WHERE model_id = :model", own)
    rows = database.read("SELECT documents, signs FROM embedding_blocks WHERE model_id = :model ORDER BY block", own)
    return SignTable(
        b"".join([documents for documents, _ in rows]),
        b"".join([signs for _, signs in rows]),
        frozenset(block * BLOCK + slot for block, slot in holes),
    )


def read_numbers(database: Database, model_id: int, blocks: Iterable[int]) -> dict[int, NumberBlock]:
    """Return the numbers of some blocks."""
    rows = database.read(
        "SELECT block, positions, scales, vectors FROM embedding_blocks"
        f" WHERE model_id = :model AND block {database.among('blocks')}",
        {"model": model_id, "blocks": database.integers(blocks)},
    )
    return {number: NumberBlock(*parts) for number, *parts in rows}
