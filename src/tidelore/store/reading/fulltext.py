"""Full-text search in both databases, and the filter that narrows a search to some documents.

Terms are plain text, quoted (SQLite) or bound (PostgreSQL), so no text is parsed as an operator. SQLite uses FTS5
with bm25: scoring costs far more than matching, so only documents that pass the gate are scored. PostgreSQL uses
tsvector with GIN: `ts_rank` ignores how rare a word is, so each term's rank is weighted by that here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log, prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.patterns import late_pattern
from tidelore.core.words import is_unspaced, pairs_of, split_scripts
from tidelore.store.database.port import Database, Row
from tidelore.store.reading.vocabulary import CommonWord, WordQueries, about_all, common_words

if TYPE_CHECKING:
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


class Term(NamedTuple):
    """A word, or the words of a phrase in order, as plain text."""

    text: str
    is_phrase: bool = False


class Gate(NamedTuple):
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


class Scored(NamedTuple):
    """A document and its score; scores for the same terms are comparable, whatever the gate."""

    id: int
    score: float


class FilterShare(NamedTuple):
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
_INDEXED_WORD = late_pattern(r"[A-Za-z0-9]")
_ALL = DocumentFilter()
_SHORTLIST = 2_000
"""The number of best documents to check row by row; enough if the filter accepts one in forty."""
_ENOUGH = 50
_SAMPLE = 150
_BEYOND_DOUBT = 4
"""If an estimate exceeds the counting limit by this factor, do not count."""
_FEW = 0.05


class _Span(NamedTuple):
    """The range of document ids; it has hardly any unused ids."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Stretch(NamedTuple):
    """The number of matching documents found from one end of the ids, and the last one at `end`."""

    documents: int
    end: int


class SqliteFullText:
    """Full-text search in a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, term: Term, most: int) -> int:
        return self._count(_quoted(term), most)

    def counts(self, terms: Sequence[Term], most: int) -> list[int]:
        return [self.count(term, most) for term in terms]

    def has(self, term: Term) -> bool:
        return self._matches(_quoted(term), 1) == 1

    def count_together(self, terms: Sequence[Term]) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH :expression",
            {"expression": " AND ".join(map(_quoted, terms))},
        )
        return int(rows[0][0])

    def share(self, wanted: DocumentFilter) -> FilterShare:
        total = self._span().size
        most = max(int(total * _FEW), 1)
        columns = " AND ".join(_columns(wanted))
        by_words = min(self._count(columns, most) / total, 1.0) if columns else 1.0
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
        params |= {**then_params, "expression": expression(ask, wanted), "limit": limit, "shortlist": _SHORTLIST}
        gate = _second_mention(ask)
        if gate is not None:
            params["gate"] = gate
        is_gated = gate is not None
        found = self._database.read(_ranking(among, then, shortlisted=bool(then), is_gated=is_gated), params)
        if then and len(found) < min(limit, _ENOUGH) and self._matches(params["expression"], _SHORTLIST) == _SHORTLIST:
            found = self._database.read(_ranking(among, then, shortlisted=False, is_gated=is_gated), params)
        return [Scored(row_id, -score) for row_id, score in sorted(found, key=_best_then_newest)]

    def containing_all(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[int]:
        then, params = self._conditions(wanted, (), by_index=False)
        joined = " CROSS JOIN documents d ON d.id = documents_fts.rowid" if then else ""
        rows = self._database.read(
            f"SELECT documents_fts.rowid FROM documents_fts{joined} WHERE documents_fts MATCH :expression{then}"
            " ORDER BY documents_fts.rowid DESC LIMIT :limit",
            {**params, "expression": expression(replace(ask, gate=Gate(ask.terms, True)), wanted), "limit": limit},
        )
        return [row_id for (row_id,) in rows]

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
        # Not by `highlight`: it looks every term up in the index again for each document.
        tokens_of = cast("SqliteDatabase", self._database).word_tokens
        phrases = [(tuple(token for _, _, token in tokens_of(text)), cut) for text, cut in _phrases(terms)]
        rows = self._database.read(
            f"SELECT id, content FROM documents WHERE id {self._database.among('ids')}",
            {"ids": self._database.integers(ids if terms else ())},
        )
        found = {row_id: mark_phrases(content, tokens_of(content), phrases) for row_id, content in rows}
        return {row_id: text for row_id, text in found.items() if text is not None}

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

    def _count(self, expression: str, most: int) -> int:
        """Return how many documents match: exact below `most`, an estimate above."""
        sample = min(_SAMPLE, most)
        oldest = self._stretch(expression, sample, "ASC")
        if oldest.documents < sample:
            return oldest.documents
        newest = self._stretch(expression, sample, "DESC")
        ids = self._span()
        # Extrapolate from the end where it is rarer: a word may be frequent at one end of the copy and rare at the
        # other.
        widest = max(oldest.end - ids.first + 1, ids.last - newest.end + 1)
        about = sample * ids.size // widest
        counted = most if about >= _BEYOND_DOUBT * most else self._matches(expression, most)
        return counted if counted < most else max(about, most)

    def _stretch(self, expression: str, most: int, direction: str) -> _Stretch:
        rows = self._database.read(
            "SELECT COUNT(*), CASE :direction WHEN 'ASC' THEN MAX(id) ELSE MIN(id) END FROM (SELECT rowid AS id"
            f" FROM documents_fts WHERE documents_fts MATCH :expression ORDER BY rowid {direction} LIMIT :most)",
            {"expression": expression, "most": most, "direction": direction},
        )
        return _Stretch(*rows[0])

    def _matches(self, expression: str, most: int) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM (SELECT 1 FROM documents_fts WHERE documents_fts MATCH :expression LIMIT :most)",
            {"expression": expression, "most": most},
        )
        return int(rows[0][0])

    def _span(self) -> _Span:
        # Two subqueries, because SQLite computes both in one query only by reading everything.
        rows = self._database.read("SELECT (SELECT MIN(id) FROM documents), (SELECT MAX(id) FROM documents)")
        return _Span(*(bound or 0 for bound in rows[0]))


def expression(ask: Ask, wanted: DocumentFilter = _ALL) -> str:
    """Return the MATCH expression: accepted by the gate, any of the terms, none of the excluded ones.

    Labels and people narrow it too, as far as a word index can; the rows decide. The author of a document is one of its
    participants.
    """
    if ask.gate is None:
        found = f"({_any(ask.terms)})"
    else:
        found = f"({_gate_expression(ask.gate)})"
        if _second_mention(ask) is not None:
            found = f"({found} AND ({_any(ask.terms)}))"
    found = " AND ".join([found, *_columns(wanted)])
    return f"({found}) NOT ({_any(ask.excluded)})" if ask.excluded else found


def _gate_expression(gate: Gate) -> str:
    return (" AND " if gate.needs_all else " OR ").join(map(_quoted, gate.terms))


def _second_mention(ask: Ask) -> str | None:
    """Return the gate if its terms are mentioned twice in the expression, so that their score counts once too often.

    The score of a document is a sum over the mentions, and each costs a look at all documents that contain it. The
    terms of a gate are rare, so mentioning those twice and subtracting their score is cheaper than all twice.
    """
    if ask.gate is None or (ask.gate.needs_all and len(ask.gate.terms) == len(ask.terms)):
        return None
    return _gate_expression(ask.gate)


def _columns(wanted: DocumentFilter) -> list[str]:
    """Return the parts of a filter that a word index can narrow; the rows decide."""
    columns = [("labels", label) for label in wanted.labels]
    columns += [("participants", wanted.author)] if wanted.author else []
    return [f"{column} : {_string(text)}" for column, text in columns if _INDEXED_WORD.search(text)]


def _only_by_index(wanted: DocumentFilter) -> DocumentFilter:
    return DocumentFilter(project_id=wanted.project_id, since=wanted.since, path=wanted.path)


def _ranking(among: str, then: str, *, shortlisted: bool, is_gated: bool) -> str:
    """Return the query for the best documents that pass the filter: from a shortlist, or from all."""
    scored = (
        f"SELECT documents_fts.rowid AS id, {_SCORE} AS score FROM documents_fts"
        f" WHERE documents_fts MATCH :expression{among}"
    )
    gated = ""
    if is_gated:
        # Materialized: otherwise each row of one would be looked up in the index for the other.
        gate = (
            f"SELECT rowid AS id, {_SCORE} AS score FROM documents_fts"
            " WHERE documents_fts MATCH :gate AND +rowid IN (SELECT id FROM whole)"
        )
        gated = f"WITH whole AS MATERIALIZED ({scored}), gate AS MATERIALIZED ({gate}) "
        scored = "SELECT whole.id AS id, whole.score - gate.score AS score FROM whole JOIN gate ON gate.id = whole.id"
    best_first = "ORDER BY 2, 1 DESC LIMIT"
    if shortlisted:
        # CROSS JOIN keeps this order: rows are checked from the best on, and no further than needed.
        return (
            f"{gated}SELECT best.id, best.score FROM ({scored} {best_first} :shortlist) AS best"
            f" CROSS JOIN documents d ON d.id = best.id WHERE 1 = 1{then} LIMIT :limit"
        )
    if then:
        # Here too: the index finds, the rows only narrow.
        scored = f"SELECT found.id, found.score FROM ({scored}) AS found CROSS JOIN documents d ON d.id = found.id"
        return f"{gated}{scored} WHERE 1 = 1{then} {best_first} :limit"
    return f"{gated}{scored} {best_first} :limit"


def _best_then_newest(row: Row) -> tuple[float, int]:
    return row[1], -row[0]


def _any(terms: Iterable[Term]) -> str:
    return " OR ".join(map(_quoted, terms))


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


def mark_phrases(
    content: str, tokens: Sequence[tuple[int, int, str]], phrases: Sequence[tuple[tuple[str, ...], bool]]
) -> str | None:
    """Return a text with marked phrases, None without any; `tokens` are its words with their places in bytes."""
    words = [token for _, _, token in tokens]
    single = {phrase[0] for phrase, is_beginning in phrases if len(phrase) == 1 and not is_beginning}
    found = [(at, at + 1) for at, word in enumerate(words) if word in single]
    for phrase, is_beginning in phrases:
        if is_beginning and phrase:
            found += ((at, at + 1) for at, word in enumerate(words) if word.startswith(phrase[0]))
        elif len(phrase) > 1:
            ends = ((at, at + len(phrase)) for at, word in enumerate(words) if word == phrase[0])
            found += ((at, end) for at, end in ends if tuple(words[at:end]) == phrase)
    spans: list[tuple[int, int]] = []
    for at, end in sorted(found):
        if spans and at < spans[-1][1]:
            # Phrases that overlap are marked as one.
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((at, end))
    data, pieces, done = content.encode(), [], 0
    for at, end in spans:
        start, stop = tokens[at][0], tokens[end - 1][1]
        pieces += [data[done:start], _OPENED, data[start:stop], _CLOSED]
        done = stop
    return b"".join([*pieces, data[done:]]).decode() if spans else None


def _string(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# participants, content, labels, title: in the proportions of the SQLite weights.
_WEIGHTS = "'{0.5, 0.25, 1.0, 1.0}'::float4[]"
_RANK = f"ts_rank({_WEIGHTS}, d.search_vector, {{query}}, 1)"
"""The rank of a document by one query, divided by the logarithm of its length."""
_HEADLINE = f'StartSel="{OPENING}", StopSel="{CLOSING}", HighlightAll=true'
_LEAST = 1e-6


_COUNTED = 200
"""Up to this many documents with a word are counted, which reads the page of each; more are estimated."""
_MOST_TOGETHER = 10_000
"""How many documents with several words are counted: more than any gate has room for."""


class PostgresFullText:
    """Full-text search in a PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            known[place].documents if place in known and known[place].documents >= most else self.count(term, most)
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
        queries = [bound.query(term) for term in ask.terms]
        matched = " || ".join(queries)
        if ask.gate is not None:
            gate = bound.all_of(ask.gate.terms) if ask.gate.needs_all else bound.any_of(ask.gate.terms)
            matched = f"({gate}) && ({matched})"
        if ask.excluded:
            matched = f"({matched}) && !!({bound.any_of(ask.excluded)})"
        matched = _narrowed(matched, bound, wanted)
        score = " + ".join(
            f"{rarity:.6f} * ({bound.rank(term, _RANK)})"
            for term, rarity in zip(ask.terms, self._rarities(ask), strict=True)
        )
        where, params = self._conditions(wanted, ())
        rows = self._database.read(
            f"SELECT d.id, {score} FROM documents d WHERE d.search_vector @@ ({matched}){where}"
            " ORDER BY 2 DESC, 1 DESC LIMIT :limit",
            {**params, **bound.params, "limit": limit},
        )
        return [Scored(*row) for row in rows]

    def containing_all(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[int]:
        bound = WordQueries()
        matched = _narrowed(bound.all_of(ask.terms), bound, wanted)
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
        if words := _narrowed("", bound, wanted):
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
        if not terms:
            return {}
        bound = WordQueries()
        rows = self._database.read(
            f"SELECT d.id, ts_headline('english', d.content, {bound.any_of(terms)}, :headline) FROM documents d"
            f" WHERE d.id {self._database.among('ids')}",
            {**bound.params, "ids": self._database.integers(ids), "headline": _HEADLINE},
        )
        return dict(rows)

    def _rarities(self, ask: Ask) -> list[float]:
        """Return the weight of each term; without counts all have the same."""
        if not ask.counts:
            return [1.0] * len(ask.terms)
        total = about_all(self._database)
        if total is None:
            ((total,),) = self._database.read("SELECT COUNT(*) FROM documents")
        total = max(int(total), *ask.counts)
        return [max(log((total - count + 0.5) / (count + 0.5)), _LEAST) for count in ask.counts]

    def _conditions(self, wanted: DocumentFilter, excluded: Sequence[Term]) -> tuple[str, dict[str, Any]]:
        found, params = conditions(self._database, wanted)
        bound = WordQueries()
        if excluded:
            found.append(f"NOT d.search_vector @@ ({bound.any_of(excluded)})")
        return "".join(f" AND {condition}" for condition in found), {**params, **bound.params}


def _words_of_filter(wanted: DocumentFilter) -> list[Term]:
    """Return the labels and people of a filter that the word index can narrow."""
    return [Term(text) for text in (*wanted.labels, wanted.author) if text and _is_indexed(text)]


def _narrowed(matched: str, bound: WordQueries, wanted: DocumentFilter) -> str:
    """Return a tsquery narrowed by the labels and people of a filter; the rows decide.

    The author of a document is one of its participants.
    """
    parts = [f"({matched})"] if matched else []
    parts += [bound.label(label) for label in wanted.labels if _is_indexed(label)]
    parts += [bound.person(wanted.author)] if wanted.author and _is_indexed(wanted.author) else []
    return " && ".join(parts)


def _is_indexed(text: str) -> bool:
    # PostgreSQL indexes no word of what looks like a tag or an entity of HTML.
    return bool(_INDEXED_WORD.search(text)) and not set(text) & set("<>&")


def full_text(database: Database) -> FullText:
    """Return the full-text search for the dialect of a database."""
    if database.dialect == "postgres":
        return PostgresFullText(database)

    return SqliteFullText(database)
