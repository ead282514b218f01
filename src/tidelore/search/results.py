"""Turn ranked documents into threads with snippets.

A thread appears once, at the rank of its best document; its other documents are counted. Rankings are fused by thread,
so a match by words in one document and by meaning in another count for the same thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import Struct

from tidelore.core.references import sign_of
from tidelore.core.text import without_hidden
from tidelore.search.fuse import Fused, Ranking, best_first, fused_scores, ranks_in, stand_in
from tidelore.store.reading.found_documents import DocumentRow, ThreadKey
from tidelore.store.reading.fulltext import CLOSING, OPENING

_LONGEST_SNIPPET = 600
_BEFORE_HIT = 200
_NEXT_BEST = 4
"""How many further documents of a thread are considered for its passage."""
_TYPES = {"issue": "issue", "merge_request": "mr", "discussion": "discussion", "topic": "topic", "post": "post"}


class Snippet(Struct, frozen=True):
    """A single-line excerpt, and the start and end positions of the hits in it."""

    text: str = ""
    highlights: tuple[tuple[int, int], ...] = ()


class ThreadGroup(Struct, frozen=True):
    """The matching documents of one thread: the best one, the number of others, and the best of these (`next_best`).

    If rankings were fused by thread, the score and ranks of `best` are those of the thread.
    """

    best: Fused
    further: int
    next_best: tuple[int, ...] = ()


class ThreadResult(Struct, frozen=True):
    """One search result: a thread and its best matching document. `found_in` is the type of that document."""

    reference: str
    type: str
    project: str | None
    iid: int | None
    title: str
    state: str
    labels: tuple[str, ...]
    found_in: str
    author: str | None
    updated_at: int
    web_url: str | None
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    further: int
    score: float
    ranks: dict[str, int]
    document_id: int


def group_by_thread(fused: Sequence[Fused], threads: Mapping[int, ThreadKey]) -> list[ThreadGroup]:
    """Return each thread once, in the order of its best document; skip documents deleted in the meantime."""
    found: dict[ThreadKey, ThreadGroup] = {}
    for entry in fused:
        key = threads.get(entry.id)
        if key is not None:
            before = found.get(key)
            if before is None:
                found[key] = ThreadGroup(entry, 0)
            else:
                next_best = (*before.next_best, entry.id)[:_NEXT_BEST]
                found[key] = ThreadGroup(before.best, before.further + 1, next_best)
    return list(found.values())


def fuse_by_thread(
    rankings: Sequence[Ranking], threads: Mapping[int, ThreadKey], k: int, complete: Set[int] = frozenset()
) -> list[ThreadGroup]:
    """Return each thread once, fused from its ranks in the rankings and represented by its best document.

    A thread with a `complete` document, one that contains all words, comes before every thread without one.
    """
    # More than the highest possible fused score.
    bonus = sum(ranking.weight for ranking in rankings) / k
    members: dict[ThreadKey, list[int]] = {}
    for document in best_first(_raised(fused_scores(rankings, k), complete, bonus)):
        key = threads.get(document)
        if key is not None:
            members.setdefault(key, []).append(document)
    leads = {document: group[0] for group in members.values() for document in group}
    by_thread = [stand_in(ranking, leads) for ranking in rankings]
    scores, ranks = _raised(fused_scores(by_thread, k), complete, bonus), ranks_in(by_thread)
    others = {lead: rest for lead, *rest in members.values()}
    return [
        ThreadGroup(Fused(lead, scores[lead], ranks[lead]), len(others[lead]), tuple(others[lead][:_NEXT_BEST]))
        for lead in best_first(scores)
    ]


def _raised(scores: Mapping[int, float], complete: Set[int], bonus: float) -> dict[int, float]:
    return dict(scores) | {document: scores[document] + bonus for document in complete if document in scores}


def read_snippet(marked: str) -> Snippet:
    """Convert text with marked hits to a snippet: plain text on one line, and the positions of the hits."""
    text = ""
    opened: int | None = None
    highlights: list[tuple[int, int]] = []
    for part in _split_marks(marked):
        if part == OPENING:
            opened = len(text)
        elif part == CLOSING:
            end = len(text.rstrip())
            if opened is not None and opened < end:
                highlights.append((opened, end))
            opened = None
        elif part:
            # Hidden characters are removed here, before positions are computed, so that the positions stay correct.
            shown = without_hidden(part)
            if shown[:1].isspace() and text and not text.endswith(" "):
                # A hit begins at its first character, not at the space before it.
                opened = len(text) + 1 if opened == len(text) else opened
                text += " "
            words = " ".join(shown.split())
            text += f"{words} " if words and shown[-1].isspace() else words
    return _shortened(Snippet(text.rstrip(), tuple(highlights)))


def _split_marks(marked: str) -> Iterator[str]:
    """Yield the marks of a text and what is between them; no pattern, because it would be compiled for each search."""
    for number, part in enumerate(marked.split(OPENING)):
        if number:
            yield OPENING
        before, *rest = part.split(CLOSING)
        yield before
        for after in rest:
            yield CLOSING
            yield after


def _shortened(snippet: Snippet) -> Snippet:
    """Truncate a snippet around its first hit: snippets are cut by words, and words can be very long."""
    if len(snippet.text) <= _LONGEST_SNIPPET:
        return snippet
    first = snippet.highlights[0][0] if snippet.highlights else 0
    begin = max(first - _BEFORE_HIT, 0)
    text = snippet.text[begin : begin + _LONGEST_SNIPPET]
    before = "…" if begin else ""
    after = "…" if begin + _LONGEST_SNIPPET < len(snippet.text) else ""
    shift = len(before) - begin
    shown = [(start + shift, min(end + shift, len(before) + len(text))) for start, end in snippet.highlights]
    return Snippet(f"{before}{text}{after}", tuple((start, end) for start, end in shown if start < end))


def _sign(row: DocumentRow) -> str:
    return sign_of("mr" if row.thread_type == "merge_request" else "issue", row.references_short)


def make_result(group: ThreadGroup, row: DocumentRow, snippet: Snippet) -> ThreadResult:
    """Return the search result of a thread."""
    return ThreadResult(
        reference=row.uri or f"{row.project}{_sign(row)}{row.iid}",
        type=_TYPES[row.thread_type],
        project=row.project,
        iid=row.iid,
        title=row.title,
        state=row.state,
        labels=tuple(row.labels.split("\n")) if row.labels else (),
        found_in=_TYPES[row.source_type],
        author=row.author_username,
        updated_at=row.updated_at,
        web_url=row.url,
        snippet=snippet.text,
        highlights=snippet.highlights,
        further=group.further,
        score=round(group.best.score, 6),
        ranks=group.best.ranks,
        document_id=row.id,
    )
