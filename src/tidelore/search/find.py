"""Run one search: choose the mode, rank, fuse, group by thread, and read the results to show.

Without vectors, `hybrid` falls back to lexical with a notice, and `semantic` fails with an error that names the
command to run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

from msgspec import Struct

from tidelore.core.errors import UserError
from tidelore.core.words import is_unspaced, split_scripts
from tidelore.search.fuse import RANK_CONSTANT, Ranking
from tidelore.search.lexical import DEPTH, LexicalFinding, rank_lexical
from tidelore.search.passages import best_passage
from tidelore.search.query import FIELDS, Query
from tidelore.search.results import ThreadGroup, ThreadResult, fuse_by_thread, make_result, read_snippet
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import (
    Readiness,
    full_text,
    read_documents,
    read_openings,
    read_passages,
    read_threads_of,
    readiness,
)
from tidelore.store.reading.fulltext import CLOSING, OPENING, DocumentFilter, FilterShare, Term

SearchMode = Literal["hybrid", "lexical", "semantic"]
MODES: tuple[SearchMode, ...] = get_args(SearchMode)
_OPENING_LENGTH = 240
_LOOKED_THROUGH = 4000
"""The beginning of a document, in characters, in which a passage is looked for if no word of the query marks one."""


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A query with filters, and the part of the results to return: `limit` threads after the first `start`."""

    query: Query
    wanted: DocumentFilter = DocumentFilter()
    mode: SearchMode = "hybrid"
    limit: int = 10
    start: int = 0


class SemanticRanker(Protocol):
    """Ranks documents by meaning; available only if vectors are stored. `rrf_k` is the fusion constant of its model."""

    rrf_k: int

    def begin(self, database: Database, request: SearchRequest, share: FilterShare, depth: int) -> None:
        """Begin what can run in another thread while words are ranked; `share` is that of the filter."""
        ...

    def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
        """Return at most `depth` documents, the nearest first; stricter if `alone`, without matching words."""
        ...


class SearchResults(Struct, frozen=True):
    """Search results. `total` threads match in `mode`, or more if `is_cut`. `notices` say what was not considered."""

    threads: list[ThreadResult]
    total: int
    mode: SearchMode
    notices: tuple[str, ...] = ()
    lexical: LexicalFinding | None = None
    is_cut: bool = False


class ModeChoice(Struct, frozen=True):
    """The mode that is used, and a notice if it is not the requested one."""

    mode: SearchMode
    notice: str | None = None


def choose_mode(asked: SearchMode, *, has_vectors: bool, has_words: bool, why_not: str | None = None) -> ModeChoice:
    """Return the mode to use, or raise UserError with a fix. `why_not` is the reason why there are no vectors."""
    if asked == "lexical" or (has_vectors and has_words):
        return ModeChoice(asked)
    if not has_words:
        # Only filters: there is no text to compare by meaning.
        return ModeChoice("lexical")
    reason = why_not or "no embeddings are stored (`lore embed` computes them)"
    if asked == "semantic":
        raise UserError(
            f"semantic search is not available: {reason}",
            fix="run `lore embed`, or search by words with `--mode lexical`",
            mode=asked,
        )
    return ModeChoice("lexical", f"searched by words only: {reason}")


def find(
    database: Database, request: SearchRequest, semantic: SemanticRanker | None = None, why_not: str | None = None
) -> SearchResults:
    """Search: rank in the chosen mode, fuse, group by thread, and read the results to show."""
    if request.query.is_empty and not request.wanted.narrows:
        raise UserError("the query is empty", fix="add a word, or a filter such as label:bug")
    has_words = bool(request.query.text and request.query.terms)
    choice = choose_mode(request.mode, has_vectors=semantic is not None, has_words=has_words, why_not=why_not)
    mode = choice.mode
    share = None
    if semantic is not None and mode == "hybrid":
        share = full_text(database).share(request.wanted) if request.wanted.narrows else FilterShare()
        semantic.begin(database, request, share, DEPTH)
    lexical = None if mode == "semantic" else rank_lexical(database, request.query, request.wanted, DEPTH, share)
    has_known_word = _knows_a_word(database, request.query) if lexical is None else lexical.has_known_term
    rankings = [] if lexical is None else [lexical.ranking]
    if semantic is not None and mode != "lexical":
        alone = not has_known_word if lexical is None else not lexical.ranking.ids
        rankings.append(semantic(database, request, DEPTH, alone=alone))
    ids = {row_id for ranking in rankings for row_id in ranking.ids}
    constant = RANK_CONSTANT if semantic is None else semantic.rrf_k
    complete = frozenset[int]() if lexical is None else lexical.complete
    groups = fuse_by_thread(rankings, read_threads_of(database, sorted(ids)), constant, complete)
    if mode == "hybrid":
        unsure = {row_id for ranking in rankings for row_id in ranking.ids[ranking.sure :]}
        groups = [group for group in groups if len(group.best.ranks) > 1 or group.best.id not in unsure]
    page = groups[request.start : request.start + request.limit]
    is_cut = any(len(ranking.ids) >= DEPTH for ranking in rankings) or (lexical is not None and lexical.is_cut)
    ready = readiness(database)
    unknown = has_words and ready.has_documents and not has_known_word
    said = (
        _describe_fields(request.query.unknown_fields),
        choice.notice,
        _describe_unknown(mode, found=bool(groups)) if unknown else None,
        describe_missing(ready),
    )
    notices = tuple(line for line in said if line is not None)
    return SearchResults(_read(database, request.query, page), len(groups), mode, notices, lexical, is_cut)


def describe_missing(ready: Readiness) -> str | None:
    """Return a notice about what is not searchable yet, or None."""
    if ready.waiting:
        counted = "1 changed item is" if ready.waiting == 1 else f"{ready.waiting:,} changed items are"
        return f"{counted} not searchable yet: run `lore generate-docs`"
    return None if ready.has_documents else "nothing to search yet: run `lore sync`"


def _knows_a_word(database: Database, query: Query) -> bool:
    text = full_text(database)
    return any(text.has(term) for term in query.terms)


def _describe_fields(unknown: Sequence[str]) -> str | None:
    if not unknown:
        return None
    named = ", ".join(f"{name}:" for name in unknown)
    known = ", ".join(f"{name}:" for name in FIELDS)
    return f"unknown filter {named} (searched as words); the filters are {known}"


def _describe_unknown(mode: SearchMode, *, found: bool) -> str:
    if found:
        return "no document contains any of these words; the results are similar in meaning"
    similar = "" if mode == "lexical" else ", and none is similar enough in meaning"
    return f"no document contains any of these words{similar}"


def _mark_runs(database: Database, terms: Sequence[Term], ids: Sequence[int], marked: dict[int, str]) -> dict[int, str]:
    """Mark unspaced runs in snippets: the word index does not know where they are."""
    parts = {part for term in terms for part in split_scripts(term.text) if is_unspaced(part)}
    runs = sorted(parts, key=lambda run: (-len(run), run))
    without = [row_id for row_id in ids if OPENING not in marked.get(row_id, "")]
    for run in runs:
        passages = read_passages(database, without, run, _OPENING_LENGTH) if without else {}
        marked |= passages
        without = [row_id for row_id in without if row_id not in passages]
    pattern = re.compile("|".join(map(re.escape, runs)))
    return {
        row_id: text if OPENING in text else pattern.sub(lambda hit: f"{OPENING}{hit[0]}{CLOSING}", text)
        for row_id, text in marked.items()
    }


def _read(database: Database, query: Query, page: list[ThreadGroup]) -> list[ThreadResult]:
    ids = [row_id for group in page for row_id in (group.best.id, *group.next_best)]
    rows = read_documents(database, ids)
    marked = full_text(database).marked(query.terms, ids)
    if any(is_unspaced(term.text) for term in query.terms):
        marked = _mark_runs(database, query.terms, ids, marked)
    # Documents found by identifier or meaning have no highlighted words: their passage is near the beginning.
    without = [row_id for row_id in ids if row_id not in marked]
    marked |= read_openings(database, without, _LOOKED_THROUGH) if without else {}
    passages = {row_id: best_passage(text) for row_id, text in marked.items() if row_id in rows}
    results = []
    for group in (group for group in page if group.best.id in rows):
        chosen = group.best.id
        for row_id in group.next_best:
            if row_id in passages and passages[row_id].rank > passages[chosen].rank:
                chosen = row_id
        results.append(make_result(group, rows[chosen], read_snippet(passages[chosen].text)))
    return results
