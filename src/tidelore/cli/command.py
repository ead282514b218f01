"""The base of all commands: global options, command classes with an example in their help, and `Invocation`.

`Invocation` gives a command the application and the global options. `lore --robot CMD` and `lore CMD
--robot` mean the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from tidelore.app.wiring import App, load_settings
from tidelore.core.clock import SharedClock, SystemClock
from tidelore.core.config_file import config_path
from tidelore.core.errors import UserError

if TYPE_CHECKING:
    from tidelore.app.reading.refreshing import Freshness

GROUPS = frozenset(
    {
        "accounts",
        "cursors",
        "export",
        "feedback",
        "hooks",
        "list",
        "poll",
        "searches",
        "show",
        "sources",
        "stream",
        "sync-runs",
    }
)


_OWN_SUBCOMMANDS = {"sync-runs": "show", "sources": "accept", "searches": "remove"}
"""The subcommands of groups that can also be called by themselves."""


class Choices:
    """The global options of one invocation, given before or after the command."""

    def __init__(
        self,
        *,
        seam: Callable[[Any], None] = lambda _seam: None,
        robot: bool = False,
        verbose: bool = False,
    ) -> None:
        self.config: str | None = None
        self.db: str | None = None
        self.robot = robot
        self.full = False
        self.fields: str | None = None
        self.color = True
        self.plain = False
        self.verbose = verbose
        self.quiet = False
        self.seam = seam
        self.started = SystemClock().monotonic()
        self.synced_at: int | None = None
        self.freshness: Freshness | None = None
        self.lockdown = False
        self.left_out: int | None = None

    def note_synced(self, synced_at: int | None) -> None:
        """Remember the end of the last successful sync, for `meta.synced_at`."""
        self.synced_at = synced_at

    def note_left_out(self, texts: int) -> None:
        """Count the texts that a lockdown left out, for `meta.lockdown`."""
        self.left_out = (self.left_out or 0) + texts


class Invocation:
    """One invocation of the program: gives a command the application and the global options."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def app(self) -> App:
        """Return the application with its settings."""
        choices = self.choices
        settings = load_settings(choices.config)
        if choices.lockdown and not settings.lockdown:
            from msgspec.structs import replace

            settings = replace(settings, lockdown=True)
        return App(
            settings,
            os.environ,
            db=choices.db,
            clock=SharedClock(SystemClock()),
            seam=choices.seam,
            on_reading=choices.note_synced,
            on_left_out=choices.note_left_out,
        )

    def logged_app(self) -> App:
        """Return the application, with logs set up for a command that uses the network."""
        from tidelore.cli.output.logs import set_up_logging

        app, choices = self.app(), self.choices
        set_up_logging(app.config, verbose=choices.verbose, quiet=choices.quiet or choices.robot)
        return app

    def log_as_service(self, app: App) -> None:
        """Set up logs for a program that runs until it is stopped; called again with new settings."""
        from tidelore.cli.output.logs import set_up_logging

        choices = self.choices
        set_up_logging(app.config, verbose=choices.verbose, quiet=choices.quiet or choices.robot, service=True)

    def fields(self, shape: type[Struct]) -> frozenset[str]:
        """Return the fields of a Struct that --fields names; all of them without it."""
        return choose_fields(self.choices.fields, shape)

    @property
    def config_file(self) -> str:
        """The path of the configuration file."""
        return config_path(self.choices.config, os.environ)

    @property
    def interactive(self) -> bool:
        """Whether progress may be drawn: only on a terminal, not with --quiet or --robot."""
        return sys.stderr.isatty() and not self.choices.robot and not self.choices.quiet


def choose_fields(text: str | None, shape: type[Struct]) -> frozenset[str]:
    """Return the fields that a text names; all of them for None."""
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


def _listed_shape(answer: type[Struct]) -> type[Struct]:
    """Return what --fields chooses from: the items of a list, or else the answer."""
    from typing import get_args

    items = next((field.type for field in structs.fields(answer) if field.name == "items"), None)
    while items is not None and get_args(items):
        items = get_args(items)[0]
    return answer if items is None else items


def set_choice(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            choices: Choices = ctx.ensure_object(Choices)
            setattr(choices, name, value if name != "color" else False)

    return callback


def global_options() -> list[click.Parameter]:
    """Return the options that every command accepts."""
    return list(_global_options())


@cache
def _global_options() -> tuple[click.Parameter, ...]:
    """Return the same options for every command: making them takes as long as making the rest of a command."""
    return (
        click.Option(
            ["--config"],
            metavar="FILE",
            expose_value=False,
            callback=set_choice("config"),
            help="Configuration file (also LORE_CONFIG).",
        ),
        click.Option(
            ["--db"],
            metavar="PATH|URL",
            expose_value=False,
            callback=set_choice("db"),
            help="Database file or postgresql:// URL (also LORE_DB).",
        ),
        _flag("--robot", "robot", "Print one JSON document on stdout."),
        _flag("--full", "full", "With --robot: include empty fields and commit SHAs."),
        _flag("--no-color", "color", "Disable colours (also NO_COLOR)."),
        _flag("--plain", "plain", "On a terminal: no pager, and Markdown as it is written."),
        _flag("-v/--verbose", "verbose", "Log every request to stderr and show tracebacks."),
        _flag("-q/--quiet", "quiet", "Hide progress."),
    )


def _flag(names: str, target: str, text: str) -> click.Option:
    return click.Option(names.split("/"), is_flag=True, expose_value=False, callback=set_choice(target), help=text)


class LoreCommand(click.Command):
    """A command with an example in its help that also accepts the global options.

    Its function is called with the invocation and the command's own options. `answer` is the type of its `data` in
    robot mode, from which `lore robot-docs` describes its fields.
    """

    def __init__(self, *args: Any, example: str, answer: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.answer = answer
        # A few commands have a `--full` that means a full reading; there the global one stands before the command.
        own = {name for parameter in self.params for name in parameter.opts}
        self.params.extend(option for option in _global_options() if own.isdisjoint(option.opts))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        assert self.callback is not None, "every command has a function"
        invocation = invocation_of(ctx)
        if invocation.choices.fields is not None:
            invocation.fields(_listed_shape(self.answer))
        return ctx.invoke(self.callback, invocation, **ctx.params)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example below the options."""
        _write_example(self.example, formatter)
        super().format_epilog(ctx, formatter)


class LoreGroup(click.Group):
    """A group of commands with an example in its help; `answer` as in `LoreCommand` if it can be called itself."""

    command_class = LoreCommand

    def __init__(self, *args: Any, example: str, answer: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.answer = answer

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example below the commands."""
        _write_example(self.example, formatter)
        super().format_epilog(ctx, formatter)


def lore_command(name: str, **about: Any) -> Callable[[Callable[..., Any]], LoreCommand]:
    """Make a function a command, with the arguments of `LoreCommand`."""
    return click.command(name, cls=LoreCommand, **about)


def lore_group(name: str, summary: str, *, example: str, cls: type[LoreGroup] = LoreGroup) -> LoreGroup:
    """Return a group that only has commands; called without one, it prints its help."""
    return cls(name, help=summary, no_args_is_help=True, params=global_options(), example=example)


def _write_example(example: str, formatter: click.HelpFormatter) -> None:
    formatter.write(f"\nExample:\n  {example}\n")


def invocation_of(ctx: click.Context) -> Invocation:
    """Return the current invocation."""
    return Invocation(ctx.ensure_object(Choices))


def command_path(argv: Sequence[str]) -> str:
    """Return the name of the command in a command line, for `meta.command`."""
    words: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif word in {"--config", "--db"}:
            skip = True
        elif not word.startswith("-"):
            # These groups can be called without a subcommand, so the next word may be the value of an option.
            if not words or words[0] not in _OWN_SUBCOMMANDS or word == _OWN_SUBCOMMANDS[words[0]]:
                words.append(word)
            if words[0] not in GROUPS or (len(words) > 1 and words != ["feedback", "blocked"]):
                break
    return " ".join(words) or "lore"
