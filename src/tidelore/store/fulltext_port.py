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

    `counts` says how many documents hold each term; `is_narrow` that by its indexes the filter lets few pass.
    """

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()
    gate: Gate | None = None
    counts: tuple[int, ...] = ()
    is_narrow: bool = False


class Scored(NamedTuple):
    """A document and how well it fits; scores for the same terms compare, whatever the gate."""

    id: int
    score: float


class Share(NamedTuple):
    """Which share of all documents pass a filter: by the index of words, and by those of rows; 1 where none tells."""

    by_words: float = 1.0
    by_rows: float = 1.0

    @property
    def total(self) -> float:
        return self.by_words * self.by_rows


class FullText(Protocol):
    """What every dialect's full text can do."""

    def count(self, term: Term, most: int) -> int:
        """Return how many documents hold a term: exactly below `most`, above it about how many."""
        ...

    def count_together(self, terms: Sequence[Term]) -> int:
        """Return how many documents hold all of these terms."""
        ...

    def share(self, wanted: DocumentFilter) -> Share:
        """Return about which share of all documents pass a filter, as far as indexes tell at once."""
        ...

    def rank(self, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        """Return the documents that fit best, the best first; of many behind a filter no more than are worth it."""
        ...

    def find_named(self, name: str, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return documents with a path or identifier that holds this: whole names first, then the newest."""
        ...

    def newest(self, excluded: Sequence[Term], wanted: DocumentFilter, limit: int) -> list[int]:
        """Return the documents changed last."""
        ...

    def fitting(self, ids: Sequence[int], excluded: Sequence[Term], wanted: DocumentFilter) -> set[int]:
        """Return which of these documents pass a filter and hold none of the excluded terms."""
        ...

    def snippets(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, str]:
        """Return for each document the part of its content that answers best, hits marked."""
        ...
