"""Configurations of several hosts and groups, and runs over them that give their report."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.faces.desk import Desk
from tests.support.manual_clock import ManualClock

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport, ScopeReport

DAY = 86_400
GROUP = "GET /groups/:id/projects"
PROJECT = "GET /projects/:id"
QUICK = "[http]\nmax_retries = 0\ntimeout_seconds = 5\nper_page = {per_page}\n[sync]\nscrub_share = 0\n"


class SteadyClock(ManualClock):
    """A clock that only the test moves, some days after the world was made: waiting is done in real time."""

    def __init__(self) -> None:
        super().__init__(1_773_000_000_000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def configure(desk: Desk, *hosts: str, per_page: int = 100) -> None:
    """Write a configuration of these hosts; a run verifies nothing, so that every request is one of the run's own."""
    desk.config.write_text(QUICK.format(per_page=per_page) + "".join(f"[[gitlab]]\n{host}\n" for host in hosts))


def host(desk: Desk, *lines: str) -> str:
    return "\n".join([f'base_url = "{desk.url}"', *lines])


def sync(desk: Desk, clock: SteadyClock | None = None, **request: Any) -> RunReport:
    """Mirror issues as `lore ingest` does, and give the report itself."""
    app = App(load_config(str(desk.config), {}), {}, str(desk.db), clock or SteadyClock())
    resources = request.pop("resources", ("issues",))
    return asyncio.run(mirror(app, MirrorRequest(resources, **request), "test"))


def scopes(report: RunReport) -> dict[str, ScopeReport]:
    return {scope.project: scope for scope in report.scopes}


def paths(desk: Desk) -> dict[int, str]:
    return {int(remote_id): str(path) for remote_id, path in desk.query("SELECT remote_id, path FROM projects")}
