"""Full text in SQLite: FTS5 with bm25. Owns the text of MATCH expressions; every term in one is quoted.

Scoring costs far more than matching, so only what passes a gate is scored. FTS5 scores each mention of a phrase in
the expression: all terms are mentioned equally often, and the order is that of the plain alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter, conditions, holds, pattern
from tidelore.store.fulltext_port import CLOSING, MOST_NAMED, OPENING, SNIPPET_WORDS, Ask, Scored, Term

# title, content, participants, labels
_SCORE = "bm25(documents_fts, 4.0, 1.0, 2.0, 4.0)"
_SNIPPET = f"snippet(documents_fts, 1, :opening, :closing, '…', {SNIPPET_WORDS})"
_INDEXED = re.compile(r"[^%_]{3}")
_INDEXED_WORD = re.compile(r"[A-Za-z0-9]")
_ALL = DocumentFilter()


class SqliteFullText:
    """The full text of one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, term: Term, most: int) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM (SELECT 1 FROM documents_fts WHERE documents_fts MATCH :expression LIMIT :most)",
            {"expression": _quoted(term), "most": most},
        )
        return int(rows[0][0])

    def count_together(self, terms: Sequence[Term]) -> int:
        rows = self._database.read(
            "SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH :expression",
            {"expression": " AND ".join(map(_quoted, terms))},
        )
        return int(rows[0][0])

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        by_index = replace(wanted, author=None, labels=(), state=None, type=None) if ask.is_wide else _ALL
        by_row = replace(wanted, project_id=None, since=None, path=None) if ask.is_wide else wanted
        first, first_params = self._conditions(by_index, (), by_index=True)
        then, then_params = self._conditions(by_row, (), by_index=False)
        # To look at a row costs more than to look for its id among those an index gives at once.
        among = f" AND +documents_fts.rowid IN (SELECT d.id FROM documents d WHERE 1 = 1{first})" if first else ""
        # CROSS JOIN keeps this order: the index finds, the rows only narrow.
        joined = " CROSS JOIN documents d ON d.id = documents_fts.rowid" if then else ""
        rows = self._database.read(
            f"SELECT documents_fts.rowid, {_SCORE} FROM documents_fts{joined}"
            f" WHERE documents_fts MATCH :expression{among}{then} ORDER BY 2, 1 DESC LIMIT :limit",
            {**first_params, **then_params, "expression": expression(ask, wanted), "limit": limit},
        )
        mentions = 1 if ask.gate is None else 2
        return [Scored(row_id, -score / mentions) for row_id, score in rows]

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
    columns = [("labels", label) for label in wanted.labels]
    columns += [("participants", wanted.author)] if wanted.author else []
    for column, text in columns:
        if _INDEXED_WORD.search(text):
            found += f" AND {column} : {_quoted(Term(text))}"
    return f"({found}) NOT ({_any(ask.excluded)})" if ask.excluded else found


def _any(terms: Iterable[Term]) -> str:
    return " OR ".join(map(_quoted, terms))


def _quoted(term: Term) -> str:
    return '"' + term.text.replace('"', '""') + '"'
