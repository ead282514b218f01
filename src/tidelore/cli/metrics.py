"""`lore metrics`: prints metrics in the Prometheus text format."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.core.clock import SystemClock


@click.command("metrics", cls=LoreCommand, example="lore metrics")
@click.pass_context
def command(ctx: click.Context) -> Answer:
    """Print metrics in the Prometheus text format.

    Same as /metrics of the service. Reads the local database only.
    """
    from tidelore.service.metrics import collect_all, export_all

    database = face_of(ctx).open_store()
    try:
        now_ms = SystemClock().now_ms()
        found, text = collect_all(database, now_ms), export_all(database, now_ms)
    finally:
        database.close()
    metrics: list[dict[str, Any]] = [
        {
            "name": metric.name,
            "kind": metric.kind,
            "help": metric.help,
            "samples": [{"labels": dict(sample.labels), "value": sample.value} for sample in samples],
        }
        for metric, samples in found
    ]
    return Answer({"metrics": metrics}, text.splitlines())
