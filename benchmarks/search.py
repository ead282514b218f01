"""Benchmark `search`: how fast the answers come from 100,000 documents of 200 words, and how good they are.

The clock: typical queries in one process in every mode, a bare FTS5 query of the same words beside each, and whole
`lore search` processes. The quality is judged in `search_quality`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from time import perf_counter

import apsw
from msgspec.structs import replace

from benchmarks.cold_start import alternate
from benchmarks.findings import Finding
from benchmarks.meaning import Meaning, embed, find_embedder
from benchmarks.scale import Scale
from benchmarks.search_corpus import fill
from benchmarks.search_quality import judge
from tidelore.app.searching import SearchQuestion, search
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.embedding.local import LocalEmbedder
from tidelore.search.find import SearchMode, SearchRequest, find
from tidelore.search.lexical import rank_lexical
from tidelore.search.query import parse_query
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import Ask, DocumentFilter

P95_BOUND_MS = 20.0
PROCESS_BOUNDS = {"lexical": 4.5, "hybrid": 10.0}
"""How many times as long as a bare interpreter a process may take that searches once."""
DEPTH = 10
BARE = "SELECT rowid FROM documents_fts WHERE documents_fts MATCH ? ORDER BY rank LIMIT 200"
FILTERS = {"": DocumentFilter(), ", filtered": DocumentFilter(labels=("infra",), state="closed")}


def run(scale: Scale) -> Iterator[Finding]:
    """Measure the clock on the big copy and the quality on those with known answers."""
    count = scale.histories[-1]
    embedder = find_embedder()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        queries = fill(path, count)
        if embedder is not None:
            embed(path, embedder)
        yield from _time(path, queries, f"{count:,} documents", embedder)
        for name, wanted in FILTERS.items():
            share = _agreement(path, queries, wanted)
            yield Finding("search", f"the first ten of scoring everything that are found{name}", share * 100, "%")
        yield from _time_processes(path, folder, queries[0], scale.starts, embedder)
    yield from judge(embedder)


def _time(path: Path, queries: Sequence[str], title: str, embedder: LocalEmbedder | None) -> Iterator[Finding]:
    database = open_database(str(path))
    bare = apsw.Connection(str(path))
    try:
        asked = modes_of(database, embedder) | whole_answers(path, embedder)
        times: dict[str, list[float]] = {name: [] for name in ("bare", *asked)}
        for ask in asked.values():
            # What a process reads once is not what a query costs.
            ask(queries[0])
        turns: dict[str, Callable[[str], object]] = {"bare": partial(_ask_bare, bare), **asked}
        apart = max(len(queries) // len(turns), 1)
        for number in range(len(queries)):
            for place, (name, ask) in enumerate(turns.items()):
                # Each asks another query: one that was just asked in another mode is still in the caches.
                times[name].append(_timed(ask, queries[(number + place * apart) % len(queries)]))
    finally:
        bare.close()
        database.close()
    yield Finding("search", f"a bare FTS5 query, {title}: p50 of {len(queries)}", median(times["bare"]), "ms")
    yield Finding("search", f"a bare FTS5 query, {title}: p95", _p95(times["bare"]), "ms")
    for name in asked:
        yield Finding("search", f"{name}, {title}: p50", median(times[name]), "ms")
        yield Finding("search", f"{name}, {title}: p95", _p95(times[name]), "ms", P95_BOUND_MS)
        yield Finding("search", f"{name} / bare, of p95", _p95(times[name]) / _p95(times["bare"]), "x")


def modes_of(database: Database, embedder: LocalEmbedder | None) -> dict[str, Callable[[str], object]]:
    """Return what is asked of each query: every mode that is possible, with and without a filter."""
    meaning = None if embedder is None else Meaning(database, embedder)
    modes: tuple[SearchMode, ...] = ("lexical",) if meaning is None else ("lexical", "semantic", "hybrid")

    def ask(text: str, mode: SearchMode, wanted: DocumentFilter) -> object:
        query = parse_query(text)
        ranker = None if meaning is None or mode == "lexical" else meaning.ranker(query.text)
        return find(database, SearchRequest(query=query, wanted=wanted, mode=mode), ranker)

    return {
        f"{mode}{name}": partial(ask, mode=mode, wanted=wanted) for mode in modes for name, wanted in FILTERS.items()
    }


def whole_answers(path: Path, embedder: LocalEmbedder | None) -> dict[str, Callable[[str], object]]:
    """Return what the web page and the server for agents do with each query: from opening the copy to the page."""
    if embedder is None:
        return {}
    app = App(Config(), {}, db=str(path)).searching_often()

    def ask(text: str, wanted: DocumentFilter) -> object:
        return search(app, SearchQuestion(text=text, labels=wanted.labels, state=wanted.state))

    return {f"hybrid, the whole answer{name}": partial(ask, wanted=wanted) for name, wanted in FILTERS.items()}


def _agreement(path: Path, queries: Sequence[str], wanted: DocumentFilter) -> float:
    """Return which share of the ten best of all documents the gates let through to the first ten."""
    database = open_database(str(path))
    try:
        shares = []
        for query in map(parse_query, queries):
            best = full_text(database).rank(Ask(query.terms), wanted, DEPTH)
            found = rank_lexical(database, replace(query, names=()), wanted).ranking.ids[:DEPTH]
            shares.append(len(set(found) & {scored.id for scored in best}) / len(best) if best else 1.0)
        return mean(shares)
    finally:
        database.close()


def _time_processes(
    path: Path, folder: str, query: str, starts: int, embedder: LocalEmbedder | None
) -> Iterator[Finding]:
    lore = str(Path(sys.executable).with_name("lore"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "PYTHON"))}
    modes = ("lexical",) if embedder is None else ("lexical", "hybrid")
    commands = {mode: (lore, "--db", str(path), "--quiet", "search", "--mode", mode, query) for mode in modes}
    seconds = alternate(
        {"bare": (sys.executable, "-c", "pass"), **commands}, {**kept, "XDG_CONFIG_HOME": folder}, starts
    )
    for mode in modes:
        title = f"a fresh `lore search --mode {mode}`, median of {starts}"
        yield Finding("search", title, seconds[mode] * 1000, "ms")
        ratio = seconds[mode] / seconds["bare"]
        yield Finding("search", f"a fresh {mode} search / python -c pass", ratio, "x", PROCESS_BOUNDS[mode])


def _plain(query: str) -> str:
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))


def _ask_bare(bare: apsw.Connection, query: str) -> object:
    return bare.execute(BARE, (_plain(query),)).fetchall()


def _timed(ask: Callable[[str], object], query: str) -> float:
    started = perf_counter()
    ask(query)
    return (perf_counter() - started) * 1000


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]
