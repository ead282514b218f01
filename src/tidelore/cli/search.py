"""`lore search`: searches the local copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from tidelore.app.documents import rank_by_meaning
from tidelore.cli.browser import open_page
from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.cli.search_page import encode_token, fit, item_of, read_fields, read_token
from tidelore.cli.search_text import result_lines
from tidelore.core.clock import SystemClock
from tidelore.core.extras import extra_missing
from tidelore.core.references import parse_since
from tidelore.search.find import MODES, SearchRequest, SearchResults, find
from tidelore.search.fuse import Ranking
from tidelore.search.lexical import LexicalFinding
from tidelore.search.query import Query, parse_query, resolve_filters

_TYPES = ("issue", "mr", "discussion", "post")
_OPTIONS = ("type", "project", "author", "state", "since", "path")


def _narrowing(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--type", type=click.Choice(_TYPES), help="Only results of this type."),
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
def command(ctx: click.Context, /, words: tuple[str, ...], **wanted: Any) -> Answer:
    """Search issues, merge requests, discussions and posts.

    QUERY is words, "quoted phrases", -excluded words and filters such as label:bug or since:7d. By default, matches by
    words and by meaning.
    """
    face = face_of(ctx)
    face.choices.robot |= wanted["as_json"]
    chosen = read_fields(wanted["fields"])
    query = parse_query(" ".join(words))
    written = _written(query, wanted)
    start = read_token(wanted["after"], query, written) if wanted["after"] else 0
    database = face.open_store()
    try:
        asked = resolve_filters(database, written, lambda text: parse_since(text, SystemClock().now_ms()))
        request = SearchRequest(query=query, wanted=asked, mode=wanted["mode"], limit=wanted["limit"], start=start)
        meaning = rank_by_meaning(face.app(), database, query.text if request.mode != "lexical" else "")
        if meaning.extra is not None and request.mode == "semantic":
            raise extra_missing(meaning.extra, "search by meaning")
        found = find(database, request, meaning.ranker, meaning.notice)
    finally:
        database.close()
    if wanted["in_browser"]:
        open_page(found.threads[0].web_url if found.threads else None)
    if face.choices.robot:
        beside = _beside(found, explain=wanted["explain"])
        page = fit([item_of(thread, chosen) for thread in found.threads], wanted["max_tokens"], beside)
        end = start + len(page.items)
        token = encode_token(end, query, written) if end < found.total else None
        return Answer({"items": page.items, "next": token, "truncated": page.truncated, **beside})
    _tell(face, found.notices)
    return Answer(None, result_lines(found, query, start, explain=wanted["explain"]))


def _written(query: Query, wanted: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the filters of the query merged with those given as options."""
    options = [(name, wanted[name]) for name in _OPTIONS if wanted[name] is not None]
    return [*query.fields, *options, *(("label", label) for label in wanted["labels"])]


def _beside(found: SearchResults, *, explain: bool) -> dict[str, Any]:
    """Return the fields of the answer beside the items."""
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


def _tell(face: Face, notices: Sequence[str]) -> None:
    if not face.choices.quiet:
        for notice in notices:
            click.echo(f"note: {notice}", err=True)
