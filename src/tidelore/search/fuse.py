"""Fusion of rankings. Pure: weighted reciprocal rank fusion, in which only places count, never scores.

A document's score is the sum over the rankings that hold it of `weight / (k + place)`; what more rankings agree on
comes first. Scores of different kinds are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

RANK_CONSTANT = 10


class Ranking(Struct, frozen=True):
    """Documents by one measure, the best first, each at most once."""

    name: str
    ids: tuple[int, ...]
    weight: float = 1.0


class Fused(Struct, frozen=True):
    """A document with its score and its place, counted from 1, in each ranking that holds it."""

    id: int
    score: float
    ranks: dict[str, int]


def fuse(rankings: Sequence[Ranking], k: int = RANK_CONSTANT) -> list[Fused]:
    """Return every document of the rankings once, the best first; of equals the one an earlier ranking holds."""
    scores: dict[int, float] = {}
    ranks: dict[int, dict[str, int]] = {}
    for ranking in rankings:
        for place, document in enumerate(ranking.ids, 1):
            scores[document] = scores.get(document, 0.0) + ranking.weight / (k + place)
            ranks.setdefault(document, {})[ranking.name] = place
    # Sorting is stable: equals stay in the order in which they were first met.
    return sorted((Fused(document, scores[document], ranks[document]) for document in scores), key=_descending)


def _descending(fused: Fused) -> float:
    return -fused.score
