"""Print what a command returns: lines for people, the robot envelope for programs, and errors.

Robot mode prints exactly one JSON document on stdout: `{ok, data, meta}` or `{ok, error, meta}`. `data` is in its short
form unless `--full` is given, and `meta.untrusted` names the fields that hold other people's text. Also opens web pages
in the browser; addresses that are not http(s) are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import click
import msgspec
from msgspec import Struct

from tidelore import __version__
from tidelore.app.answers import ChosenFields, robot_form
from tidelore.cli.command import Choices, Invocation, choose_fields
from tidelore.cli.output.table import fit_lines, on_terminal, terminal_columns, wrap_line
from tidelore.core.clock import SystemClock, describe_age, format_instant
from tidelore.core.errors import NotFound, TideloreError, UserError
from tidelore.core.text import block, harmless

_BROWSER_SECONDS = 2.0
"""How long to wait for the program that looks for a browser; it fails within this time, or has found one."""


class Output(Struct):
    """The result of a command: `data` for programs, `lines` for people."""

    data: Any
    lines: Sequence[str] = ()
    error: TideloreError | None = None
    paged: bool = False
    """Whether a terminal shows the lines in the pager if they do not fit on it."""
    verbatim: bool = False
    """Whether the lines are for programs or to be copied, so that a terminal gets them as they are, however long."""


def render_output(answer: Output, invocation: Invocation, command: str) -> int:
    """Print an answer and return the exit code."""
    choices = invocation.choices
    if choices.robot:
        form = robot_form(_only_fields(answer.data, choices.fields), full=choices.full)
        document: dict[str, Any] = {"ok": answer.error is None}
        if answer.error is not None:
            document["error"] = _clean_error(answer.error)
        meta = _meta(choices, command)
        if form.untrusted:
            meta["untrusted"] = form.untrusted
        _print_json({**document, "data": form.value, "meta": meta})
    else:
        lines = answer.lines if answer.verbatim or answer.paged else fit_lines(answer.lines)
        if not (answer.paged and not choices.plain and _show_in_pager(lines, choices)):
            # At once: `echo` flushes each time.
            click.echo("".join(f"{line}\n" for line in lines), nl=False, color=_color(choices))
        if choices.left_out is not None:
            say_note(f"{plural(choices.left_out, 'text')} of people without write access left out (lockdown)")
        if answer.error is not None:
            _print_error(answer.error, choices)
    return 0 if answer.error is None else answer.error.exit_code


def say_note(text: str) -> None:
    """Print a note on stderr."""
    for line in wrap_line(f"note: {harmless(text)}", _error_columns(), margin=6):
        click.echo(line, err=True)


def _error_columns() -> int:
    """Return where lines on stderr are broken: at the width of the terminal, and nowhere else."""
    return terminal_columns(sys.stderr) if on_terminal(sys.stderr) else sys.maxsize


def prose_block(choices: Choices) -> Callable[[str, int, str], list[str]]:
    """Return what turns Markdown into lines: rendered on a terminal, as it is written with --plain and in a pipe."""
    if choices.robot or choices.plain or not on_terminal():
        return block
    from tidelore.core.markdown import markdown_block

    return markdown_block


def _show_in_pager(lines: Sequence[str], choices: Choices) -> bool:
    if not on_terminal():
        return False
    from tidelore.cli.output.pager import show_in_pager

    return show_in_pager(lines, color=_color(choices) is None)


def render_error(error: TideloreError, choices: Choices, command: str) -> int:
    """Print an error and return its exit code."""
    if choices.robot:
        _print_json({"ok": False, "error": _clean_error(error), "meta": _meta(choices, command)})
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


def _only_fields(data: Any, chosen: str | None) -> Any:
    """Return the fields of an answer, or of the items of a list, that --fields names; they were checked before."""
    if chosen is None or not isinstance(data, Struct):
        return data
    items = getattr(data, "items", None)
    if items is None:
        return ChosenFields.of(data, choose_fields(chosen, type(data)))
    named = [ChosenFields.of(item, choose_fields(chosen, type(item))) for item in items]
    return ChosenFields.of(data, data.__struct_fields__, items=named)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def _clean_error(error: TideloreError) -> dict[str, Any]:
    """Return an error as JSON values; all its fields are present, and hold no invisible characters."""
    fields = {
        "code": error.code,
        "message": error.message,
        "details": error.details,
        "retryable": error.retryable,
        "fix": error.fix,
    }
    return cast("dict[str, Any]", robot_form(fields, full=True).value)


def _meta(choices: Choices, command: str) -> dict[str, Any]:
    elapsed = (SystemClock().monotonic() - choices.started) * 1000
    fresh = choices.freshness
    age: dict[str, Any] = {} if fresh is None else {"age_seconds": fresh.age_seconds, "refreshed": fresh.refreshed}
    if fresh is not None and fresh.problem:
        age["refresh_error"] = fresh.problem
    if choices.left_out is not None:
        age["lockdown"] = {"left_out": choices.left_out}
    return {
        "command": command,
        "version": __version__,
        "elapsed_ms": round(elapsed),
        "synced_at": instant(choices.synced_at),
        **age,
    }


def _print_json(document: dict[str, Any]) -> None:
    # Written as bytes: JSON is UTF-8 regardless of the terminal's encoding.
    click.echo(msgspec.json.encode(document))


def _print_error(error: TideloreError, choices: Choices) -> None:
    columns = _error_columns()
    head = click.style("error:", fg="red", bold=True)
    lines = wrap_line(f"{head} {harmless(error.message)}", columns, margin=7)
    said = error.details.get("said")
    if isinstance(said, str):
        lines += wrap_line(f"{click.style('said:', bold=True)}  {harmless(_message_in(said))}", columns, margin=7)
    if error.fix:
        fix = f"{click.style('fix:', bold=True)}   {error.fix}"
        # A command is copied whole.
        lines += [fix] if error.fix.startswith(("lore ", "pip ")) else wrap_line(fix, columns, margin=7)
    for line in lines:
        click.echo(line, err=True, color=_color(choices))


def _message_in(said: str) -> str:
    """Return the message in what a server said about a refusal, which is usually JSON and may be cut."""
    import re

    named = re.search(r'"message"\s*:\s*"([^"\\]+)"', said)
    return named[1] if named else said


def _color(choices: Choices) -> bool | None:
    import os

    return None if choices.color and not os.environ.get("NO_COLOR") else False


def open_page(address: str | None) -> None:
    """Open the URL of an item. URLs come from remote systems, so only http(s) is allowed."""
    if address is None:
        raise NotFound("no item to open", fix="remove --open, or use a wider filter")
    if not address.startswith(("https://", "http://")):
        raise UserError(f"cannot open {address!r}: not a web address", fix="remove --open", address=address)
    if not start_browser(address):
        raise UserError(
            "no browser could be started on this machine", fix=f"open this address yourself: {address}", address=address
        )


def start_browser(address: str) -> bool:
    """Open an address in the browser and return whether that worked, without the messages of what looks for one."""
    import subprocess

    if sys.platform in ("darwin", "win32"):
        return click.launch(address) == 0
    try:
        started = subprocess.Popen(  # noqa: S603 - http(s) addresses only
            ["xdg-open", address],  # noqa: S607 - wherever the system has it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        import webbrowser

        return webbrowser.open(address)
    try:
        return started.wait(_BROWSER_SECONDS) == 0
    except subprocess.TimeoutExpired:
        # It became the browser, or waits for it.
        return True
