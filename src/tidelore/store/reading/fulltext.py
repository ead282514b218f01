"""Full-text search in both databases, the filter that narrows a search to some documents, and the list of all words.

Terms are plain text, quoted (SQLite) or bound (PostgreSQL), so no text is parsed as an operator. SQLite uses FTS5
with bm25: scoring costs far more than matching, so only documents that pass the gate are scored. How common a word is
comes from samples of its index. PostgreSQL uses tsvector with GIN (`fulltext_postgres.py`).

The indexes store word stems, and one of them cannot list its words, so the plain words are kept (`document_words`), to
correct typing errors and to find compounds: folded, of 4 to 40 letters. A word is added in the transaction of its
document. When a document changes or is deleted, the words that it loses are removed unless an index still contains
them, so that a deleted text leaves no word behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from tidelore.core.patterns import late_pattern
from tidelore.core.words import is_unspaced, pairs_of, phrase_places, plain_words, split_scripts
from tidelore.store.database.port import Database, Row, Transaction

if TYPE_CHECKING:
    from tidelore.store.database.postgres import PostgresDatabase
    from tidelore.store.database.sqlite import SqliteDatabase

_PLACES = {"sqlite": "instr", "postgres": "strpos"}
_LIKE = {"sqlite": "LIKE", "postgres": "ILIKE"}
_LINE = "{place}(:line_end || {column} || :line_end, :line_end || :{name} || :line_end) > 0"


class DocumentFilter(Struct, frozen=True, kw_only=True):
    """Filter conditions on documents; None means no condition."""

    type: str | None = None
    project_id: int | None = None
    author: str | None = None
    labels: tuple[str, ...] = ()
    state: str | None = None
    since: int | None = None
    path: str | None = None

    @property
    def narrows(self) -> bool:
        return self != DocumentFilter()


def conditions(database: Database, wanted: DocumentFilter) -> tuple[list[str], dict[str, Any]]:
    """Return the SQL conditions on `documents d`, and their parameters."""
    found: list[str] = []
    params: dict[str, Any] = {}
    if wanted.type == "discussion":
        found.append("d.source_type = 'discussion'")
    elif wanted.type is not None:
        found.append("d.thread_type = :thread_type")
        params["thread_type"] = wanted.type
    for name in ("project_id", "state"):
        if getattr(wanted, name) is not None:
            found.append(f"d.{name} = :{name}")
            params[name] = getattr(wanted, name)
    if wanted.since is not None:
        found.append("d.updated_at >= :since")
        params["since"] = wanted.since
    if wanted.author is not None:
        spoke = _line(database, "d.participants", "author")
        found.append(f"(d.author_username = :author OR (d.source_type = 'discussion' AND {spoke}))")
        params["author"] = wanted.author
    for number, label in enumerate(wanted.labels):
        found.append(_line(database, "d.labels", f"label_{number}"))
        params[f"label_{number}"] = label
    if wanted.path is not None:
        found.append(holds(database, "d.identifiers", "path"))
        params["path"] = pattern(wanted.path)
    if wanted.author is not None or wanted.labels:
        params["line_end"] = "\n"
    return found, params


def pattern(text: str) -> str:
    """Return a LIKE pattern that matches a text anywhere, with its wildcards escaped."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def holds(database: Database, column: str, name: str) -> str:
    """Return the condition that a column matches a `pattern`, ignoring case."""
    return f"{column} {_LIKE[database.dialect]} :{name} ESCAPE '\\'"


def _line(database: Database, column: str, name: str) -> str:
    return _LINE.format(place=_PLACES[database.dialect], column=column, name=name)


OPENING, CLOSING = "\x02", "\x03"
"""The marks around each hit in a snippet; they hardly ever occur in the texts."""
MOST_NAMED = 1_000


class Term(Struct, frozen=True, array_like=True):
    """A word, or the words of a phrase in order, as plain text."""

    text: str
    is_phrase: bool = False


class Gate(Struct, frozen=True):
    """Which documents are ranked at all: those with any of these terms, or those with all of them."""

    terms: tuple[Term, ...]
    needs_all: bool = False


class Ask(Struct, frozen=True):
    """What to rank: documents with any of `terms`, none of `excluded`, and accepted by the gate if there is one.

    `counts` is how many documents contain each term; `is_narrow` is set if, according to its indexes, the filter
    accepts few documents.
    """

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()
    gate: Gate | None = None
    counts: tuple[int, ...] = ()
    is_narrow: bool = False


class Scored(Struct, frozen=True):
    """A document and its score; scores for the same terms are comparable, whatever the gate."""

    id: int
    score: float


class FilterShare(Struct, frozen=True):
    """The share of documents a filter accepts, by the word index and by row indexes; 1 if an index cannot tell."""

    by_words: float = 1.0
    by_rows: float = 1.0

    @property
    def total(self) -> float:
        return self.by_words * self.by_rows


class FullText(Protocol):
    """Full-text search, implemented for each dialect."""

    def count(self, term: Term, most: int) -> int:
        """Return how many documents contain a term: exact below `most`, an estimate above."""
        ...

    def counts(self, terms: Sequence[Term], most: int) -> list[int]:
        """Return what `count` returns for each of these terms, with fewer questions to the database."""
        ...

    def has(self, term: Term) -> bool:
        """Return whether any document contains a term."""
        ...

    def count_together(self, terms: Sequence[Term]) -> int:
        """Return how many documents contain all of these terms."""
        ...

    def share(self, wanted: DocumentFilter) -> FilterShare:
        """Estimate the share of documents a filter accepts, as far as indexes can answer quickly."""
        ...

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        """Return the best documents, best first; if a filter accepts many, only as many as are worth ranking."""
        ...

    def containing_all(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[int]:
        """Return documents that contain all terms, without scoring them: much cheaper than `rank`."""
        ...

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return documents with a path or identifier that contains this: whole names first, then the newest."""
        ...

    def newest(self, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return the most recently updated documents."""
        ...

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        """Return which of these documents pass a filter and contain none of the excluded terms."""
        ...

    def marked(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        """Return the best matching part of each document's content, with hits marked."""
        ...


# title, content, participants, labels, bigrams
_SCORE = "bm25(documents_fts, 4.0, 1.0, 2.0, 4.0, 1.0)"
_OPENED, _CLOSED = OPENING.encode(), CLOSING.encode()
_INDEXED = late_pattern(r"[^%_]{3}")
INDEXED_WORD = late_pattern(r"[A-Za-z0-9]")
_ALL = DocumentFilter()
_SHORTLIST = 2_000
"""The number of best documents to check row by row; enough if the filter accepts one in forty."""
_ENOUGH = 50
_FEW = 0.05


class SqliteFullText:
    """Full-text search in a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        cast("SqliteDatabase", database).note_question()

    def count(self, term: Term, most: int) -> int:
        return count_matches(self._database, _quoted(term), most)

    def counts(self, terms: Sequence[Term], most: int) -> list[int]:
        return [self.count(term, most) for term in terms]

    def has(self, term: Term) -> bool:
        return matches(self._database, _quoted(term), 1) == 1

    def count_together(self, terms: Sequence[Term]) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH :expression",
            {"expression": _all(terms)},
        )
        return int(rows[0][0])

    def share(self, wanted: DocumentFilter) -> FilterShare:
        total = id_span(self._database).size
        most = max(int(total * _FEW), 1)
        columns = " AND ".join(_columns(wanted))
        by_words = min(count_matches(self._database, columns, most) / total, 1.0) if columns else 1.0
        where, params = self._conditions(_only_by_index(wanted), (), by_index=True)
        if not where:
            return FilterShare(by_words)
        rows = self._database.read(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM documents d WHERE 1 = 1{where} LIMIT :most)",
            {**params, "most": most},
        )
        # If many are left, the exact number does not matter.
        return FilterShare(by_words, rows[0][0] / total if rows[0][0] < most else 1.0)

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        by_index = _only_by_index(wanted) if ask.is_narrow else _ALL
        by_row = replace(wanted, project_id=None, since=None, path=None) if ask.is_narrow else wanted
        first, params = self._conditions(by_index, (), by_index=True)
        then, then_params = self._conditions(by_row, (), by_index=False)
        # Reading a row costs more than looking up its id among those an index returns at once.
        among = f" AND +documents_fts.rowid IN (SELECT d.id FROM documents d WHERE 1 = 1{first})" if first else ""
        matching = Matching.of(ask, wanted)
        params |= {**then_params, **matching.params, "limit": limit, "shortlist": _SHORTLIST}
        found = self._database.read(matching.ranking(among, then, shortlisted=bool(then)), params)
        if (
            then
            and len(found) < min(limit, _ENOUGH)
            and matches(self._database, matching.widest, _SHORTLIST) == _SHORTLIST
        ):
            found = self._database.read(matching.ranking(among, then, shortlisted=False), params)
        return [Scored(row_id, -score) for row_id, score in sorted(found, key=_best_then_newest)]

    def containing_all(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[int]:
        then, params = self._conditions(wanted, (), by_index=False)
        joined = " CROSS JOIN documents d ON d.id = documents_fts.rowid" if then else ""
        # From the oldest on, the index is read in half the time.
        are_few = bool(ask.counts) and min(ask.counts) <= _SHORTLIST
        direction, most = ("ASC", _SHORTLIST) if are_few else ("DESC", limit)
        rows = self._database.read(
            f"SELECT documents_fts.rowid FROM documents_fts{joined} WHERE documents_fts MATCH :expression{then}"
            f" ORDER BY documents_fts.rowid {direction} LIMIT :limit",
            {**params, "expression": _narrowed(_all(ask.terms), ask, wanted), "limit": most},
        )
        return sorted((row_id for (row_id,) in rows), reverse=True)[:limit]

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        where, params = self._conditions(wanted, excluded, by_index=False)
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE d.id {self._database.among('ids')}{where}",
            {**params, "ids": self._database.integers(ids)},
        )
        return {row_id for (row_id,) in rows}

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        where, params = self._conditions(wanted, excluded, by_index=False)
        # The index does not support ESCAPE, so it returns slightly too much and the row decides.
        rows = self._database.read(
            "SELECT id FROM (SELECT d.id, d.updated_at, d.identifiers FROM documents_trigram"
            " CROSS JOIN documents d ON d.id = documents_trigram.rowid"
            f" WHERE documents_trigram.identifiers LIKE :loose AND {holds(self._database, 'd.identifiers', 'name')}"
            f"{where} ORDER BY documents_trigram.rowid DESC LIMIT {MOST_NAMED})"
            " ORDER BY instr(char(10) || lower(identifiers) || char(10), char(10) || lower(:whole) || char(10)) > 0"
            " DESC, updated_at DESC, id DESC LIMIT :limit",
            {**params, "loose": f"%{name}%", "name": pattern(name), "whole": name, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def newest(self, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        where, params = self._conditions(wanted, excluded, by_index=True)
        columns = " AND ".join(_columns(wanted))
        if columns:
            where += " AND d.id IN (SELECT rowid FROM documents_fts WHERE documents_fts MATCH :columns)"
            params["columns"] = columns
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE 1 = 1{where} ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit",
            {**params, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def marked(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        return marked_contents(self._database, terms, ids)

    def _conditions(
        self, wanted: DocumentFilter, excluded: Sequence[Term], *, by_index: bool
    ) -> tuple[str, dict[str, Any]]:
        found, params = conditions(self._database, wanted)
        if excluded:
            found.append("d.id NOT IN (SELECT rowid FROM documents_fts WHERE documents_fts MATCH :excluded)")
            params["excluded"] = _any(excluded)
        if by_index and wanted.path is not None and _INDEXED.search(wanted.path):
            found.insert(0, "d.id IN (SELECT rowid FROM documents_trigram WHERE identifiers LIKE :loose_path)")
            params["loose_path"] = f"%{wanted.path}%"
        return "".join(f" AND {condition}" for condition in found), params


class Matching(Struct, frozen=True):
    """The MATCH expressions that find the documents to rank.

    The score is a sum over the terms of an expression, and each mention of a term costs a look at all documents that
    contain it. So no term is mentioned twice, and no label or name, which has no score, beside the terms of a gate:
    `several` finds documents that pass the gate and contain another term too; `alone` all that pass the gate, of which
    the others contain no other term; `narrow` those of `alone` that have the labels and people of the filter, as far as
    a word index can tell. The rows decide. Without a gate there is only `several`.
    """

    several: str
    alone: str | None = None
    narrow: str | None = None

    @classmethod
    def of(cls, ask: Ask, wanted: DocumentFilter = _ALL) -> Matching:
        if ask.gate is None:
            return cls(_narrowed(_any(ask.terms), ask, wanted))
        gate = (_all if ask.gate.needs_all else _any)(ask.gate.terms)
        narrow = _narrowed(gate, ask, wanted) if _columns(wanted) else None
        others = [term for term in ask.terms if term not in ask.gate.terms]
        if not others:
            return cls(_narrowed(gate, ask, _ALL), None, narrow)
        return cls(_narrowed(f"({gate}) AND ({_any(others)})", ask, _ALL), _narrowed(gate, ask, _ALL), narrow)

    @property
    def widest(self) -> str:
        """The expression that finds all documents to rank."""
        return self.narrow or self.alone or self.several

    @property
    def params(self) -> dict[str, str]:
        return {name: text for name, text in asdict(self).items() if text is not None}

    def ranking(self, among: str, then: str, *, shortlisted: bool) -> str:
        """Return the query for the best documents that pass the filter: from a shortlist, or from all."""
        tables = []
        if self.narrow is not None:
            tables.append(
                "narrow AS MATERIALIZED (SELECT rowid AS id FROM documents_fts WHERE documents_fts MATCH :narrow)"
            )
            among += " AND +documents_fts.rowid IN (SELECT id FROM narrow)"
        scored = (
            f"SELECT documents_fts.rowid AS id, {_SCORE} AS score FROM documents_fts"
            f" WHERE documents_fts MATCH :several{among}"
        )
        if self.alone is not None:
            tables.append(f"several AS MATERIALIZED ({scored})")
            alone = scored.replace(":several", ":alone", 1)
            scored = (
                "SELECT id, score FROM (SELECT id, score FROM several UNION ALL"
                f" {alone} AND +documents_fts.rowid NOT IN (SELECT id FROM several))"
            )
        start = f"WITH {', '.join(tables)} " if tables else ""
        best_first = "ORDER BY 2, 1 DESC LIMIT"
        if shortlisted:
            # CROSS JOIN keeps this order: rows are checked from the best on, and no further than needed.
            return (
                f"{start}SELECT best.id, best.score FROM ({scored} {best_first} :shortlist) AS best"
                f" CROSS JOIN documents d ON d.id = best.id WHERE 1 = 1{then} LIMIT :limit"
            )
        if then:
            # Here too: the index finds, the rows only narrow.
            scored = f"SELECT found.id, found.score FROM ({scored}) AS found CROSS JOIN documents d ON d.id = found.id"
            return f"{start}{scored} WHERE 1 = 1{then} {best_first} :limit"
        return f"{start}{scored} {best_first} :limit"


def _narrowed(found: str, ask: Ask, wanted: DocumentFilter) -> str:
    """Return an expression without the excluded terms, narrowed by labels and people as far as a word index can.

    The author of a document is one of its participants.
    """
    found = " AND ".join([f"({found})", *_columns(wanted)])
    return f"({found}) NOT ({_any(ask.excluded)})" if ask.excluded else found


def _columns(wanted: DocumentFilter) -> list[str]:
    """Return the parts of a filter that a word index can narrow; the rows decide."""
    columns = [("labels", label) for label in wanted.labels]
    columns += [("participants", wanted.author)] if wanted.author else []
    return [f"{column} : {_string(text)}" for column, text in columns if INDEXED_WORD.search(text)]


def _only_by_index(wanted: DocumentFilter) -> DocumentFilter:
    return DocumentFilter(project_id=wanted.project_id, since=wanted.since, path=wanted.path)


def _best_then_newest(row: Row) -> tuple[float, int]:
    return row[1], -row[0]


def _any(terms: Iterable[Term]) -> str:
    return " OR ".join(map(_quoted, terms))


def _all(terms: Iterable[Term]) -> str:
    return " AND ".join(map(_quoted, terms))


def _quoted(term: Term) -> str:
    """Return a term as an expression; unspaced runs as phrases of bigrams, a single character as their beginning."""
    parts = [f"{_string(text)} *" if is_beginning else _string(text) for text, is_beginning in _phrases([term])]
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def _phrases(terms: Iterable[Term]) -> Iterator[tuple[str, bool]]:
    """Yield the phrases of terms, and whether one is only the beginning of a word of the index."""
    for term in terms:
        for part in split_scripts(term.text) if is_unspaced(term.text) else (term.text,):
            is_run = is_unspaced(part)
            yield " ".join(pairs_of(part)) if is_run and len(part) > 1 else part, is_run and len(part) == 1


def marked_contents(database: Database, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
    # Not by `highlight` or `ts_headline`: one looks every term up in the index again for each document, the other
    # splits words in another way.
    tokens_of = cast("SqliteDatabase | PostgresDatabase", database).word_tokens
    phrases = [(tuple(token for _, _, token in tokens_of(text)), cut) for text, cut in _phrases(terms)]
    rows = database.read(
        f"SELECT id, content FROM documents WHERE id {database.among('ids')}",
        {"ids": database.integers(ids if terms else ())},
    )
    found = {row_id: _marked(content, tokens_of(content), phrases) for row_id, content in rows}
    return {row_id: text for row_id, text in found.items() if text is not None}


def _marked(
    content: str, tokens: Sequence[tuple[int, int, str]], phrases: Sequence[tuple[tuple[str, ...], bool]]
) -> str | None:
    """Return a text with marked phrases, None without any; `tokens` are its words with their places in bytes."""
    data, pieces, done = content.encode(), [], 0
    for at, end in phrase_places([token for _, _, token in tokens], phrases):
        start, stop = tokens[at][0], tokens[end - 1][1]
        pieces += [data[done:start], _OPENED, data[start:stop], _CLOSED]
        done = stop
    return b"".join([*pieces, data[done:]]).decode() if pieces else None


def _string(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


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


def words_among(database: Database, words: Iterable[str]) -> set[str]:
    """Return which of these words documents contain."""
    rows = database.read(
        f"SELECT word FROM document_words WHERE word {database.among('words')}", {"words": database.texts(words)}
    )
    return {word for (word,) in rows}


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
