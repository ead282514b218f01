"""What all embedding servers share. Owns batches, places of blank texts, the check of what came, the identity.

It refuses vectors of another dimension than the model had when it was identified, and batches that come back with
more or fewer vectors than texts: a shifted batch would file every vector under its neighbour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tidelore.core.config import Embedding
from tidelore.core.errors import RemotePermanent
from tidelore.embedding.embedder import ModelIdentity
from tidelore.embedding.settings import Tuning, tune
from tidelore.embedding.vectors import encodable, in_their_places, is_blank, unit_rows

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector

PROBE = "dimension"
"""The text whose vector tells how long vectors are."""

Numbers = list[list[float]]


class EmbeddingService(Protocol):
    """One kind of server: how it is asked, and what it calls the version of a model."""

    async def identify(self) -> ModelIdentity:
        """Ask which model answers and how long its vectors are."""
        ...

    async def ask(self, texts: Sequence[str]) -> Numbers:
        """Ask for the vectors of a batch, in its order; none of the texts is blank."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


class RemoteEmbedder:
    """An embedder whose model runs on a server."""

    def __init__(self, service: EmbeddingService, settings: Embedding, default: Tuning) -> None:
        self._service = service
        self._wanted = settings.dimensions
        self._known: ModelIdentity | None = None
        self._asking = asyncio.Lock()
        tuning = tune(settings, default)
        self.fusion_weight = tuning.fusion_weight
        self.rrf_k = tuning.rrf_k
        self.batch_size = tuning.batch_size
        self.min_similarity = tuning.min_similarity

    async def identify(self) -> ModelIdentity:
        async with self._asking:
            if self._known is None:
                identity = await self._service.identify()
                if self._wanted and identity.dimension != self._wanted:
                    raise _wrong_dimension(self._wanted, identity.dimension)
                self._known = identity
            return self._known

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        places = [place for place, text in enumerate(texts) if not is_blank(text)]
        dimension = (await self.identify()).dimension
        rows = [np.zeros((0, dimension), dtype=np.float32)]
        for start in range(0, len(places), self.batch_size):
            batch = [encodable(texts[place]) for place in places[start : start + self.batch_size]]
            rows.append(checked(await self._service.ask(batch), len(batch), dimension))
        return in_their_places(np.concatenate(rows), places, len(texts))

    async def aclose(self) -> None:
        await self._service.aclose()


def checked(numbers: Numbers, count: int, dimension: int) -> NDArray[np.float32]:
    """Return the vectors of a batch at unit length, or raise RemotePermanent for what cannot be stored."""
    if len(numbers) != count:
        raise RemotePermanent(
            f"the embedding server returned {len(numbers)} vectors for {count} texts", reason="wrong_count"
        )
    for row in numbers:
        if len(row) != dimension:
            raise _wrong_dimension(dimension, len(row))
    try:
        return unit_rows(np.asarray(numbers, dtype=np.float64).reshape(count, dimension))
    except ValueError as error:
        raise RemotePermanent(str(error), reason="bad_vector") from None


def _wrong_dimension(expected: int, found: int) -> RemotePermanent:
    return RemotePermanent(
        f"the embedding server returned {found} dimensions instead of {expected}",
        reason="wrong_dimension",
        fix="check embedding.model and embedding.dimensions",
        expected=expected,
        found=found,
    )
