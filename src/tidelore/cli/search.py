"""Search the local copy: `lore search`.

Responsible for the options and the page of results as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from tidelore.app.searching import (
    MODES,
    Explanation,
    FoundThread,
    SearchPage,
    SearchQuestion,
    search,
)
from tidelore.app.wiring import App
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import (
    after_option,
    freshness_options,
    item_fields,
    json_option,
    label_option,
    lockdown_option,
    max_tokens_option,
    only_project,
    open_first,
    refresh_first,
    since_filter,
)
from tidelore.cli.output.render import Output, ago, open_page, plural, say_note
from tidelore.cli.output.table import line_columns
from tidelore.core.errors import UserError
from tidelore.core.text import one_line, shorten, width, without_markdown

_STEP = "  "
_SHORTEST_TITLE = 20


def result_lines(page: SearchPage) -> list[str]:
    """Return the page of results as text; only URLs may be wider than the terminal."""
    if not page.items:
        beyond = " more" if page.start else ""
        return [f"No{beyond} matches."]
    columns = line_columns()
    lines = []
    for number, thread in enumerate(page.items, page.start + 1):
        lines += [*_thread(thread, columns), *_score_line(page, thread, number, columns), ""]
    left = page.total - page.start - len(page.items)
    if left > 0:
        least = "at least " if page.total_is_lower_bound else ""
        lines.append(shorten(f"({least}{plural(left, 'more thread')}: see --limit)", columns))
    if page.explain is not None and page.mode != "semantic":
        lines += _ranking_lines(page.mode, page.explain, columns)
    return lines if lines[-1] else lines[:-1]


def _thread(thread: FoundThread, columns: int) -> Iterator[str]:
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
    facts = f"{_STEP}{'new, ' if thread.new else ''}{thread.state}, {ago(thread.updated_at)}"
    if thread.further:
        facts += f", {plural(thread.further, 'further hit')}"
    link = one_line(thread.web_url or "")
    if link and width(facts) + len(_STEP) + width(link) <= columns:
        yield f"{facts}{_STEP}{link}"
    else:
        yield shorten(facts, columns)
        # A URL is not cut, because it would no longer work; it may wrap instead.
        if link:
            yield _STEP + link


def _score_line(page: SearchPage, thread: FoundThread, number: int, columns: int) -> Iterator[str]:
    if page.explain is not None:
        ranks = ", ".join(f"{name} {place}" for name, place in thread.ranks.items())
        yield shorten(f"{_STEP}place {number}, score {thread.score:.4f} ({ranks}), in {thread.found_in}", columns)


def _highlighted(text: str, highlights: Sequence[tuple[int, int]], columns: int) -> str:
    """Return a snippet without its Markdown, with its matches in bold, cut to the width around the first match."""
    text, highlights = without_markdown(text, highlights)
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


def _ranking_lines(mode: str, explain: Explanation, columns: int) -> Iterator[str]:
    gates = [term for gate in explain.gates for term in gate.terms]
    yield ""
    yield shorten(f"mode {mode}; terms, rarest first:", columns)
    for entry in explain.terms:
        mark = "  (used to select documents)" if entry.text in gates else ""
        yield shorten(f"{_STEP}{one_line(entry.text)}: {plural(entry.documents, 'document')}{mark}", columns)
    if explain.names:
        yield shorten(f"{_STEP}also by name: {one_line(', '.join(explain.names))}", columns)


_SEARCHED_TYPES = ("issue", "mr", "discussion", "topic", "post")


@lore_command("search", example="lore search 'why do we keep old rows' --type mr", answer=SearchPage)
@click.argument("words", metavar="[QUERY]...", nargs=-1)
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="hybrid",
    help="Match by words and meaning, by words, or by meaning.",
)
@click.option("--type", type=click.Choice(_SEARCHED_TYPES), help="Only results of this type.")
@only_project
@click.option("--author", metavar="USER", help="Only threads this user wrote in.")
@label_option
@click.option(
    "--state", type=click.Choice(["opened", "closed", "merged", "locked", "all"]), help="Only items in this state."
)
@since_filter("items")
@click.option("--path", metavar="PART", help="Only results about a path that contains this text.")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@after_option
@max_tokens_option
@lockdown_option
@freshness_options
@click.option("--explain", is_flag=True, help="Explain the ranking.")
@item_fields
@click.option("--save", metavar="NAME", help="Save the query with its filters under this name.")
@click.option("--saved", metavar="NAME", help="Run the search saved under this name, and mark new results.")
@click.option("--new", "only_new", is_flag=True, help="With --saved: show only new results.")
@json_option
@open_first
def search_command(invocation: Invocation, /, words: tuple[str, ...], **wanted: Any) -> Output:
    """Search issues, merge requests, discussions and posts.

    QUERY is words, "quoted phrases", -excluded words and filters such as label:bug or since:7d. By default, matches by
    words and by meaning.

    `--save NAME` saves a search; `--saved NAME` runs it again and marks results that were not among the first 100 of
    the last time. `lore searches` lists the saved ones.

    `--max-age` refreshes the items that would be shown, at most 20, and searches again; posts are not refreshed.
    """
    robot, in_browser = invocation.choices.robot, wanted.pop("in_browser")
    chosen, budget = invocation.fields(FoundThread), wanted.pop("max_tokens")
    _refresh_found(invocation, " ".join(words), wanted)
    page = _run(invocation.app(), " ".join(words), wanted, fields=chosen, max_tokens=budget if robot else None)
    if in_browser:
        open_page(page.items[0].web_url if page.items else None)
    if robot:
        return Output(page)
    if page.notice and not invocation.choices.quiet:
        say_note(page.notice)
    return Output(page, result_lines(page))


def _refresh_found(invocation: Invocation, text: str, wanted: dict[str, Any]) -> None:
    """With --max-age, refresh the items that a search finds."""
    age = {name: wanted.pop(name) for name in ("max_age", "max_wait")}
    if age["max_age"] is None:
        return
    if wanted["saved"] is not None:
        # Running it twice would mark nothing as new.
        raise UserError("--max-age cannot be used with --saved", fix="remove one of them")
    asked = {name: value for name, value in wanted.items() if name in SearchQuestion.__struct_fields__}
    found = search(invocation.app(), SearchQuestion(text=text, **asked)).items
    refresh_first(invocation, age, [item.reference for item in found if item.type != "post"], None)


def _run(app: App, text: str, wanted: dict[str, Any], **limits: Any) -> SearchPage:
    """Search, save the search if that is wanted, or run a saved one."""
    name, saved, only_new = wanted.pop("save"), wanted.pop("saved"), wanted.pop("only_new")
    if only_new and saved is None:
        raise UserError("--new belongs to --saved", fix="add --saved NAME, or leave --new out")
    if name is None and saved is None:
        return search(app, SearchQuestion(text=text, **wanted, **limits))
    from tidelore.app.reading.saved_searches import run_saved, save

    if saved is None:
        return save(app, name, SearchQuestion(text=text, **wanted, **limits))
    if text or name is not None or wanted["after"] is not None:
        raise UserError("--saved takes no query, --save or --after", fix=f"use `lore search --saved {saved}`")
    return run_saved(app, saved, SearchQuestion(text="", limit=wanted["limit"], **limits), only_new=only_new)
