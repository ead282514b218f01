"""Lexical ranking: by words, and by identifiers. Owns which documents are worth scoring.

Any of the words makes a document fit, but scoring all of those is slow where words are common. So the rarest words
open a gate: documents with one of them are scored, by all words. When too few come through, a second one opens to
documents that hold several of the common words together; then everything is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from tidelore.search.fuse import Ranking, fuse
from tidelore.search.query import Query
from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter
from tidelore.store.fulltext import full_text
from tidelore.store.fulltext_port import Ask, FullText, Gate, Share, Term

DEPTH = 200
"""How many documents a ranking holds at most."""
GATE_ROOM = 3_000
"""How many documents may pass a gate; the benchmark `search` tells how many of the best ten that keeps."""
ENOUGH = 50
EVERYWHERE = 50_000
"""A term of so many documents tells nothing beside others (of 100,000, bm25 gives it no weight), and costs the most."""


NARROW = 0.05
"""A filter that lets a smaller share pass is a gate by itself."""
MOST_ROOM = 3.0
"""How many times the room a gate may have when a filter keeps most of it out."""


class Counted(Struct, frozen=True):
    """A term and how many documents hold it: exactly up to GATE_ROOM, beyond it about how many."""

    term: Term
    documents: int


class LexicalFinding(Struct, frozen=True):
    """A ranking, and how it came about: how common each term is, and the gates that were opened."""

    ranking: Ranking
    counted: tuple[Counted, ...] = ()
    gates: tuple[Gate, ...] = ()


def rank_lexical(database: Database, query: Query, wanted: DocumentFilter, depth: int = DEPTH) -> LexicalFinding:
    """Rank documents by the words of a query; without words the newest that fit come first."""
    text = full_text(database)
    if not query.terms:
        return LexicalFinding(Ranking("lexical", tuple(text.newest(query.excluded, wanted, depth))))
    counted = sorted(
        (Counted(term, text.count(term, GATE_ROOM + 1)) for term in query.terms), key=lambda entry: entry.documents
    )
    present = [entry for entry in counted if entry.documents]
    present = [entry for entry in present if entry.documents < EVERYWHERE] or present
    ask = Ask(
        tuple(entry.term for entry in present), query.excluded, counts=tuple(entry.documents for entry in present)
    )
    scores, gates = _by_words(text, ask, present, wanted, depth) if present else ({}, ())
    names = [
        Ranking(f"name {name}", tuple(text.find_named(name, query.excluded, wanted, depth))) for name in query.names
    ]
    ranking = _with_names(scores, names, depth)
    return LexicalFinding(ranking, tuple(counted), gates)


def choose_gates(
    counted: Sequence[Counted], count_together: Callable[[Sequence[Term]], int], room: float
) -> Iterator[Gate]:
    """Yield the gates for terms sorted by rarity; none where scoring everything is cheap enough."""
    left = room
    rare: list[Term] = []
    for entry in counted:
        left -= entry.documents
        if left < 0:
            break
        rare.append(entry.term)
    common = tuple(entry.term for entry in counted[len(rare) :])
    if rare and common:
        yield Gate(tuple(rare))
    if len(common) > 1:
        fitting = (n for n in range(2, len(common)) if count_together(common[:n]) <= room)
        yield Gate(common[: next(fitting, len(common))], needs_all=True)


def _by_words(
    text: FullText, ask: Ask, present: Sequence[Counted], wanted: DocumentFilter, depth: int
) -> tuple[dict[int, float], tuple[Gate, ...]]:
    """Return the best documents with their scores, the best first, and the gates that were opened for them."""
    share = text.share(wanted) if wanted.narrows else Share()
    ask = replace(ask, is_narrow=share.by_rows < NARROW)
    found: dict[int, float] = {}
    opened: list[Gate] = []
    # What the filter keeps out is not scored, but found all the same.
    room = inf if share.total < NARROW else GATE_ROOM * min(1 / share.total, MOST_ROOM)
    for gate in choose_gates(present, text.count_together, room):
        opened.append(gate)
        found |= text.rank(replace(ask, gate=gate), wanted, depth)
        if len(found) >= ENOUGH:
            break
    else:
        found = dict(text.rank(ask, wanted, depth))
    best = sorted(found, key=lambda row_id: (-found[row_id], -row_id))
    return {row_id: found[row_id] for row_id in best[:depth]}, tuple(opened)


def _with_names(scores: Mapping[int, float], names: Sequence[Ranking], depth: int) -> Ranking:
    """Return one ranking; its strengths are those of the words, and what is called by a name fits wholly."""
    best = max(scores.values(), default=0.0)
    strengths = {row_id: max(score, 0.0) / best if best > 0 else 1.0 for row_id, score in scores.items()}
    words = Ranking("words", tuple(strengths), strengths=tuple(strengths.values()))
    fused = [entry.id for entry in fuse([words, *names])[:depth]]
    strengths |= {row_id: 1.0 for ranking in names for row_id in ranking.ids}
    return Ranking("lexical", tuple(fused), strengths=tuple(strengths[row_id] for row_id in fused))
