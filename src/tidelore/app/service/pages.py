"""The pages of the running service: `/metrics` and `/healthz`, both read from the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, make_wsgi_app

from tidelore.core.errors import StorageFailed
from tidelore.service.health import Health
from tidelore.service.metrics import MetricsCollector
from tidelore.service.status import read_service

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from tidelore.core.clock import Clock
    from tidelore.store.database.port import Database


def build_pages(open_store: Callable[[], Database], clock: Clock) -> Mapping[str, WSGIApplication]:
    """Return the page of each path. They run in threads, so each request opens a connection for itself."""
    registry = CollectorRegistry()
    registry.register(MetricsCollector(open_store, clock))

    def healthz(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer: Health | dict[str, object]
        try:
            with closing(open_store()) as database:
                answer = health = read_service(database, clock.now_ms()).health
            status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
        except StorageFailed as error:
            answer = {"ok": False, "sources": [], "error": error.message}
            status = HTTPStatus.SERVICE_UNAVAILABLE
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [msgspec.json.encode(answer) + b"\n"]

    return {"/metrics": make_wsgi_app(registry), "/healthz": healthz}
