"""`lore demo`: mirror a simulated world, be killed, go on, see it change, and compare the copy with the truth.

The simulator is served over real HTTP on this machine and the real commands' code reads it. Everything is
written to a temporary directory that is gone at the end.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import convert
from msgspec.structs import asdict

from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import read_seconds
from tidelore.cli.output.render import Output, plural
from tidelore.core.errors import UserError
from tidelore.core.signals import ended_in_order
from tidelore_world.demo.comparison import Difference, compare, count_copies
from tidelore_world.demo.shapes import DemoStory, LiveDemo
from tidelore_world.demo.text import FATE, corrected, corrections, counted, fill, judge, title, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.app.wiring import App
    from tidelore.sync.report import RunReport
    from tidelore_world.wire import Request
    from tidelore_world.world import World

A_DAY = 86_400
KINDS_OF_ISSUES, KINDS_OF_MERGE_REQUESTS = 2, 5
"""How many kinds of children each has: each is one transaction of the first mirror."""
SILENT = ("throttled_note", "delete_note", "push")
"""What happens without a new `updated_at`: a note in the minute after a change, a note deleted, a push."""


@lore_command("demo", example="lore demo --seed 7", answer=(DemoStory, LiveDemo))
@click.option("--seed", type=int, default=7, show_default=True, help="Random seed of the simulated data.")
@click.option(
    "--scale", type=click.FloatRange(0.1, 100), default=1.0, show_default=True, help="Amount of simulated data."
)
@click.option("--console", is_flag=True, help="Open the console on simulated servers instead; q quits.")
@click.option("--web", is_flag=True, help="Serve the web page of a simulated world instead; Ctrl+C stops.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="With --web: its port.")
@click.option("--open", "in_browser", is_flag=True, help="With --web: open it in the browser.")
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    callback=read_seconds,
    help="With --console: run this long without a screen, then compare.",
)
def command(invocation: Invocation, /, seed: int, scale: float, seconds: float | None, **face: Any) -> Output:
    """Mirror a simulated world and verify the copy.

    Kills the first sync half way, resumes it, changes the simulated data, syncs again and compares the copy with the
    simulator. Then GitHub repositories and Bluesky accounts are added, changed and compared in the same way, and one
    search covers all three. Needs no token and no network and leaves no files behind. Exits with 8 if copy and
    simulator differ.

    With --console, runs the service and the console against a simulated GitLab, GitHub and Bluesky; with --web, the
    service and the web page.
    """
    if face["web"]:
        from tidelore_world.demo.living import serve_live

        return serve_live(invocation, seed, scale, face["port"], in_browser=face["in_browser"])
    if face["console"]:
        from tidelore_world.demo.living import run_live

        return run_live(invocation, seed, scale, seconds)
    if seconds is not None:
        raise UserError("--for belongs to --console", fix="add --console, or leave --for out")
    from tidelore_world.server import serve
    from tidelore_world.world import World

    robot = invocation.choices.robot

    def say(text: str = "") -> None:
        if not robot:
            click.echo(text)

    world = World(seed)
    world.gitlab.populate(scale)
    with ended_in_order(FATE), tempfile.TemporaryDirectory(prefix="tidelore-demo-") as folder, serve(world) as server:
        say(f"Simulated GitLab at {server.url} (seed {seed}). The local copy is in a temporary directory.")
        story = Story(world, server.url, f"{folder}/lore.db", say)
        data, differences = story.tell()
        data |= story.answer()
        data |= story.add_sources(scale, differences)
    told = {"seed": seed, **data, "comparison": [asdict(found) for found in differences]}
    return Output(convert(told, DemoStory), (), judge(differences))


class Story:
    """One demonstration: the world, the copy, and what is told about both."""

    def __init__(self, world: World, url: str, database: str, say: Callable[[str], None]) -> None:
        from tidelore_world.demo.killed_mirror import open_app

        self.world = world
        self.url = url
        self.database = database
        self.say = say
        self.paths = [project.path for project in world.gitlab.projects.values()]
        self.app: App = open_app(url, database, self.paths)
        self.asked: Counter[str] = Counter()
        world.before_request.append(self._listen)

    def tell(self) -> tuple[dict[str, Any], list[Difference]]:
        """Tell the whole story; return its numbers and the comparison at its end."""
        from tidelore_world.demo.killed_mirror import mirror_all

        killed = self._be_killed()
        resumed, repeated = self._resume()
        changes = self._change()
        changed = mirror_all(self.app)
        self.say(f"   {_news(changed)}; {_early(changed)} will be fetched again after the settle time")
        silent = self._change_silently()
        settled = mirror_all(self.app)
        self.say(f"   {_reread(settled)}, in {plural(settled.requests, 'request')}")
        self.say("\n5. Verification: every item is fetched again and compared")
        verified = mirror_all(self.app, walk=False, scrub_budget=1_000_000)
        runs = {"resumed": resumed, "changed": changed, "settled": settled, "verification": verified}
        found = corrected(list(runs.values()))
        self.say(f"   {corrections(found)}, in {plural(verified.requests, 'request')}")
        self.say("\n6. Sync without any changes")
        runs["quiet"] = quiet = mirror_all(self.app)
        lists = plural(len(quiet.scopes), "list")
        self.say(f"   {plural(quiet.requests, 'request')} for {lists} and all their children, {_stored(quiet)} stored")
        return {
            "killed": killed,
            "requests": {"killed": killed["requests"], **{name: run.requests for name, run in runs.items()}},
            "repeated": repeated,
            "stored": {name: _stored(run) for name, run in runs.items()},
            "corrected": found,
            "changes": changes,
            "silent": silent,
        }, self._compare()

    def answer(self) -> dict[str, Any]:
        """Ask the copy a question, let somebody answer in the thread that was found, and refresh that alone."""
        from tidelore_world.demo.answers import REPLY, Answers

        answers = Answers(self.app, self.say)
        told: dict[str, Any] = {"search": answers.prepare(), "refreshed": None}
        best = answers.ask()
        if best is None or best.project is None or best.iid is None:
            return told
        self.say("\n10. A reply is posted there; only this merge request is synced")
        with self.world.lock:
            merge_request = self.world.gitlab.merge_request(best.project, best.iid)
            self.world.gitlab.add_note(merge_request, REPLY, discussion=merge_request.discussions[0])
        return told | {"refreshed": answers.refresh(best)}

    def add_sources(self, scale: float, differences: list[Difference]) -> dict[str, Any]:
        """Mirror GitHub and Bluesky too, add their comparison to the differences, and search all three sources."""
        from tidelore_world.demo.more_sources import MoreSources

        more = MoreSources(self.world, self.url, self.database, self.paths, scale, self.say)
        added = more.mirror()
        differences += more.compare()
        return {"added": added, "answers": more.search()}

    def _be_killed(self) -> dict[str, Any]:
        from tidelore_world.demo.killed_mirror import mirror_and_die

        self.say("\n1. First sync, in a process that is killed halfway")
        projects = self.world.gitlab.projects.values()
        issues = sum(len(project.issues) for project in projects)
        merge_requests = sum(len(project.merge_requests) for project in projects)
        conversations = issues * KINDS_OF_ISSUES + merge_requests * KINDS_OF_MERGE_REQUESTS
        mirror_and_die(self.url, self.database, self.paths, conversations // 2)
        requests = sum(self.asked.values())
        stored = self._count()
        self.say(f"   Killed (SIGKILL) inside a transaction, after {plural(requests, 'request')}. Stored so far:")
        self.say(counted(stored))
        return {"requests": requests, "stored": stored}

    def _resume(self) -> tuple[RunReport, int]:
        from tidelore_world.demo.killed_mirror import mirror_all

        before = Counter(self.asked)
        report = mirror_all(self.app)
        repeated = sum(count for target, count in (self.asked - before).items() if target in before)
        self.say("\n2. Sync again: continues where the killed process stopped")
        for path in self.paths:
            stored = self._count(path)
            listed = " ".join(f"{stored[name]:>5,} {title(name)}" for name in ("issues", "merge_requests", "notes"))
            self.say(f"   {path:<32}{listed}")
        self.say(f"   {plural(report.requests, 'request')}, {repeated:,} of them repeated")
        return report, repeated

    def _change(self) -> dict[str, int]:
        from tidelore_world.gitlab.actions import EVERYDAY, ON_REQUEST

        self.say("\n3. Data changes on the server and is synced within the same minute")
        world = self.world
        with world.lock:
            done = world.gitlab.change(60, world.rng, [*EVERYDAY, *ON_REQUEST], world.advance)
            # In the present minute, so that what is written next cannot touch these.
            done += world.gitlab.change(6, world.rng, ["edit_issue", "edit_merge_request"])
        return self._tell_changes(done)

    def _change_silently(self) -> dict[str, int]:
        self.say("\n4. Changes without a new updated_at; then a day passes")
        world = self.world
        with world.lock:
            done = [change for kind in SILENT for change in world.gitlab.change(4, world.rng, [kind])]
            world.advance(A_DAY)
        return self._tell_changes(done)

    def _tell_changes(self, changes: list[dict[str, Any]]) -> dict[str, int]:
        done = Counter(change["kind"] for change in changes)
        self.say(fill([f"{count} × {title(kind)}" for kind, count in sorted(done.items())]))
        return dict(done)

    def _compare(self) -> list[Difference]:
        from tidelore_world.demo.truth import true_rows

        self.say("\n7. Local copy compared with the simulated server")
        database = self.app.open_store()
        try:
            differences = compare(database, partial(true_rows, self.world.gitlab), self.paths)
        finally:
            database.close()
        for found in differences:
            self.say(f"   {verdict(found)}")
        return differences

    def _count(self, *paths: str) -> dict[str, int]:
        database = self.app.open_store()
        try:
            return count_copies(database, paths or self.paths)
        finally:
            database.close()

    def _listen(self, request: Request) -> None:
        query = "&".join(f"{name}={value}" for name, value in sorted(request.query.items()))
        self.asked[f"{request.path}?{query}"] += 1


def _news(report: RunReport) -> str:
    new = sum(scope.tally.created for scope in report.scopes)
    changed = sum(scope.tally.changed for scope in report.scopes)
    return f"{new:,} new, {changed:,} changed, in {plural(report.requests, 'request')}"


def _early(report: RunReport) -> str:
    tallies = [scope.children["discussions"].tally for scope in report.scopes]
    return plural(sum(tally.fetched - tally.settled for tally in tallies), "conversation")


def _reread(report: RunReport) -> str:
    tallies = [scope.children["discussions"].tally for scope in report.scopes]
    reread = plural(sum(tally.fetched for tally in tallies), "conversation")
    return f"{reread} fetched again, {plural(sum(tally.changed for tally in tallies), 'discussion')} changed"


def _stored(report: RunReport) -> int:
    """Return how many rows a run stored: items and children, of the walk and of the verification."""
    scopes = (*report.scopes, *report.scrubbed)
    items = sum(scope.tally.created + scope.tally.changed for scope in scopes)
    return items + sum(child.tally.changed for scope in scopes for child in scope.children.values())
