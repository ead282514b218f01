"""Benchmark `search`: how fast the answers come from 100,000 documents of 200 words, and how good they are.

The clock: typical queries in one process, a bare FTS5 query of the same words beside each, and a whole `lore search`.
The quality: the simulator's decisions without their titles, searched by their title and by a paraphrase of it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from time import perf_counter

import apsw
from msgspec.structs import replace

from benchmarks.cold_start import alternate
from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.search_corpus import Question, fill, fill_with_stories
from tidelore.search.finding import Request, find
from tidelore.search.lexical import rank_lexical
from tidelore.search.query import parse_query
from tidelore.store.database import Database
from tidelore.store.document_filter import DocumentFilter
from tidelore.store.fulltext import full_text
from tidelore.store.fulltext_port import Ask
from tidelore.store.opening import open_database

P95_BOUND_MS = 50.0
DEPTH = 10
TOPICS_EACH = 5
BARE = "SELECT rowid FROM documents_fts WHERE documents_fts MATCH ? ORDER BY rank LIMIT 200"


def run(scale: Scale) -> Iterator[Finding]:
    """Measure the clock on the big copy and the quality on the one with known answers."""
    count = scale.histories[-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        queries = fill(path, count)
        yield from _time(path, queries, f"{count:,} documents")
        yield Finding(
            "search", "the first ten of scoring everything that are found", _agreement(path, queries) * 100, "%"
        )
        yield from _time_process(path, folder, queries[0], scale.starts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        yield from _judge(path, fill_with_stories(path, TOPICS_EACH))


def _time(path: Path, queries: Sequence[str], title: str) -> Iterator[Finding]:
    database = open_database(str(path))
    bare = apsw.Connection(str(path))
    wanted = {"": DocumentFilter(), ", filtered": DocumentFilter(labels=("infra",), state="closed")}
    try:
        times: dict[str, list[float]] = {name: [] for name in (*wanted, "bare")}
        for query in queries:
            times["bare"].append(_timed(lambda query=query: bare.execute(BARE, (_plain(query),)).fetchall()))
            for name, chosen in wanted.items():
                request = Request(query=parse_query(query), wanted=chosen, mode="lexical")
                times[name].append(_timed(lambda request=request: find(database, request)))
    finally:
        bare.close()
        database.close()
    for name in wanted:
        yield Finding("search", f"lexical{name}, {title}: p50 of {len(queries)}", median(times[name]), "ms")
        yield Finding("search", f"lexical{name}, {title}: p95", _p95(times[name]), "ms", P95_BOUND_MS)
    yield Finding("search", f"a bare FTS5 query, {title}: p50", median(times["bare"]), "ms")
    yield Finding("search", f"a bare FTS5 query, {title}: p95", _p95(times["bare"]), "ms")
    yield Finding("search", "lexical / bare, of p95", _p95(times[""]) / _p95(times["bare"]), "x")


def _agreement(path: Path, queries: Sequence[str]) -> float:
    """Return which share of the ten best of all documents the gates let through to the first ten."""
    database = open_database(str(path))
    try:
        shares = []
        for query in map(parse_query, queries):
            best = full_text(database).rank(Ask(query.terms), DocumentFilter(), DEPTH)
            found = rank_lexical(database, replace(query, names=()), DocumentFilter()).ranking.ids[:DEPTH]
            shares.append(len(set(found) & {scored.id for scored in best}) / max(len(best), 1))
        return mean(shares)
    finally:
        database.close()


def _time_process(path: Path, folder: str, query: str, starts: int) -> Iterator[Finding]:
    lore = str(Path(sys.executable).with_name("lore"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "PYTHON"))}
    command = (lore, "--db", str(path), "--quiet", "search", "--mode", "lexical", query)
    seconds = alternate({"search": command}, {**kept, "XDG_CONFIG_HOME": folder}, starts)
    yield Finding("search", f"a fresh `lore search`, median of {starts}", seconds["search"] * 1000, "ms")


def _judge(path: Path, questions: dict[str, list[Question]]) -> Iterator[Finding]:
    database = open_database(str(path))
    try:
        for kind, asked in questions.items():
            places = [_place(database, question) for question in asked]
            hits = mean(place <= DEPTH for place in places)
            reciprocal = mean(1 / place if place <= DEPTH else 0.0 for place in places)
            title = f"lexical by {kind}, {len(asked)} questions"
            yield Finding("search", f"{title}: recall@{DEPTH}", hits)
            yield Finding("search", f"{title}: MRR", reciprocal)
    finally:
        database.close()


def _place(database: Database, question: Question) -> float:
    """Return at which place the first thread stands that answers."""
    found = find(database, Request(query=parse_query(question.text), mode="lexical", limit=DEPTH))
    places = (place for place, thread in enumerate(found.threads, 1) if thread.iid in question.answers)
    return next(places, float("inf"))


def _plain(query: str) -> str:
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))


def _timed(work: object) -> float:
    assert callable(work)
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1000


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]
