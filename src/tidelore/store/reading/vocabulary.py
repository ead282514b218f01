"""Stores the plain words of all documents (table `document_words`), to correct typing errors and to find compounds.

The indexes store word stems, and one of them cannot list its words, so the words are kept here: folded, of 4 to 40
letters. A word is added in the transaction of its document. When a document changes or is deleted, the words that it
loses are removed unless an index still contains them, so that a deleted text leaves no word behind.

Also tells how common words are: from samples of SQLite's word index, or from PostgreSQL's statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.words import is_unspaced, pairs_of, plain_words, split_scripts
from tidelore.store.database.port import Database, Transaction

if TYPE_CHECKING:
    from tidelore.store.reading.fulltext import Term

_STILL_USED = {
    "sqlite": "SELECT 1 FROM documents_fts WHERE documents_fts MATCH '\"' || document_words.word || '\"'",
    "postgres": "SELECT 1 FROM documents d WHERE d.search_vector @@ plainto_tsquery('english', document_words.word)",
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


_ABOUT_ALL = (
    "SELECT CASE WHEN reltuples > 0 AND relpages > 0 THEN reltuples / relpages * (pg_relation_size(oid) / 8192) END"
    " FROM pg_class WHERE oid = to_regclass('documents')"
)
_COMMON = (
    "WITH asked AS MATERIALIZED (SELECT place,"
    " tsvector_to_array(to_tsvector('english', without_accents(word))) AS found"
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
        """Return the tsquery of a term: stemmed for titles and contents, unstemmed for labels and names."""
        if is_unspaced(term.text):
            return f"({' && '.join(map(self._part, split_scripts(term.text)))})"
        return self._words(term.text, "phraseto_tsquery" if term.is_phrase else "plainto_tsquery")

    def rank(self, term: Term, rank: str) -> str:
        """Return the rank of a term, given the SQL of the rank of a `{query}`.

        PostgreSQL divides the rank by the number of words in a query, so the stem and the word itself are ranked one by
        one: otherwise a word would count half if it is not its own stem.
        """
        if term.is_phrase or is_unspaced(term.text):
            return rank.replace("{query}", self.query(term))
        name = self._name(term.text)
        stem, word = (f"plainto_tsquery('{kind}', without_accents(:{name}))" for kind in ("english", "simple"))
        ranked, other = (rank.replace("{query}", query) for query in (stem, word))
        return f"{ranked} + CASE WHEN {stem} = {word} THEN 0 ELSE {other} END"

    def label(self, text: str) -> str:
        """Return the tsquery of a label: all of its words, unstemmed."""
        return f"plainto_tsquery('simple', without_accents(:{self._name(text)}))"

    def person(self, name: str) -> str:
        """Return the tsquery of a user name, whose accents are indexed."""
        return f"plainto_tsquery('simple', :{self._name(name)})"

    def _words(self, text: str, make: str) -> str:
        name = self._name(text)
        return f"({make}('english', without_accents(:{name})) || {make}('simple', without_accents(:{name})))"

    def _part(self, part: str) -> str:
        """Return the tsquery of one part of an unspaced text: a word, a phrase of bigrams, or how a bigram begins."""
        if not is_unspaced(part):
            return self._words(part, "plainto_tsquery")
        if len(part) == 1:
            begins = self._name(f"'{part}':*")
            return f"to_tsquery('simple', :{begins})"
        pairs = self._name(" ".join(pairs_of(part)))
        return f"phraseto_tsquery('simple', :{pairs})"

    def _name(self, text: str) -> str:
        name = next((name for name, bound in self.params.items() if bound == text), f"term_{len(self.params)}")
        self.params[name] = text
        return name

    def any_of(self, terms: Iterable[Term]) -> str:
        return " || ".join(self.query(term) for term in terms)

    def all_of(self, terms: Iterable[Term]) -> str:
        return " && ".join(self.query(term) for term in terms)


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
