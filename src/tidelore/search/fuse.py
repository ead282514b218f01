"""Combine rankings by weighted reciprocal rank fusion. Pure.

The score of a document is the sum of `weight * strength / (k + rank)` over the rankings that contain it; scores of
different kinds are never compared. A strength says how well a document fits compared with the best of its own ranking,
so a clearly best document is not easily displaced by another ranking. Without strengths only ranks count.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import repeat

from msgspec import Struct

RANK_CONSTANT = 10


class Ranking(Struct, frozen=True):
    """Documents by one measure, the best first, each at most once; `strengths` fall from 1, one for each, or none.

    Those after the first `sure` fit so little that they count only where another ranking holds them too.
    """

    name: str
    ids: tuple[int, ...]
    weight: float = 1.0
    strengths: tuple[float, ...] = ()
    sure: int = sys.maxsize


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
        for place, (document, strength) in enumerate(_with_strengths(ranking), 1):
            scores[document] = scores.get(document, 0.0) + ranking.weight * strength / (k + place)
            ranks.setdefault(document, {})[ranking.name] = place
    # Sorting is stable: equals stay in the order in which they were first met.
    return sorted((Fused(document, scores[document], ranks[document]) for document in scores), key=_descending)


def stand_in(ranking: Ranking, leads: Mapping[int, int]) -> Ranking:
    """Return a ranking in which each document is stood in for by its lead, once, where the first of them stood.

    A document without a lead is left out.
    """
    kept: dict[int, float] = {}
    for document, strength in _with_strengths(ranking):
        lead = leads.get(document)
        if lead is not None:
            kept.setdefault(lead, strength)
    strengths = tuple(kept.values()) if ranking.strengths else ()
    return Ranking(ranking.name, tuple(kept), ranking.weight, strengths)


def _with_strengths(ranking: Ranking) -> zip[tuple[int, float]]:
    return zip(ranking.ids, ranking.strengths or repeat(1.0, len(ranking.ids)), strict=True)


def _descending(fused: Fused) -> float:
    return -fused.score
