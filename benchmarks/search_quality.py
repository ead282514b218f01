"""How good the answers are: recall@10 and MRR in each mode, on three sets of questions.

The sets are the simulator's stories, Python's docstrings, and conversations in three languages among paragraphs of
Python's reference.

Owns the promise that fusing pays: on all sets and by both measures, hybrid is at least as good as the better of words
and meaning alone. Every set is searched through the product's own `find`, by thread, with its default weights.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean

from msgspec import Struct

from benchmarks.findings import Finding
from benchmarks.meaning import Meaning, embed
from benchmarks.search_corpus import Question, fill_with_docstrings, fill_with_languages, fill_with_stories
from tidelore.embedding.local import LocalEmbedder
from tidelore.search.find import SearchMode, SearchRequest, find
from tidelore.search.query import parse_query
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database

DEPTH = 10
TOPICS_EACH = 5
_TITLES = {"recall": f"recall@{DEPTH}", "mrr": "MRR"}
SETS: dict[str, Callable[[Path], dict[str, list[Question]]]] = {
    "stories": lambda path: fill_with_stories(path, TOPICS_EACH),
    "docstrings": fill_with_docstrings,
    "languages": fill_with_languages,
}


class Quality(Struct, frozen=True):
    """How often an answer is among the first ten, and the mean of one over its place."""

    recall: float
    mrr: float


RECORDED = {
    "stories": Quality(0.9834, 0.9247),
    "docstrings": Quality(0.5732, 0.3394),
    "languages": Quality(0.7399, 0.4675),
}
"""What hybrid once reached with Python 3.11; the texts of two sets differ a little from one Python to the next."""
TOLERATED = 1.0


def judge(embedder: LocalEmbedder | None) -> Iterator[Finding]:
    """Judge every mode on every set; without an embedder only the words."""
    for name, fill in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lore.db"
            kinds = fill(path)
            if embedder is not None:
                embed(path, embedder)
            yield from _judge(path, name, kinds, embedder)


def quality(places: Sequence[float]) -> Quality:
    """Return the quality of answers found at these places."""
    found = [place if place <= DEPTH else float("inf") for place in places]
    return Quality(mean(place <= DEPTH for place in found), mean(1 / place for place in found))


def shortfall(name: str, modes: dict[SearchMode, Quality]) -> Iterator[Finding]:
    """Yield what hybrid lacks of the better of the other two; the bound is broken where it lacks anything."""
    for measure in Quality.__struct_fields__:
        better = max(getattr(modes[mode], measure) for mode in ("lexical", "semantic"))
        lack = (better - getattr(modes["hybrid"], measure)) * 100
        yield Finding("search", f"{name}: {_TITLES[measure]}, hybrid behind the better of the two", lack, "%", 0.0)


def loss(name: str, found: Quality) -> Iterator[Finding]:
    """Yield what hybrid lost of the recorded quality; the bound is broken where that is more than a point."""
    for measure in Quality.__struct_fields__:
        lost = (getattr(RECORDED[name], measure) - getattr(found, measure)) * 100
        yield Finding("search", f"{name}: {_TITLES[measure]}, hybrid below the recorded", lost, "%", TOLERATED)


def measure(address: str, questions: Sequence[Question], embedder: LocalEmbedder | None) -> dict[SearchMode, Quality]:
    """Return the quality of every mode in a copy."""
    database = open_database(address)
    try:
        meaning = None if embedder is None else Meaning(database, embedder)
        modes: tuple[SearchMode, ...] = ("lexical",) if meaning is None else ("lexical", "semantic", "hybrid")
        return {mode: quality([_place(database, question, mode, meaning) for question in questions]) for mode in modes}
    finally:
        database.close()


def _judge(
    path: Path, name: str, kinds: dict[str, list[Question]], embedder: LocalEmbedder | None
) -> Iterator[Finding]:
    database = open_database(str(path))
    try:
        meaning = None if embedder is None else Meaning(database, embedder)
        modes: tuple[SearchMode, ...] = ("lexical",) if meaning is None else ("lexical", "semantic", "hybrid")
        whole: dict[SearchMode, Quality] = {}
        for mode in modes:
            places = {kind: [_place(database, question, mode, meaning) for question in kinds[kind]] for kind in kinds}
            whole[mode] = quality([place for kind in kinds for place in places[kind]])
            for kind in kinds if len(kinds) > 1 else ():
                yield from _tell(f"{name} by {kind}", mode, quality(places[kind]), len(kinds[kind]))
            yield from _tell(name, mode, whole[mode], sum(map(len, kinds.values())))
        if meaning is not None:
            yield from shortfall(name, whole)
            yield from loss(name, whole["hybrid"])
    finally:
        database.close()


def _tell(title: str, mode: SearchMode, found: Quality, questions: int) -> Iterator[Finding]:
    yield Finding("search", f"{title}, {questions:,} questions, {mode}: {_TITLES['recall']}", found.recall * 100, "%")
    yield Finding("search", f"{title}, {questions:,} questions, {mode}: {_TITLES['mrr']}", found.mrr * 100, "%")


def _place(database: Database, question: Question, mode: SearchMode, meaning: Meaning | None) -> float:
    """Return at which place the first thread stands that answers."""
    query = parse_query(question.text)
    ranker = None if meaning is None or mode == "lexical" else meaning.ranker(query.text)
    found = find(database, SearchRequest(query=query, mode=mode, limit=DEPTH), ranker)
    places = (place for place, thread in enumerate(found.threads, 1) if thread.iid in question.answers)
    return next(places, float("inf"))
