"""Full text in SQLite: FTS5 with bm25. Owns the text of MATCH expressions; every term in one is quoted.

Scoring costs far more than matching, so only what passes a gate is scored. FTS5 scores each mention of a phrase in
the expression: all terms are mentioned equally often, and the order is that of the plain alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tidelore.store.database import Database, Row
from tidelore.store.document_filter import DocumentFilter, conditions, holds, pattern
from tidelore.store.fulltext_port import CLOSING, MOST_NAMED, OPENING, SNIPPET_WORDS, Ask, Scored, Share, Term

# title, content, participants, labels
_SCORE = "bm25(documents_fts, 4.0, 1.0, 2.0, 4.0)"
_SNIPPET = f"snippet(documents_fts, 1, :opening, :closing, '…', {SNIPPET_WORDS})"
_INDEXED = re.compile(r"[^%_]{3}")
_INDEXED_WORD = re.compile(r"[A-Za-z0-9]")
_ALL = DocumentFilter()
_SHORTLIST = 2_000
"""So many of the best are looked at row by row; that is enough where a filter lets one in forty pass."""
_ENOUGH = 50
_SAMPLE = 500
_BEYOND_DOUBT = 4
"""So many times more than it was to be counted to, and a sample is enough."""
_FEW = 0.05


class _Span(NamedTuple):
    """From the first document to the last; hardly an id between them is free."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Stretch(NamedTuple):
    """So many documents in a row hold a term, the last of them at `end`."""

    documents: int
    end: int


class SqliteFullText:
    """The full text of one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, term: Term, most: int) -> int:
        return self._count(_quoted(term), most)

    def count_together(self, terms: Sequence[Term]) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH :expression",
            {"expression": " AND ".join(map(_quoted, terms))},
        )
        return int(rows[0][0])

    def share(self, wanted: DocumentFilter) -> Share:
        total = self._span().size
        most = max(int(total * _FEW), 1)
        columns = " AND ".join(_columns(wanted))
        by_words = min(self._count(columns, most) / total, 1.0) if columns else 1.0
        where, params = self._conditions(_only_by_index(wanted), (), by_index=True)
        if not where:
            return Share(by_words)
        rows = self._database.read(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM documents d WHERE 1 = 1{where} LIMIT :most)",
            {**params, "most": most},
        )
        # Where many are left it does not matter how many.
        return Share(by_words, rows[0][0] / total if rows[0][0] < most else 1.0)

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        by_index = _only_by_index(wanted) if ask.is_narrow else _ALL
        by_row = replace(wanted, project_id=None, since=None, path=None) if ask.is_narrow else wanted
        first, params = self._conditions(by_index, (), by_index=True)
        then, then_params = self._conditions(by_row, (), by_index=False)
        # To look at a row costs more than to look for its id among those an index gives at once.
        among = f" AND +documents_fts.rowid IN (SELECT d.id FROM documents d WHERE 1 = 1{first})" if first else ""
        params |= {**then_params, "expression": expression(ask, wanted), "limit": limit, "shortlist": _SHORTLIST}
        found = self._database.read(_ranking(among, then, shortlisted=bool(then)), params)
        if then and len(found) < min(limit, _ENOUGH) and self._matches(params["expression"], _SHORTLIST) == _SHORTLIST:
            found = self._database.read(_ranking(among, then, shortlisted=False), params)
        mentions = 1 if ask.gate is None else 2
        return [Scored(row_id, -score / mentions) for row_id, score in sorted(found, key=_best_then_newest)]

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        where, params = self._conditions(wanted, excluded, by_index=False)
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE d.id {self._database.among('ids')}{where}",
            {**params, "ids": self._database.integers(ids)},
        )
        return {row_id for (row_id,) in rows}

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        where, params = self._conditions(wanted, excluded, by_index=False)
        # The index takes no ESCAPE: it finds a little too much, and the row decides.
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

    def snippets(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        if not terms:
            return {}
        rows = self._database.read(
            f"SELECT rowid, {_SNIPPET} FROM documents_fts"
            f" WHERE documents_fts MATCH :expression AND rowid {self._database.among('ids')}",
            {
                "expression": _any(terms),
                "ids": self._database.integers(ids),
                "opening": OPENING,
                "closing": CLOSING,
            },
        )
        return dict(rows)

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
        """Return how many documents match: exactly below `most`, and about how many above."""
        sample = min(_SAMPLE, most)
        oldest = self._stretch(expression, sample, "ASC")
        if oldest.documents < sample:
            return oldest.documents
        newest = self._stretch(expression, sample, "DESC")
        ids = self._span()
        # As common as where it is rarest: a word may be everywhere at one end of the copy and hardly at the other.
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
        # One of each, because SQLite finds both at once only by reading everything.
        rows = self._database.read("SELECT (SELECT MIN(id) FROM documents), (SELECT MAX(id) FROM documents)")
        return _Span(*(bound or 0 for bound in rows[0]))


def expression(ask: Ask, wanted: DocumentFilter = _ALL) -> str:
    """Return the MATCH expression: through the gate, any of the terms, none of the excluded ones.

    Labels and people narrow it too, as far as an index of words can; the rows decide. Whoever wrote a document is
    among its participants.
    """
    if ask.gate is None:
        found = f"({_any(ask.terms)})"
    else:
        gate = (" AND " if ask.gate.needs_all else " OR ").join(map(_quoted, ask.gate.terms))
        # The gate mentions its own terms once, so the others are mentioned twice here.
        twice = [term for term in ask.terms if term not in ask.gate.terms]
        found = f"(({gate}) AND ({_any((*ask.terms, *twice))}))"
    found = " AND ".join([found, *_columns(wanted)])
    return f"({found}) NOT ({_any(ask.excluded)})" if ask.excluded else found


def _columns(wanted: DocumentFilter) -> list[str]:
    """Return what an index of words can tell of a filter; the rows decide."""
    columns = [("labels", label) for label in wanted.labels]
    columns += [("participants", wanted.author)] if wanted.author else []
    return [f"{column} : {_quoted(Term(text))}" for column, text in columns if _INDEXED_WORD.search(text)]


def _only_by_index(wanted: DocumentFilter) -> DocumentFilter:
    return DocumentFilter(project_id=wanted.project_id, since=wanted.since, path=wanted.path)


def _ranking(among: str, then: str, *, shortlisted: bool) -> str:
    """Return the query for the best that fit: of the best of all, or of all."""
    scored = f"SELECT documents_fts.rowid AS id, {_SCORE} AS score FROM documents_fts"
    matched = f"WHERE documents_fts MATCH :expression{among}"
    best_first = "ORDER BY 2, 1 DESC LIMIT"
    if shortlisted:
        # CROSS JOIN keeps this order: rows are looked at from the best on, and no further than needed.
        return (
            f"SELECT best.id, best.score FROM ({scored} {matched} {best_first} :shortlist) AS best"
            f" CROSS JOIN documents d ON d.id = best.id WHERE 1 = 1{then} LIMIT :limit"
        )
    # And this one: the index finds, the rows only narrow.
    joined = " CROSS JOIN documents d ON d.id = documents_fts.rowid" if then else ""
    return f"{scored}{joined} {matched}{then} {best_first} :limit"


def _best_then_newest(row: Row) -> tuple[float, int]:
    return row[1], -row[0]


def _any(terms: Iterable[Term]) -> str:
    return " OR ".join(map(_quoted, terms))


def _quoted(term: Term) -> str:
    return '"' + term.text.replace('"', '""') + '"'
