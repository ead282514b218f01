"""Lexical ranking: by words, and by identifiers. Owns which documents are worth scoring.

Any of the words makes a document fit, but scoring all of those is slow where words are common. So the rarest words
open a gate: documents with one of them are scored, by all words. When too few come through, a second one opens to
documents that hold several of the common words together; then everything is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.search.fuse import Ranking, fuse
from tidelore.search.query import Query
from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter
from tidelore.store.fulltext import full_text
from tidelore.store.fulltext_port import Ask, FullText, Gate, Term

DEPTH = 200
"""How many documents a ranking holds at most."""
GATE_ROOM = 3_000
"""How many documents may pass a gate; the benchmark `search` tells how many of the best ten that keeps."""
ENOUGH = 50
EVERYWHERE = 50_000
"""A term of so many documents tells nothing beside others (of 100,000, bm25 gives it no weight), and costs the most."""


class Counted(Struct, frozen=True):
    """A term and how many documents hold it, counted up to EVERYWHERE."""

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
        (Counted(term, text.count(term, EVERYWHERE)) for term in query.terms), key=lambda entry: entry.documents
    )
    present = [entry for entry in counted if entry.documents]
    present = [entry for entry in present if entry.documents < EVERYWHERE] or present
    ask = Ask(
        tuple(entry.term for entry in present), query.excluded, counts=tuple(entry.documents for entry in present)
    )
    ids, gates = _by_words(text, ask, present, wanted, depth) if present else ((), ())
    rankings = [Ranking("words", ids)]
    rankings += [
        Ranking(f"name {name}", tuple(text.find_named(name, query.excluded, wanted, depth))) for name in query.names
    ]
    fused = tuple(entry.id for entry in fuse(rankings)[:depth])
    return LexicalFinding(Ranking("lexical", fused), tuple(counted), gates)


def choose_gates(counted: Sequence[Counted], count_together: Callable[[Sequence[Term]], int]) -> Iterator[Gate]:
    """Yield the gates for terms sorted by rarity; none where scoring everything is cheap enough."""
    room = GATE_ROOM
    rare: list[Term] = []
    for entry in counted:
        room -= entry.documents
        if room < 0:
            break
        rare.append(entry.term)
    common = tuple(entry.term for entry in counted[len(rare) :])
    if rare and common:
        yield Gate(tuple(rare))
    if len(common) > 1:
        fitting = (n for n in range(2, len(common)) if count_together(common[:n]) <= GATE_ROOM)
        yield Gate(common[: next(fitting, len(common))], needs_all=True)


def _by_words(
    text: FullText, ask: Ask, present: Sequence[Counted], wanted: DocumentFilter, depth: int
) -> tuple[tuple[int, ...], tuple[Gate, ...]]:
    found: dict[int, float] = {}
    opened: list[Gate] = []
    for gate in choose_gates(present, text.count_together):
        opened.append(gate)
        found |= text.rank(replace(ask, gate=gate), wanted, depth)
        if len(found) >= ENOUGH:
            break
    else:
        found = dict(text.rank(replace(ask, is_wide=bool(opened)), wanted, depth))
    best = sorted(found, key=lambda row_id: (-found[row_id], -row_id))
    return tuple(best[:depth]), tuple(opened)
