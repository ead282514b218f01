"""Search the local copy: `lore search`, `lore similar`.

Responsible for the options, the page of results as data (fields, token budget, continuation token) and as text. A
page that exceeds its token budget is truncated; it always contains one item, whose snippet is shortened first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from tidelore.app.documents import rank_by_meaning
from tidelore.cli.command import Invocation, LoreCommand, invocation_of
from tidelore.cli.output.render import Output, ago, instant, open_page, plural
from tidelore.cli.output.table import line_columns
from tidelore.core.clock import SystemClock
from tidelore.core.content import digest
from tidelore.core.errors import NotFound, UserError
from tidelore.core.extras import extra_missing, require
from tidelore.core.references import parse_since
from tidelore.core.text import one_line, shorten, width
from tidelore.search.find import MODES, SearchRequest, SearchResults, find
from tidelore.search.fuse import Ranking
from tidelore.search.lexical import LexicalFinding
from tidelore.search.query import Query, parse_query, resolve_filters
from tidelore.search.results import ThreadResult
from tidelore.store.database.port import Database

if TYPE_CHECKING:
    from tidelore.core.references import Kind, PostReference, Reference


CHARACTERS_PER_TOKEN = 4
_ENVELOPE = 200
"""Characters reserved for the envelope around `data` and for a longer continuation token."""


class ResultPage(Struct, frozen=True):
    """The items of a page, and whether results were cut to fit the budget."""

    items: list[dict[str, Any]]
    truncated: bool = False


def item_of(thread: ThreadResult, fields: frozenset[str]) -> dict[str, Any]:
    """Return the chosen fields of a result."""
    item = {name: getattr(thread, name) for name in ThreadResult.__struct_fields__ if name in fields}
    if "updated_at" in item:
        item["updated_at"] = instant(thread.updated_at)
    return item


def fit(items: Sequence[dict[str, Any]], max_tokens: int | None, beside: dict[str, Any]) -> ResultPage:
    """Return as many items as the budget allows; `beside` contains the other fields of the output."""
    if max_tokens is None:
        return ResultPage(list(items))
    room = max_tokens * CHARACTERS_PER_TOKEN - _ENVELOPE - _size(beside)
    kept: list[dict[str, Any]] = []
    for item in items:
        room -= _size(item)
        if room < 0 and kept:
            return ResultPage(kept, truncated=True)
        if room < 0:
            kept.append(_without_snippet(item))
            return ResultPage(kept, truncated=True)
        kept.append(item)
    return ResultPage(kept)


def read_fields(text: str | None) -> frozenset[str]:
    """Return the requested fields; all of them by default."""
    known = frozenset(ThreadResult.__struct_fields__)
    if text is None:
        return known
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - known:
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - known)) or 'no field given'}",
            fix="use any of: " + ", ".join(ThreadResult.__struct_fields__),
            fields=text,
        )
    return chosen


def encode_token(place: int, query: Query, written: Sequence[tuple[str, str]]) -> str:
    """Return the continuation token for a position in the results of a query."""
    return f"{place}-{_mark(query, written)}"


def read_token(text: str, query: Query, written: Sequence[tuple[str, str]]) -> int:
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


def _without_snippet(item: dict[str, Any]) -> dict[str, Any]:
    emptied = {"snippet": "", "highlights": ()}
    return {name: emptied.get(name, value) for name, value in item.items()}


def _size(item: dict[str, Any]) -> int:
    return len(msgspec.json.encode(item, enc_hook=str).decode()) + 1


_STEP = "  "
_SHORTEST_TITLE = 20


def result_lines(found: SearchResults, query: Query, start: int, *, explain: bool) -> list[str]:
    """Return the page of results as text; only URLs may be wider than the terminal."""
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
        lines += _ranking_line(found, query, columns)
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
        # A URL is not cut, because it would no longer work; it may wrap instead.
        if link:
            yield _STEP + link
    if explain:
        ranks = ", ".join(f"{name} {place}" for name, place in thread.ranks.items())
        yield shorten(f"{_STEP}place {number}, score {thread.score:.4f} ({ranks}), in {thread.found_in}", columns)


def _highlighted(text: str, highlights: Sequence[tuple[int, int]], columns: int) -> str:
    """Return a snippet with its matches in bold, cut to the width around the first match."""
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


def _ranking_line(found: SearchResults, query: Query, columns: int) -> Iterator[str]:
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


_SEARCHED_TYPES = ("issue", "mr", "discussion", "post")
_OPTIONS = ("type", "project", "author", "state", "since", "path")


def _narrowing(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--type", type=click.Choice(_SEARCHED_TYPES), help="Only results of this type."),
        click.option("-p", "--project", metavar="PATH", help="Only this project (path or unambiguous ending)."),
        click.option("--author", metavar="USER", help="Only threads this user wrote in."),
        click.option(
            "--label", "labels", multiple=True, metavar="NAME", help="Only items with this label (repeatable)."
        ),
        click.option(
            "--state",
            type=click.Choice(["opened", "closed", "merged", "locked", "all"]),
            help="Only items in this state.",
        ),
        click.option("--since", metavar="WHEN", help="Only items updated since: 12h, 7d, 2w or 2026-03-01."),
        click.option("--path", metavar="PART", help="Only results about a path that contains this text."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("search", cls=LoreCommand, example="lore search 'why do we keep old rows' --type mr")
@click.argument("words", metavar="[QUERY]...", nargs=-1)
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="hybrid",
    help="Match by words and meaning, by words, or by meaning.",
)
@_narrowing
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@click.option("--after", metavar="TOKEN", help="Continue after the page that returned this `data.next`.")
@click.option("--max-tokens", type=click.IntRange(256), help="With --robot: limit the answer to this number of tokens.")
@click.option("--explain", is_flag=True, help="Explain the ranking.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.option("--open", "in_browser", is_flag=True, help="Open the first item in the browser.")
@click.pass_context
def search_command(ctx: click.Context, /, words: tuple[str, ...], **wanted: Any) -> Output:
    """Search issues, merge requests, discussions and posts.

    QUERY is words, "quoted phrases", -excluded words and filters such as label:bug or since:7d. By default, matches by
    words and by meaning.
    """
    invocation = invocation_of(ctx)
    invocation.choices.robot |= wanted["as_json"]
    chosen = read_fields(wanted["fields"])
    query = parse_query(" ".join(words))
    written = _written(query, wanted)
    start = read_token(wanted["after"], query, written) if wanted["after"] else 0
    database = invocation.open_store()
    try:
        asked = resolve_filters(database, written, lambda text: parse_since(text, SystemClock().now_ms()))
        request = SearchRequest(query=query, wanted=asked, mode=wanted["mode"], limit=wanted["limit"], start=start)
        meaning = rank_by_meaning(invocation.app(), database, query.text if request.mode != "lexical" else "")
        if meaning.extra is not None and request.mode == "semantic":
            raise extra_missing(meaning.extra, "search by meaning")
        found = find(database, request, meaning.ranker, meaning.notice)
    finally:
        database.close()
    if wanted["in_browser"]:
        open_page(found.threads[0].web_url if found.threads else None)
    if invocation.choices.robot:
        beside = _beside(found, explain=wanted["explain"])
        page = fit([item_of(thread, chosen) for thread in found.threads], wanted["max_tokens"], beside)
        end = start + len(page.items)
        token = encode_token(end, query, written) if end < found.total else None
        return Output({"items": page.items, "next": token, "truncated": page.truncated, **beside})
    _tell(invocation, found.notices)
    return Output(None, result_lines(found, query, start, explain=wanted["explain"]))


def _written(query: Query, wanted: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the filters of the query merged with those given as options."""
    options = [(name, wanted[name]) for name in _OPTIONS if wanted[name] is not None]
    return [*query.fields, *options, *(("label", label) for label in wanted["labels"])]


def _beside(found: SearchResults, *, explain: bool) -> dict[str, Any]:
    """Return the fields of the output other than the items."""
    return {
        "total": found.total,
        "total_is_lower_bound": found.is_cut,
        "mode": found.mode,
        "notice": "; ".join(found.notices) or None,
        "explain": _explanation(found) if explain else None,
    }


def _explanation(found: SearchResults) -> dict[str, Any]:
    lexical = found.lexical or LexicalFinding(Ranking("lexical", ()))
    return {
        "terms": [{"text": entry.term.text, "documents": entry.documents} for entry in lexical.counted],
        "gates": [{"terms": [term.text for term in gate.terms], "needs_all": gate.needs_all} for gate in lexical.gates],
    }


def _tell(invocation: Invocation, notices: Sequence[str]) -> None:
    if not invocation.choices.quiet:
        for notice in notices:
            click.echo(f"note: {notice}", err=True)


_SIMILAR_TYPES: dict[Kind, str] = {"issue": "issue", "mr": "merge_request"}


@click.command("similar", cls=LoreCommand, example="lore similar 'group/project!12'")
@click.argument("reference", metavar="REF")
@click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending).")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=10, help="Number of threads to show.")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.pass_context
def similar_command(ctx: click.Context, /, reference: str, **wanted: Any) -> Output:
    """Find threads similar to an issue, merge request or post.

    REF is '#12', '!12', 'group/project!12', a URL, an at:// URI, or a number that only one kind of item has. Compares
    stored embeddings (see `lore embed`) and needs no network.
    """
    from tidelore.store.reading.posts import resolve_post

    require("vectors", "`lore similar`", ["numpy"])
    from tidelore.search.semantic import find_similar
    from tidelore.store.reading.documents import ThreadKey

    invocation = invocation_of(ctx)
    invocation.choices.robot |= wanted["as_json"]
    chosen = read_fields(wanted["fields"])
    post = _post_reading(reference)
    meant = {} if post is not None else _readings(reference)
    default = invocation.app().config.default_project
    database = invocation.open_store()
    try:
        if post is not None:
            thread = ThreadKey("post", resolve_post(database, post))
        else:
            kind, row_id = _resolved(database, reference, meant, wanted["project"], default)
            thread = ThreadKey(_SIMILAR_TYPES[kind], row_id)
        threads = find_similar(database, thread, wanted["limit"])
    finally:
        database.close()
    if invocation.choices.robot:
        return Output({"items": [item_of(thread, chosen) for thread in threads], "total": len(threads), "next": None})
    found = SearchResults(threads, len(threads), "semantic")
    return Output(None, result_lines(found, Query(), 0, explain=False))


def _post_reading(reference: str) -> PostReference | None:
    """Return the parsed post reference, or None if it is something else."""
    from tidelore.core.references import parse_post_reference

    try:
        return parse_post_reference(reference)
    except UserError:
        return None


def _readings(reference: str) -> dict[Kind, Reference]:
    """Return the possible meanings of a reference: a bare number can be an issue or a merge request."""
    from tidelore.core.references import KINDS, parse_reference

    found: dict[Kind, Reference] = {}
    refused: UserError | None = None
    for kind in KINDS:
        try:
            found[kind] = parse_reference(reference, kind)
        except UserError as error:
            refused = error
    if not found and refused is not None:
        raise UserError(
            f"could not parse {reference!r} as an issue, merge request or post",
            fix="use #12 for an issue, !12 for a merge request, group/project!12, a URL, or at://… for a post",
            reference=reference,
        )
    return found


def _resolved(
    database: Database, reference: str, meant: dict[Kind, Reference], project: str | None, default: str
) -> tuple[Kind, int]:
    from tidelore.core.references import SIGNS
    from tidelore.store.reading.conversations import resolve

    rows: dict[Kind, int] = {}
    missing: NotFound | None = None
    for kind, reading in meant.items():
        try:
            rows[kind] = resolve(database, kind, reading, project=project, default=default)
        except NotFound as error:
            missing = missing or error
    if not rows and missing is not None:
        raise missing
    if len(rows) > 1:
        both = " or ".join(f"'{SIGNS[kind]}{reading.iid}'" for kind, reading in meant.items())
        raise UserError(f"{reference} is both an issue and a merge request", fix=f"use {both}", reference=reference)
    ((kind, row_id),) = rows.items()
    return kind, row_id
