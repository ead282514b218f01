"""The interface of every embedder, and the numbers each of them is tuned with.

Invariants of every embedder: vectors are L2-normalised float32 of the dimension that the identity names, in the order
of the texts; a blank text has the zero vector, never NaN; vectors of one identity can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from tidelore.core.config import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]


class ModelIdentity(Struct, frozen=True):
    """Which model made a vector. Vectors of two identities are never compared."""

    name: str
    version: str
    dimension: int


class Unavailable(Struct, frozen=True):
    """Why there are no vectors, and what the user can do about it; search is lexical meanwhile."""

    reason: str
    fix: str
    extra: str | None = None
    """The extra of the package that is not installed, if that is why."""


class Embedder(Protocol):
    """Turns texts into vectors. One that asks a server raises RemoteError from both methods."""

    @property
    def fusion_weight(self) -> float:
        """How much a rank by meaning counts beside a rank by words, which counts 1."""
        ...

    @property
    def rrf_k(self) -> int:
        """The constant of reciprocal rank fusion that goes with the weight."""
        ...

    @property
    def min_similarity(self) -> float:
        """The least cosine at which a document found by meaning alone is about the query."""
        ...

    @property
    def batch_size(self) -> int:
        """How many texts are worth handing over at a time; `embed` takes any number."""
        ...

    async def identify(self) -> ModelIdentity:
        """Return which model answers; a server is asked once, and the answer stands for this object's life."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text, in their order."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class InProcess(Protocol):
    """What an embedder without a server can do besides: answer without an event loop."""

    @property
    def identity(self) -> ModelIdentity:
        """The same as `identify`."""
        ...

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """The same as `embed`."""
        ...


class Tuning(Struct, frozen=True):
    """The numbers that go with one embedder."""

    fusion_weight: float
    rrf_k: int
    batch_size: int
    min_similarity: float


def tune(settings: Embedding, default: Tuning, most: int = 2048) -> Tuning:
    """Return what the user chose, and the embedder's own where nothing was chosen; a batch holds `most` at most."""
    return Tuning(
        default.fusion_weight if settings.fusion_weight is None else settings.fusion_weight,
        default.rrf_k if settings.rrf_k is None else settings.rrf_k,
        min(settings.batch_size or default.batch_size, most),
        default.min_similarity if settings.min_similarity is None else settings.min_similarity,
    )
