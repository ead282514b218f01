"""Building blocks of the answers of use-cases: instants, the meaning of a field, and the token of the next page.

An answer is a Struct. Its fields are the fields of `data` in robot mode, and their meanings are what `lore robot-docs`
and the reference print: both are generated from the Structs.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from msgspec import Meta, Struct

from tidelore.core.clock import format_instant
from tidelore.core.errors import UserError


class Instant(int):
    """Milliseconds since 1970 in UTC; JSON has it in RFC 3339."""


@overload
def instant(instant_ms: int) -> Instant: ...
@overload
def instant(instant_ms: int | None) -> Instant | None: ...
def instant(instant_ms: int | None) -> Instant | None:
    """Return an instant of an answer."""
    return None if instant_ms is None else Instant(instant_ms)


def means(text: str) -> Meta:
    """Return the annotation that holds the meaning of a field."""
    return Meta(description=text)


def encode_hook(value: Any) -> str:
    """Return what JSON shows for a value that is not a JSON type."""
    return format_instant(value) if isinstance(value, Instant) else str(value)


T = TypeVar("T", bound=Struct)


def copy_fields(shape: type[T], row: Struct, **others: Any) -> T:
    """Return a Struct with the fields of a row that have the same names, and `others`; `*_at` become instants."""
    found = {name: getattr(row, name) for name in shape.__struct_fields__ if name not in others}
    return shape(**{name: instant(found[name]) if name.endswith("_at") else found[name] for name in found}, **others)


def page_token(key: tuple[int, int] | None) -> str | None:
    """Return the token of the page that begins after a row."""
    return None if key is None else f"{key[0]}-{key[1]}"


def parse_page_token(text: str) -> tuple[int, int]:
    """Return the row after which a page begins; raise UserError for a text that is not a token."""
    at, _, row_id = text.partition("-")
    if not (at.isascii() and at.isdecimal() and row_id.isascii() and row_id.isdecimal()):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    return int(at), int(row_id)
