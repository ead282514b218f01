"""The query language and its field filters.

Words are alternatives, "quoted words" a phrase, -word excludes, `field:value` filters; anything else is a word. Every
text is a valid query, and no character of it reaches a database as syntax. A field in the query and the option of the
same name are the same filter; two values for one field are refused, except labels, which must all be present.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from tidelore.core.errors import UserError
from tidelore.core.patterns import late_pattern
from tidelore.core.words import is_unspaced, parts_to_ask, split_scripts
from tidelore.store.database.port import Database
from tidelore.store.reading.fulltext import DocumentFilter, Term

_WORDS = """
a about after again all also am an and any are aren as at be because been before being below between both but by
can could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have
haven having he her here hers him his how i if in into is isn it its itself just ll m me more most my no nor not
now o of off on once only or other our ours out over own re s same she should shouldn so some such t than that the
their theirs them then there these they this those through to too under until up us ve very was wasn we were weren
what when where which while who whom why will with won would wouldn y you your yours
"""
STOP_WORDS = frozenset(_WORDS.split())


FIELDS = ("author", "label", "state", "type", "project", "path", "since")
MOST_TERMS = 32
MOST_NAMES = 4
LONGEST_TERM = 200
_LONGEST_QUERY = 10_000

_PIECE = late_pattern(
    rf"""(?P<minus>-(?=[\w"]))?                  # only before something to leave out: `--flag` is a word
        (?:(?P<field>{"|".join(FIELDS)}):)?
        (?:"(?P<phrase>[^"]*)(?:"|$)|(?P<word>[^\s"]+))""",
    re.VERBOSE | re.IGNORECASE,
)
# Looks like a field; `std::vector`, `https://…` and `C:\\dir` do not.
_FIELD_LIKE = late_pattern(r"([A-Za-z][A-Za-z_-]*):(?=[^\s:/\\])")
_UNREADABLE = late_pattern("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_PART = late_pattern(r"[^\W_]+")
_BORDER = ",;:.!?()[]{}<>'`*#@"
_IDENTIFIER = late_pattern(r"(?=.*[^\W\d_])(?:.*\w(?:::|[./_:])+\w|.*[a-z][A-Z])", re.DOTALL)
# The identifier index needs at least three consecutive characters.
_FINDABLE = late_pattern(r"[^%_]{3}")


class Query(Struct, frozen=True):
    """A parsed query. `names` are its words that look like identifiers or paths; `fields` are as written.

    `unknown_fields` are words written like a field that does not exist; they are searched as words.
    """

    terms: tuple[Term, ...] = ()
    excluded: tuple[Term, ...] = ()
    names: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    text: str = ""
    unknown_fields: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.terms or self.excluded or self.fields)


def parse_query(text: str) -> Query:
    """Parse a query; every text is valid."""
    clean = text[:_LONGEST_QUERY]
    if not clean.isprintable():
        clean = _UNREADABLE.sub(" ", clean)
    wanted: list[Term] = []
    common: list[Term] = []
    excluded: list[Term] = []
    names: list[str] = []
    fields: list[tuple[str, str]] = []
    spoken: list[str] = []
    unknown: list[str] = []
    for piece in _pieces(clean):
        value = piece.word or "" if piece.phrase is None else piece.phrase.strip()
        if piece.field and value and not piece.is_excluded:
            fields.append((piece.field.lower(), value))
            continue
        whole = piece.text.lstrip("-") if piece.field else value
        if piece.is_excluded:
            excluded += _exact(whole)
            continue
        if piece.word and not piece.field and ":" in clean and (like := _FIELD_LIKE.match(clean, piece.start)):
            unknown.append(like[1].lower())
        spoken.append(whole)
        if piece.phrase is not None and not piece.field:
            # A phrase even if it is a single word: such a word is not corrected.
            wanted += (Term(term.text, is_phrase=True) for term in _exact(whole))
        else:
            for term in _word(whole):
                (common if term.text.lower() in STOP_WORDS else wanted).append(term)
            names += _names(whole)
    return Query(
        terms=_each_once(wanted or common),
        excluded=_each_once(excluded),
        names=tuple(dict.fromkeys(names))[:MOST_NAMES],
        fields=tuple(fields),
        text=" ".join(spoken),
        unknown_fields=tuple(dict.fromkeys(unknown)),
    )


class _Piece(Struct, frozen=True):
    """A part of a query as it is written, from `start` on: a word or a phrase, perhaps of a field."""

    text: str
    word: str | None
    phrase: str | None = None
    field: str | None = None
    is_excluded: bool = False
    start: int = 0


def _pieces(text: str) -> Iterator[_Piece]:
    if not any(mark in text for mark in '":-'):
        # Only words; compiling the pattern takes longer than parsing them.
        yield from (_Piece(word, word) for word in text.split())
        return
    for found in _PIECE.finditer(text):
        is_excluded = found["minus"] is not None
        yield _Piece(found[0], found["word"], found["phrase"], found["field"], is_excluded, found.start())


def is_identifier(word: str) -> bool:
    """Return whether a word looks like an identifier or a path."""
    return not _is_ordinary(word) and _IDENTIFIER.match(word) is not None


def _is_ordinary(word: str) -> bool:
    """Return whether a word has only ASCII letters and digits, and no capital after its first letter.

    Most words are like this, and compiling the patterns that split the others takes longer than parsing a query.
    """
    return word.isascii() and word.isalnum() and word[1:] == word[1:].lower()


def _exact(text: str) -> Iterator[Term]:
    """Yield the text as one term: a phrase, or a word if it is a single word."""
    parts = _parts(text)
    if parts:
        yield Term(text[:LONGEST_TERM], is_phrase=len(parts) > 1)


def _word(word: str) -> Iterator[Term]:
    """Yield the terms of one word: its parts, and before them the whole word if it is an identifier."""
    name = word.strip(_BORDER)
    parts = _parts(word)
    if is_identifier(name) and len(parts) > 1:
        yield Term(name[:LONGEST_TERM], is_phrase=True)
    for part in parts:
        for piece in split_scripts(part) if is_unspaced(part) else (part,):
            asked = parts_to_ask(piece[:LONGEST_TERM]) if is_unspaced(piece) else (piece[:LONGEST_TERM],)
            yield from (Term(text, is_phrase=False) for text in asked)


def _parts(text: str) -> list[str]:
    return [text] if _is_ordinary(text) else _PART.findall(text)


def _names(word: str) -> Iterator[str]:
    name = word.strip(_BORDER)[:LONGEST_TERM]
    if is_identifier(name) and _FINDABLE.search(name):
        yield name


def _each_once(terms: Iterable[Term]) -> tuple[Term, ...]:
    found: dict[tuple[str, bool], Term] = {}
    for term in terms:
        found.setdefault((term.text.casefold(), term.is_phrase), term)
    return tuple(found.values())[:MOST_TERMS]


TYPES = {
    "issue": "issue",
    "mr": "merge_request",
    "merge_request": "merge_request",
    "discussion": "discussion",
    "topic": "topic",
    "post": "post",
}
STATES = {"opened": "opened", "open": "opened", "closed": "closed", "merged": "merged", "locked": "locked", "all": None}
_LONGEST_PATH = 1_000


def resolve_filters(
    database: Database, written: Iterable[tuple[str, str]], read_since: Callable[[str], int]
) -> DocumentFilter:
    """Return the filter for these fields, or raise UserError for an invalid one."""
    values: dict[str, str] = {}
    labels: dict[str, None] = {}
    for name, value in written:
        if name == "label":
            labels[value] = None
        elif values.setdefault(name, value) != value:
            raise UserError(f"{name} was given twice: {values[name]} and {value}", fix="remove one of them", field=name)
    since, path = values.get("since"), values.get("path")
    if path is not None and len(path) > _LONGEST_PATH:
        raise UserError("the path is too long", fix=f"give at most {_LONGEST_PATH:,} characters of it")
    return DocumentFilter(
        type=_chosen("type", values.get("type"), TYPES),
        project_id=_project_id(database, values["project"]) if "project" in values else None,
        author=values["author"].removeprefix("@") if "author" in values else None,
        labels=tuple(labels),
        state=_chosen("state", values.get("state"), STATES),
        since=None if since is None else read_since(since),
        path=path,
    )


def _project_id(database: Database, written: str) -> int:
    from tidelore.store.mirror.projects import match_project

    return match_project(database, written).id


def _chosen(name: str, value: str | None, choices: dict[str, str] | dict[str, str | None]) -> str | None:
    if value is None:
        return None
    if value.lower() not in choices:
        raise UserError(f"invalid value for {name}: {value!r}", fix=f"use one of: {', '.join(choices)}", field=name)
    return choices[value.lower()]
