"""Find the nearest documents without numpy: for a search that starts a process.

Importing numpy takes longer than comparing the signs of 100,000 vectors with big integers. The vectors that agree most
with the query are then compared by their numbers, as in `vector_index`; fewer of them, because each costs more here.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import mul

from tidelore.embedding.embedder import Tuning
from tidelore.embedding.light import LocalFiles, embed_light, identify
from tidelore.search.similarity import Hit, MeaningRanker
from tidelore.store.database.port import Database
from tidelore.store.reading.vector_models import (
    BLOCK,
    SignTable,
    VectorModel,
    count_places,
    find_model,
    in_rows,
    read_numbers,
    read_signs,
)

LARGE = (0.5, 0.8)
"""As in `vector_index`: the shares of the numbers of a query above which its signs count more."""
MOST_PLACES = 300_000
"""With more vectors than this, importing numpy is faster."""
REFINED, COMPARED = 1_500, 500
"""How many vectors are compared with weighed signs, and then by their numbers."""
_FAR = 255
_RAISED = bytes((byte + 128) % 256 for byte in range(256))
_AT_ONCE = 8_192
"""So many signs stay in the processor's cache."""


class SignScan:
    """The vectors of one model, read from the database for each search.

    Nothing is compared ahead: big integers hold the interpreter's lock, so another thread would gain nothing.
    """

    def __init__(self, model: VectorModel) -> None:
        self._model = model

    def nearest(
        self, database: Database, vector: Sequence[float], limit: int, allowed: Sequence[int] | None = None
    ) -> list[Hit]:
        """Return the nearest documents, only from `allowed` if given, the best first."""
        places = self._most_alike(database, vector, max(limit, COMPARED), allowed)
        best: dict[int, Hit] = {}
        for hit in self._compare(database, vector, places):
            held = best.get(hit.document_id)
            if hit.score > 0 and (held is None or hit.score > held.score):
                best[hit.document_id] = hit
        return sorted(best.values(), key=lambda hit: (-hit.score, hit.document_id))[:limit]

    def nearest_passing(
        self,
        database: Database,  # noqa: ARG002
        vector: Sequence[float],  # noqa: ARG002
        limit: int,  # noqa: ARG002
        passing: Callable[[Sequence[int]], set[int]],  # noqa: ARG002
    ) -> list[Hit] | None:
        """Return None: listing the documents that pass first leaves fewer signs to compare."""
        return None

    def _most_alike(
        self, database: Database, vector: Sequence[float], count: int, allowed: Sequence[int] | None
    ) -> dict[int, list[tuple[int, int]]]:
        """Return the slots, with their documents, whose signs differ least, by block."""
        asked = _packed_bits([number > 0 for number in vector])
        width = (len(vector) + 7) // 8
        table = read_signs(database, self._model.id)
        differing = _differing_signs(table, asked, width, None if allowed is None else frozenset(allowed))
        most = _threshold(differing, REFINED)
        large = [_packed_bits(_is_large(vector, share)) for share in LARGE]
        weighed: list[tuple[int, int]] = []
        # A pattern finds the few small numbers among many much faster than a loop.
        for place in [found.start() for found in re.finditer(rb"[\x00-\x%02x]" % most, differing)]:
            differs = int.from_bytes(table.signs[place * width : (place + 1) * width]) ^ asked
            extra = (differs & large[0]).bit_count() + 2 * (differs & large[1]).bit_count()
            weighed.append((differing[place] + extra, place))
        found: dict[int, list[tuple[int, int]]] = {}
        for _, place in sorted(weighed)[:count]:
            if place not in table.holes:
                found.setdefault(place // BLOCK, []).append((place % BLOCK, table.owner(place)))
        return found

    def _compare(
        self, database: Database, vector: Sequence[float], places: dict[int, list[tuple[int, int]]]
    ) -> Iterable[Hit]:
        size = len(vector)
        # Bytes are read faster as numbers from 0 on, so each is raised by 128, and what that adds is subtracted.
        added = 128 * sum(vector)
        for number, block in read_numbers(database, self._model.id, places):
            for slot, document in places[number]:
                (scale,) = struct.unpack_from("<f", block.scales, 4 * slot)
                (position,) = struct.unpack_from("<i", block.positions, 4 * slot)
                raised = block.vectors[slot * size : (slot + 1) * size].translate(_RAISED)
                yield Hit(document, position, scale * (sum(map(mul, raised, vector)) - added))


def make_light_ranker(database: Database, files: LocalFiles, tuning: Tuning, text: str) -> MeaningRanker | None:
    """Return the ranker of a text; None if numpy is needed, or if the model has no vectors here."""
    if in_rows(database):
        return None
    identity = identify(files)
    model = find_model(database, identity.name, identity.version, identity.dimension)
    # With as many signs as _FAR, all differ only in a vector that is the opposite, and those are excluded.
    if model is None or model.dimension > _FAR + 1 or count_places(database, model.id) > MOST_PLACES:
        return None
    vector = embed_light(files, text)
    if vector is None:
        return None
    return MeaningRanker(SignScan(model), vector, tuning.fusion_weight, tuning.rrf_k, tuning.min_similarity)


def _packed_bits(flags: Sequence[bool]) -> int:
    bits = "".join("1" if flag else "0" for flag in flags)
    whole = -(-len(bits) // 8) * 8
    return int(bits.ljust(whole, "0"), 2)


def _is_large(vector: Sequence[float], share: float) -> list[bool]:
    least = sorted(map(abs, vector))[int(share * len(vector))]
    return [abs(number) >= least for number in vector]


def _differing_signs(table: SignTable, asked: int, width: int, chosen: frozenset[int] | None) -> bytes:
    """Return how many signs of each vector differ, or _FAR for documents that are not chosen."""
    # Sums for thousands of vectors at once, as the bytes of one big integer: for each byte of the signs, a table turns
    # the stored byte into the number of bits that differ. A sum of 256 would be carried over; such a vector is the
    # exact opposite of the query, so it and its neighbour are compared by their numbers in vain, no more.
    tables = [bytes((byte ^ value).bit_count() for byte in range(256)) for value in asked.to_bytes(width)]
    parts = []
    for start in range(0, len(table.signs), _AT_ONCE * width):
        signs = table.signs[start : start + _AT_ONCE * width]
        size = len(signs) // width
        total = sum(int.from_bytes(signs[at::width].translate(tables[at]), "little") for at in range(width))
        parts.append(total.to_bytes(size + 1, "little")[:size])
    differing = b"".join(parts)
    if chosen is not None:
        pairs = zip(differing, table.owners(), strict=True)
        differing = bytes(count if document in chosen else _FAR for count, document in pairs)
    return differing


def _threshold(differing: bytes, count: int) -> int:
    """Return up to how many differing signs a vector is chosen: `count` vectors and those that tie, or all but _FAR."""
    return bisect_left(range(_FAR - 1), count, key=lambda steps: len(differing) - len(_larger(differing, steps)))


def _larger(numbers: bytes, least: int) -> bytes:
    return numbers.translate(None, bytes(range(least + 1)))
