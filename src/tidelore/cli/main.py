"""The command `lore`: finds commands by name, runs them and renders every error.

`COMMANDS` names the module and the function of each command; the module is imported when the command is called.
Data goes to stdout, progress and logs go to stderr.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from tidelore import __version__
from tidelore.cli.command import Choices, Invocation, LoreGroup, command_path, global_options
from tidelore.cli.output.render import Output, render_error, render_output
from tidelore.core.errors import EXIT_CODES, Cancelled, TideloreError, UserError

COMPLETION = "_LORE_COMPLETE"
COMMANDS = {
    "init": ("tidelore.cli.setup:init_command", "Write a configuration file."),
    "doctor": ("tidelore.cli.setup:doctor_command", "Check the configuration, database and sources."),
    "sync": ("tidelore.cli.sync:sync_command", "Update the local copy."),
    "ingest": ("tidelore.cli.sync:ingest_command", "Fetch issues or merge requests of projects."),
    "poll": ("tidelore.cli.poll:poll_command", "Poll GitHub, GitLab and Bluesky for updates."),
    "feedback": ("tidelore.cli.feedback:feedback_command", "Track pull requests, process their comments and reply."),
    "service": (
        "tidelore.cli.service:service_command",
        "Sync, poll, reply and run handlers on a schedule.",
    ),
    "worker": ("tidelore.cli.service:worker_command", "Run one of several workers on PostgreSQL."),
    "hooks": (
        "tidelore.cli.service:hooks_command",
        "Install and check webhooks, which announce changes.",
    ),
    "console": ("tidelore.cli.service:console_command", "Run the service with a live dashboard."),
    "serve": ("tidelore.cli.service:serve_command", "Serve a web page to read and search the local copy."),
    "top": ("tidelore.cli.service:top_command", "Monitor a running service (read-only)."),
    "mcp": ("tidelore.cli.reading.mcp:mcp_command", "Serve agents over the Model Context Protocol (MCP)."),
    "stream": ("tidelore.cli.poll:stream_command", "Stream new Bluesky posts."),
    "accounts": ("tidelore.cli.accounts:accounts_command", "Manage followed Bluesky accounts."),
    "generate-docs": ("tidelore.cli.sync:generate_docs_command", "Update the search documents of changed items."),
    "embed": ("tidelore.cli.sync:embed_command", "Compute missing embeddings of search documents."),
    "scrub": ("tidelore.cli.audit:scrub_command", "Verify stored items against the server and correct them."),
    "audit": ("tidelore.cli.audit:audit_command", "Check the local copy against the server."),
    "list": ("tidelore.cli.lists:list_command", "List issues, merge requests, topics or posts."),
    "show": ("tidelore.cli.show:show_command", "Show one issue, merge request, topic or post."),
    "search": ("tidelore.cli.search:search_command", "Search issues, merge requests, discussions and posts."),
    "searches": ("tidelore.cli.reading.searches:searches_command", "List saved searches."),
    "threads": (
        "tidelore.cli.reading.threads:threads_command",
        "List review threads and discussions, newest note first.",
    ),
    "context": (
        "tidelore.cli.reading.context:context_command",
        "Show what matters about an item, within a budget.",
    ),
    "changes": (
        "tidelore.cli.reading.changes:changes_command",
        "List what changed in the local copy, newest change first.",
    ),
    "digest": (
        "tidelore.cli.reading.changes:digest_command",
        "Summarise what is new, and what waits for you.",
    ),
    "open": (
        "tidelore.cli.reading.coverage:open_command",
        "Open an item in the browser.",
    ),
    "payload": (
        "tidelore.cli.reading.coverage:payload_command",
        "Print raw JSON of an item.",
    ),
    "reply": (
        "tidelore.cli.writing.reply:reply_command",
        "Reply to an item, thread or comment.",
    ),
    "resolve": ("tidelore.cli.writing.reply:resolve_command", "Resolve a review thread."),
    "unresolve": ("tidelore.cli.writing.reply:unresolve_command", "Reopen a resolved review thread."),
    "trending": ("tidelore.cli.activity:trending_command", "List the most shared links."),
    "count": ("tidelore.cli.count:count_command", "Count issues, merge requests and what belongs to them."),
    "similar": (
        "tidelore.cli.reading.similar:similar_command",
        "Find threads similar to an item.",
    ),
    "duplicates": (
        "tidelore.cli.reading.duplicates:duplicates_command",
        "Find open issues that may describe the same thing.",
    ),
    "file-history": (
        "tidelore.cli.activity:file_history_command",
        "List merge requests that changed a file, newest first.",
    ),
    "why": (
        "tidelore.cli.reading.why:why_command",
        "Show the discussion behind a line of code.",
    ),
    "status": ("tidelore.cli.status:status_command", "Show the service, pending work and recent runs."),
    "sync-status": ("tidelore.cli.sync_status:sync_status_command", "Show how far each list has been read."),
    "coverage": (
        "tidelore.cli.reading.coverage:coverage_command",
        "Show how complete the copy is.",
    ),
    "sync-runs": ("tidelore.cli.status:sync_runs_command", "List sync runs, newest first."),
    "sources": ("tidelore.cli.setup:sources_command", "List hosts and their projects with their ids."),
    "cursors": ("tidelore.cli.sync_status:cursors_command", "List, show or reset reading positions."),
    "metrics": ("tidelore.cli.status:metrics_command", "Print metrics in the Prometheus text format."),
    "init-db": ("tidelore.cli.setup:init_db_command", "Create or migrate the database."),
    "move": ("tidelore.cli.setup:move_command", "Copy the database to a file or to PostgreSQL."),
    "check": ("tidelore.cli.status:check_command", "Check the database for inconsistencies."),
    "export": (
        "tidelore.cli.export.rows:export_command",
        "Export rows as CSV, JSON or Parquet.",
    ),
    "snapshot": ("tidelore.cli.export.snapshot:snapshot_command", "Write a copy for reading to a file."),
    "datasette": (
        "tidelore.cli.export.snapshot:datasette_command",
        "Show the copy in Datasette.",
    ),
    "demo": (
        "tidelore_world.demo.command:command",
        "Mirror a simulated world and verify the copy.",
    ),
    "simulate": ("tidelore_world.demo.simulate:command", "Serve a simulated GitLab, GitHub and Bluesky."),
    "robot-docs": (
        "tidelore.cli.robot_docs:robot_docs_command",
        "Describe commands and errors as JSON.",
    ),
    "man": ("tidelore.cli.export.man:man_command", "Print a man page."),
    "completions": ("tidelore.cli.export.completions:completions_command", "Print a shell completion script."),
}
SECTIONS = {
    "Set up": ("init", "init-db", "doctor", "sources", "move", "completions"),
    "Read": (
        "search", "searches", "list", "show", "threads", "context", "changes", "digest", "open", "why", "file-history",
        "similar", "duplicates", "count", "trending", "payload",
    ),
    "Answer": ("reply", "resolve", "unresolve", "feedback"),
    "Update the copy": (
        "sync", "ingest", "poll", "stream", "accounts", "generate-docs", "embed", "scrub", "audit",
    ),
    "Run and serve": ("service", "worker", "hooks", "console", "top", "serve", "mcp"),
    "Inspect": ("status", "sync-status", "coverage", "sync-runs", "cursors", "metrics", "check"),
    "Files for other programs": ("export", "snapshot", "datasette"),
    "Learn": ("demo", "simulate", "robot-docs", "man"),
}  # fmt: skip
"""The commands as `lore --help` lists them."""


class LazyGroup(LoreGroup):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = COMMANDS.get(name)
        if entry is None:
            return None

        module, _, name_there = entry[0].partition(":")
        command: click.Command = getattr(__import__(module, fromlist=(name_there,)), name_there)
        if COMPLETION in os.environ:
            from tidelore.cli.reading.completion import complete_values

            complete_values(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, COMMANDS))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                # Names of one width, so that the summaries of all sections are below each other.
                formatter.write_dl([(name.ljust(longest), COMMANDS[name][1]) for name in names])

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
    help="Keep a local, searchable copy of GitLab, GitHub and Bluesky conversations.",
    example="lore search 'release checklist' --since 30d",
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}.",
    params=global_options(),
)
@click.version_option(__version__, prog_name="lore", message="%(prog)s %(version)s")
def lore() -> None:
    pass


def main(argv: Sequence[str], seam: Callable[[Any], None] = lambda _seam: None) -> int:
    """Run one command and return its exit code. `seam` lets crash tests stop at a named point."""
    choices = Choices(seam=seam, robot="--robot" in argv, verbose="--verbose" in argv or "-v" in argv)
    try:
        answer = _invoke(_greeted(argv, choices), choices)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as bare:
        if not choices.robot:
            click.echo(bare.format_message(), err=True)
            return bare.exit_code
        return render_error(UserError("no command given", fix="`lore --help` lists the commands"), choices, "lore")
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - all errors are rendered here
        return render_error(_explain(problem, choices, argv), choices, command_path(argv))
    if isinstance(answer, Output):
        return render_output(answer, Invocation(choices), command_path(argv))
    return 0


def _greeted(argv: Sequence[str], choices: Choices) -> Sequence[str]:
    """Add `console` to an empty command line on a terminal if a configuration file exists."""
    if choices.robot or COMPLETION in os.environ or command_path(argv) != "lore":
        return argv
    if {"-h", "--help", "--version"} & set(argv):
        return argv
    from itertools import pairwise

    from tidelore.cli.service import is_terminal
    from tidelore.core.config_file import config_path

    named = [value for flag, value in pairwise(argv) if flag == "--config"]
    named += [word.partition("=")[2] for word in argv if word.startswith("--config=")]
    exists = os.path.isfile(config_path(named[-1] if named else None, os.environ))  # noqa: PTH113 - see `config`
    return [*argv, "console"] if exists and is_terminal() else argv


def _invoke(argv: Sequence[str], choices: Choices) -> object:
    if COMPLETION in os.environ:
        return lore.main(list(argv), prog_name="lore", standalone_mode=False, obj=choices)
    # Not through `lore.main`: it would exit the process when the reader of our output has closed the pipe.
    with lore.make_context("lore", list(argv), obj=choices) as ctx:
        return lore.invoke(ctx)


def _explain(problem: BaseException, choices: Choices, argv: Sequence[str]) -> TideloreError:
    """Return any exception as an error that can be rendered."""
    if isinstance(problem, TideloreError):
        return problem
    if isinstance(problem, click.Abort | KeyboardInterrupt):
        return Cancelled("interrupted")
    if isinstance(problem, click.ClickException):
        return _usage(problem, argv)
    if choices.verbose:
        _print_traceback()
    return TideloreError(
        f"unexpected {type(problem).__name__}: {problem}",
        fix="run it again with --verbose and report the output",
    )


def _print_traceback() -> None:
    import traceback

    from tidelore.core.redaction import redact

    click.echo(redact(traceback.format_exc()), err=True, nl=False)


def _usage(error: click.ClickException, argv: Sequence[str]) -> UserError:
    context = getattr(error, "ctx", None)
    name = command_path(argv)
    path = context.command_path if context is not None else name if name == "lore" else f"lore {name}"
    return UserError(error.format_message(), fix=f"see `{path} --help`")
