"""Search the local copy, and find threads similar to one.

Searches by words without a network; by meaning with the embeddings that are stored. A page that exceeds its token
budget is cut; it always contains one item, whose snippet is emptied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from tidelore.app.answers import ENVELOPE_TOKENS, ChosenFields, Instant, answer_tokens, copy_fields, means
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.content import digest
from tidelore.core.errors import UserError
from tidelore.core.extras import extra_missing, require
from tidelore.core.references import parse_since
from tidelore.search import find as finding
from tidelore.search import spelling
from tidelore.search.find import SearchRequest, SearchResults
from tidelore.search.passages import mark_words
from tidelore.search.query import Query, parse_query, resolve_filters
from tidelore.search.results import Snippet, read_snippet
from tidelore.store.database.port import Database

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Embedder
    from tidelore.search.find import SearchMode
    from tidelore.search.similarity import MeaningRanker
    from tidelore.search.spelling import Correction

MODES = finding.MODES


class FoundThread(Struct, frozen=True, kw_only=True):
    """A thread that matches, and its best matching text."""

    reference: Annotated[
        str, means("reference of the thread: group/project#12, group/project!12, or the address of a post")
    ]
    type: Annotated[str, means("issue, mr, topic or post")]
    project: Annotated[str | None, means("the project's path, or null for a post")]
    iid: Annotated[int | None, means("its number in the project, or null for a post")]
    title: Annotated[str, means("its title; of a post, its author", untrusted=True)]
    state: Annotated[str, means("its state; of a post, its kind")]
    labels: Annotated[tuple[str, ...], means("its labels")]
    found_in: Annotated[str, means("where in it: issue or mr (its description), discussion, topic, or post")]
    author: Annotated[str | None, means("author of the matching text")]
    updated_at: Annotated[Instant, means("last update of the matching text")]
    web_url: Annotated[str | None, means("URL of the matching text, or null")]
    snippet: Annotated[str, means("the passage that answers best, on one line, at most 400 characters", untrusted=True)]
    highlights: Annotated[
        tuple[tuple[int, int], ...], means("matches in the snippet: start, end; empty for `lore similar`")
    ]
    further: Annotated[int, means("number of further matches in the thread")]
    score: Annotated[
        float, means("its score, comparable within one answer only; for `lore similar` the cosine similarity")
    ]
    ranks: Annotated[dict[str, int], means("its rank in each ranking: lexical, semantic")]
    new: Annotated[bool | None, means("with --saved: whether it was not among the results of the last time")] = None


class TermCount(Struct, frozen=True):
    """A word or phrase of the query."""

    text: Annotated[str, means("a word or phrase, rarest first")]
    documents: Annotated[int, means("number of documents that contain it")]


class TermGate(Struct, frozen=True):
    """The words by which documents were selected before they were scored."""

    terms: Annotated[list[str], means("the words that selected candidates; empty if everything was scored")]
    needs_all: Annotated[bool, means("whether all of them were required")]


class Explanation(Struct, frozen=True):
    """How results were ranked."""

    terms: list[TermCount]
    gates: list[TermGate]
    names: Annotated[tuple[str, ...], means("identifiers that were searched by name too")]


class CorrectedWord(Struct, frozen=True):
    """A word of the query that no document contains."""

    written: Annotated[str, means("the word in the query")]
    used: Annotated[str, means("the most similar word of the documents, which was searched instead")]


class SearchPage(Struct, frozen=True, kw_only=True):
    """The answer of `lore search`."""

    items: list[FoundThread]
    total: Annotated[int, means("number of matching threads")]
    total_is_lower_bound: Annotated[bool, means("whether more threads match than were ranked")]
    start: Annotated[int, means("number of threads before this page")] = 0
    next: Annotated[str | None, means("the token for --after, or null on the last page")] = None
    truncated: Annotated[bool, means("whether --max-tokens cut the page short")] = False
    mode: Annotated[str, means("the mode that was used")]
    notice: Annotated[str | None, means("a limitation of this search, or null")]
    corrections: Annotated[list[CorrectedWord], means("words that were corrected; a quoted word is not")] = []
    explain: Annotated[Explanation | None, means("null, or how the results were ranked")] = None
    new: Annotated[int | None, means("with --saved: number of new results among the first 100, or null")] = None


class SimilarThreads(Struct, frozen=True):
    """The answer of `lore similar`."""

    items: list[FoundThread]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null")] = None


class SearchQuestion(Struct, frozen=True, kw_only=True):
    """A query with its options. `max_tokens` limits the page as JSON with only these `fields` of the items."""

    text: str
    mode: SearchMode = "hybrid"
    type: str | None = None
    project: str | None = None
    author: str | None = None
    state: str | None = None
    since: str | None = None
    path: str | None = None
    labels: tuple[str, ...] = ()
    limit: int = 10
    after: str | None = None
    explain: bool = False
    max_tokens: int | None = None
    fields: frozenset[str] = frozenset(FoundThread.__struct_fields__)


def search(app: App, question: SearchQuestion) -> SearchPage:
    """Return one page of matching threads, the best first."""
    asked_for = parse_query(question.text)
    written = _filters(asked_for, question)
    start = _read_token(question.after, asked_for, written) if question.after else 0
    with app.reading() as database:
        query, corrections = astuple(spelling.correct(database, asked_for))
        name = "since" if question.since is None else "--since"
        asked = resolve_filters(database, written, lambda text: parse_since(text, app.clock.now_ms(), name))
        request = SearchRequest(query=query, wanted=asked, mode=question.mode, limit=question.limit, start=start)
        meaning = rank_by_meaning(app, database, query.text if request.mode != "lexical" else "")
        if meaning.extra is not None and request.mode == "semantic":
            raise extra_missing(meaning.extra, "search by meaning")
        found = finding.find(database, request, meaning.ranker, meaning.notice)
        if app.config.lockdown:
            from tidelore.app.reading.lockdown import trusted_results

            found = replace(found, threads=trusted_results(app, database, found.threads, query.terms))
    page = search_page(found, query, start=start, explain=question.explain, corrections=corrections)
    if question.max_tokens is not None:
        page = fit_page(page, question.max_tokens, question.fields)
    end = start + len(page.items)
    return replace(page, next=f"{end}-{_mark(asked_for, written)}" if end < page.total else None)


def search_page(
    found: SearchResults,
    query: Query,
    *,
    start: int = 0,
    explain: bool = False,
    corrections: Sequence[Correction] = (),
) -> SearchPage:
    """Return results as a page."""
    said = (spelling.describe(corrections), *found.notices)
    return SearchPage(
        items=[copy_fields(FoundThread, thread, new=None) for thread in found.threads],
        total=found.total,
        total_is_lower_bound=found.is_cut,
        start=start,
        mode=found.mode,
        notice="; ".join(line for line in said if line is not None) or None,
        corrections=[copy_fields(CorrectedWord, entry) for entry in corrections],
        explain=_explanation(found, query) if explain else None,
    )


def mark_titles(question: SearchQuestion, page: SearchPage) -> list[Snippet]:
    """Return the titles of a page's items with the positions of the words that were searched."""
    words = [question.text, *(one.used for one in page.corrections)]
    terms = [term for text in words for term in parse_query(text).terms]
    return [read_snippet(mark_words(item.title, terms)) for item in page.items]


def _explanation(found: SearchResults, query: Query) -> Explanation:
    lexical = found.lexical
    if lexical is None:
        return Explanation([], [], query.names)
    return Explanation(
        [TermCount(entry.term.text, entry.documents) for entry in lexical.counted],
        [TermGate([term.text for term in gate.terms], gate.needs_all) for gate in lexical.gates],
        query.names,
    )


def _filters(query: Query, question: SearchQuestion) -> list[tuple[str, str]]:
    """Return the filters of the query merged with those given as options."""
    names = ("type", "project", "author", "state", "since", "path")
    options = [(name, getattr(question, name)) for name in names if getattr(question, name) is not None]
    return [*query.fields, *options, *(("label", label) for label in question.labels)]


def _read_token(text: str, query: Query, written: Sequence[tuple[str, str]]) -> int:
    """Return the position of a continuation token; raise UserError for a token of another query."""
    place, _, mark = text.partition("-")
    if not (place.isascii() and place.isdecimal() and len(place) < 10):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    if mark != _mark(query, written):
        raise UserError(
            "--after was created by a different query", fix="repeat the query with the same filters", after=text
        )
    return int(place)


def _mark(query: Query, written: Sequence[tuple[str, str]]) -> str:
    asked = (query.terms, query.excluded, query.names, sorted(set(written)))
    return digest(msgspec.json.encode(asked)).hex()[:8]


def fit_page(page: SearchPage, max_tokens: int, fields: frozenset[str]) -> SearchPage:
    """Return a page with as many items as the budget allows."""
    room = max_tokens - ENVELOPE_TOKENS - answer_tokens(replace(page, items=[], next="0" * 16))
    kept: list[FoundThread] = []
    for item in page.items:
        room -= answer_tokens(ChosenFields(FoundThread, {name: getattr(item, name) for name in fields}))
        if room < 0:
            kept += [] if kept else [replace(item, snippet="", highlights=())]
            return replace(page, items=kept, truncated=True)
        kept.append(item)
    return page


def find_similar(app: App, reference: str, project: str | None = None, limit: int = 10) -> SimilarThreads:
    """Return the threads whose text is nearest in meaning to an issue, merge request, topic or post."""
    require("vectors", "`lore similar`", ["numpy"])
    from tidelore.app.reading.referring import find_thread, parse_any
    from tidelore.search import semantic

    meant = parse_any(reference)
    with app.reading() as database:
        thread = find_thread(database, meant, project, app.config.default_project)
        threads = semantic.find_similar(database, thread, limit)
        if app.config.lockdown:
            from tidelore.app.reading.lockdown import trusted_results

            threads = trusted_results(app, database, threads)
    return SimilarThreads([copy_fields(FoundThread, thread, new=None) for thread in threads], len(threads))


class Meaning(Struct, frozen=True):
    """The semantic ranker, or why there is none; `extra` is set if an extra is not installed."""

    ranker: MeaningRanker | None = None
    notice: str | None = None
    extra: str | None = None


def _rank_lightly(app: App, database: Database, text: str) -> MeaningRanker | None:
    """Return a ranker that needs no numpy, or None if it cannot serve: this process searches once."""
    from tidelore.embedding.embedder import Unavailable, tune
    from tidelore.embedding.local import TUNING, find_local
    from tidelore.search.sign_scan import make_light_ranker

    files = find_local()
    if isinstance(files, Unavailable):
        return None
    return make_light_ranker(database, files, tune(app.config.embedding, TUNING), text)


def rank_by_meaning(app: App, database: Database, text: str) -> Meaning:
    """Return the semantic ranker for a query; anything missing is reported as a notice."""
    if app.config.embedding.provider == "none" or not text.strip():
        return Meaning()
    from tidelore.core.errors import RemoteError
    from tidelore.core.extras import install_command
    from tidelore.embedding.embedder import InProcess, Unavailable
    from tidelore.embedding.registry import missing_extra, open_embedder
    from tidelore.store.reading.vector_models import has_vectors

    extra = missing_extra(app.config.embedding)
    if extra is not None:
        reason = f"the extra {extra!r} is not installed ({install_command(extra)})"
        return Meaning(notice=reason, extra=extra)
    if not has_vectors(database):
        return Meaning()
    kept = app.kept_meaning
    if kept is None and app.config.embedding.provider == "local":
        # Most processes search once.
        light = _rank_lightly(app, database, text)
        if light is not None:
            return Meaning(light)

    def opened() -> Embedder | Unavailable | None:
        return open_embedder(app.config.embedding, app.config.http, app.environ, app.clock)

    embedder = opened() if kept is None else kept.embedder(app.config.embedding, opened)
    if embedder is None or isinstance(embedder, Unavailable):
        return Meaning(notice=None if embedder is None else embedder.reason)
    from tidelore.search.semantic import make_ranker, make_ranker_async

    async def ask() -> MeaningRanker | None:
        try:
            return await make_ranker_async(database, embedder, text, kept)
        finally:
            await embedder.aclose()

    try:
        if isinstance(embedder, InProcess):
            ranker = make_ranker(database, embedder, text, kept)
        else:
            ranker = run_until_signalled(ask(), "nothing was changed")
    except RemoteError as error:
        return Meaning(notice=error.message)
    if ranker is None:
        return Meaning(notice="embeddings were made with another model; run `lore embed`")
    return Meaning(ranker)
