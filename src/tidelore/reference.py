"""References people write: 12, #12, !12, group/project!12, or a web address. Pure; owns their reading.

Refuses what it cannot read, naming the forms it takes, and a reference to the other kind, naming the right command.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from tidelore.errors import UserError

Kind = Literal["issue", "mr"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SIGNS: dict[Kind, str] = {"issue": "#", "mr": "!"}
NOUNS: dict[Kind, str] = {"issue": "an issue", "mr": "a merge request"}

_NUMBER = r"([0-9]{1,18})"
_SEGMENT = r"(?!-/)[\w.+~-]+"
_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*"
_WRITTEN = re.compile(rf"(?:({_PATH})?([#!]))?{_NUMBER}")
_PAGES: dict[str, Kind] = {"issues": "issue", "work_items": "issue", "merge_requests": "mr", "pull": "mr"}
_PAGE = rf"({'|'.join(_PAGES)})(?:/incident)?/{_NUMBER}(?:[/?#].*)?"
# GitLab parts the project from its pages by `/-/`; old addresses and GitHub do not, and a project may be called
# `issues`. So the unmistakable form is tried first.
_ADDRESSES = tuple(
    re.compile(rf"(https?://[^/\s?#]+/({_PATH})){parting}{_PAGE}", re.IGNORECASE) for parting in ("/-/", "/")
)


class Reference(Struct, frozen=True):
    """What was meant: a number; the project where it was named; that project's web address where one was given."""

    iid: int
    project: str | None = None
    address: str | None = None


def parse_reference(text: str, kind: Kind) -> Reference:
    """Read a reference to an issue ('issue') or a merge request ('mr')."""
    word = text.strip()
    found = read_reference(word)
    if found is not None:
        meant, reference = found
        if meant not in (None, kind):
            raise _wrong_kind(word, kind, reference)
        return reference
    sign = SIGNS[kind]
    raise UserError(
        f"could not parse {text!r} as {NOUNS[kind]}",
        fix=f"use a number, {sign}12, group/project{sign}12 or a URL",
        reference=text,
    )


def read_reference(word: str) -> tuple[Kind | None, Reference] | None:
    """Return what a reference means and, where its form tells, to what kind it leads; None when it is none."""
    return _read_written(word) or _read_address(word)


def other_kind(kind: Kind) -> Kind:
    """Return the kind that is not this one."""
    return "mr" if kind == "issue" else "issue"


def _read_written(word: str) -> tuple[Kind | None, Reference] | None:
    match = _WRITTEN.fullmatch(word)
    if match is None:
        return None
    kind = next((kind for kind in KINDS if SIGNS[kind] == match[2]), None)
    return kind, Reference(int(match[3]), match[1])


def _read_address(word: str) -> tuple[Kind | None, Reference] | None:
    for pattern in _ADDRESSES:
        match = pattern.fullmatch(word)
        if match is not None:
            return _PAGES[match[3].lower()], Reference(int(match[4]), match[2], match[1])
    return None


def _wrong_kind(word: str, kind: Kind, reference: Reference) -> UserError:
    # Quoted, because shells take `#`, `!`, `?` and `&` for themselves.
    again = f"'{word}'" if reference.project else str(reference.iid)
    return UserError(
        f"{word} is not {NOUNS[kind]}",
        fix=f"use `lore show {other_kind(kind)} {again}`",
        reference=word,
    )
