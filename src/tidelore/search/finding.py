"""One search from query to answers. Owns the modes, and what is said when something is missing.

Without vectors `hybrid` is lexical with a notice, and `semantic` is refused with the remedy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, get_args

from msgspec import Struct

from tidelore.errors import UserError
from tidelore.search.fuse import RANK_CONSTANT, Ranking
from tidelore.search.lexical import DEPTH, LexicalFinding, rank_lexical
from tidelore.search.query import Query
from tidelore.search.results import Snippet, ThreadGroup, ThreadResult, fuse_by_thread, make_result, read_snippet
from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter
from tidelore.store.document_rows import Readiness, read_documents, read_openings, read_threads_of, readiness
from tidelore.store.fulltext import full_text

Mode = Literal["hybrid", "lexical", "semantic"]
MODES: tuple[Mode, ...] = get_args(Mode)
_OPENING_LENGTH = 240


class Request(Struct, frozen=True, kw_only=True):
    """What is looked for, and which of the threads found are wanted: `limit` of them after the first `start`."""

    query: Query
    wanted: DocumentFilter = DocumentFilter()
    mode: Mode = "hybrid"
    limit: int = 10
    start: int = 0


class SemanticRanker(Protocol):
    """Ranks so many documents by meaning; there is one only where vectors are stored. `rrf_k` suits its model."""

    rrf_k: int

    def __call__(self, database: Database, request: Request, depth: int) -> Ranking:
        """Return the nearest documents, the nearest first."""
        ...


class Found(Struct, frozen=True):
    """Answers; `total` threads were ranked in `mode`. `notices` say what could not be considered."""

    threads: list[ThreadResult]
    total: int
    mode: Mode
    notices: tuple[str, ...] = ()
    lexical: LexicalFinding | None = None


class Choice(NamedTuple):
    """The mode that is possible, and what to say when it is not the one that was asked for."""

    mode: Mode
    notice: str | None = None


def choose_mode(asked: Mode, *, has_vectors: bool, has_words: bool, why_not: str | None = None) -> Choice:
    """Return the mode in which a search can be made, or refuse it with the remedy; `why_not` there are no vectors."""
    if asked == "lexical" or (has_vectors and has_words):
        return Choice(asked)
    if not has_words:
        # Only filters: there is nothing whose meaning could be compared.
        return Choice("lexical")
    reason = why_not or "no embeddings are stored (`lore embed` computes them)"
    if asked == "semantic":
        raise UserError(
            f"semantic search is not available: {reason}",
            fix="run `lore embed`, or search by words with `--mode lexical`",
            mode=asked,
        )
    return Choice("lexical", f"searched by words only: {reason}")


def find(
    database: Database, request: Request, semantic: SemanticRanker | None = None, why_not: str | None = None
) -> Found:
    """Search: rank in the chosen mode, fuse, group by thread, and read what is shown."""
    if request.query.is_empty and not request.wanted.narrows:
        raise UserError("the query is empty", fix="add a word, or a filter such as label:bug")
    has_words = bool(request.query.text and request.query.terms)
    mode, notice = choose_mode(request.mode, has_vectors=semantic is not None, has_words=has_words, why_not=why_not)
    lexical = None if mode == "semantic" else rank_lexical(database, request.query, request.wanted)
    rankings = [] if lexical is None else [lexical.ranking]
    if semantic is not None and mode != "lexical":
        rankings.append(semantic(database, request, DEPTH))
    ids = {row_id for ranking in rankings for row_id in ranking.ids}
    constant = RANK_CONSTANT if semantic is None else semantic.rrf_k
    groups = fuse_by_thread(rankings, read_threads_of(database, sorted(ids)), constant)
    page = groups[request.start : request.start + request.limit]
    missing = describe_missing(readiness(database))
    notices = tuple(said for said in (notice, missing) if said is not None)
    return Found(_read(database, request.query, page), len(groups), mode, notices, lexical)


def describe_missing(ready: Readiness) -> str | None:
    """Return what cannot be found yet, or None when everything can."""
    if ready.waiting:
        counted = "1 changed item is" if ready.waiting == 1 else f"{ready.waiting:,} changed items are"
        return f"{counted} not searchable yet: run `lore generate-docs`"
    return None if ready.has_documents else "nothing to search yet: run `lore sync`"


def _read(database: Database, query: Query, page: list[ThreadGroup]) -> list[ThreadResult]:
    ids = [group.best.id for group in page]
    rows = read_documents(database, ids)
    marked = full_text(database).snippets(query.terms, ids)
    # What was found by its name or its meaning has no hit to show: its beginning is shown.
    marked |= read_openings(database, [row_id for row_id in ids if row_id not in marked], _OPENING_LENGTH)
    shown = {row_id: read_snippet(text) for row_id, text in marked.items()}
    return [
        make_result(group, rows[group.best.id], shown.get(group.best.id, Snippet()))
        for group in page
        if group.best.id in rows
    ]
