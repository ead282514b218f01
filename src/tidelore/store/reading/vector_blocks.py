"""Stores vectors in blocks of 64 (tables `embedding_blocks` and `embedding_holes`).

One byte per number and one scale per vector, which loses no search quality, and one bit per number to find the few
vectors worth comparing; a block is read at once. A place whose
document is gone is a hole: searches skip it, and it is reused. Invariant: a place is either a hole or referenced by
exactly one row of `embeddings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.store.database.port import Database, Transaction

BLOCK = 64
"""Small, because a search in a new process reads the signs of all blocks but the numbers of a few vectors only."""
WORTH_FILLING = 4
"""With fewer holes than this, appending is cheaper than rewriting the block; they slow a search by 6 %."""

_PARTS = ("documents", "positions", "scales", "signs", "vectors")
_READ = (
    "SELECT b.block, b.generation, (SELECT string_agg(CAST(h.slot AS TEXT), ',') FROM embedding_holes h"
    " WHERE h.model_id = b.model_id AND h.block = b.block), "
    + ", ".join(f"CASE WHEN b.generation > :known THEN b.{part} END" for part in _PARTS)
    + " FROM embedding_blocks b WHERE b.model_id = :model ORDER BY b.block"
)


class VectorPlace(NamedTuple):
    """The location of a vector."""

    block: int
    slot: int


class VectorEntry(NamedTuple):
    """A vector, and the document and position it belongs to."""

    document_id: int
    position: int
    vector: NDArray[np.float32]


class Block(Struct, frozen=True):
    """The vectors of one block, one line for each place."""

    number: int
    generation: int
    documents: NDArray[np.int64]
    positions: NDArray[np.int32]
    scales: NDArray[np.float32]
    signs: NDArray[np.uint8]
    vectors: NDArray[np.int8]


class BlockState(Struct, frozen=True):
    """The current state of a block: its holes, and its contents if they changed since the given generation."""

    number: int
    generation: int
    holes: tuple[int, ...]
    content: Block | None


def sign_bytes(dimension: int) -> int:
    """Return how many bytes the signs of a vector take."""
    return (dimension + 7) // 8


def quantised(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return vectors as bytes, and the scale of each."""
    scales = (np.abs(vectors).max(axis=1, initial=0.0) / 127).astype(np.float32)
    steps = np.rint(vectors / np.where(scales > 0, scales, 1)[:, np.newaxis])
    return steps.astype(np.int8), scales


def signs_of(vectors: NDArray[np.int8] | NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return which numbers of vectors are positive, eight to a byte."""
    return np.packbits(vectors > 0, axis=-1)


def read_mark(database: Database, model_id: int) -> tuple[int, int]:
    """Return a mark that differs whenever vectors were written or deleted: how often, and how many holes there are.

    Only writing fills holes, so between two writings their number can only grow.
    """
    rows = database.read(
        "SELECT generation, (SELECT COUNT(*) FROM embedding_holes h WHERE h.model_id = m.id)"
        " FROM embedding_models m WHERE id = :model",
        {"model": model_id},
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else (-1, 0)


def read_states(database: Database, model_id: int, dimension: int, known: int = -1) -> list[BlockState]:
    """Return every block of a model in one query, with contents if written after generation `known`."""
    return [
        BlockState(
            number,
            generation,
            tuple(map(int, holes.split(","))) if holes else (),
            None if parts[0] is None else _unpacked(number, generation, parts, dimension),
        )
        for number, generation, holes, *parts in database.read(_READ, {"model": model_id, "known": known})
    ]


def put(tx: Transaction, model_id: int, dimension: int, entries: Sequence[VectorEntry]) -> list[VectorPlace]:
    """Store vectors and return their places; the caller must hold a lock on the model's row."""
    generation, used = tx.execute(
        "SELECT generation, slots FROM embedding_models WHERE id = :model", {"model": model_id}
    )[0]
    counts: dict[int, int] = dict(
        tx.execute(
            "SELECT block, COUNT(*) FROM embedding_holes WHERE model_id = :model GROUP BY block", {"model": model_id}
        )
    )
    holes = _take_holes(tx, model_id, choose_blocks(counts, used // BLOCK, len(entries)), len(entries))
    fresh = len(entries) - len(holes)
    places = holes + [VectorPlace(*divmod(number, BLOCK)) for number in range(used, used + fresh)]
    if fresh:
        tx.execute(
            "UPDATE embedding_models SET slots = slots + :fresh WHERE id = :model", {"fresh": fresh, "model": model_id}
        )
    steps, scales = quantised(np.stack([entry.vector for entry in entries]))
    for number in sorted({place.block for place in places}):
        lines = [line for line, place in enumerate(places) if place.block == number]
        slots = [places[line].slot for line in lines]
        block = _opened(tx, model_id, number, dimension, max(slots) + 1)
        block.documents[slots] = [entries[line].document_id for line in lines]
        block.positions[slots] = [entries[line].position for line in lines]
        block.scales[slots] = scales[lines]
        block.signs[slots] = signs_of(steps[lines])
        block.vectors[slots] = steps[lines]
        _save(tx, model_id, block, generation)
    return places


def choose_blocks(holes: Mapping[int, int], tail: int, count: int) -> list[int]:
    """Return the blocks whose holes to fill: the last one, which is written anyway, then those that are worth it."""
    order = sorted(holes, key=lambda block: (block != tail, -holes[block], block))
    chosen, room = [], 0
    for block in order:
        if room >= count:
            break
        if block == tail or holes[block] >= WORTH_FILLING:
            chosen.append(block)
            room += holes[block]
    return chosen


def _take_holes(tx: Transaction, model_id: int, blocks: Iterable[int], count: int) -> list[VectorPlace]:
    taken: list[VectorPlace] = []
    for block in blocks:
        rows = tx.execute(
            "SELECT block, slot FROM embedding_holes WHERE model_id = :model AND block = :block"
            " ORDER BY slot LIMIT :most",
            {"model": model_id, "block": block, "most": count - len(taken)},
        )
        taken += [VectorPlace(*row) for row in rows]
    tx.execute_rows(
        "DELETE FROM embedding_holes WHERE model_id = :model AND block = :block AND slot = :slot",
        ("model", "block", "slot"),
        [(model_id, *place) for place in taken],
    )
    return taken


def _opened(tx: Transaction, model_id: int, number: int, dimension: int, size: int) -> Block:
    """Return a block to write into, with at least `size` lines."""
    rows = tx.execute(
        f"SELECT {', '.join(_PARTS)} FROM embedding_blocks WHERE model_id = :model AND block = :block",
        {"model": model_id, "block": number},
    )
    held = _unpacked(number, 0, rows[0] if rows else (b"",) * len(_PARTS), dimension)
    more = max(0, size - len(held.documents))
    return Block(
        number,
        0,
        np.concatenate([held.documents, np.zeros(more, np.int64)]),
        np.concatenate([held.positions, np.zeros(more, np.int32)]),
        np.concatenate([held.scales, np.zeros(more, np.float32)]),
        np.concatenate([held.signs, np.zeros((more, sign_bytes(dimension)), np.uint8)]),
        np.concatenate([held.vectors, np.zeros((more, dimension), np.int8)]),
    )


def _save(tx: Transaction, model_id: int, block: Block, generation: int) -> None:
    parts = [
        block.documents.astype("<i8").tobytes(),
        block.positions.astype("<i4").tobytes(),
        block.scales.astype("<f4").tobytes(),
        block.signs.tobytes(),
        block.vectors.tobytes(),
    ]
    columns = ("model_id", "block", "generation", *_PARTS)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns[2:])
    tx.execute(
        f"INSERT INTO embedding_blocks ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"
        f" ON CONFLICT (model_id, block) DO UPDATE SET {updates}",
        dict(zip(columns, (model_id, block.number, generation, *parts), strict=True)),
    )


def _unpacked(number: int, generation: int, parts: Sequence[bytes], dimension: int) -> Block:
    documents, positions, scales, signs, vectors = parts
    return Block(
        number,
        generation,
        np.frombuffer(documents, "<i8"),
        np.frombuffer(positions, "<i4"),
        np.frombuffer(scales, "<f4"),
        np.frombuffer(signs, np.uint8).reshape(-1, sign_bytes(dimension)),
        np.frombuffer(vectors, np.int8).reshape(-1, dimension),
    )
