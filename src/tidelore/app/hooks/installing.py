"""Use-cases of `lore hooks`: install webhooks through the API of each forge, and compare sent with received deliveries.

Installing is idempotent: a webhook with our address is completed if it lacks an event or is disabled, and otherwise
left as it is. Secrets cannot be read back, so a changed secret is stored with `--renew`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from tidelore.app.answers import Instant, instant, means
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import Host, all_hosts
from tidelore.core.errors import ConfigError, NotFound, PartialSuccess, TideloreError, UserError
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work.hooks import HookedProject, hooked_projects, received_ids

if TYPE_CHECKING:
    from tidelore.sources.hooks import HookSource, InstalledHook, SentDelivery

Action = Literal["created", "completed", "renewed", "unchanged", "failed"]


class HookInstallation(Struct, frozen=True):
    """What was done for one project."""

    source: Annotated[str, means("the configured host")]
    project: Annotated[str, means("the project")]
    url: Annotated[str, means("the address of the webhook")]
    action: Annotated[
        Action, means("created, completed, renewed, unchanged or failed; with --dry-run what would be done")
    ]
    missing: Annotated[list[str], means("events that were missing before")]
    error: Annotated[str | None, means("why it failed, or null")] = None


class HookInstallations(Struct, frozen=True):
    """The answer of `lore hooks install`."""

    items: list[HookInstallation]
    total: Annotated[int, means("number of items")]
    dry_run: Annotated[bool, means("whether nothing was changed")]
    next: Annotated[None, means("null: the list is complete")] = None

    @property
    def failure(self) -> TideloreError | None:
        """The error of an installation that failed for some projects."""
        return _failure([one.project for one in self.items if one.error is not None], "could not install")


class HookCheck(Struct, frozen=True, kw_only=True):
    """The webhook of one project, as the forge and this database see it."""

    source: Annotated[str, means("the configured host")]
    project: Annotated[str, means("the project")]
    state: Annotated[
        Literal["ok", "missing", "incomplete", "disabled", "failing", "unchecked"],
        means(
            "ok, or what is wrong: no webhook, events missing, disabled by the forge, last delivery failed, not read"
        ),
    ]
    missing: Annotated[list[str], means("events that it does not send")]
    sent: Annotated[int, means("last deliveries that the forge lists")]
    accepted: Annotated[int, means("of these, answered with a status below 300")]
    stored: Annotated[int, means("of these, stored here as accepted deliveries")]
    last_status: Annotated[int | None, means("the status of the last one, or null")]
    last_received_at: Annotated[Instant | None, means("when a delivery was last accepted here, or null")]
    error: Annotated[str | None, means("why it could not be checked, or null")] = None


class HookChecks(Struct, frozen=True):
    """The answer of `lore hooks check`."""

    items: list[HookCheck]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None

    @property
    def failure(self) -> TideloreError | None:
        """The error if a webhook does not work."""
        return _failure([one.project for one in self.items if one.state != "ok"], "webhooks do not work for")


def _failure(names: Sequence[str], what: str) -> TideloreError | None:
    if not names:
        return None
    told = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return PartialSuccess(
        f"{what} {told}",
        fix="give the token the right to manage webhooks (GitLab: scope api and role Maintainer; GitHub: repository"
        " webhooks), check the address, and run `lore hooks install` again",
        projects=list(names),
    )


def install_hooks(app: App, url: str, source: str | None, *, dry_run: bool, renew: bool) -> HookInstallations:
    """Install a webhook in every mirrored project of the hosts that have a secret."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname or place.query or place.username:
        raise UserError(
            f"invalid value for --url: {url!r}",
            fix="give the address at which forges reach the service, such as https://lore.example.com",
        )
    return run_until_signalled(_install(app, url.rstrip("/"), source, dry_run=dry_run, renew=renew))


def check_hooks(app: App, url: str | None, source: str | None) -> HookChecks:
    """Compare the webhooks of every mirrored project with what arrived; without `url`, those ending in our path."""
    return run_until_signalled(_check(app, url and url.rstrip("/"), source))


async def _install(app: App, url: str, source: str | None, *, dry_run: bool, renew: bool) -> HookInstallations:
    found: list[HookInstallation] = []
    async with AsyncExitStack() as stack:
        for host, rows in _places(app, source):
            secret = _secret(app, host)
            opened = await _open(app, host, stack)
            address = f"{url}/hooks/{host.name}"
            found += [
                await _install_one(app, opened, host, row, address, secret, dry_run=dry_run, renew=renew)
                for row in rows
            ]
    return HookInstallations(found, len(found), dry_run)


async def _install_one(
    app: App, opened: HookSource, host: Host, row: ProjectRow, address: str, secret: str, *, dry_run: bool, renew: bool
) -> HookInstallation:
    from tidelore.sync.projects import confirm_address

    try:
        await confirm_address(app.config, opened, row)
        known = next((hook for hook in await opened.hooks(row.remote_id) if hook.url == address), None)
        missing = [] if known is None else list(known.missing)
        action = _needed(known, renew=renew)
        if action != "unchanged" and not dry_run:
            saved = await opened.save_hook(row.remote_id, None if known is None else known.id, address, secret)
            # Read back: what the forge answers to a write is not yet what it will do.
            kept = [hook for hook in await opened.hooks(row.remote_id) if hook.id == saved.id]
            if not kept or kept[0].missing or kept[0].disabled:
                return HookInstallation(
                    host.name, row.path, address, "failed", missing, "the forge did not store it as requested"
                )
        return HookInstallation(host.name, row.path, address, action, missing)
    except TideloreError as error:
        return HookInstallation(host.name, row.path, address, "failed", [], error.message)


def _needed(known: InstalledHook | None, *, renew: bool) -> Action:
    if known is None:
        return "created"
    if known.missing or known.disabled:
        return "completed"
    return "renewed" if renew else "unchanged"


async def _check(app: App, url: str | None, source: str | None) -> HookChecks:
    found: list[HookCheck] = []
    async with AsyncExitStack() as stack:
        for host, rows in _places(app, source):
            opened = await _open(app, host, stack)
            path = f"/hooks/{host.name}"
            with app.reading() as database:
                hooked = {one.project_id: one for one in hooked_projects(database)}
            found += [await _check_one(app, opened, host, row, url, path, hooked.get(row.id)) for row in rows]
    return HookChecks(found, len(found))


async def _check_one(
    app: App,
    opened: HookSource,
    host: Host,
    row: ProjectRow,
    url: str | None,
    path: str,
    hooked: HookedProject | None,
) -> HookCheck:
    from tidelore.sync.projects import confirm_address

    last = None if hooked is None else instant(hooked.last_at)
    try:
        await confirm_address(app.config, opened, row)
        ours = [one for one in await opened.hooks(row.remote_id) if _is_ours(one, url, path)]
        sent = await opened.hook_deliveries(row.remote_id, ours[0].id) if ours else []
    except TideloreError as error:
        return HookCheck(
            source=host.name,
            project=row.path,
            state="unchecked",
            missing=[],
            sent=0,
            accepted=0,
            stored=0,
            last_status=None,
            last_received_at=last,
            error=error.message,
        )
    with app.reading() as database:
        stored = received_ids(database, host.name, [one.delivery_id for one in sent if one.delivery_id])
    return HookCheck(
        source=host.name,
        project=row.path,
        state=_state(ours, sent),
        missing=list(ours[0].missing) if ours else [],
        sent=len(sent),
        accepted=sum(one.status is not None and one.status < 300 for one in sent),
        stored=len(stored),
        last_status=sent[0].status if sent else None,
        last_received_at=last,
    )


def _state(
    ours: Sequence[InstalledHook], sent: Sequence[SentDelivery]
) -> Literal["ok", "missing", "incomplete", "disabled", "failing"]:
    if not ours:
        return "missing"
    if ours[0].disabled:
        return "disabled"
    if ours[0].missing:
        return "incomplete"
    failed = bool(sent) and (sent[0].status is None or sent[0].status >= 300)
    return "failing" if failed else "ok"


def _is_ours(hook: InstalledHook, url: str | None, path: str) -> bool:
    return hook.url == f"{url}{path}" if url is not None else hook.url.endswith(path)


def _places(app: App, source: str | None) -> list[tuple[Host, list[ProjectRow]]]:
    """Return the hosts with webhooks and their stored, mirrored projects."""
    from tidelore.app.hooks.jobs import covers

    hosts = [host for host in all_hosts(app.config) if host.hook_secret_env and source in (None, host.name)]
    if not hosts:
        raise ConfigError(
            "no host has hook_secret_env" if source is None else f"{source} is not a host with hook_secret_env",
            fix="name the variable with the webhook's secret in hook_secret_env of the host",
            key="hook_secret_env",
        )
    with app.reading() as database:
        rows = list_projects(database)
    found = [(host, [row for row in rows if row.source == host.name and covers(host)(row)]) for host in hosts]
    if not any(rows for _, rows in found):
        raise NotFound("no project of these hosts was synced yet", fix="run `lore sync` first")
    return found


def _secret(app: App, host: Host) -> str:
    secret = app.environ.get(host.hook_secret_env, "").strip()
    if not secret:
        raise ConfigError(
            f"{host.hook_secret_env} is not set",
            fix=f"export {host.hook_secret_env} with the secret that the service uses too",
            key=f"{host.kind}.hook_secret_env",
        )
    return secret


async def _open(app: App, host: Host, stack: AsyncExitStack) -> HookSource:
    from tidelore.sources.hooks import HookSource
    from tidelore.sources.registry import open_host

    opened = await stack.enter_async_context(open_host(host, app.wiring(lambda _metric: None)))
    if opened.closed is not None:
        raise opened.closed
    assert isinstance(opened, HookSource), f"{host.title} has no webhooks"
    return opened
