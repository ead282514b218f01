"""The interface of embedders, and their tuning parameters.

Invariants of every embedder: vectors are L2-normalised float32 with the dimension of the model identity, in the order
of the texts; a blank text has the zero vector, never NaN; vectors of one identity can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from tidelore.core.clock import SystemClock
from tidelore.core.config import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]


class ModelIdentity(Struct, frozen=True):
    """Identifies the model that computed a vector. Vectors of different identities are never compared."""

    name: str
    version: str
    dimension: int


class Unavailable(Struct, frozen=True):
    """Why no vectors can be computed, and the remedy; search uses keywords only until then."""

    reason: str
    fix: str
    extra: str | None = None
    """The extra of the package that is not installed, if that is the reason."""


class Embedder(Protocol):
    """Turns texts into vectors. An embedder on a server raises RemoteError from `identify` and `embed`."""

    @property
    def fusion_weight(self) -> float:
        """The weight of a semantic rank relative to a keyword rank, which has the weight 1."""
        ...

    @property
    def rrf_k(self) -> int:
        """The constant k of reciprocal rank fusion."""
        ...

    @property
    def min_similarity(self) -> float:
        """The lowest cosine similarity at which a document without a keyword match is returned."""
        ...

    @property
    def batch_size(self) -> int:
        """The recommended number of texts per call; `embed` accepts any number."""
        ...

    async def identify(self) -> ModelIdentity:
        """Return the identity of the model; a server is asked once, and the result is cached in this object."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the same order."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class InProcess(Protocol):
    """Additional interface of an embedder that runs in this process: it works without an event loop."""

    @property
    def identity(self) -> ModelIdentity:
        """The same as `identify`."""
        ...

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """The same as `embed`."""
        ...


class Tuning(Struct, frozen=True):
    """The tuning parameters of one embedder."""

    fusion_weight: float
    rrf_k: int
    batch_size: int
    min_similarity: float


def tune(settings: Embedding, default: Tuning, most: int = 2048) -> Tuning:
    """Return the configured parameters, with defaults for missing ones; a batch has at most `most` texts."""
    return Tuning(
        default.fusion_weight if settings.fusion_weight is None else settings.fusion_weight,
        default.rrf_k if settings.rrf_k is None else settings.rrf_k,
        min(settings.batch_size or default.batch_size, most),
        default.min_similarity if settings.min_similarity is None else settings.min_similarity,
    )


class TunedEmbedder:
    """Has the tuning parameters of one embedder."""

    def __init__(self, tuning: Tuning) -> None:
        self.fusion_weight = tuning.fusion_weight
        self.rrf_k = tuning.rrf_k
        self.batch_size = tuning.batch_size
        self.min_similarity = tuning.min_similarity


class InProcessEmbedder(TunedEmbedder, ABC):
    """An embedder that runs in this process."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """The identity of the model."""

    @abstractmethod
    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the same order."""

    async def identify(self) -> ModelIdentity:
        return self.identity

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        found: list[Vector] = []
        for start in range(0, len(texts), self.batch_size):
            found += self.embed_now(texts[start : start + self.batch_size])
            # Let the run's heartbeat, which uses the same event loop, make progress.
            await SystemClock().sleep(0)
        return found

    async def aclose(self) -> None:
        return
