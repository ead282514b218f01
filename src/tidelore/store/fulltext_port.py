"""What a search may ask of a full text, whichever database holds it. Owns the words of that language.

Refuses syntax: terms are plain text, quoted or bound by the dialect modules, so no text can be read as an operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from tidelore.store.document_filter import DocumentFilter

OPENING, CLOSING = "\x02", "\x03"
"""What stands around each hit in a snippet; the texts themselves hardly ever hold these."""
SNIPPET_WORDS = 32
MOST_NAMED = 1_000


class Term(NamedTuple):
    """A word, or the words of a phrase in their order, as plain text."""

    text: str
    is_phrase: bool = False


class Gate(NamedTuple):
    """Which documents are ranked at all: those with any of these terms, or those with all of them."""

    terms: tuple[Term, ...]
    needs_all: bool = False


class Ask(Struct, frozen=True):
    """What is ranked: documents with any of `terms`, none of `excluded`, through the gate where there is one.

    `counts` says how many documents hold each term; `is_wide` that far more documents fit than pass the filter.
    """

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()
    gate: Gate | None = None
    counts: tuple[int, ...] = ()
    is_wide: bool = False


class Scored(NamedTuple):
    """A document and how well it fits; scores for the same terms compare, whatever the gate."""

    id: int
    score: float


class FullText(Protocol):
    """What every dialect's full text can do."""

    def count(self, term: Term, most: int) -> int:
        """Return how many documents hold a term, counted up to `most`."""
        ...

    def count_together(self, terms: Sequence[Term]) -> int:
        """Return how many documents hold all of these terms."""
        ...

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        """Return the documents that fit best, the best first."""
        ...

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return documents with a path or identifier that holds this: whole names first, then the newest."""
        ...

    def newest(self, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return the documents changed last."""
        ...

    def snippets(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        """Return for each document the part of its content that answers best, hits marked."""
        ...
