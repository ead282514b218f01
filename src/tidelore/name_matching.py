"""Which one is meant. Owns the rule by which people name things: a whole name, or an unambiguous ending of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelore.errors import NotFound, UserError

T = TypeVar("T")


def match_one(wanted: str, candidates: Sequence[T], names: Callable[[T], Sequence[str]], what: str) -> T:
    """Return the one candidate that is meant; the first of its `names` is the one shown to people."""
    exact = [candidate for candidate in candidates if wanted in names(candidate)]
    found = exact or [candidate for candidate in candidates if names(candidate)[0].endswith(f"/{wanted}")]
    if len(found) == 1:
        return found[0]
    shown = [names(candidate)[0] for candidate in found or candidates]
    if not found:
        raise NotFound(
            f"no {what} matches {wanted!r}", fix=f"known {what}s: {', '.join(shown) or 'none yet'}", wanted=wanted
        )
    raise UserError(
        f"{wanted!r} matches {len(found)} {what}s",
        fix="name one of: " + ", ".join(shown),
        wanted=wanted,
        candidates=shown,
    )
