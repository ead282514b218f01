"""The query language. Pure: text goes in, terms and field filters come out; owns what every sign means.

Words are alternatives, "quoted words" a phrase, -word leaves out, `field:value` narrows; everything else is a word.
What comes out holds plain text: no sign of it is ever read as syntax by a database. Any text is a query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from tidelore.search.stop_words import STOP_WORDS
from tidelore.store.reading.fulltext import Term

FIELDS = ("author", "label", "state", "type", "project", "path", "since")
MOST_TERMS = 32
MOST_NAMES = 4
LONGEST_TERM = 200
_LONGEST_QUERY = 10_000

_PIECE = re.compile(
    rf"""(?P<minus>-(?=[\w"]))?                  # only before something to leave out: `--flag` is a word
        (?:(?P<field>{"|".join(FIELDS)}):)?
        (?:"(?P<phrase>[^"]*)(?:"|$)|(?P<word>[^\s"]+))""",
    re.VERBOSE | re.IGNORECASE,
)
# Written like a field; `std::vector`, `https://…` and `C:\\dir` are not.
_FIELD_LIKE = re.compile(r"([A-Za-z][A-Za-z_-]*):(?=[^\s:/\\])")
_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_PART = re.compile(r"[^\W_]+")
_BORDER = ",;:.!?()[]{}<>'`*#@"
_IDENTIFIER = re.compile(r"(?=.*[^\W\d_])(?:.*\w(?:::|[./_:])+\w|.*[a-z][A-Z])", re.DOTALL)
# The index of identifiers knows no shorter run of characters.
_FINDABLE = re.compile(r"[^%_]{3}")


class Query(Struct, frozen=True):
    """A query understood. `names` are its words that look like identifiers or paths; `fields` are as written.

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
    """Read a query; no text is refused."""
    clean = _UNREADABLE.sub(" ", text[:_LONGEST_QUERY])
    wanted: list[Term] = []
    common: list[Term] = []
    excluded: list[Term] = []
    names: list[str] = []
    fields: list[tuple[str, str]] = []
    spoken: list[str] = []
    unknown: list[str] = []
    for piece in _PIECE.finditer(clean):
        value = piece["word"] if piece["phrase"] is None else piece["phrase"].strip()
        if piece["field"] and value and not piece["minus"]:
            fields.append((piece["field"].lower(), value))
            continue
        whole = piece[0].lstrip("-") if piece["field"] else value
        if piece["minus"]:
            excluded += _exact(whole)
            continue
        if piece["word"] and not piece["field"] and (like := _FIELD_LIKE.match(clean, piece.start())):
            unknown.append(like[1].lower())
        spoken.append(whole)
        if piece["phrase"] is not None and not piece["field"]:
            wanted += _exact(whole)
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


def is_identifier(word: str) -> bool:
    """Return whether a word looks like a name in a program, or a path."""
    return _IDENTIFIER.match(word) is not None


def _exact(text: str) -> Iterator[Term]:
    """Yield a phrase; one of a single word is that word."""
    parts = _PART.findall(text)
    if parts:
        yield Term(text[:LONGEST_TERM], is_phrase=len(parts) > 1)


def _word(word: str) -> Iterator[Term]:
    """Yield the terms of one written word: an identifier as a whole, and always its parts."""
    name = word.strip(_BORDER)
    parts = _PART.findall(word)
    if is_identifier(name) and len(parts) > 1:
        yield Term(name[:LONGEST_TERM], is_phrase=True)
    yield from (Term(part[:LONGEST_TERM], is_phrase=False) for part in parts)


def _names(word: str) -> Iterator[str]:
    name = word.strip(_BORDER)[:LONGEST_TERM]
    if is_identifier(name) and _FINDABLE.search(name):
        yield name


def _each_once(terms: Iterable[Term]) -> tuple[Term, ...]:
    found: dict[tuple[str, bool], Term] = {}
    for term in terms:
        found.setdefault((term.text.casefold(), term.is_phrase), term)
    return tuple(found.values())[:MOST_TERMS]
