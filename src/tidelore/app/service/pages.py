"""The pages that the running service answers with: `/metrics` and `/healthz`, both read from rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from tidelore.feedback.metrics import CONTENT_TYPE
from tidelore.service.exposition import Page
from tidelore.service.metrics import export_all
from tidelore.service.status import read_service

if TYPE_CHECKING:
    from tidelore.clock import Clock
    from tidelore.store.database import Database


def build_pages(database: Database, clock: Clock) -> Mapping[str, Callable[[], Page]]:
    """Return what is answered to each path."""

    def metrics() -> Page:
        return Page(200, CONTENT_TYPE, export_all(database, clock.now_ms()).encode())

    def healthz() -> Page:
        health = read_service(database, clock.now_ms()).health
        return Page(200 if health.ok else 503, "application/json", msgspec.json.encode(health) + b"\n")

    return {"/metrics": metrics, "/healthz": healthz}
