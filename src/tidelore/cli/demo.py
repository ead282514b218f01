"""`lore demo`: mirror a simulated world, change it, mirror again, and compare the copy with the truth.

The simulator is served over real HTTP on this machine and the real commands' code reads it. Everything is
written to a temporary directory that is gone at the end.
"""

from __future__ import annotations

import tempfile
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer, plural
from tidelore.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.app import App
    from tidelore.pipeline.report import RunReport
    from tidelore.simulator.world import World

LISTS = {"issues": "issues", "merge_requests": "merge requests"}
A_DAY = 86_400


class Difference(Struct):
    """How the copy of one list differs from the world."""

    list: str
    truth: int = 0
    copy: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0


@click.command("demo", cls=LoreCommand)
@click.option("--seed", type=int, default=7, show_default=True, help="Same seed, same world.")
@click.option("--scale", type=click.FloatRange(0.1, 100), default=1.0, show_default=True, help="How big a world.")
@click.pass_context
def command(ctx: click.Context, seed: int, scale: float) -> Answer:
    """Mirror a simulated world and compare the copy with its truth.

    No token, no network, nothing left behind. Exits with 8 if the copy and the world differ.
    """
    from tidelore.simulator.server import serve
    from tidelore.simulator.world import build_world

    robot = face_of(ctx).choices.robot

    def say(text: str = "") -> None:
        if not robot:
            click.echo(text)

    world = build_world(seed, scale)
    with tempfile.TemporaryDirectory(prefix="tidelore-demo-") as folder, serve(world) as server:
        say(f"A simulated GitLab at {server.url} (seed {seed}); the copy is in a temporary directory.")
        data = _play(_app(server.url, world, f"{folder}/lore.db"), world, say)
    differences: list[Difference] = data["comparison"]
    wrong = sum(d.missing + d.extra + d.different for d in differences)
    error = None
    if wrong:
        error = IntegrityError(f"the copy and the world differ in {wrong} places", fix="report this with the seed")
    return Answer({"seed": seed, **data, "comparison": [_plain(d) for d in differences]}, (), error)


def _play(app: App, world: World, say: Callable[[str], None]) -> dict[str, Any]:
    say("\n1. First mirror")
    first = _mirror(app)
    for path in _paths(world):
        counts = [scope.tally.created for scope in first.scopes if scope.project == path]
        say(f"   {path:<32} {counts[0]:>4} issues {counts[1]:>4} merge requests")
    say(f"   {_stored(first)} in {plural(first.requests, 'request')}, {first.seconds:.2f} s")

    say("\n2. The world changes, and a day passes")
    with world.lock:
        changes = world.gitlab.change(60, world.rng, advance=world.advance)
        world.advance(A_DAY)
    done = Counter(change["kind"].replace("_", " ") for change in changes)
    listed = ", ".join(f"{count} × {kind}" for kind, count in sorted(done.items()))
    say(textwrap.fill(listed, 96, initial_indent="   ", subsequent_indent="   "))

    say("\n3. Second mirror: only what changed")
    second = _mirror(app)
    tallies = [scope.tally for scope in second.scopes]
    new, changed = sum(t.created for t in tallies), sum(t.changed for t in tallies)
    say(f"   {new} new, {changed} changed, in {plural(second.requests, 'request')}")

    say("\n4. Verification: what no cursor can see (deletions, pushes)")
    scrub = _mirror(app, walk=False, scrub_budget=1_000_000)
    gone = sum(scope.tally.gone for scope in (*second.scrubbed, *scrub.scrubbed))
    mended = sum(scope.tally.changed for scope in (*second.scrubbed, *scrub.scrubbed))
    say(f"   {gone} gone, {mended} corrected, in {plural(scrub.requests, 'request')}")

    say("\n5. Nothing changes any more")
    quiet = _mirror(app)
    stored = sum(scope.tally.created + scope.tally.changed for scope in quiet.scopes)
    say(f"   {plural(quiet.requests, 'request')} for {plural(len(quiet.scopes), 'list')}, {stored} items stored")

    say("\n6. Comparison with the simulator's truth")
    differences = [compare(app, world, resource) for resource in LISTS]
    for found in differences:
        say(f"   {_verdict(found)}")
    runs = {"first": first, "second": second, "verification": scrub, "quiet": quiet}
    return {
        "requests": {name: run.requests for name, run in runs.items()},
        "stored": {
            name: sum(scope.tally.created + scope.tally.changed for scope in (*run.scopes, *run.scrubbed))
            for name, run in runs.items()
        },
        "gone": gone,
        "changes": dict(done),
        "comparison": differences,
    }


def compare(app: App, world: World, resource: str) -> Difference:
    """Compare every live row's payload with what the forge would show now."""
    from tidelore.store.parents import live_payloads

    truth_of = world.gitlab.truth_issues if resource == "issues" else world.gitlab.truth_merge_requests
    result = Difference(resource)
    database = app.open_store()
    try:
        for path in _paths(world):
            truth = {payload["id"]: payload for payload in truth_of(path)}
            stored = live_payloads(database, resource, path)
            copy = {key: msgspec.json.decode(payload) for key, payload in stored.items()}
            result.truth += len(truth)
            result.copy += len(copy)
            result.missing += len(truth.keys() - copy.keys())
            result.extra += len(copy.keys() - truth.keys())
            result.different += sum(1 for key in truth.keys() & copy.keys() if truth[key] != copy[key])
    finally:
        database.close()
    return result


def _verdict(found: Difference) -> str:
    sizes = f"{found.truth:>5} in the world, {found.copy:>5} in the copy"
    faults = f"{found.missing} missing, {found.extra} extra, {found.different} different"
    return f"{LISTS[found.list]:<15} {sizes}: {faults}"


def _app(url: str, world: World, path: str) -> App:
    from tidelore.app import App
    from tidelore.config import parse_config

    hosts = [{"name": "simulated", "base_url": url, "projects": _paths(world)}]
    return App(parse_config({"gitlab": hosts}), {}, db=path)


def _mirror(app: App, *, walk: bool = True, scrub_budget: int | None = None) -> RunReport:
    from tidelore.app import mirror, run_until_signalled
    from tidelore.pipeline.mirror import MirrorRequest

    request = MirrorRequest(tuple(LISTS), walk=walk, scrub_budget=scrub_budget)
    return run_until_signalled(mirror(app, request, "lore demo"))


def _paths(world: World) -> list[str]:
    return [project.path for project in world.gitlab.projects.values()]


def _stored(report: RunReport) -> str:
    return plural(sum(scope.tally.created for scope in report.scopes), "item")


def _plain(difference: Difference) -> dict[str, Any]:
    return {name: getattr(difference, name) for name in difference.__struct_fields__}
