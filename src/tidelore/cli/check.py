"""`lore check`: checks the database for inconsistencies."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.core.clock import SystemClock
from tidelore.core.errors import IntegrityError
from tidelore.store.mirror.check import check_database


@click.command("check", cls=LoreCommand, example="lore check")
@click.pass_context
def command(ctx: click.Context) -> Answer:
    """Check the database for inconsistencies.

    Reads the whole database and changes nothing. Exits with 8 if a check fails.
    """
    database = face_of(ctx).open_store()
    try:
        findings = check_database(database, SystemClock().now_ms())
    finally:
        database.close()
    broken = [finding for finding in findings if not finding.ok]
    width = max(len(finding.check) for finding in findings)
    lines = [f"{'ok ' if f.ok else 'BAD'} {f.check:<{width}}  {f.detail}" for f in findings]
    data = {"checks": [{"check": f.check, "ok": f.ok, "detail": f.detail, "count": f.count} for f in findings]}
    error = None
    if broken:
        error = IntegrityError(
            f"{len(broken)} of {len(findings)} checks failed: {', '.join(f.check for f in broken)}",
            fix="keep this database, sync into a new one with --db, and report the output of `lore check`",
        )
    return Answer(data, lines, error)
