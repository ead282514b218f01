"""Whether a source is within reach. Owns what is asked of a host before anything is mirrored; stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from tidelore.errors import RemoteError, TideloreError
from tidelore.sources.registry import ProjectSource


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    subject: str
    ok: bool
    detail: str
    error: TideloreError | None = None


def trouble(subject: str, error: TideloreError) -> Finding:
    """Return the finding of something that failed."""
    return Finding(subject, False, error.message, error)


async def examine(
    opening: AbstractAsyncContextManager[ProjectSource], name: str, base_url: str, projects: Sequence[str]
) -> list[Finding]:
    """Ask a host who we are there, and for each configured project."""
    findings: list[Finding] = []
    subject = f"{name} ({base_url})"
    try:
        async with opening as source:
            findings.append(Finding(subject, True, await source.greet()))
            findings += [await _project(source, configured) for configured in projects]
    except TideloreError as error:
        findings.append(trouble(subject, error))
    return findings


async def _project(source: ProjectSource, configured: str) -> Finding:
    subject = f"{source.name} {configured}"
    try:
        project = await source.resolve(configured)
    except RemoteError as error:
        return trouble(subject, error)
    return Finding(subject, True, f"number {project.remote_id}" + (", archived" if project.archived else ""))
