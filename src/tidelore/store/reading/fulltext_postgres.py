"""Full-text search in a PostgreSQL database, with scores by the formula and the weights of SQLite's FTS5.

Not in `fulltext.py`, because no command that reads a SQLite file needs it. PostgreSQL has no bm25. Its `ts_rank` of one
word is a known sum over the places of that word, so it tells how often a document contains the word; from that the
score is computed, and both databases rank alike. How common a word is comes from PostgreSQL's statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, prod
from typing import Any

from msgspec import Struct

from tidelore.core.patterns import late_pattern
from tidelore.core.words import is_unspaced, pairs_of, split_scripts
from tidelore.store.database.port import Database
from tidelore.store.reading.fulltext import (
    INDEXED_WORD,
    MOST_NAMED,
    Ask,
    DocumentFilter,
    FilterShare,
    Scored,
    Term,
    conditions,
    holds,
    marked_contents,
    pattern,
)

_COUNTED = 200
"""Up to this many documents with a word are counted, which reads the page of each; more are estimated."""
_MOST_TOGETHER = 10_000
"""How many documents with several words are counted: more than any gate has room for."""


class PostgresFullText:
    """Full-text search in a PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._scoring: Scoring | None = None

    def count(self, term: Term, most: int) -> int:  # noqa: ARG002
        bound = WordQueries()
        # In the order of pages: if the first pages already contain so many, the others are assumed to be like them.
        ((found, last, pages),) = self._database.read(
            "SELECT COUNT(*), MAX((CAST(CAST(place AS TEXT) AS point))[0]), pg_relation_size('documents') / 8192 FROM"
            f" (SELECT d.ctid AS place FROM documents d WHERE d.search_vector @@ ({bound.query(term)}) LIMIT :most)"
            " AS found",
            {**bound.params, "most": _COUNTED},
        )
        return int(found) if found < _COUNTED else round(found * max(pages / (last + 1), 1.0))

    def counts(self, terms: Sequence[Term], most: int) -> list[int]:
        # Counting a common word reads all of its entries in the index, however few documents are asked for.
        known = self._common(terms)
        return [
            known[place].documents if place in known and known[place].documents >= _COUNTED else self.count(term, most)
            for place, term in enumerate(terms, 1)
        ]

    def _common(self, terms: Sequence[Term]) -> dict[int, CommonWord]:
        words = ["" if term.is_phrase or is_unspaced(term.text) else term.text for term in terms]
        return common_words(self._database, words)

    def has(self, term: Term) -> bool:
        if self._common([term]):
            return True
        bound = WordQueries()
        return bool(
            self._database.read(
                f"SELECT 1 FROM documents d WHERE d.search_vector @@ ({bound.query(term)}) LIMIT 1", bound.params
            )
        )

    def count_together(self, terms: Sequence[Term]) -> int:
        bound = WordQueries()
        rows = self._database.read(
            "SELECT COUNT(*) FROM (SELECT 1 FROM documents d"
            f" WHERE d.search_vector @@ ({bound.all_of(terms)}) LIMIT {_MOST_TOGETHER}) AS found",
            bound.params,
        )
        return int(rows[0][0])

    def share(self, wanted: DocumentFilter) -> FilterShare:
        terms = _words_of_filter(wanted)
        known = self._common(terms) if terms else {}
        total = about_all(self._database) if len(known) < len(terms) else None
        rare = (self.count(term, 1) / total for place, term in enumerate(terms, 1) if total and place not in known)
        return FilterShare(min(prod([*(word.share for word in known.values()), *rare]), 1.0))

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        bound = WordQueries()
        matched = bound.any_of(ask.terms)
        if ask.gate is not None:
            gate = bound.all_of(ask.gate.terms) if ask.gate.needs_all else bound.any_of(ask.gate.terms)
            matched = f"({gate}) && ({matched})"
        if ask.excluded:
            matched = f"({matched}) && !!({bound.any_of(ask.excluded)})"
        matched = _narrowed_query(matched, bound, wanted)
        where, params = self._conditions(wanted, ())
        counts = ask.counts or self.counts(ask.terms, _COUNTED)
        if self._scoring is None:
            self._scoring = Scoring.of(self._database)
        scored = self._scoring.statement(bound, ask.terms, counts, f"d.search_vector @@ ({matched}){where}")
        rows = self._database.read(
            f"{scored} ORDER BY 2 DESC, 1 DESC LIMIT :limit", {**params, **bound.params, "limit": limit}
        )
        return [Scored(*row) for row in rows]

    def containing_all(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[int]:
        bound = WordQueries()
        matched = _narrowed_query(bound.all_of(ask.terms), bound, wanted)
        where, params = self._conditions(wanted, ask.excluded)
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE d.search_vector @@ ({matched}){where} ORDER BY d.id DESC LIMIT :limit",
            {**params, **bound.params, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        where, params = self._conditions(wanted, excluded)
        rows = self._database.read(
            "SELECT id FROM (SELECT d.id, d.updated_at, d.identifiers FROM documents d"
            f" WHERE {holds(self._database, 'd.identifiers', 'name')}{where}"
            f" ORDER BY d.id DESC LIMIT {MOST_NAMED}) AS named"
            " ORDER BY strpos(chr(10) || lower(identifiers) || chr(10), chr(10) || lower(:whole) || chr(10)) > 0 DESC,"
            " updated_at DESC, id DESC LIMIT :limit",
            {**params, "name": pattern(name), "whole": name, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def newest(self, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        where, params = self._conditions(wanted, excluded)
        bound = WordQueries()
        if words := _narrowed_query("", bound, wanted):
            where += f" AND d.search_vector @@ ({words})"
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE true{where} ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit",
            {**params, **bound.params, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        where, params = self._conditions(wanted, excluded)
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE d.id {self._database.among('ids')}{where}",
            {**params, "ids": self._database.integers(ids)},
        )
        return {row_id for (row_id,) in rows}

    def marked(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        return marked_contents(self._database, terms, ids)

    def _conditions(self, wanted: DocumentFilter, excluded: Sequence[Term]) -> tuple[str, dict[str, Any]]:
        found, params = conditions(self._database, wanted)
        bound = WordQueries()
        if excluded:
            found.append(f"NOT d.search_vector @@ ({bound.any_of(excluded)})")
        return "".join(f" AND {condition}" for condition in found), {**params, **bound.params}


def _words_of_filter(wanted: DocumentFilter) -> list[Term]:
    """Return the labels and people of a filter that the word index can narrow."""
    return [Term(text) for text in (*wanted.labels, wanted.author) if text and INDEXED_WORD.search(text)]


def _narrowed_query(matched: str, bound: WordQueries, wanted: DocumentFilter) -> str:
    """Return a tsquery narrowed by the labels and people of a filter; the rows decide.

    The author of a document is one of its participants.
    """
    parts = [f"({matched})"] if matched else []
    parts += [bound.words(term.text) for term in _words_of_filter(wanted)]
    return " && ".join(parts)


_ABOUT_ALL = (
    "SELECT CASE WHEN reltuples > 0 AND relpages > 0 THEN reltuples / relpages * (pg_relation_size(oid) / 8192) END"
    " FROM pg_class WHERE oid = to_regclass('documents')"
)
_COMMON = (
    "WITH asked AS MATERIALIZED (SELECT place,"
    " tsvector_to_array(to_tsvector('lore_words', without_signs(word))) AS found"
    " FROM unnest(CAST(:words AS TEXT[])) WITH ORDINALITY AS told (word, place)),"
    " common AS MATERIALIZED (SELECT lexeme, share FROM pg_stats s,"
    " unnest(CAST(CAST(s.most_common_elems AS TEXT) AS TEXT[]), s.most_common_elem_freqs) AS told (lexeme, share)"
    " WHERE s.schemaname = current_schema() AND s.tablename = 'documents' AND s.attname = 'search_vector')"
    f" SELECT asked.place, common.share, ({_ABOUT_ALL}) FROM asked JOIN common ON common.lexeme = asked.found[1]"
    " WHERE cardinality(asked.found) = 1"
)


def about_all(database: Database) -> float | None:
    """Return about how many documents there are, as PostgreSQL's planner estimates it; None before any ANALYZE."""
    ((total,),) = database.read(_ABOUT_ALL)
    return None if total is None else float(total)


class CommonWord(Struct, frozen=True):
    """The share of documents that contain a word, and about how many these are."""

    share: float
    documents: int


def common_words(database: Database, words: Sequence[str]) -> dict[int, CommonWord]:
    """Return the commonest of these words by their places from 1 on, as PostgreSQL's last ANALYZE found them."""
    rows = database.read(_COMMON, {"words": database.texts(words)})
    return {place: CommonWord(share, round(share * total)) for place, share, total in rows if total is not None}


class WordQueries:
    """Terms as text queries of PostgreSQL; each text is bound once as a parameter."""

    def __init__(self) -> None:
        self.params: dict[str, str] = {}

    def query(self, term: Term) -> str:
        """Return the tsquery of a term."""
        if is_unspaced(term.text):
            return f"({' && '.join(map(self._part, split_scripts(term.text)))})"
        return self.phrase(term.text) if term.is_phrase else self.words(term.text)

    def words(self, text: str) -> str:
        """Return the tsquery of all words of a text, such as a label."""
        return f"plainto_tsquery('lore_words', without_signs(:{self._name(text)}))"

    def phrase(self, text: str) -> str:
        """Return the tsquery of the words of a text in their order."""
        return f"phraseto_tsquery('lore_words', without_signs(:{self._name(text)}))"

    def words_of(self, term: Term) -> list[str]:
        """Return the tsqueries of the single words of a term, as many as tell how often it occurs."""
        if not is_unspaced(term.text):
            parts = _PART.findall(term.text) if term.is_phrase else []
            return [self.words(part) for part in (parts or [term.text])[:_TELLING]]
        found: list[str] = []
        for part in split_scripts(term.text):
            is_run = is_unspaced(part) and len(part) > 1
            found += [self.words(pair) for pair in pairs_of(part)[:_TELLING]] if is_run else [self._part(part)]
        return found[:_TELLING]

    def _part(self, part: str) -> str:
        """Return the tsquery of one part of an unspaced text: a word, a phrase of bigrams, or how a bigram begins."""
        if not is_unspaced(part):
            return self.words(part)
        if len(part) == 1:
            begins = self._name(f"'{part}':*")
            return f"to_tsquery('simple', :{begins})"
        pairs = self._name(" ".join(pairs_of(part)))
        return f"phraseto_tsquery('lore_words', :{pairs})"

    def _name(self, text: str) -> str:
        name = next((name for name, bound in self.params.items() if bound == text), f"term_{len(self.params)}")
        self.params[name] = text
        return name

    def any_of(self, terms: Iterable[Term]) -> str:
        return " || ".join(self.query(term) for term in terms)

    def all_of(self, terms: Iterable[Term]) -> str:
        return " && ".join(self.query(term) for term in terms)


_PART = late_pattern(r"[^\W_]+")
_TELLING = 3
"""A phrase occurs about as often as the rarest of its words. This is how many of its words are counted."""

# The weights of D, C, B and A: the people; content and bigrams; labels; title.
_EVERYWHERE, _ABOVE_PEOPLE, _TITLE_AND_LABELS = "'{1,1,1,1}'", "'{0,1,1,1}'", "'{0,0,1,1}'"


def _times(rank: str) -> str:
    """Return how often a document contains a word, given its rank with weights of 0 and 1.

    The rank is the sum of 1, 1/4, 1/9, ... over the places of the word, divided by the limit of that sum, which is
    about 1.644934. What is missing to the limit after n places is about 1 / (n + 0.5). Places with a weight of 0 must
    come last, which the order of the columns in `search_vector` guarantees. No word has more than 255 places.
    """
    return f"round(1 / (1.644934 * GREATEST(1 - CAST({rank} AS float8), 0.002)) - 0.5)"


def _length(vector: str) -> str:
    """Return how many words a document has: every one has the mark # once, and its rank is divided by all places."""
    return f"(0.6079271 / GREATEST(ts_rank({_EVERYWHERE}, {vector}, CAST('#' AS tsquery), 2), 1e-9) - 1)"


_SATURATION, _BY_LENGTH = 1.2, 0.75
_LEAST = 1e-6
_SAMPLED_PAGES = 128
_STATISTICS = (
    f"SELECT ({_ABOUT_ALL}), AVG({_length('search_vector')}) FROM documents TABLESAMPLE SYSTEM"
    f" (LEAST(100, 100.0 * {_SAMPLED_PAGES} / GREATEST(pg_relation_size('documents') / 8192, 1))) REPEATABLE (0)"
)


class Scoring(Struct, frozen=True):
    """What bm25 needs to know of all documents: about how many there are, and about how many words they have."""

    documents: float
    words: float

    @classmethod
    def of(cls, database: Database) -> Scoring:
        ((total, words),) = database.read(_STATISTICS)
        if total is None:
            ((total,),) = database.read("SELECT COUNT(*) FROM documents")
        return cls(float(total), max(float(words or 1.0), 1.0))

    def rarity(self, count: int) -> float:
        """Return the weight of a word that this many documents contain."""
        total = max(self.documents, count)
        return max(log((total - count + 0.5) / (count + 0.5)), _LEAST)

    def statement(self, bound: WordQueries, terms: Sequence[Term], counts: Sequence[int], condition: str) -> str:
        """Return the query for the documents `d` that meet a condition, and their scores."""
        single = [bound.words_of(term) for term in terms]
        whole = [bound.query(term) if len(words) > 1 else None for term, words in zip(terms, single, strict=True)]
        queries = list(dict.fromkeys(query for words in single for query in words))
        ranks = ", ".join(f"ts_rank({_EVERYWHERE}, v, {query}) AS r{n}" for n, query in enumerate(queries))
        times = ", ".join(f"{_weighted(f'r{n}', query)} AS n{n}" for n, query in enumerate(queries))
        parts: list[str] = []
        for term_words, phrase, count in zip(single, whole, counts, strict=True):
            names = [f"n{queries.index(query)}" for query in term_words]
            often = names[0] if phrase is None else f"CASE WHEN v @@ {phrase} THEN LEAST({', '.join(names)}) ELSE 0 END"
            factor = self.rarity(count) * (_SATURATION + 1)
            parts.append(f"{factor:.9g} * {often} / ({often} + damping)")
        share = f"{_length('v')} / {self.words:.9g}"
        damping = f"{_SATURATION} * ({1 - _BY_LENGTH} + {_BY_LENGTH} * {share})"
        # OFFSET 0 keeps the planner from computing a value again wherever it is used.
        matched = f"SELECT d.id, d.search_vector AS v FROM documents d WHERE {condition} OFFSET 0"
        ranked = f"SELECT id, v, {damping} AS damping, {ranks} FROM ({matched}) AS matched OFFSET 0"
        counted = f"SELECT id, v, damping, {times} FROM ({ranked}) AS ranked OFFSET 0"
        return f"SELECT id, {' + '.join(parts)} AS score FROM ({counted}) AS counted"


def _weighted(rank: str, query: str) -> str:
    """Return how often a document contains a word, by SQLite's weights: title and labels 4, people 2, the others 1."""
    above, best = (f"ts_rank({weights}, v, {query})" for weights in (_ABOVE_PEOPLE, _TITLE_AND_LABELS))
    everywhere, above, best = map(_times, (rank, above, best))
    return f"CASE WHEN {rank} > 0 THEN 2 * {everywhere} - {above} + 3 * {best} ELSE 0 END"
