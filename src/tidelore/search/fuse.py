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
    """Documents ranked by one measure, the best first, each at most once.

    `strengths` has one value per document, falling from 1, or is empty. Documents after the first `sure` are weak
    matches and count only if another ranking contains them too.
    """

    name: str
    ids: tuple[int, ...]
    weight: float = 1.0
    strengths: tuple[float, ...] = ()
    sure: int = sys.maxsize


class Fused(Struct, frozen=True):
    """A document with its score and its rank, counted from 1, in each ranking that contains it."""

    id: int
    score: float
    ranks: dict[str, int]


def fuse(rankings: Sequence[Ranking], k: int = RANK_CONSTANT) -> list[Fused]:
    """Return every document of the rankings once, the best first; ties go to the one in an earlier ranking."""
    scores = fused_scores(rankings, k)
    ranks = ranks_in(rankings)
    return [Fused(document, scores[document], ranks[document]) for document in best_first(scores)]


def ranks_in(rankings: Sequence[Ranking]) -> dict[int, dict[str, int]]:
    """Return the rank of every document, counted from 1, in each ranking that contains it."""
    ranks: dict[int, dict[str, int]] = {}
    for ranking in rankings:
        name = ranking.name
        for place, document in enumerate(ranking.ids, 1):
            if document in ranks:
                ranks[document][name] = place
            else:
                ranks[document] = {name: place}
    return ranks


def fused_scores(rankings: Sequence[Ranking], k: int) -> dict[int, float]:
    """Return the score of every document of the rankings, in the order in which they were first seen."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        weight = ranking.weight
        for divisor, (document, strength) in enumerate(_with_strengths(ranking), k + 1):
            scores[document] = scores.get(document, 0.0) + weight * strength / divisor
    return scores


def best_first(scores: Mapping[int, float]) -> list[int]:
    """Return documents by score; ties keep their order, because sorting is stable."""
    return sorted(scores, key=scores.__getitem__, reverse=True)


def stand_in(ranking: Ranking, leads: Mapping[int, int]) -> Ranking:
    """Replace each document of a ranking by its lead; a lead appears once, at the rank of its first document.

    Documents without a lead are dropped.
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
