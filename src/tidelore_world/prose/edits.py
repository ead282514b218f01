"""Edits: what a person changes in a text after it was sent.

Owns the kinds of edit. Invariant: the result always differs from the text it was made from, and an
edited title stays a single line of moderate length.
"""

from __future__ import annotations

import re

from .dice import Dice

_TITLE_LIMIT = 200
_SWAPS: tuple[tuple[str, str], ...] = (
    ("we will", "we'll"),
    ("cannot", "can't"),
    ("about", "roughly"),
    ("because", "since"),
    (" and ", " & "),
    ("I would", "I'd"),
    ("does not", "doesn't"),
    ("behaviour", "behavior"),
)
_ADDENDA: tuple[str, ...] = (
    "Edit: numbers corrected after a second run ({n} samples).",
    "Edit: added the link to INC-{n}.",
    "_Update_: confirmed on staging, {n} of {n} runs.",
    "**Update**: the customer agrees, see #{n}.",
    "Edit: typo. Thanks for spotting it!",
    "PS: the query is in the notebook, cell {n}.",
    "Update, {n} minutes later: also seen in the second region.",
)
_ASIDES: tuple[str, ...] = ("follow-up", "again", "second part", "clarified", "regression", "part {n}")
_ASIDE = re.compile(r" \([^()]*\)$")
_NUMBER = re.compile(r"(?<![\w#!.,/-])\d{2,4}(?![\w.,/-])")


def revise(dice: Dice, text: str) -> str:
    """Edit a text; it always differs afterwards."""
    if _looks_like_title(text):
        return _revise_title(dice, text)
    kind = dice.between(0, 5)
    if kind == 0:
        edited = _swap(dice, text)
    elif kind == 1:
        edited = _NUMBER.sub(lambda found: str(int(found[0]) + dice.between(1, 9)), text, count=1)
    elif kind == 2:
        edited = text.rstrip()
    else:
        edited = text
    return edited if edited != text else _append(dice, text)


def _looks_like_title(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text) <= _TITLE_LIMIT and text[-1] not in ".!`*"


def _revise_title(dice: Dice, title: str) -> str:
    plain = _ASIDE.sub("", title)
    if plain != title and plain:
        return plain
    room = title[: _TITLE_LIMIT - 20].rstrip()
    return f"{room} ({dice.pick(_ASIDES).format(n=dice.between(2, 9))})"


def _swap(dice: Dice, text: str) -> str:
    fitting = [swap for swap in _SWAPS if swap[0] in text]
    return text.replace(*dice.pick(fitting), 1) if fitting else text


def _append(dice: Dice, text: str) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    addendum = dice.pick(_ADDENDA).format(n=dice.between(2, 4000))
    return f"{text}{line_end * 2 if text else ''}{addendum}"
