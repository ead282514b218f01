"""Benchmark `batches`: how many requests GitLab's conversations take when GraphQL reads them for many items at once.

Counted are the requests until every conversation of a first sync can be searched, and those that verify all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw

from benchmarks.findings import Finding
from benchmarks.floor import recorder
from benchmarks.scale import Scale
from benchmarks.workplace import app_of, checked, served_world
from benchmarks.world_server import Contents
from tidelore.app.mirroring import mirror, scrub
from tidelore.core.progress import Progress
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport

BOUND = 60
DISCUSSIONS, NOTES = 5, 3
TOKEN = {"GITLAB_TOKEN": "a-token-of-the-benchmark"}


def run(scale: Scale) -> Iterator[Finding]:
    """Count the requests of a first sync and of a verification."""
    contents = Contents(0, scale.merge_requests, discussions=DISCUSSIONS, notes=NOTES, events=1, files=1)
    with served_world(contents) as url, tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "copy.db"
        title = f"{contents.merge_requests:,} MRs x {DISCUSSIONS} discussions x {NOTES} notes"
        yield Finding(
            "batches", f"{title}: requests until searchable", _first_sync(url, database, contents), bound=BOUND
        )
        verified = _verify(url, database, contents)
        yield Finding("batches", f"{title}: requests that verify all", verified, bound=BOUND)


def _first_sync(url: str, database: Path, contents: Contents) -> int:
    """Sync until the first documents are made, and look whether they contain every note; return the requests so far."""
    transport = recorder(url)
    made: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "documents" and progress.done == progress.total:
            made.append(len(transport.addresses))
            raise _Enough

    request = MirrorRequest(("merge_requests",), documents=True, scrub_budget=0)
    with suppress(_Enough):
        checked(app_of(url, database, transport, TOKEN), lambda app: mirror(app, request, "lore sync", watch))
    connection = apsw.Connection(str(database))
    ((notes,),) = connection.execute("SELECT COUNT(*) FROM notes WHERE is_system = 0")
    ((threads,),) = connection.execute("SELECT COUNT(*) FROM documents WHERE source_type = 'discussion'")
    connection.close()
    wanted = contents.merge_requests * DISCUSSIONS
    if notes < wanted * NOTES or threads < wanted:
        raise RuntimeError(f"{notes} notes in {threads} documents after {made} requests")
    return made[0]


class _Enough(Exception):
    """What was to be counted has happened."""


def _verify(url: str, database: Path, contents: Contents) -> int:
    """Verify lists and discussions with a budget of as many requests as may be needed; return how many were."""
    settings = {"fetch_resource_events": False, "fetch_mr_closes_issues": False, "fetch_mr_diffs": False}
    report: RunReport = checked(
        app_of(url, database, None, TOKEN, settings), lambda app: scrub(app, None, BOUND, force=True)
    )
    verified = sum(child.tally.fetched for scope in report.scrubbed for child in scope.children.values())
    if verified < contents.merge_requests:
        raise RuntimeError(f"only {verified} of {contents.merge_requests} conversations were verified")
    return report.requests
