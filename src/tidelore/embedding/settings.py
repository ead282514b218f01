"""What an embedder is told. Owns how what the user chose and the numbers measured for a provider come together."""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.config import Embedding


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
