"""Print what a command returns: lines for people, the robot envelope for programs, and errors.

Robot mode prints exactly one JSON document on stdout: `{ok, data, meta}` or `{ok, error, meta}`. Also opens web
pages in the browser; addresses that are not http(s) are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from tidelore import __version__
from tidelore.app.answers import encode_hook
from tidelore.cli.command import Choices, Invocation
from tidelore.cli.output.table import on_terminal
from tidelore.core.clock import SystemClock, describe_age, format_instant
from tidelore.core.errors import NotFound, TideloreError, UserError
from tidelore.core.text import harmless, without_hidden


class Output(Struct):
    """The result of a command: `data` for programs, `lines` for people."""

    data: Any
    lines: Sequence[str] = ()
    error: TideloreError | None = None


def render_output(answer: Output, invocation: Invocation, command: str) -> int:
    """Print an answer and return the exit code."""
    choices = invocation.choices
    if choices.robot:
        if answer.error is not None:
            document = {"ok": False, "error": _error(answer.error), "data": answer.data}
        else:
            document = {"ok": True, "data": answer.data}
        _print_json({**document, "meta": _meta(choices, command)})
    else:
        for line in answer.lines:
            click.echo(line, color=_color(choices))
        if answer.error is not None:
            _print_error(answer.error, choices)
    return 0 if answer.error is None else answer.error.exit_code


def render_error(error: TideloreError, choices: Choices, command: str) -> int:
    """Print an error and return its exit code."""
    if choices.robot:
        _print_json({"ok": False, "error": _error(error), "meta": _meta(choices, command)})
    else:
        _print_error(error, choices)
    return error.exit_code


def ago(instant_ms: int | None) -> str:
    """Return how long ago an instant was."""
    if instant_ms is None:
        return "never"
    return f"{describe_age((SystemClock().now_ms() - instant_ms) / 1000)} ago"


def when(instant_ms: int | None) -> str:
    """Return an instant for a table: its age on a terminal, the exact time in a pipe."""
    return ago(instant_ms) if on_terminal() else instant(instant_ms) or "-"


def instant(instant_ms: int | None) -> str | None:
    """Return an instant in RFC 3339, or None."""
    return None if instant_ms is None else format_instant(instant_ms)


def choose_fields(text: str | None, shape: type[Struct]) -> frozenset[str]:
    """Return the fields that --fields names; all of them without it."""
    known = shape.__struct_fields__
    if text is None:
        return frozenset(known)
    chosen = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not chosen or chosen - set(known):
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - set(known))) or 'no field given'}",
            fix="use any of: " + ", ".join(known),
            fields=text,
        )
    return chosen


def only_fields(item: Struct, chosen: frozenset[str]) -> dict[str, Any]:
    """Return the chosen fields of a Struct."""
    return {name: getattr(item, name) for name in item.__struct_fields__ if name in chosen}


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def _error(error: TideloreError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "details": error.details,
        "retryable": error.retryable,
        "fix": error.fix,
    }


def _meta(choices: Choices, command: str) -> dict[str, Any]:
    elapsed = (SystemClock().monotonic() - choices.started) * 1000
    return {
        "command": command,
        "version": __version__,
        "elapsed_ms": round(elapsed),
        "synced_at": instant(choices.synced_at),
    }


def _print_json(document: dict[str, Any]) -> None:
    encoded = msgspec.json.encode(document, enc_hook=encode_hook)
    if not encoded.isascii() or b"\\u00" in encoded:
        encoded = msgspec.json.encode(_without_hidden(msgspec.json.decode(encoded)))
    # Written as bytes: JSON is UTF-8 regardless of the terminal's encoding.
    click.echo(encoded)


def _without_hidden(value: Any) -> Any:
    """Return a JSON value without invisible characters, which could carry hidden instructions for agents."""
    if isinstance(value, str):
        return without_hidden(value)
    if isinstance(value, list):
        return [_without_hidden(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_hidden(item) for name, item in value.items()}
    return value


def _print_error(error: TideloreError, choices: Choices) -> None:
    head = click.style("error:", fg="red", bold=True)
    click.echo(f"{head} {harmless(error.message)}", err=True, color=_color(choices))
    if error.fix:
        click.echo(f"{click.style('fix:', bold=True)}   {error.fix}", err=True, color=_color(choices))


def _color(choices: Choices) -> bool | None:
    import os

    return None if choices.color and not os.environ.get("NO_COLOR") else False


def open_page(address: str | None) -> None:
    """Open the URL of an item. URLs come from remote systems, so only http(s) is allowed."""
    if address is None:
        raise NotFound("no item to open", fix="remove --open, or use a wider filter")
    if not address.startswith(("https://", "http://")):
        raise UserError(f"cannot open {address!r}: not a web address", fix="remove --open", address=address)
    click.launch(address)
