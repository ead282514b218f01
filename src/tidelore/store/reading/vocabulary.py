"""Stores the plain words of all documents (table `document_words`), to correct typing errors and to find compounds.

The indexes store word stems, and one of them cannot list its words, so the words are kept here: folded, of 4 to 40
letters. A word is added in the transaction of its document. When a document changes or is deleted, the words that it
loses are removed unless an index still contains them, so that a deleted text leaves no word behind.

Also tells how common words are in SQLite, from samples of its word index (for PostgreSQL: `postgres_words.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tidelore.core.words import plain_words
from tidelore.store.database.port import Database, Transaction

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
