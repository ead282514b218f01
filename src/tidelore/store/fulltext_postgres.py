"""Full text in PostgreSQL: tsvector with GIN. Owns the making of tsqueries, from bound parameters only.

`ts_rank` knows nothing of how rare a word is, so each term's rank is weighed here by that, as bm25 does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Any

from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter, conditions, holds, pattern
from tidelore.store.fulltext_port import CLOSING, MOST_NAMED, OPENING, SNIPPET_WORDS, Ask, Scored, Share, Term

# participants, content, labels, title: the proportions of the other dialect's columns.
_WEIGHTS = "'{0.5, 0.25, 1.0, 1.0}'::float4[]"
_BY_LENGTH = 1
_HEADLINE = f'StartSel="{OPENING}", StopSel="{CLOSING}", MaxWords={SNIPPET_WORDS}, MinWords={SNIPPET_WORDS // 2}'
_LEAST = 1e-6


class PostgresFullText:
    """The full text of one PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, term: Term, most: int) -> int:  # noqa: ARG002
        return self.count_together([term])

    def count_together(self, terms: Sequence[Term]) -> int:
        bound = _Bound()
        rows = self._database.read(
            f"SELECT COUNT(*) FROM documents d WHERE d.search_vector @@ ({bound.all_of(terms)})", bound.params
        )
        return int(rows[0][0])

    def share(self, wanted: DocumentFilter) -> Share:  # noqa: ARG002
        # Its planner weighs a filter against the words by itself.
        return Share()

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        bound = _Bound()
        queries = [bound.query(term) for term in ask.terms]
        matched = " || ".join(queries)
        if ask.gate is not None:
            gate = bound.all_of(ask.gate.terms) if ask.gate.needs_all else bound.any_of(ask.gate.terms)
            matched = f"({gate}) && ({matched})"
        if ask.excluded:
            matched = f"({matched}) && !!({bound.any_of(ask.excluded)})"
        score = " + ".join(
            f"{rarity:.6f} * ts_rank({_WEIGHTS}, d.search_vector, {query}, {_BY_LENGTH})"
            for query, rarity in zip(queries, self._rarities(ask), strict=True)
        )
        where, params = self._conditions(wanted, ())
        rows = self._database.read(
            f"SELECT d.id, {score} FROM documents d WHERE d.search_vector @@ ({matched}){where}"
            " ORDER BY 2 DESC, 1 DESC LIMIT :limit",
            {**params, **bound.params, "limit": limit},
        )
        return [Scored(*row) for row in rows]

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
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE true{where} ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit",
            {**params, "limit": limit},
        )
        return [row_id for (row_id,) in rows]

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        where, params = self._conditions(wanted, excluded)
        rows = self._database.read(
            f"SELECT d.id FROM documents d WHERE d.id {self._database.among('ids')}{where}",
            {**params, "ids": self._database.integers(ids)},
        )
        return {row_id for (row_id,) in rows}

    def snippets(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        if not terms:
            return {}
        bound = _Bound()
        rows = self._database.read(
            f"SELECT d.id, ts_headline('english', d.content, {bound.any_of(terms)}, :headline) FROM documents d"
            f" WHERE d.id {self._database.among('ids')}",
            {**bound.params, "ids": self._database.integers(ids), "headline": _HEADLINE},
        )
        return dict(rows)

    def _rarities(self, ask: Ask) -> list[float]:
        """Return what each term is worth; without counts all are worth the same."""
        if not ask.counts:
            return [1.0] * len(ask.terms)
        rows = self._database.read("SELECT COUNT(*) FROM documents")
        total = int(rows[0][0])
        return [max(log((total - count + 0.5) / (count + 0.5)), _LEAST) for count in ask.counts]

    def _conditions(self, wanted: DocumentFilter, excluded: Sequence[Term]) -> tuple[str, dict[str, Any]]:
        found, params = conditions(self._database, wanted)
        bound = _Bound()
        if excluded:
            found.append(f"NOT d.search_vector @@ ({bound.any_of(excluded)})")
        return "".join(f" AND {condition}" for condition in found), {**params, **bound.params}


class _Bound:
    """Terms as parameters, each bound once."""

    def __init__(self) -> None:
        self.params: dict[str, str] = {}

    def query(self, term: Term) -> str:
        """Return the tsquery of a term: stemmed as titles and contents are, and plain as labels and names are."""
        name = next((name for name, text in self.params.items() if text == term.text), f"term_{len(self.params)}")
        self.params[name] = term.text
        make = "phraseto_tsquery" if term.is_phrase else "plainto_tsquery"
        return f"({make}('english', :{name}) || {make}('simple', :{name}))"

    def any_of(self, terms: Iterable[Term]) -> str:
        return " || ".join(self.query(term) for term in terms)

    def all_of(self, terms: Iterable[Term]) -> str:
        return " && ".join(self.query(term) for term in terms)
