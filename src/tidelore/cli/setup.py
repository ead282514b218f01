"""Set up and diagnose: `lore init`, `lore doctor`, `lore sources`."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, instant
from tidelore.cli.output.runs import CHILD_NAMES
from tidelore.cli.output.table import Column, table
from tidelore.core.config import Config, config_path, parse_config
from tidelore.core.errors import ConfigError, NotFound, StorageFailed, TideloreError, UserError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from tidelore.app.sources import Accepted, SourceEntry
    from tidelore.app.wiring import App
    from tidelore.store.mirror.projects import ProjectRow
    from tidelore.sync.diagnosis import Finding


TEMPLATE = """\
# Tidelore's configuration. Every key is documented in docs/reference/configuration.md;
# omitted keys have the default shown there. Never write a token here: name its environment variable.

# default_project = "group/project"

# [storage]
# path = "~/.local/share/tidelore/lore.db"      # or a postgresql:// address

[[gitlab]]
name = "gitlab"
base_url = {base_url}
token_env = {token_env}
projects = [{projects}]
"""


@click.command("init", cls=LoreCommand, example="lore init --gitlab-url https://gitlab.com --project group/project")
@click.option(
    "--gitlab-url",
    default="https://gitlab.com",
    show_default=True,
    metavar="URL",
    help="Base URL of the GitLab server.",
)
@click.option(
    "--token-env",
    default="GITLAB_TOKEN",
    show_default=True,
    help="Name of the environment variable that holds the token.",
)
@click.option("-p", "--project", "projects", multiple=True, metavar="PATH", help="Project to mirror (repeatable).")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.pass_context
def init_command(
    ctx: click.Context,
    gitlab_url: str,
    token_env: str,
    projects: tuple[str, ...],
    overwrite: bool,  # noqa: FBT001
) -> Output:
    """Write a configuration file.

    The file is created with mode 0600; an existing one is kept unless --overwrite is given. It never contains a token,
    only the name of the environment variable that holds it. Next steps: export the token, check the setup with `lore
    doctor`, fetch with `lore sync`, then `lore search`.
    """
    import tomllib
    from pathlib import Path

    path = Path(config_path(invocation_of(ctx).choices.config, os.environ))
    if path.exists() and not overwrite:
        raise UserError(f"{path} already exists", fix="edit it, or replace it with --overwrite", path=str(path))
    text = TEMPLATE.format(
        base_url=_quoted(gitlab_url),
        token_env=_quoted(token_env),
        projects=", ".join(_quoted(project) for project in projects),
    )
    # Validate the file before it is written.
    parse_config(tomllib.loads(text), str(path))
    _write(path, text.encode())
    lines = [f"Wrote {path}"]
    if not projects:
        lines.append("Add your projects under [[gitlab]], then:")
    lines += [f"  export {token_env}=…", "  lore doctor", "  lore sync", "  lore search 'words to find'"]
    return Output({"path": str(path), "projects": list(projects)}, lines)


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


@click.command("doctor", cls=LoreCommand, example="lore doctor --offline")
@click.option("--offline", is_flag=True, help="Skip checks that need the network.")
@click.pass_context
def doctor_command(ctx: click.Context, offline: bool) -> Output:  # noqa: FBT001
    """Check the configuration, the database and every source.

    Prints a remedy for each problem. The exit code is that of the first problem.
    """
    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    findings = [_configuration(invocation, app.config), _database(app)]
    if (app.config.gitlab or app.config.github) and not offline:
        from tidelore.app.mirroring import diagnose
        from tidelore.app.wiring import run_until_signalled

        findings += run_until_signalled(diagnose(app))
    findings += _bluesky(app, offline=offline)
    findings += _refused(app)
    findings += _ignored(app)
    lines = []
    for finding in findings:
        lines.append(f"{'ok ' if finding.ok else 'BAD'} {finding.subject}: {finding.detail}")
        if finding.error is not None and finding.error.fix:
            lines.append(f"      fix: {finding.error.fix}")
    data = [
        {"subject": f.subject, "ok": f.ok, "detail": f.detail, "fix": f.error.fix if f.error else None}
        for f in findings
    ]
    problem = next((finding.error for finding in findings if finding.error is not None), None)
    return Output({"findings": data}, lines, problem)


def _bluesky(app: App, *, offline: bool) -> list[Finding]:
    """Check Bluesky if accounts are followed there or its settings were changed."""
    from tidelore.core.config import Bluesky

    followed = _followed(app)
    if followed is None and app.config.bluesky == Bluesky():
        return []
    from tidelore.sync.diagnosis import examine_stream

    findings: list[Finding] = []
    if not offline:
        from tidelore.app.accounts import diagnose_network
        from tidelore.app.wiring import run_until_signalled

        findings += run_until_signalled(diagnose_network(app))
    findings.append(examine_stream(app.config.bluesky))
    return findings if followed is None else [*findings, followed]


def _followed(app: App) -> Finding | None:
    try:
        database = app.open_store()
    except TideloreError:
        return None
    try:
        from tidelore.store.mirror.accounts import count_accounts

        if not count_accounts(database):
            return None
        from tidelore.sync.diagnosis import examine_accounts

        return examine_accounts(database)
    finally:
        database.close()


def _refused(app: App) -> list[Finding]:
    """Return the child items that a server refuses for a whole project."""
    from tidelore.sync.diagnosis import Finding

    try:
        database = app.open_store()
    except TideloreError:
        return []
    try:
        from tidelore.store.mirror.child_progress import list_refusals
        from tidelore.store.mirror.projects import list_projects

        projects = {project.id: project for project in list_projects(database)}
        findings = []
        for one in list_refusals(database):
            project = projects[one.project_id]
            name = CHILD_NAMES.get(one.kind, one.kind.replace("_", " "))
            told = f"unavailable ({one.error}); next attempt {instant(one.next_attempt_at)}"
            subject = f"{project.source} {project.path} {one.parent_kind.replace('_', ' ')}"
            findings.append(Finding(subject, True, f"{name}: {told}"))
        return findings
    finally:
        database.close()


def _ignored(app: App) -> list[Finding]:
    """Return how many comments of configured repositories were ignored because of their author."""
    from tidelore.sync.diagnosis import Finding

    try:
        database = app.open_store()
    except TideloreError:
        return []
    try:
        from tidelore.feedback.events import describe_ignored
        from tidelore.store.mirror.feedback_writer import count_ignored
        from tidelore.store.mirror.projects import list_projects

        projects = {project.id: project for project in list_projects(database)}
        return [
            Finding(
                f"{projects[one.project_id].source} {projects[one.project_id].path}",
                True,
                describe_ignored(one.reason, one.comments, one.accounts),
            )
            for one in count_ignored(database)
        ]
    finally:
        database.close()


def _configuration(invocation: Invocation, config: Config) -> Finding:
    from pathlib import Path

    from tidelore.sync.diagnosis import Finding

    path = Path(config_path(invocation.choices.config, os.environ))
    if not path.exists():
        return Finding("configuration", True, f"no file at {path}, using defaults (create one with `lore init`)")
    bits = stat.S_IMODE(path.stat().st_mode)
    runs_program = any(host.handler or any(repo.handler for repo in host.repos) for host in config.github)
    # A user who can write the file can also configure a program to run. A group often contains only the user, so
    # group access is a problem only if a program is configured.
    if bits & (0o022 if runs_program else 0o002):
        what = " and it names a program to run" if runs_program else ""
        problem = ConfigError(
            f"other users can change the configuration{what}", fix=f"chmod 600 {path}", file=str(path)
        )
        return Finding("configuration", False, f"{path}: {problem.message} (mode {bits:04o})", problem)
    return Finding("configuration", True, str(path))


def _database(app: App) -> Finding:
    from pathlib import Path

    from tidelore.sync.diagnosis import Finding, trouble

    try:
        database = app.open_store()
    except NotFound:
        return Finding("database", True, f"no file at {app.address} yet; `lore sync` creates it")
    except TideloreError as error:
        return trouble("database", error)
    dialect = database.dialect
    database.close()
    if dialect == "sqlite" and stat.S_IMODE(Path(app.address).stat().st_mode) & 0o077:
        problem = TideloreError("other users can read the file", fix=f"chmod 600 {app.address}")
        return Finding("database", False, f"{app.address}: other users can read the file", problem)
    return Finding("database", True, f"{dialect}, schema up to date")


@click.group(
    "sources",
    cls=LoreGroup,
    invoke_without_command=True,
    params=global_options(),
    example="lore sources",
)
@click.pass_context
def sources_command(ctx: click.Context) -> Output | None:
    """List the configured hosts and their projects with their ids.

    The id is stored when a project is first read. `lore sources accept SOURCE PATH` accepts another repository under a
    known name.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from tidelore.app.sources import list_sources

    invocation = invocation_of(ctx)
    entries = list_sources(invocation.app().config, _stored(invocation))
    items = [_entry_data(entry) for entry in entries]
    lines = _entry_table(entries) if entries else ["No projects are configured."]
    return Output({"items": items, "total": len(items), "next": None}, lines)


@sources_command.command("accept", cls=LoreCommand, example="lore sources accept github owner/repo")
@click.argument("source")
@click.argument("path")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def accept_command(ctx: click.Context, source: str, path: str, force: bool) -> Output:  # noqa: FBT001
    """Accept the repository that now answers under a configured name.

    SOURCE is the name of a GitHub host, PATH a repository configured there. Use it after an error with the code
    REPOSITORY_REPLACED. Stored data of the former repository is kept under the name it has now and is no longer updated
    unless that name is configured.
    """
    from tidelore.app.sources import accept_repository, choose_repository
    from tidelore.app.wiring import run_until_signalled

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    place = choose_repository(app.config, source, path)
    done = run_until_signalled(accept_repository(app, place, force=force), "nothing was changed")
    return Output(_accepted_data(done), [_accepted_line(done)])


def _stored(invocation: Invocation) -> list[ProjectRow]:
    from tidelore.store.mirror.projects import list_projects

    try:
        database = invocation.open_store()
    except NotFound:
        return []
    try:
        return list_projects(database)
    finally:
        database.close()


def _entry_data(entry: SourceEntry) -> dict[str, Any]:
    return {
        "source": entry.source,
        "kind": entry.kind,
        "base_url": entry.base_url,
        "configured": entry.configured,
        "path": entry.path,
        "remote_id": entry.remote_id,
        "updated_at": instant(entry.updated_at),
    }


def _entry_table(entries: list[SourceEntry]) -> list[str]:
    rows = [
        [
            entry.source,
            entry.configured,
            "not read yet" if entry.remote_id is None else str(entry.remote_id),
            entry.path if entry.path is not None and entry.path != entry.configured else "-",
            entry.base_url,
        ]
        for entry in entries
    ]
    return table(["SOURCE", "PROJECT", "ID", "NAME NOW", Column("HOST", optional=True)], rows)


def _accepted_data(done: Accepted) -> dict[str, Any]:
    former = done.former
    return {
        "source": done.project.source,
        "configured": done.project.configured,
        "path": done.project.path,
        "remote_id": done.project.remote_id,
        "former": None if former is None else {"path": former.path, "remote_id": former.remote_id},
    }


def _accepted_line(done: Accepted) -> str:
    name, former = one_line(done.project.configured), done.former
    if former is None:
        return f"{name} has the known id {done.project.remote_id}; nothing to accept."
    kept = f"stored data of id {former.remote_id} is kept as {one_line(former.path)}"
    return f"{name} is id {done.project.remote_id} from now on; {kept}."
