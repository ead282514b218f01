"""Renders search results as text: reference, title, state, age, snippet and link of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from tidelore.cli.render import ago, plural
from tidelore.cli.table import line_columns
from tidelore.core.text import one_line, shorten, width
from tidelore.search.find import SearchResults
from tidelore.search.query import Query
from tidelore.search.results import ThreadResult

_STEP = "  "
_SHORTEST_TITLE = 20


def result_lines(found: SearchResults, query: Query, start: int, *, explain: bool) -> list[str]:
    """Return the whole page; no line but a URL is wider than the terminal."""
    if not found.threads:
        beyond = " more" if start else ""
        return [f"No{beyond} matches."]
    columns = line_columns()
    lines = []
    for number, thread in enumerate(found.threads, start + 1):
        lines += [*_thread(thread, number, columns, explain=explain), ""]
    left = found.total - start - len(found.threads)
    if left > 0:
        least = "at least " if found.is_cut else ""
        lines.append(shorten(f"({least}{plural(left, 'more thread')}: see --limit)", columns))
    if explain:
        lines += _explanation(found, query, columns)
    return lines if lines[-1] else lines[:-1]


def _thread(thread: ThreadResult, number: int, columns: int, *, explain: bool) -> Iterator[str]:
    reference = shorten(one_line(thread.reference), columns)
    room = columns - width(reference) - len(_STEP)
    title = one_line(thread.title)
    if room >= min(width(title), _SHORTEST_TITLE):
        yield f"{click.style(reference, fg='cyan')}{_STEP}{click.style(shorten(title, room), bold=True)}"
    else:
        yield click.style(reference, fg="cyan")
        yield _STEP + click.style(shorten(title, columns - len(_STEP)), bold=True)
    if thread.snippet:
        yield _STEP + _highlighted(thread.snippet, thread.highlights, columns - len(_STEP))
    facts = f"{_STEP}{thread.state}, {ago(thread.updated_at)}"
    if thread.further:
        facts += f", {plural(thread.further, 'further hit')}"
    link = one_line(thread.web_url or "")
    if link and width(facts) + len(_STEP) + width(link) <= columns:
        yield f"{facts}{_STEP}{link}"
    else:
        yield shorten(facts, columns)
        # Half a link leads nowhere: one that is wider than the terminal may wrap.
        if link:
            yield _STEP + link
    if explain:
        ranks = ", ".join(f"{name} {place}" for name, place in thread.ranks.items())
        yield shorten(f"{_STEP}place {number}, score {thread.score:.4f} ({ranks}), in {thread.found_in}", columns)


def _highlighted(text: str, highlights: Sequence[tuple[int, int]], columns: int) -> str:
    """Return a snippet with its hits in bold, cut to the width around the first of them."""
    begin = _begin(text, highlights, columns)
    pieces: list[tuple[str, bool]] = [("…", False)] if begin else []
    end = begin
    for opened, closed in highlights:
        pieces += [(text[end:opened], False), (text[opened:closed], True)]
        end = closed
    pieces.append((text[end:], False))
    line, room = "", columns
    for piece, is_hit in pieces:
        plain = _harmless(piece)
        shown = shorten(plain, room) if room > 0 else ""
        line += click.style(shown, bold=True) if is_hit and shown else shown
        if shown != plain:
            break
        room -= width(shown)
    return line


def _begin(text: str, highlights: Sequence[tuple[int, int]], columns: int) -> int:
    """Return where to start so that the first match is visible with some context."""
    if not highlights or highlights[0][1] <= columns * 2 // 3:
        return 0
    first = highlights[0][0]
    return text.rfind(" ", 0, max(first - columns // 3, 0)) + 1


def _harmless(text: str) -> str:
    lead = " " if text[:1] == " " else ""
    tail = " " if text[-1:] == " " and text.strip() else ""
    return f"{lead}{one_line(text)}{tail}"


def _explanation(found: SearchResults, query: Query, columns: int) -> Iterator[str]:
    if found.lexical is None:
        return
    gates = [term for gate in found.lexical.gates for term in gate.terms]
    yield ""
    yield shorten(f"mode {found.mode}; terms, rarest first:", columns)
    for entry in found.lexical.counted:
        mark = "  (used to select documents)" if entry.term in gates else ""
        yield shorten(f"{_STEP}{one_line(entry.term.text)}: {plural(entry.documents, 'document')}{mark}", columns)
    if query.names:
        yield shorten(f"{_STEP}also by name: {one_line(', '.join(query.names))}", columns)
