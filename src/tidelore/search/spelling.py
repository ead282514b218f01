"""Correct words of a query that no document contains, and find words inside longer words.

A word is replaced by the nearest word of the documents: one letter away, or two if it has at least six letters and the
first is right. Words in quotes, names and words that are part of a longer word are left as they are. Nothing is
corrected silently: callers show the corrections. If most words of a query remain unknown, none is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.words import SHORTEST_WORD, fold, is_unspaced, near
from tidelore.search.query import Query
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import Term, words_among, words_containing, words_of_length

_LONG_WORD = 6
_COMPARED = 12
"""How many equally near words are compared by the number of documents that contain them."""
_MOST_LONGER = 20


class Correction(Struct, frozen=True):
    """A word as written, and the word that was searched instead."""

    written: str
    used: str


class CorrectedQuery(Struct, frozen=True):
    """The query to search for, and what differs from the one that was written."""

    query: Query
    corrections: tuple[Correction, ...] = ()


def correct(database: Database, query: Query) -> CorrectedQuery:
    """Return the query with each unknown word replaced by the nearest word of the documents."""
    text = full_text(database)
    plain = {term: fold(term.text) for term in query.terms if _is_plain(term)}
    # Most words occur in documents as written: one query finds those. The others are looked up by their stems.
    known = words_among(database, plain.values())
    unknown = [
        term
        for term, word in plain.items()
        if word not in known and not text.has(term) and not words_containing(database, word, 1)
    ]
    used = {term: word for term in unknown if (word := _nearest(database, fold(term.text))) is not None}
    # If most words stay unknown, the documents are about something else, and a near word is a coincidence.
    if not used or 2 * (len(unknown) - len(used)) > len(query.terms):
        return CorrectedQuery(query)
    terms = dict.fromkeys(Term(used[term]) if term in used else term for term in query.terms)
    spoken = query.text
    for term, word in used.items():
        spoken = re.sub(rf"\b{re.escape(term.text)}\b", word, spoken)
    corrections = tuple(Correction(term.text, word) for term, word in used.items())
    return CorrectedQuery(replace(query, terms=tuple(terms), text=spoken), corrections)


def longer_words(database: Database, terms: Sequence[Term]) -> list[Term]:
    """Return words of the documents that contain one of these words: `Kran` is in `Hafenkran`."""
    parts = dict.fromkeys(fold(term.text) for term in terms if _is_plain(term))
    found = dict.fromkeys(word for part in parts for word in words_containing(database, part, _MOST_LONGER))
    return [Term(word) for word in found]


def describe(corrections: Sequence[Correction]) -> str | None:
    """Return the notice about corrections, or None."""
    if not corrections:
        return None
    written = ", ".join(repr(entry.written) for entry in corrections)
    used = ", ".join(repr(entry.used) for entry in corrections)
    return f"no document contains {written}; searched for {used} instead (write it in quotes to search for it exactly)"


def _is_plain(term: Term) -> bool:
    return len(term.text) >= SHORTEST_WORD and term.text.isalpha() and not term.is_phrase and not is_unspaced(term.text)


def _nearest(database: Database, word: str) -> str | None:
    """Return the nearest word that documents contain; among equals the one that starts alike, then the commonest."""
    most = 2 if len(word) >= _LONG_WORD else 1
    words = words_of_length(database, len(word) - most, len(word) + most)
    # Two wrong letters, one of them the first, are rather another word than a typing error.
    found = sorted((steps, other) for steps, other in near(word, words, most) if steps == 1 or other[0] == word[0])
    if not found:
        return None
    best = [other for steps, other in found if steps == found[0][0]]
    best.sort(key=lambda other: (other[0] != word[0], other))
    text = full_text(database)
    counted = [(other[0] != word[0], -text.count(Term(other), 1_000), other) for other in best[:_COMPARED]]
    known = [entry for entry in counted if entry[1]]
    return min(known)[2] if known else None
