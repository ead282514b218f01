"""`lore doctor`: check the configuration, the database and every source."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, instant
from tidelore.cli.runs import CHILD_NAMES
from tidelore.core.config import Config, config_path
from tidelore.core.errors import ConfigError, NotFound, TideloreError
from tidelore.sync.diagnosis import Finding, trouble

if TYPE_CHECKING:
    from tidelore.app.wiring import App


@click.command("doctor", cls=LoreCommand, example="lore doctor --offline")
@click.option("--offline", is_flag=True, help="Skip checks that need the network.")
@click.pass_context
def command(ctx: click.Context, offline: bool) -> Answer:  # noqa: FBT001
    """Check the configuration, the database and every source.

    Prints a remedy for each problem. The exit code is that of the first problem.
    """
    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    findings = [_configuration(face, app.config), _database(app)]
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
    return Answer({"findings": data}, lines, problem)


def _bluesky(app: App, *, offline: bool) -> list[Finding]:
    """Look at Bluesky where somebody is followed there, or its settings were changed."""
    from tidelore.core.config import Bluesky

    followed = _followed(app)
    if followed is None and app.config.bluesky == Bluesky():
        return []
    from tidelore.sync.diagnosis import examine_stream

    findings: list[Finding] = []
    if not offline:
        from tidelore.app.bluesky import diagnose_network
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
    """Return how many comments of configured repositories became no event because of who wrote them."""
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


def _configuration(face: Face, config: Config) -> Finding:
    path = Path(config_path(face.choices.config, os.environ))
    if not path.exists():
        return Finding("configuration", True, f"no file at {path}, using defaults (create one with `lore init`)")
    bits = stat.S_IMODE(path.stat().st_mode)
    runs_program = any(host.handler or any(repo.handler for repo in host.repos) for host in config.github)
    # Who can write it can also name a program. A group is often the user alone, so it counts only where one is named.
    if bits & (0o022 if runs_program else 0o002):
        what = " and it names a program to run" if runs_program else ""
        problem = ConfigError(
            f"other users can change the configuration{what}", fix=f"chmod 600 {path}", file=str(path)
        )
        return Finding("configuration", False, f"{path}: {problem.message} (mode {bits:04o})", problem)
    return Finding("configuration", True, str(path))


def _database(app: App) -> Finding:
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
