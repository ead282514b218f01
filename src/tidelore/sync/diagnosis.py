"""Check for `lore doctor` whether the configured hosts, projects and accounts are reachable. Stores nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.clock import describe_age
from tidelore.core.concurrency import for_each
from tidelore.core.config import Bluesky, Host
from tidelore.core.errors import RemoteError, RemoteNotFound, TideloreError, UserError
from tidelore.core.references import NO_HANDLE, clean_name
from tidelore.sources.bluesky.source import NOBODY, BlueskySource
from tidelore.sources.bluesky.stream_protocol import protocol_of, stream_url
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import count_accounts, list_accounts
from tidelore.store.reading.totals import STATES

if TYPE_CHECKING:
    from tidelore.sources.ports import Greeting, ProjectSource


SKEW_SECONDS = 300
"""The largest accepted difference between a server's clock and ours."""


class Finding(Struct, frozen=True):
    """The result of one check."""

    subject: str
    ok: bool
    detail: str
    error: TideloreError | None = None


def trouble(subject: str, error: TideloreError) -> Finding:
    """Return the finding for a failed check, with the URL of the request."""
    asked = f": {error.url}" if isinstance(error, RemoteError) and error.url else ""
    return Finding(subject, False, f"{error.message}{asked}", error)


def _clock(subject: str, greeting: Greeting) -> list[Finding]:
    """Return a finding if a clock is far off. It must come last, so that its exit code does not hide another one."""
    if greeting.skew_seconds <= SKEW_SECONDS:
        return []
    problem = TideloreError(
        f"the server's clock differs from the clock of this machine by {describe_age(greeting.skew_seconds)}",
        fix="set both clocks by NTP; if the server's is wrong, tell its administrator",
    )
    return [trouble(f"{subject} clock", problem)]


async def examine(
    opening: AbstractAsyncContextManager[ProjectSource],
    host: Host,
    check: Callable[[str, int], None],
    on_login: Callable[[str], None] = lambda _login: None,
    since_of: Callable[[str], str] = lambda _configured: "",
) -> list[Finding]:
    """Check the credentials for a host, and each configured project and group.

    `check` raises RemoteError when a configured name does not belong to the project that is stored under it. It is
    called where names belong to projects. `on_login` is called with our login if the host reports it. `since_of`
    returns from when on the items of a project are mirrored, empty for all of them.
    """
    findings: list[Finding] = []
    subject = f"{host.name} ({host.base_url})"
    try:
        async with opening as source:
            greeting = await source.greet()
            findings.append(Finding(subject, True, greeting.text))
            if greeting.login is not None:
                on_login(greeting.login)
            for configured in host.configured:
                since = f", items updated since {horizon}" if (horizon := since_of(configured)) else ""
                findings.append(await _project(source, configured, host, check, since))
            findings += [await _group(source, group, host) for group in host.mirrored.groups]
            findings += _clock(subject, greeting)
    except TideloreError as error:
        findings.append(trouble(subject, error))
    return findings


async def _project(
    source: ProjectSource, configured: str, host: Host, check: Callable[[str, int], None], since: str
) -> Finding:
    subject = f"{source.name} {configured}"
    try:
        found = await source.resolve(configured)
        if source.owns_names:
            check(configured, found.remote_id)
    except RemoteError as error:
        return trouble(subject, error)
    names = {found.path.casefold(), str(found.remote_id)}
    renamed = "" if configured.casefold() in names else f", renamed to {found.path}"
    # A project that is only polled is read although it is archived.
    archived = _archived(host) if configured in host.mirrored.projects else ", archived"
    return Finding(subject, True, f"id {found.remote_id}{renamed}{archived if found.archived else ''}{since}")


async def _group(source: ProjectSource, path: str, host: Host) -> Finding:
    subject = f"{source.name} group {path}"
    try:
        projects = await source.group(path)
    except RemoteError as error:
        return trouble(subject, error)
    archived = [project.path for project in projects if project.archived]
    count = f"{len(projects):,} project{'' if len(projects) == 1 else 's'}"
    return Finding(subject, True, count + (f"{_archived(host)}: {', '.join(archived)}" if archived else ""))


def _archived(host: Host) -> str:
    return ", archived" if host.include_archived else ", archived and skipped"


async def examine_bluesky(opening: AbstractAsyncContextManager[BlueskySource], settings: Bluesky) -> list[Finding]:
    """Check the AppView, the PLC directory, and each configured account."""
    subject = "bluesky"
    try:
        async with opening as source:
            appview = f"bluesky AppView ({settings.base_url})"
            findings = [await _answers(appview, source.resolve(NO_HANDLE))]
            findings.append(await _answers(f"bluesky PLC directory ({settings.plc_url})", source.document(NOBODY)))
            if findings[0].ok and settings.accounts:
                findings += await _configured(source, settings)
    except TideloreError as error:
        return [trouble(subject, error)]
    return findings


def examine_stream(settings: Bluesky) -> Finding:
    """Check the URL of the event stream without connecting to it; `lore stream bluesky` connects."""
    subject = f"bluesky stream ({settings.jetstream_url})"
    try:
        return Finding(subject, True, f"well-formed, protocol {protocol_of(stream_url(settings.jetstream_url))}")
    except TideloreError as error:
        return trouble(subject, error)


def examine_accounts(database: Database) -> Finding | None:
    """Return how many followed accounts are in each state; None if there are none."""
    counts = count_accounts(database)
    if not counts:
        return None
    told = ", ".join(f"{counts[state]:,} {state}" for state in STATES if state in counts)
    nameless = sum(account.handle == NO_HANDLE for account in list_accounts(database))
    unresolved = f"; {nameless:,} without a valid handle" if nameless else ""
    return Finding("bluesky accounts", True, f"{told}{unresolved}")


async def _answers(subject: str, asked: Awaitable[object]) -> Finding:
    try:
        await asked
    except RemoteNotFound:
        return Finding(subject, True, "reachable, no credentials needed")
    except RemoteError as error:
        return trouble(subject, error)
    return Finding(subject, True, "reachable, no credentials needed")


async def _configured(source: BlueskySource, settings: Bluesky) -> list[Finding]:
    """Return one finding for all names that were resolved, and one for each that was not."""

    async def resolve(name: str) -> Finding | None:
        try:
            await source.resolve(clean_name(name))
        except (RemoteError, UserError) as error:
            return trouble(f"bluesky {name}", error)
        return None

    answers = await for_each(settings.accounts, resolve, settings.max_concurrent)
    lost = [found for found in answers if found is not None]
    count, total = len(settings.accounts) - len(lost), len(settings.accounts)
    return [Finding("bluesky configured accounts", not lost, f"{count:,} of {total:,} found"), *lost]
