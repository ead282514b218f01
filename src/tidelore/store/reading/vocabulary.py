"""The words of all documents: which there are, how common they are, and what they add to a score on PostgreSQL.

The indexes store word stems, and one of them cannot list its words, so the plain words are kept (`document_words`), to
correct typing errors and to find compounds: folded, of 4 to 40 letters. A word is added in the transaction of its
document. When a document changes or is deleted, the words that it loses are removed unless an index still contains
them, so that a deleted text leaves no word behind.

How common a word is comes from samples of SQLite's word index, or from PostgreSQL's statistics. PostgreSQL has no bm25.
Its `ts_rank` of one word is a known sum over the places of that word, so it tells how often a document contains the
word; from that the score is computed by the formula and the weights of SQLite's FTS5, and both databases rank alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.patterns import late_pattern
from tidelore.core.words import is_unspaced, pairs_of, plain_words, split_scripts
from tidelore.store.database.port import Database, Transaction

if TYPE_CHECKING:
    from tidelore.store.reading.fulltext import Term

_STILL_USED = {
    "sqlite": "SELECT 1 FROM documents_fts WHERE documents_fts MATCH '\"' || document_words.word || '\"'",
    "postgres": "SELECT 1 FROM documents d WHERE d.search_vector @@ plainto_tsquery('lore_words', document_words.word)",
}


def add_words(tx: Transaction, texts: Iterable[str]) -> set[str]:
    """Add the words of texts, and return them. Sorted, so that two writers wait for each other's in the same order."""
    words = plain_words(texts)
    tx.execute_rows(
        "INSERT INTO document_words (word) VALUES (:word) ON CONFLICT (word) DO NOTHING",
        ("word",),
        [(word,) for word in sorted(words)],
    )
    return words


def words_of(tx: Transaction, condition: str, params: dict[str, object]) -> set[str]:
    """Return the words of the documents that meet a condition."""
    rows = tx.execute(f"SELECT title, content FROM documents WHERE {condition}", params)
    return plain_words(text for row in rows for text in row)


def remove_words(tx: Transaction, words: Iterable[str]) -> None:
    """Remove those words that no document contains any more."""
    gone = sorted(words)
    if gone:
        tx.execute(
            "DELETE FROM document_words WHERE word IN (SELECT word FROM document_words"
            f" WHERE word {tx.among('words')} ORDER BY word{tx.passing_locked()})"
            f" AND NOT EXISTS ({_STILL_USED[tx.dialect]})",
            {"words": tx.texts(gone)},
        )


def words_of_length(database: Database, shortest: int, longest: int) -> list[str]:
    """Return the words with this many letters."""
    rows = database.read(
        "SELECT word FROM document_words WHERE length(word) BETWEEN :shortest AND :longest",
        {"shortest": shortest, "longest": longest},
    )
    return [word for (word,) in rows]


def words_containing(database: Database, part: str, limit: int) -> Sequence[str]:
    """Return the words that contain a part and are longer, the shortest first. The part consists of letters only."""
    # The trigram index of SQLite has the same column; PostgreSQL reads the table, which is small.
    table = "document_words_trigram" if database.dialect == "sqlite" else "document_words"
    rows = database.read(
        f"SELECT word FROM {table} WHERE word LIKE :pattern AND length(word) > :length"
        " ORDER BY length(word), word LIMIT :limit",
        {"pattern": f"%{part}%", "length": len(part), "limit": limit},
    )
    return [word for (word,) in rows]


_SAMPLE = 150
_BEYOND_DOUBT = 2
"""If an estimate exceeds the counting limit by this factor, do not count."""


class _Span(Struct, frozen=True):
    """The range of document ids; it has hardly any unused ids."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Stretch(Struct, frozen=True):
    """The number of matching documents found from one end of the ids, and the last one at `end`."""

    documents: int
    end: int


def count_matches(database: Database, expression: str, most: int) -> int:
    """Return how many documents match an expression (SQLite): exact below `most`, an estimate above."""
    sample = min(_SAMPLE, most)
    oldest = _stretch(database, expression, sample, "ASC")
    if oldest.documents < sample:
        return oldest.documents
    newest = _stretch(database, expression, sample, "DESC")
    ids = id_span(database)
    # Extrapolate from the end where it is rarer: a word may be frequent at one end of the copy and rare at the other.
    widest = max(oldest.end - ids.first + 1, ids.last - newest.end + 1)
    about = sample * ids.size // widest
    counted = most if about >= _BEYOND_DOUBT * most else matches(database, expression, most)
    return counted if counted < most else max(about, most)


def matches(database: Database, expression: str, most: int) -> int:
    """Return how many documents match an expression (SQLite), counting up to `most`."""
    rows = database.read(
        "SELECT COUNT(*) FROM (SELECT 1 FROM documents_fts WHERE documents_fts MATCH :expression LIMIT :most)",
        {"expression": expression, "most": most},
    )
    return int(rows[0][0])


def id_span(database: Database) -> _Span:
    """Return the smallest and the largest document id."""
    # Two subqueries, because SQLite computes both in one query only by reading everything.
    rows = database.read("SELECT (SELECT MIN(id) FROM documents), (SELECT MAX(id) FROM documents)")
    return _Span(*(bound or 0 for bound in rows[0]))


def _stretch(database: Database, expression: str, most: int, direction: str) -> _Stretch:
    rows = database.read(
        "SELECT COUNT(*), CASE :direction WHEN 'ASC' THEN MAX(id) ELSE MIN(id) END FROM (SELECT rowid AS id"
        f" FROM documents_fts WHERE documents_fts MATCH :expression ORDER BY rowid {direction} LIMIT :most)",
        {"expression": expression, "most": most, "direction": direction},
    )
    return _Stretch(*rows[0])


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
