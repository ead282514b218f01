"""Webhooks: the receiver of a configuration, and what deliveries announced that was not read yet."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelore.core.config import Host, all_hosts
from tidelore.core.errors import ConfigError, CredentialsRejected, RateLimited, RemoteTransient, TideloreError
from tidelore.core.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidelore.app.wiring import App
    from tidelore.service.hook_receiver import HookHost, HookReceiver
    from tidelore.store.mirror.projects import ProjectRow
    from tidelore.store.work.hooks import Announced
    from tidelore.sync.report import RunReport

_LOG = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""How often waiting deliveries and missed changes are checked when no delivery has woken the job."""
REST_SECONDS = 1.0
"""The shortest time between two reads of a host, so that a storm of deliveries costs few requests."""
MOST_PROJECTS = 50
"""How many projects are read in one go."""
GIVE_UP_MS = 3_600_000
"""After this time a delivery whose project cannot be read waits no longer; polls go on trying."""


def hooked_hosts(app: App) -> list[Host]:
    """Return the hosts whose deliveries are accepted: none while the port is 0."""
    return [host for host in all_hosts(app.config) if host.hook_secret_env] if app.config.hooks.port else []


def job_name(source: str) -> str:
    """Return the name of the job that reads what a host announced."""
    return f"hooks:{source}"


def open_receiver(app: App, announce: Callable[[Iterable[str]], None]) -> HookReceiver | None:
    """Listen for webhooks; return None for port 0. `announce` is called with the names of jobs that have work."""
    settings = app.config.hooks
    if not settings.port:
        return None
    require("web", "receiving webhooks", ("starlette", "uvicorn"))
    from tidelore.service.hook_receiver import HookReceiver

    receiver = HookReceiver(
        receiving_hosts(app),
        app.open_store,
        app.clock,
        lambda sources: announce([job_name(source) for source in sources]),
        settings.max_age_seconds,
    )
    receiver.open(settings.address, settings.port)
    # An earlier service may have stored deliveries and not read them.
    announce([job_name(source) for source in receiver.hosts])
    told = {"event": "hooks_listening", "port": receiver.port}
    _LOG.info("receiving webhooks on %s:%s", settings.address, receiver.port, extra=told)
    return receiver


def receiving_hosts(app: App) -> dict[str, HookHost]:
    """Return the hosts whose deliveries are accepted, with their secrets; raise ConfigError if one has none."""
    from tidelore.service.hook_receiver import HookHost
    from tidelore.sources.registry import hook_format

    found: dict[str, HookHost] = {}
    for host in hooked_hosts(app):
        secret = app.environ.get(host.hook_secret_env, "").strip()
        form = hook_format(host.kind)
        if not secret or form is None:
            why = f"{host.hook_secret_env} is not set" if form else f"{host.title} has no webhooks"
            raise ConfigError(
                f"cannot receive webhooks of {host.name}: {why}",
                fix=f"export {host.hook_secret_env} with the secret of the webhook, or remove hook_secret_env",
                key=f"{host.kind}.hook_secret_env",
                source=host.name,
            )
        found[host.name] = HookHost(secret, form, covers(host))
    if not found:
        raise ConfigError(
            "hooks.port is set, but no host has hook_secret_env",
            fix="name the variable with the webhook's secret in hook_secret_env of a host, or set hooks.port to 0",
            key="hooks.port",
        )
    return found


def covers(host: Host) -> Callable[[ProjectRow], bool]:
    """Return a function that says whether a stored project is mirrored."""
    mirrored = host.mirrored
    names, roots = frozenset(mirrored.projects), tuple(f"{group}/" for group in mirrored.groups)
    return lambda row: row.configured in names or row.path.startswith(roots)


def stretched_interval(app: App) -> Callable[[str, Sequence[ProjectRow | None]], float | None]:
    """Return a function that gives the interval for polls of some projects of a host, None for the usual one.

    It is longer if the webhooks of all of them work; it is the usual one again when they fall silent or miss a change.
    """
    hooked = {host.name for host in hooked_hosts(app)}
    if not hooked:
        return lambda _source, _projects: None
    from tidelore.store.work.hooks import live_projects

    settings = app.config.hooks
    with app.store() as database:
        live = live_projects(database, app.clock.now_ms() - round(settings.silent_minutes * 60_000))

    def interval(source: str, projects: Sequence[ProjectRow | None]) -> float | None:
        works = source in hooked and projects and all(row is not None and row.id in live for row in projects)
        return settings.poll_interval_seconds if works else None

    return interval


def look_for_waiting(app: App, source: str) -> tuple[list[Announced], int]:
    """Return the projects with waiting deliveries; if there are none, count the changes that none announced."""
    from tidelore.store.work.hooks import count_missed, give_up_waiting, waiting_projects

    now = app.clock.now_ms()
    with app.store() as database:
        give_up_waiting(database, source, now - GIVE_UP_MS, now)
        waiting = waiting_projects(database, source, MOST_PROJECTS + 1)
        missed = 0 if waiting else count_missed(database, source, now)
    if missed:
        told = {"event": "hooks_missed", "source": source, "missed": missed}
        _LOG.warning("%s: %d changes were not announced by webhooks", source, missed, extra=told)
    return waiting, missed


def mark_announced(app: App, waiting: Sequence[Announced], report: RunReport) -> None:
    """Stop waiting for projects that were read; those that may be read a moment later still wait."""
    from tidelore.store.work.hooks import mark_read

    again = {scope.configured for scope in report.scopes if scope.is_left or _passes(scope.error)}
    with app.store() as database:
        mark_read(database, [one for one in waiting if one.configured not in again], app.clock.now_ms())


def _passes(error: TideloreError | None) -> bool:
    """Return whether an error may be gone a moment later."""
    return isinstance(error, RemoteTransient | RateLimited | CredentialsRejected)
