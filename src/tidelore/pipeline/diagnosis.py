"""Whether a source is within reach. Owns what is asked of a host before anything is mirrored; stores nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.clock import describe_age
from tidelore.core.config import GitHubHost, GitLabHost
from tidelore.core.errors import RemoteError, TideloreError

if TYPE_CHECKING:
    from tidelore.sources.github.source import GitHubSource
    from tidelore.sources.ports import Greeting, ProjectSource

SKEW_SECONDS = 300
"""How far the clock of a server may be from ours."""


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    subject: str
    ok: bool
    detail: str
    error: TideloreError | None = None


def trouble(subject: str, error: TideloreError) -> Finding:
    """Return the finding of something that failed, with the address that was asked."""
    asked = f": {error.url}" if isinstance(error, RemoteError) and error.url else ""
    return Finding(subject, False, f"{error.message}{asked}", error)


def _clock(subject: str, greeting: Greeting) -> list[Finding]:
    """Return the finding of a clock that is far off; it comes last, so that its exit code hides no other."""
    if greeting.skew_seconds <= SKEW_SECONDS:
        return []
    problem = TideloreError(
        f"the server's clock differs from the clock of this machine by {describe_age(greeting.skew_seconds)}",
        fix="set both clocks by NTP; if the server's is wrong, tell its administrator",
    )
    return [trouble(f"{subject} clock", problem)]


async def examine(opening: AbstractAsyncContextManager[ProjectSource], host: GitLabHost) -> list[Finding]:
    """Ask a host who we are there, and for each configured project and group."""
    findings: list[Finding] = []
    subject = f"{host.name} ({host.base_url})"
    try:
        async with opening as source:
            greeting = await source.greet()
            findings.append(Finding(subject, True, greeting.text))
            findings += [await _project(source, configured, host) for configured in host.projects]
            findings += [await _group(source, group, host) for group in host.groups]
            findings += _clock(subject, greeting)
    except TideloreError as error:
        findings.append(trouble(subject, error))
    return findings


async def examine_github(
    opening: AbstractAsyncContextManager[GitHubSource],
    host: GitHubHost,
    check: Callable[[str, int], None] = lambda _configured, _remote_id: None,
) -> list[Finding]:
    """Ask a GitHub host who we are there, and for each configured repository.

    `check` raises RemoteError when a configured name does not belong to the repository that is stored under it.
    """
    findings: list[Finding] = []
    subject = f"{host.name} ({host.base_url})"
    try:
        async with opening as source:
            greeting = await source.greet()
            findings.append(Finding(subject, True, greeting.text))
            findings += [await _repository(source, repo.name, check) for repo in host.repos]
            findings += _clock(subject, greeting)
    except TideloreError as error:
        findings.append(trouble(subject, error))
    return findings


async def _repository(source: GitHubSource, configured: str, check: Callable[[str, int], None]) -> Finding:
    subject = f"{source.name} {configured}"
    try:
        found = await source.resolve(configured)
        check(configured, found.remote_id)
    except RemoteError as error:
        return trouble(subject, error)
    renamed = f", renamed to {found.path}" if found.path.casefold() != configured.casefold() else ""
    return Finding(subject, True, f"id {found.remote_id}{renamed}{', archived' if found.archived else ''}")


async def _project(source: ProjectSource, configured: str, host: GitLabHost) -> Finding:
    subject = f"{source.name} {configured}"
    try:
        project = await source.resolve(configured)
    except RemoteError as error:
        return trouble(subject, error)
    return Finding(subject, True, f"id {project.remote_id}" + (_archived(host) if project.archived else ""))


async def _group(source: ProjectSource, path: str, host: GitLabHost) -> Finding:
    subject = f"{source.name} group {path}"
    try:
        projects = await source.group(path)
    except RemoteError as error:
        return trouble(subject, error)
    archived = [project.path for project in projects if project.archived]
    count = f"{len(projects):,} project{'' if len(projects) == 1 else 's'}"
    return Finding(subject, True, count + (f"{_archived(host)}: {', '.join(archived)}" if archived else ""))


def _archived(host: GitLabHost) -> str:
    return ", archived" if host.include_archived else ", archived and skipped"
