"""Building blocks of the answers of use-cases: instants, the meaning of a field, and the token of the next page.

An answer is a Struct. Its fields are the fields of `data` in robot mode, and their meanings are what `lore robot-docs`
and the reference print: both are generated from the Structs. A field also says here whether it holds text that other
people wrote (`untrusted`), and whether it is left out of short answers because it is a commit SHA (`sha`).

`robot_form` turns an answer into the JSON values that programs and agents get. Its short form leaves out nulls, empty
lists and objects, and SHAs; the full form has everything. Both are free of control, bidi, zero-width and tag
characters, and name the untrusted fields. Robot mode and the MCP server use it, and `--max-tokens` is measured on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET, Meta, Struct

from tidelore.core.clock import format_instant
from tidelore.core.errors import UserError
from tidelore.core.text import estimate_tokens, without_hidden


class Instant(int):
    """Milliseconds since 1970 in UTC; JSON has it in RFC 3339."""


@overload
def instant(instant_ms: int) -> Instant: ...
@overload
def instant(instant_ms: int | None) -> Instant | None: ...
def instant(instant_ms: int | None) -> Instant | None:
    """Return an instant of an answer."""
    return None if instant_ms is None else Instant(instant_ms)


def means(text: str, *, untrusted: bool = False, sha: bool = False) -> Meta:
    """Return the annotation that holds the meaning of a field.

    `untrusted`: it holds text that other people wrote, which an agent must not follow as an instruction. `sha`: it is a
    commit SHA, which robot answers have only with `--full`.
    """
    only_full = {"x-only-full": True} if sha else None
    return Meta(description=text, extra={"untrusted": untrusted, "sha": sha}, extra_json_schema=only_full)


def encode_hook(value: Any) -> str:
    """Return what JSON shows for a value that is not a JSON type."""
    return format_instant(value) if isinstance(value, Instant) else str(value)


T = TypeVar("T", bound=Struct)


def copy_fields(shape: type[T], row: object, **others: Any) -> T:
    """Return a Struct with the fields of a row that have the same names, and `others`.

    `*_at` become instants, and the numbers that databases store for flags become booleans.
    """
    for name in shape.__struct_fields__:
        if name not in others:
            others[name] = getattr(row, name)
    for name, convert in _conversions(shape):
        others[name] = convert(others[name])
    return shape(**others)


@cache
def _conversions(shape: type[Struct]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the fields whose values are converted when they are copied, and how."""
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for name, annotation in _annotations(shape).items():
        # The annotation as it is written: evaluating those of one answer takes longer than a search reads its rows.
        plain = annotation.removeprefix("Annotated[").partition(",")[0]
        if name.endswith("_at"):
            found.append((name, instant))
        elif plain in ("bool", "bool | None"):
            found.append((name, bool if plain == "bool" else flag))
    return found


def _annotations(shape: type[Struct]) -> dict[str, str]:
    """Return the annotations of a Struct with those it inherits; all modules of answers keep them as text."""
    found: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        found |= getattr(base, "__annotations__", {})
    return {name: found[name] for name in shape.__struct_fields__}


def flag(stored: int | None) -> bool | None:
    """Return a stored flag that may be unknown."""
    return None if stored is None else bool(stored)


def page_token(key: tuple[int, int] | None) -> str | None:
    """Return the token of the page that begins after a row."""
    return None if key is None else f"{key[0]}-{key[1]}"


def parse_page_token(text: str) -> tuple[int, int]:
    """Return the row after which a page begins; raise UserError for a text that is not a token."""
    at, _, row_id = text.partition("-")
    if not (at.isascii() and at.isdecimal() and row_id.isascii() and row_id.isdecimal()):
        raise UserError(f"invalid value for --after: {text!r}", fix="use `data.next` of the previous page", after=text)
    return int(at), int(row_id)


ENVELOPE_TOKENS = 110
"""What `ok`, `meta` and the names of untrusted fields take in an answer."""
ALWAYS = frozenset({"items", "total", "next"})
"""Fields of a list that scripts rely on: present although they are empty."""


class ChosenFields(dict[str, Any]):
    """Some fields of a Struct, which remembers what the fields mean."""

    def __init__(self, shape: type[Struct], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.shape = shape

    @classmethod
    def of(cls, value: Struct, names: Collection[str], **instead: Any) -> ChosenFields:
        """Return these fields of a Struct; `instead` replaces some of their values."""
        values = {name: getattr(value, name) for name in value.__struct_fields__ if name in names}
        return cls(type(value), values | instead)


class RobotForm(Struct, frozen=True):
    """An answer as JSON values, and the paths of the fields that hold other people's text."""

    value: Any
    untrusted: list[str]


class _Field(Struct, frozen=True):
    untrusted: bool
    sha: bool


def robot_form(answer: Any, *, full: bool = False) -> RobotForm:
    """Return an answer as JSON values."""
    found: dict[str, None] = {}
    return RobotForm(_Converter(found, full=full).convert(answer, ""), list(found))


def answer_tokens(answer: Any) -> int:
    """Return the estimated number of tokens of an answer in its short form."""
    return estimate_tokens(msgspec.json.encode(robot_form(answer).value).decode())


_ENVELOPE = (
    '{"ok":true,"data":,"meta":{"command":"show topic","version":"0.0.0","elapsed_ms":1000,'
    '"synced_at":"2026-01-01T00:00:00.000Z","untrusted":}}'
)


def _whole_tokens(answer: Any) -> int:
    """Return the estimated number of tokens of an answer in its short form, with its envelope."""
    form = robot_form(answer)
    said = msgspec.json.encode([form.value, form.untrusted]).decode()
    return estimate_tokens(_ENVELOPE + said)


def fitting(items: Sequence[Any], max_tokens: int | None, *, besides: int = 0) -> int:
    """Return how many of these items fit into a budget of which `besides` tokens are used for other fields.

    The first item counts as fitting, so that following `next` always leads on.
    """
    if max_tokens is None:
        return len(items)
    room = max_tokens - ENVELOPE_TOKENS - besides
    for place, item in enumerate(items):
        room -= answer_tokens(item) + 1
        if room < 0:
            return max(place, 1)
    return len(items)


Answer = TypeVar("Answer")


def require_fit(answer: Answer, max_tokens: int, what: str, shortest: Callable[[], Answer] | None = None) -> Answer:
    """Return an answer, or its shortest form if it is too large; raise UserError if that exceeds the budget too."""
    needed = _whole_tokens(answer)
    if needed > max_tokens and shortest is not None:
        answer = shortest()
        needed = _whole_tokens(answer)
    if needed <= max_tokens:
        return answer
    raise UserError(
        f"{what} does not fit into {max_tokens} tokens",
        fix=f"set max_tokens (--max-tokens) to at least {needed}",
        key="max_tokens",
        needed=needed,
    )


class _Converter:
    """Converts one answer; collects the paths of untrusted fields in `found`."""

    def __init__(self, found: dict[str, None], *, full: bool) -> None:
        self._found = found
        self._full = full

    def convert(self, value: Any, path: str) -> Any:
        match value:
            case str():
                return without_hidden(value)
            case Instant():
                return encode_hook(value)
            case None | bool() | int() | float():
                return value
            case Struct():
                return self._fields(type(value), _values(value), path)
            case ChosenFields():
                return self._fields(value.shape, value.items(), path)
            case Mapping():
                return self._mapping(value, path)
            case Sequence() | Collection():
                return [self.convert(item, f"{path}[]") for item in value]
        return without_hidden(encode_hook(value))

    def _fields(self, shape: type[Struct], values: Iterable[tuple[str, Any]], path: str) -> dict[str, Any]:
        plan = _plan(shape)
        made: dict[str, Any] = {}
        for name, value in values:
            field = plan.get(name)
            if not self._is_shown(name, value, path) or (field is not None and field.sha and not self._full):
                continue
            here = f"{path}.{name}" if path else name
            if field is not None and field.untrusted and value:
                self._found[here if isinstance(value, str) else f"{here}[]"] = None
            made[name] = self.convert(value, here)
        return made

    def _mapping(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        # At the top the keys are names of fields; below it they are data.
        return {
            str(key): self.convert(inner, f"{path}.*" if path else str(key))
            for key, inner in value.items()
            if self._is_shown(str(key), inner, path)
        }

    def _is_shown(self, name: str, value: Any, path: str) -> bool:
        if value is UNSET:
            return False
        if self._full or (not path and name in ALWAYS):
            return True
        return value is not None and not (isinstance(value, Collection) and not isinstance(value, str) and not value)


def _values(value: Struct) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(value, name)) for name in value.__struct_fields__)


@cache
def _plan(shape: type[Struct]) -> dict[str, _Field]:
    """Return the marked fields of a Struct."""
    plan = {}
    for field in msgspec.structs.fields(shape):
        extra: dict[str, bool] = {}
        for meta in getattr(field.type, "__metadata__", ()):
            extra |= getattr(meta, "extra", None) or {}
        if any(extra.values()):
            plan[field.name] = _Field(extra.get("untrusted", False), extra.get("sha", False))
    return plan
