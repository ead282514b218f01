"""Who "me" is on each host: `login` in the configuration, otherwise what the host reported.

`lore doctor` asks for it; the first complete sync and each start of the service do where it is not known.
"""

from __future__ import annotations

from contextlib import suppress

from tidelore.app.wiring import App
from tidelore.core.config import all_hosts
from tidelore.core.errors import TideloreError, UserError
from tidelore.store.database.port import Database
from tidelore.store.work.own_logins import save_login, stored_logins


def own_logins(app: App, database: Database) -> dict[str, str]:
    """Return our login on each host where it is known; the configuration takes precedence."""
    configured = {host.name: host.login for host in all_hosts(app.config) if host.login}
    return stored_logins(database) | configured


def require_logins(app: App, database: Database, purpose: str) -> dict[str, str]:
    """Return our logins, or raise UserError if none is known."""
    found = own_logins(app, database)
    if found:
        return found
    hosts = [f"[[{host.kind}]]" for host in all_hosts(app.config)] or ["[[gitlab]] or [[github]]"]
    raise UserError(
        f"{purpose} needs your login, which is not known for any host",
        fix=f'set `login = "your-name"` in {hosts[0]} of the configuration, or run `lore doctor` with a token',
    )


async def learn_logins(app: App) -> None:
    """Ask each host for our login where it is not known; a host that cannot be asked is left to the next start."""
    # Commands that only read a copy import this module too.
    import logging

    from tidelore.sources.registry import open_host

    log = logging.getLogger(__name__)
    with app.store() as database:
        known = own_logins(app, database)
    for host in all_hosts(app.config):
        if host.name in known or not (host.mirrored.projects or host.mirrored.groups):
            continue
        try:
            async with open_host(host, app.wiring(lambda _metric: None)) as source:
                login = await source.login() if source.closed is None else None
        except TideloreError as error:
            log.info("%s: our login is not known: %s", host.name, error.message, extra={"event": "login_not_known"})
            continue
        if login is not None:
            remember_login(app, host.name, login)


def remember_login(app: App, source: str, login: str) -> None:
    """Store the login that a host reported; without a usable database it is not stored."""
    with suppress(TideloreError), app.store() as database, database.transaction() as tx:
        save_login(tx, source, login, app.clock.now_ms())
