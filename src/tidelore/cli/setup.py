"""Set up, diagnose and move: `lore init`, `lore init-db`, `lore doctor`, `lore sources`, `lore move`."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import click

from tidelore.app.sources import (
    AcceptedRepository,
    Diagnosis,
    SourceEntry,
    SourceList,
    WrittenConfig,
    accept,
    diagnose_setup,
    list_sources,
)
from tidelore.app.storage.moving import MoveReport, move_database
from tidelore.app.storage.preparing import PreparedDatabase, prepare_database
from tidelore.cli.command import Invocation, LoreGroup, global_options, invocation_of, lore_command
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.table import Column, table_of
from tidelore.core.config import VARIABLE
from tidelore.core.config_file import check_database_address, is_url, parse_config
from tidelore.core.errors import StorageFailed, UserError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from pathlib import Path


_GITLAB_COM = "https://gitlab.com"
_HEAD = """\
# Tidelore's configuration. Every key is documented in docs/reference/configuration.md;
# omitted keys have the default shown there. Never write a token here: name its environment variable.

# default_project = "group/project"
"""
_DEFAULT_STORAGE = """\
# [storage]
# path = "~/.local/share/tidelore/lore.db"      # or a postgresql:// address
"""
_STORAGE = """\
[storage]
path = {path}
"""
_GITLAB = """\
[[gitlab]]
name = "gitlab"
base_url = {base_url}
token_env = {token_env}
projects = [{projects}]
"""
_GITHUB = """\
[[github]]
name = "github"
token_env = {token_env}
repos = [{repos}]
"""


@lore_command(
    "init",
    example="lore init --gitlab-url https://gitlab.com --project group/project",
    answer=WrittenConfig,
)
@click.option(
    "--gitlab-url",
    metavar="URL",
    help="Base URL of the GitLab server; https://gitlab.com if omitted.",
)
@click.option(
    "--token-env",
    help="Name of the environment variable that holds the token; GITLAB_TOKEN or GITHUB_TOKEN if omitted.",
)
@click.option("-p", "--project", "projects", multiple=True, metavar="PATH", help="Project to mirror (repeatable).")
@click.option(
    "--github-repo", "repos", multiple=True, metavar="OWNER/REPO", help="GitHub repository to mirror (repeatable)."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option("--no-input", is_flag=True, help="Do not ask, even on a terminal.")
def init_command(
    invocation: Invocation,
    gitlab_url: str | None,
    token_env: str | None,
    projects: tuple[str, ...],
    repos: tuple[str, ...],
    overwrite: bool,  # noqa: FBT001
    no_input: bool,  # noqa: FBT001
) -> Output:
    """Write a configuration file.

    On a terminal, without options that say what to mirror, it asks for the forge, the projects and the variable of the
    token. With --github-repo alone, only GitHub is configured, and --token-env is its variable; with both, it is
    GitLab's. A database that --db names is written to the file too. The file is created with mode 0600; an existing one
    is kept unless --overwrite is given. It never contains a token, only the name of the environment variable that holds
    it. Next steps: export the token, check the setup with `lore doctor`, fetch with `lore sync`, then `lore search`.
    """
    import tomllib
    from pathlib import Path

    from tidelore.cli.service import is_terminal

    path = Path(invocation.config_file)
    if path.is_dir():
        raise UserError(f"{path} is a folder", fix="name a file in it with --config", path=str(path))
    if path.exists() and not overwrite:
        raise UserError(f"{path} already exists", fix="edit it, or replace it with --overwrite", path=str(path))
    storage = _storage(invocation.choices.db)
    if not (gitlab_url or token_env or projects or repos or no_input or invocation.choices.robot) and is_terminal():
        gitlab_url, token_env, projects, repos = _ask()
    gitlab = bool(projects or gitlab_url) or not repos
    gitlab_token = token_env or "GITLAB_TOKEN"
    github_token = "GITHUB_TOKEN" if gitlab else token_env or "GITHUB_TOKEN"
    parts = [_HEAD, storage]
    if gitlab:
        base_url = _quoted(gitlab_url or _GITLAB_COM)
        parts.append(_GITLAB.format(base_url=base_url, token_env=_quoted(gitlab_token), projects=_listed(projects)))
    if repos:
        parts.append(_GITHUB.format(token_env=_quoted(github_token), repos=_listed(repos)))
    text = "\n".join(parts)
    # Validate the file before it is written.
    parse_config(tomllib.loads(text), str(path))
    _write(path, text.encode())
    lines = [f"Wrote {path}"]
    if not projects and not repos:
        lines.append("Add your projects under [[gitlab]], then:")
    tokens = [gitlab_token] * gitlab + [github_token] * bool(repos)
    lines += [f"  export {name}=…" for name in tokens]
    lines += ["  lore doctor", "  lore sync", "  lore search 'words to find'"]
    return Output(WrittenConfig(str(path), list(projects), list(repos)), lines)


def _storage(db: str | None) -> str:
    """Return the section of the database: as --db says, or commented out."""
    if db is None:
        return _DEFAULT_STORAGE
    from pathlib import Path

    if not is_url(db):
        check_database_address(db)
        return _STORAGE.format(path=_quoted(str(Path(db).expanduser().absolute())))
    # Up to the last @, because a password may contain unescaped characters.
    user = db.partition("://")[2].rpartition("@")[0]
    if ":" in user or "password=" in db.lower():
        raise UserError(
            "--db: the address contains a password, which must not be stored in the configuration file",
            fix="leave the password out and put it into ~/.pgpass or PGPASSWORD, or set LORE_DB instead of --db",
        )
    return _STORAGE.format(path=_quoted(db))


def _ask() -> tuple[str | None, str, tuple[str, ...], tuple[str, ...]]:
    """Ask for the forge, the projects and the variable of the token, as the options of `lore init` name them."""

    def forge(text: str) -> str:
        if text in ("gitlab", "github") or text.startswith(("https://", "http://")):
            return text
        raise click.UsageError(f"{text!r} is neither gitlab, github nor an address that begins with https://")

    def paths(text: str) -> tuple[str, ...]:
        found = tuple(text.replace(",", " ").split())
        if wrong := next((path for path in found if "/" not in path or "://" in path), None):
            raise click.UsageError(f"invalid path {wrong!r}: expected the form {form}")
        return found

    def variable_name(text: str) -> str:
        if re.match(VARIABLE, text) is None:
            raise click.UsageError("not the name of an environment variable; do not enter the token itself")
        return text

    chosen = click.prompt("Forge: gitlab, github, or the address of your GitLab", "gitlab", value_proc=forge, err=True)
    github = chosen == "github"
    form = "owner/repo" if github else "group/project"
    names = click.prompt(f"{'Repositories' if github else 'Projects'} ({form})", value_proc=paths, err=True)
    variable = "GITHUB_TOKEN" if github else "GITLAB_TOKEN"
    asked = "Environment variable that holds the token"
    token_env: str = click.prompt(asked, variable, value_proc=variable_name, err=True)
    if github:
        return None, token_env, (), names
    return _GITLAB_COM if chosen == "gitlab" else chosen, token_env, names, ()


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(text: str) -> str:
    """Return a TOML string. JSON escapes work in TOML, except for DEL and characters outside the BMP."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            # The mode above applies only to a new file.
            os.fchmod(descriptor, 0o600)
            file.write(content)
    except OSError as error:
        raise StorageFailed(
            f"cannot write {path}: {error.strerror}", fix="choose another path with --config", path=str(path)
        ) from None


@lore_command("doctor", example="lore doctor --offline", answer=Diagnosis)
@click.option("--offline", is_flag=True, help="Skip checks that need the network.")
def doctor_command(invocation: Invocation, offline: bool) -> Output:  # noqa: FBT001
    """Check the configuration, database and sources.

    Prints a remedy for each problem. The exit code is that of the first problem.
    """
    file = invocation.config_file
    found, problem = diagnose_setup(invocation.logged_app(), file, offline=offline)
    lines = []
    for finding in found.findings:
        lines.append(f"{'ok ' if finding.ok else 'BAD'} {finding.subject}: {finding.detail}")
        lines += [f"      fix: {finding.fix}"] if finding.fix else []
    return Output(found, lines, problem)


@click.group(
    "sources",
    cls=LoreGroup,
    invoke_without_command=True,
    params=global_options(),
    example="lore sources",
    answer=SourceList,
)
@click.pass_context
def sources_command(ctx: click.Context) -> Output | None:
    """List hosts and their projects with their ids.

    The id is stored when a project is first read. `lore sources accept SOURCE PATH` accepts another repository under a
    known name.
    """
    if ctx.invoked_subcommand is not None:
        return None
    found = list_sources(invocation_of(ctx).app())
    return Output(found, _entry_table(found.items) if found.items else ["No projects are configured."])


@sources_command.command("accept", example="lore sources accept github owner/repo", answer=AcceptedRepository)
@click.argument("source")
@click.argument("path")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
def accept_command(invocation: Invocation, source: str, path: str, force: bool) -> Output:  # noqa: FBT001
    """Accept a replaced repository.

    SOURCE is the name of a GitHub host, PATH a repository configured there. Use it after an error with the code
    REPOSITORY_REPLACED. Stored data of the former repository is kept under the name it has now and is no longer updated
    unless that name is configured.
    """
    done = accept(invocation.logged_app(), source, path, force=force)
    name, former = one_line(done.configured), done.former
    if former is None:
        return Output(done, [f"{name} has the known id {done.remote_id}; nothing to accept."])
    kept = f"stored data of id {former.remote_id} is kept as {one_line(former.path)}"
    return Output(done, [f"{name} is id {done.remote_id} from now on; {kept}."])


def _entry_table(entries: list[SourceEntry]) -> list[str]:
    return table_of(
        entries,
        Column("SOURCE", lambda one: one.source),
        Column("PROJECT", lambda one: one.configured),
        Column("ID", lambda one: "not read yet" if one.remote_id is None else str(one.remote_id)),
        Column("NAME NOW", lambda one: one.path if one.path is not None and one.path != one.configured else "-"),
        Column("HOST", lambda one: one.base_url, optional=True),
    )


@lore_command("init-db", example="lore init-db --db postgresql://admin@db.example/lore", answer=PreparedDatabase)
def init_db_command(invocation: Invocation) -> Output:
    """Create or migrate the database.

    Other commands do this by themselves when they write. Run it on its own where the programs that sync may not change
    the schema, or before the first workers start: on PostgreSQL it also creates their queue. Running it again changes
    nothing.
    """
    found = prepare_database(invocation.app())
    steps = plural(len(found.applied), "migration")
    lines = [f"{one_line(found.database)}: schema version {found.version}, {steps} applied."]
    lines += {
        "created": ["Created the queue of the workers."],
        "not installed": ["No queue: workers need `pip install 'tidelore[worker]'`."],
    }.get(found.queue, [])
    return Output(found, lines)


@lore_command("move", example="lore move --to postgresql://lore@db.example/lore", answer=MoveReport)
@click.option("--to", required=True, metavar="PATH|URL", help="Empty database, or a file that does not exist yet.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied; write nothing.")
def move_command(invocation: Invocation, to: str, dry_run: bool) -> Output:  # noqa: FBT001
    """Copy the database to a file or to PostgreSQL.

    Stop the service first. Every table is copied and then compared by its number of rows and by a hash. The source is
    only read. An interrupted move continues when the command is repeated; until it is complete, other commands refuse
    the target. If a table differs, the exit code is 8. Afterwards set storage.path to the target, and do not sync the
    old database any more: both would post the same pending answers.
    """
    from tidelore.cli.output.runs import progress

    with progress(invocation) as on_progress:
        report, error = move_database(invocation.app(), to, on_progress, dry_run=dry_run)
    lines = table_of(
        report.tables,
        Column("TABLE", lambda one: one.name),
        Column("ROWS", lambda one: f"{one.rows:,}", right=True),
        Column("TARGET", lambda one: "-" if one.target_rows is None else f"{one.target_rows:,}", right=True),
        Column("SHA-256", lambda one: (one.sha256 or "-")[:16]),
        Column("STATE", lambda one: "-" if one.equal is None else "equal" if one.equal else "differs", state=True),
    )
    return Output(report, [*lines, *_outcome(report)], error)


def _outcome(report: MoveReport) -> list[str]:
    where = f"from {one_line(report.source)} to {one_line(report.target)}"
    if report.dry_run:
        return [f"Would copy {plural(report.rows, 'row')} {where}."]
    if not report.complete:
        return []
    copied = f"{plural(report.copied, 'row')} copied {where}; all tables are equal."
    return [
        copied,
        f"Next: set storage.path (or LORE_DB) to {one_line(report.target)} and stop using the old database.",
    ]
