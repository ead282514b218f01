"""The command `lore`. Owns the list of commands, loaded only when called, and the one exit of the program.

Data goes to stdout, progress and logs to stderr. Whatever happens, one renderer speaks and the exit code
is the documented one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence

import click

from tidelore import __version__
from tidelore.cli.face import Choices, Face, command_path, global_options
from tidelore.cli.render import Answer, render_answer, render_error
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.errors import EXIT_CODES, Cancelled, TideloreError, UserError

COMPLETION = "_LORE_COMPLETE"
COMMANDS = {
    "init": ("tidelore.cli.init", "Write a configuration file."),
    "doctor": ("tidelore.cli.doctor", "Check the configuration, the database and every source."),
    "sync": ("tidelore.cli.sync", "Bring everything up to date: lists, children, documents."),
    "ingest": ("tidelore.cli.ingest", "Mirror issues or merge requests of the configured projects."),
    "poll": ("tidelore.cli.poll", "Ask for what is new: of accounts, of pull requests."),
    "feedback": ("tidelore.cli.feedback", "Follow pull requests, take what is said on them, and answer."),
    "service": ("tidelore.cli.service", "Look after everything that is configured, until told to stop."),
    "console": ("tidelore.cli.console", "Be the service, and watch it on this terminal."),
    "top": ("tidelore.cli.top", "Watch somebody else's service on this terminal."),
    "stream": ("tidelore.cli.stream", "Be told what is new: of accounts."),
    "accounts": ("tidelore.cli.accounts", "Whom you follow on Bluesky."),
    "generate-docs": ("tidelore.cli.generate_docs", "Make the documents of what changed."),
    "embed": ("tidelore.cli.embed", "Make the vectors of documents that have none."),
    "scrub": ("tidelore.cli.scrub", "Verify what is stored against the remote lists."),
    "audit": ("tidelore.cli.audit", "Compare the copy with the remote, whole."),
    "list": ("tidelore.cli.listing", "List issues, merge requests or posts of the copy."),
    "show": ("tidelore.cli.show", "Show one issue, merge request or post with what was said."),
    "search": ("tidelore.cli.search", "Search the copy by words and by meaning."),
    "trending": ("tidelore.cli.trending", "Show which links most people shared."),
    "count": ("tidelore.cli.count", "Count what the copy holds."),
    "similar": ("tidelore.cli.similar", "Find threads like an issue or a merge request."),
    "file-history": ("tidelore.cli.file_history", "Show which merge requests changed a file."),
    "status": ("tidelore.cli.status", "Show the service, its jobs, what waits and the newest runs."),
    "sync-status": ("tidelore.cli.sync_status", "Show how far every list has been read."),
    "sync-runs": ("tidelore.cli.sync_runs", "List the runs of the ledger, or show one."),
    "cursors": ("tidelore.cli.cursors", "List, show or reset reading positions."),
    "metrics": ("tidelore.cli.metrics", "Print everything that is measured, for Prometheus."),
    "check": ("tidelore.cli.check", "Verify the database against its invariants."),
    "demo": ("tidelore_world.demo.command", "Mirror a simulated world and compare the copy with its truth."),
    "simulate": ("tidelore_world.demo.simulate", "Serve a simulated GitLab, GitHub and Bluesky on this machine."),
    "robot-docs": ("tidelore.cli.robot_docs", "Describe every command for programs."),
    "completions": ("tidelore.cli.completions", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry[0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            raise UserError(
                f"no such command: {args[0]}",
                fix=f"did you mean `lore {near[0]}`?" if near else "`lore --help` lists the commands",
                command=args[0],
            )
        return super().resolve_command(ctx, args)


@click.command(
    cls=LazyGroup,
    name="lore",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A complete, queryable local copy of the conversations you follow.",
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}.",
    params=global_options(),
)
@click.version_option(__version__, prog_name="lore", message="%(prog)s %(version)s")
def lore() -> None:
    pass


def main(argv: Sequence[str], seam: Crashpoint = no_seam) -> int:
    """Run one command and return its exit code. `seam` lets the crash tests die at a named instant."""
    choices = Choices(seam=seam, robot="--robot" in argv, verbose="--verbose" in argv or "-v" in argv)
    try:
        answer = _invoke(_greeted(argv, choices), choices)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as bare:
        if not choices.robot:
            click.echo(bare.format_message(), err=True)
            return bare.exit_code
        return render_error(UserError("no command was given", fix="`lore --help` lists them"), choices, "lore")
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the one exit, one renderer
        return render_error(_explain(problem, choices), choices, command_path(argv))
    if isinstance(answer, Answer):
        return render_answer(answer, Face(choices), command_path(argv))
    return 0


def _greeted(argv: Sequence[str], choices: Choices) -> Sequence[str]:
    """Let somebody who names no command look, if there is something to look at and somewhere to show it."""
    if choices.robot or COMPLETION in os.environ or command_path(argv) != "lore":
        return argv
    if {"-h", "--help", "--version"} & set(argv):
        return argv
    from itertools import pairwise

    from tidelore.cli.console import is_terminal
    from tidelore.config import config_path

    named = [value for flag, value in pairwise(argv) if flag == "--config"]
    named += [word.partition("=")[2] for word in argv if word.startswith("--config=")]
    exists = os.path.isfile(config_path(named[-1] if named else None, os.environ))  # noqa: PTH113 - see `config`
    return [*argv, "console"] if exists and is_terminal() else argv


def _invoke(argv: Sequence[str], choices: Choices) -> object:
    if COMPLETION in os.environ:
        return lore.main(list(argv), prog_name="lore", standalone_mode=False, obj=choices)
    # Not through `lore.main`: it would end the process when a reader of our output has gone.
    with lore.make_context("lore", list(argv), obj=choices) as ctx:
        return lore.invoke(ctx)


def _explain(problem: BaseException, choices: Choices) -> TideloreError:
    """Return what a face can show of anything that was raised."""
    if isinstance(problem, TideloreError):
        return problem
    if isinstance(problem, click.Abort | KeyboardInterrupt):
        return Cancelled("interrupted")
    if isinstance(problem, click.ClickException):
        return _usage(problem)
    if choices.verbose:
        _print_traceback()
    return TideloreError(
        f"unexpected {type(problem).__name__}: {problem}",
        fix="run it again with --verbose and report what it prints",
    )


def _print_traceback() -> None:
    import traceback

    from tidelore.sources.redact import redact

    click.echo(redact(traceback.format_exc()), err=True, nl=False)


def _usage(error: click.ClickException) -> UserError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "lore"
    return UserError(error.format_message(), fix=f"see `{path} --help`")
