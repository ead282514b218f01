"""Parse and authorise operator commands.

Grammar: `/lore name key=value key="two words"` on the first line of a comment; names are case-insensitive. A command
that cannot be parsed is answered with the list of commands and never partly run. Also decides who is an operator and
when a command has expired. Pure: no I/O; `actions.py` runs the commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

Permission = Literal["allowed", "refused", "ignored"]

_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
_SHA = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_BOT = re.compile(r".*\[bot\]|(project|group)_[0-9]+_bot.*|service_account_.*", re.IGNORECASE | re.DOTALL)
"""The names of bots on GitHub, and of the accounts behind access tokens and of service accounts on GitLab."""
_SHOWN = 60
_LONGEST_LINE = 1000
"""More than any command needs. Limited because quoted text is parsed character by character."""


class Shape(Struct, frozen=True):
    """The definition of a command: its purpose and its keys."""

    purpose: str
    keys: tuple[str, ...] = ()


COMMANDS: Mapping[str, Shape] = MappingProxyType(
    {
        "help": Shape("show these commands"),
        "status": Shape("show the status of this pull request", ("pr",)),
        "unblock": Shape("unblock a pull request, at its current head or at head_sha", ("pr", "head_sha")),
        "retry": Shape("retry failed events now", ("pr", "issue")),
        "pause": Shape("pause delivery; events are still collected", ("pr",)),
        "resume": Shape("resume delivery after a pause", ("pr",)),
        "sync": Shape("fetch the whole thread again at the next poll", ("pr",)),
    }
)

_RULES: Mapping[str, tuple[Callable[[str], object], str]] = MappingProxyType(
    {
        "pr": (_NUMBER.fullmatch, "the number of a pull request"),
        "issue": (_NUMBER.fullmatch, "the number of an issue"),
        "head_sha": (_SHA.fullmatch, "a commit, 7 to 64 hex digits"),
    }
)


class Command(Struct, frozen=True):
    """A parsed command. With a `problem`, it is answered but not run."""

    name: str
    args: Mapping[str, str]
    problem: str | None = None


def is_command(body: str, prefix: str) -> bool:
    """Return whether a body is a command: its first line begins with the prefix as a separate word."""
    line = _first_line(body)
    return line == prefix or (line.startswith(prefix) and line[len(prefix)].isspace())


def parse_command(body: str, prefix: str) -> Command | None:
    """Return the command in a body, or None if it is not a command."""
    if not is_command(body, prefix):
        return None
    rest = _first_line(body)[len(prefix) :]
    if len(rest) > _LONGEST_LINE:
        return Command("", {}, f"a command has at most {_LONGEST_LINE:,} characters")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return Command("", {}, f"could not parse the line: {str(error).lower()}")
    if not words:
        return Command("help", {})
    name = words[0].casefold()
    if name not in COMMANDS:
        return Command(_shown(words[0]), {}, f"unknown command {_shown(words[0])!r}")
    return _with_args(name, words[1:])


def help_text(prefix: str) -> str:
    """Return the list of commands, as posted in answers."""
    lines = [
        f"- `{' '.join((prefix, name, *(f'[{key}=…]' for key in shape.keys)))}`: {shape.purpose}"
        for name, shape in COMMANDS.items()
    ]
    return "\n".join(("Commands, on the first line of a comment:", "", *lines))


def is_bot(author: str | None, flagged: bool) -> bool:  # noqa: FBT001 - as the server reports it
    """Return whether an account is a bot, by the server's flag or by its name."""
    return flagged or (author is not None and _BOT.fullmatch(author) is not None)


def authorise(author: str | None, flagged_bot: bool, operators: Iterable[str]) -> Permission:  # noqa: FBT001
    """Return whether an author may run commands. Bots and deleted accounts are ignored and get no answer."""
    if author is None or is_bot(author, flagged_bot):
        return "ignored"
    return "allowed" if author.casefold() in {name.casefold() for name in operators} else "refused"


def is_expired(commented_at: int, blocked_at: int | None) -> bool:
    """Return whether a command was written before its thread became blocked.

    The server's times are whole seconds: a command written in the same second as the block is not expired.
    """
    return blocked_at is not None and commented_at // 1000 < blocked_at // 1000


def _with_args(name: str, words: list[str]) -> Command:
    known = COMMANDS[name].keys
    args: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.casefold()
        if not equals:
            return Command(name, {}, f"{_shown(word)!r} is not of the form key=value")
        if key not in known:
            takes = f"takes {', '.join(f'{one}=' for one in known)}" if known else "takes no keys"
            return Command(name, {}, f"`{name}` {takes}, not {_shown(key)!r}")
        if key in args:
            return Command(name, {}, f"{key}= is given twice")
        is_valid, wanted = _RULES[key]
        if not is_valid(value):
            return Command(name, {}, f"{key}= takes {wanted}, not {_shown(value)!r}")
        args[key] = value.lower() if key == "head_sha" else value
    return Command(name, args)


def _first_line(body: str) -> str:
    return body.split("\n", 1)[0].rstrip()


def _shown(text: str) -> str:
    """Return user input in a form that is safe to quote in an answer: no markup, no mentions, truncated."""
    plain = "".join(letter if letter.isprintable() and letter not in "`@<>" else "?" for letter in text)
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"
