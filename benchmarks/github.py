"""Benchmark `github`: a first mirror of a repository, runs without change, a run after one comment, and verification.

Only requests are counted, so the numbers do not depend on the machine. The least possible is what one page for each
hundred listed items, one query for each hundred pull requests, and one request for each list of one item add up to.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.workplace import checked
from tidelore.app.mirroring import mirror, scrub
from tidelore.app.wiring import App
from tidelore.core.config_file import parse_config
from tidelore.sources.ports import RESOURCES
from tidelore.sync.mirror import MirrorRequest
from tidelore_world.server import serve
from tidelore_world.world import World

REPO = "harbour/archive"
TOKEN = "a-token-of-the-benchmarks"
THREADS, COMMENTS = 5, 3
PER_PAGE = 100
FIRST_BOUND = 1.05
QUIET_BOUND = 4
COMMENT_BOUND = 6
HISTORIES = (1, 50, 500)
VERIFY_BOUND = 60
BY_ITEM = 2
"""The lists of one pull request that cannot be read for many at once: timeline and files."""


def least_requests(pulls: int) -> int:
    """Return the least that brings everything: the repository, the lists' pages, the queries, each single list."""
    pages = ceil(pulls / PER_PAGE)
    review_comments = ceil(pulls * THREADS * COMMENTS / PER_PAGE)
    # Pull requests, their issue sides and their queries come by the hundred; there are no conversation comments.
    return 1 + 3 * pages + 1 + review_comments + BY_ITEM * pulls


def run(scale: Scale) -> Iterator[Finding]:
    """Count the requests of a first mirror, of quiet runs for histories of several sizes, and after one comment."""
    pulls = scale.merge_requests
    first, _, _ = _count(pulls, threads=THREADS)
    yield Finding("github", f"{pulls:,} pull requests: requests of the first mirror", first)
    yield Finding(
        "github", f"{pulls:,} pull requests: first mirror / the least possible", first / least_requests(pulls), "x",
        FIRST_BOUND,
    )  # fmt: skip
    for size in HISTORIES:
        _, quiet, commented = _count(size, threads=1)
        yield Finding("github", f"{size:,} pull requests: requests without change", quiet, bound=QUIET_BOUND)
        yield Finding("github", f"{size:,} pull requests: requests after one comment", commented, bound=COMMENT_BOUND)

    requests, points = _verify(pulls)
    title = f"{pulls:,} pull requests x {THREADS} threads x {COMMENTS} comments"
    yield Finding("github", f"{title}: requests that verify all", requests, bound=VERIFY_BOUND)
    yield Finding("github", f"{title}: GraphQL points that verify all", points)


def _verify(pulls: int) -> tuple[int, int]:
    """Verify the lists, comments, reviews, threads and closing issues; return the requests and points of that."""
    world = World()
    world.keep_log = False
    world.github.create_repo(REPO)
    world.github.bulk(REPO, pulls=pulls, threads=THREADS, comments=COMMENTS)
    # The last conversations take some hours; until they are over, their pull requests would be read as changed ones.
    world.advance(24 * 3600)
    with serve(world) as server, tempfile.TemporaryDirectory() as folder:
        # Timelines and files are a request for each pull request in any case.
        app = _app(server.url, Path(folder) / "lore.db", fetch_resource_events=False, fetch_mr_diffs=False)
        _mirror(app)
        world.advance(3600)
        before = world.github.limits.graphql(TOKEN)["used"]
        report = checked(app, lambda opened: scrub(opened, None, VERIFY_BOUND, force=True))
        points = world.github.limits.graphql(TOKEN)["used"] - before
    verified = Counter[str]()
    for scope in report.scrubbed:
        verified.update({kind: child.tally.fetched for kind, child in scope.children.items()})
    for kind in ("comments", "reviews", "threads", "closes_issues"):
        if verified[kind] < pulls:
            raise RuntimeError(f"{kind} of only {verified[kind]} of {pulls} pull requests were verified")
    return report.requests, points


def _count(pulls: int, *, threads: int) -> tuple[int, int, int]:
    """Return the requests of a first run, of one without change, and of one after a comment on a pull request."""
    world = World()
    world.keep_log = False
    world.github.create_repo(REPO)
    world.github.bulk(REPO, pulls=pulls, threads=threads, comments=COMMENTS)
    world.advance(3600)
    # Verification has a share of its own, which is measured by the other benchmarks.
    with serve(world) as server, tempfile.TemporaryDirectory() as folder:
        app = _app(server.url, Path(folder) / "lore.db")
        first = _mirror(app)
        world.advance(3600)
        _mirror(app)
        world.advance(3600)
        quiet = _mirror(app)
        world.github.comment(REPO, pulls, "One more thing.", "mira")
        world.advance(3600)
        return first, quiet, _mirror(app)


def _app(url: str, database: Path, **settings: bool) -> App:
    host = {"name": "simulated", "base_url": url, "repos": [REPO]}
    config = parse_config({"github": [host], "sync": {"scrub_share": 0.0, **settings}})
    return App(config, {"GITHUB_TOKEN": TOKEN}, db=str(database))


def _mirror(app: App) -> int:
    return checked(app, lambda opened: mirror(opened, MirrorRequest(RESOURCES), "lore sync")).requests
