"""Rank documents by words and identifiers.

Scoring every document that contains any word is slow for common words. So only documents with one of the rarest words
are scored, by all words (the first gate). If too few pass, documents with several common words together are added (the
second gate), then all. Documents that contain all words are always looked up first: they are few and none may be
missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from tidelore.search.fuse import Ranking, fuse
from tidelore.search.query import Query
from tidelore.search.spelling import longer_words
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import Ask, DocumentFilter, FilterShare, FullText, Gate, Scored, Term

DEPTH = 200
"""The most documents in a ranking."""
GATE_ROOM = 3_000
"""How many documents may pass a gate; the benchmark `search` measures how many of the best ten that keeps."""
ENOUGH = 50
FEW = 10
"""If words find fewer documents than this, longer words that contain them are searched too."""
INSIDE = 0.3
"""The strength of a document that contains a word only as a part of a longer one; always after all others."""
EVERYWHERE = 50_000
"""A term in this many documents is ignored beside others: it costs the most, and of 100,000 documents bm25 gives it no
weight."""

SCORED_ROOM = 80_000
"""In how many documents the scored terms of a query may occur together: scoring looks at every document of each term;
the commonest words decide the least."""
NARROW = 0.05
"""A filter that lets a smaller share of documents pass needs no gate."""
MOST_ROOM = 2.0
"""The largest factor by which GATE_ROOM grows if a filter excludes most documents."""


class Counted(Struct, frozen=True):
    """A term and how many documents contain it: exact up to GATE_ROOM, approximate above."""

    term: Term
    documents: int


class LexicalFinding(Struct, frozen=True):
    """A ranking, and how it was computed: how common each term is, and the gates that were used.

    `complete` are the documents that contain every term that occurs in the copy, if there are at least two such terms.
    `is_cut` says that more documents contain a term than the ranking includes.
    """

    ranking: Ranking
    counted: tuple[Counted, ...] = ()
    gates: tuple[Gate, ...] = ()
    complete: frozenset[int] = frozenset()
    is_cut: bool = False

    @property
    def has_known_term(self) -> bool:
        return any(entry.documents for entry in self.counted)


def rank_lexical(
    database: Database, query: Query, wanted: DocumentFilter, depth: int = DEPTH, share: FilterShare | None = None
) -> LexicalFinding:
    """Rank documents by the words of a query; without words, return the newest that pass the filter.

    `share` is that of the filter, if it is known.
    """
    text = full_text(database)
    if not query.terms:
        newest = tuple(text.newest(query.excluded, wanted, depth))
        return LexicalFinding(Ranking("lexical", newest), is_cut=len(newest) >= depth)
    counts = text.counts(query.terms, GATE_ROOM + 1)
    counted = sorted(map(Counted, query.terms, counts), key=lambda entry: entry.documents)
    present = [entry for entry in counted if entry.documents]
    present = [entry for entry in present if entry.documents < EVERYWHERE] or present
    if share is None:
        share = text.share(wanted) if wanted.narrows else FilterShare()
    words = _by_words(text, present, query.excluded, wanted, depth, share) if present else _ByWords({})
    inside: list[int] = []
    if len(words.scores) < FEW and (longer := longer_words(database, query.terms)):
        of_longer = tuple(text.counts(longer, GATE_ROOM + 1))
        found = text.rank(Ask(tuple(longer), query.excluded, counts=of_longer), wanted, depth)
        inside = [scored.id for scored in found if scored.id not in words.scores]
    names = [
        Ranking(f"name {name}", tuple(text.find_named(name, query.excluded, wanted, depth))) for name in query.names
    ]
    ranking = _with_names(words.scores, names, inside, depth)
    is_cut = words.is_cut or len(ranking.ids) >= depth
    return LexicalFinding(ranking, tuple(counted), words.gates, words.complete, is_cut)


def choose_gates(
    counted: Sequence[Counted], count_together: Callable[[Sequence[Term]], int], room: float
) -> Iterator[Gate]:
    """Yield the gates for terms sorted by rarity; none if scoring all documents is cheap enough."""
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


def _worth_scoring(present: Sequence[Counted]) -> Sequence[Counted]:
    """Return the rarest terms, as many as there is time for: two or more."""
    left = SCORED_ROOM - sum(entry.documents for entry in present[:2])
    for number, entry in enumerate(present[2:], 2):
        left -= entry.documents
        if left < 0:
            return present[:number]
    return present


class _ByWords(Struct, frozen=True):
    """The best documents with their scores, the best first; other fields as in LexicalFinding."""

    scores: dict[int, float]
    gates: tuple[Gate, ...] = ()
    complete: frozenset[int] = frozenset()
    is_cut: bool = False


def _by_words(
    text: FullText,
    present: Sequence[Counted],
    excluded: tuple[Term, ...],
    wanted: DocumentFilter,
    depth: int,
    share: FilterShare,
) -> _ByWords:
    scored = _worth_scoring(present)

    def ask(counted: Sequence[Counted], gate: Gate | None = None) -> Ask:
        terms, counts = tuple(entry.term for entry in counted), tuple(entry.documents for entry in counted)
        return Ask(terms, excluded, gate, counts, share.by_rows < NARROW)

    found: dict[int, float] = {}
    opened: list[Gate] = []
    # Documents that the filter excludes pass the gate but are not scored, so the gate may be wider.
    room = float("inf") if share.total < NARROW else GATE_ROOM * min(1 / share.total, MOST_ROOM)
    enough = True
    for gate in choose_gates(scored, text.count_together, room):
        # Documents with a term of an earlier gate are already scored, by all terms.
        known = {term for earlier in opened for term in earlier.terms}
        left = [entry for entry in scored if entry.term not in known]
        opened.append(gate)
        found = {**_scores(text.rank(ask(left, gate), wanted, depth)), **found}
        if len(found) >= ENOUGH:
            break
    else:
        found = _scores(text.rank(ask(scored), wanted, depth))
        enough = False
    complete = frozenset(text.containing_all(ask(present), wanted, depth)) if len(present) > 1 else frozenset()
    if not complete <= found.keys():
        # They pass every gate, but their scores may be too low. Scoring them is dear, so only if it is needed.
        whole = Gate(tuple(entry.term for entry in present), needs_all=True)
        if not (enough and opened == [whole]):
            # Otherwise the best of them were found behind that gate already.
            found |= _scores(text.rank(ask(scored, whole), wanted, depth))
        complete &= found.keys()
    best = sorted(found, key=lambda row_id: (row_id not in complete, -found[row_id], -row_id))[:depth]
    # By score alone, a long document that contains all words could be cut off, so those are selected first.
    scores = {row_id: found[row_id] for row_id in sorted(best, key=lambda row_id: (-found[row_id], -row_id))}
    return _ByWords(scores, tuple(opened), complete, enough or len(found) >= depth)


def _scores(ranked: Iterable[Scored]) -> dict[int, float]:
    return {entry.id: entry.score for entry in ranked}


def _with_names(scores: Mapping[int, float], names: Sequence[Ranking], inside: Sequence[int], depth: int) -> Ranking:
    """Return one ranking with the strengths of the words; a document found by identifier has strength 1.

    Documents that contain a word only inside a longer one come last.
    """
    best = max(scores.values(), default=0.0)
    strengths = {row_id: max(score, 0.0) / best if best > 0 else 1.0 for row_id, score in scores.items()}
    words = Ranking("words", tuple(strengths), strengths=tuple(strengths.values()))
    fused = [entry.id for entry in fuse([words, *names])] if names else list(words.ids)
    strengths |= {row_id: 1.0 for ranking in names for row_id in ranking.ids}
    least = min([INSIDE, *strengths.values()])
    weaker = [row_id for row_id in inside if row_id not in strengths]
    strengths |= dict.fromkeys(weaker, least)
    fused = [*fused, *weaker][:depth]
    return Ranking("lexical", tuple(fused), strengths=tuple(strengths[row_id] for row_id in fused))
