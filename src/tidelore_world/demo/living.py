"""`lore demo --console`: the service and its screens on a simulated world that goes on living while somebody watches.

Owns the stage: the world on a socket, a configuration and a database in a temporary directory that is gone at the end.
The console and the service are the real ones. With `--for` the same goes on without a screen, for programs: then
everything comes to rest, is read once more and is compared with the truth.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import convert
from msgspec.structs import asdict, replace

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App, SettingsFile, run_until_signalled
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, plural
from tidelore.cli.service import is_terminal
from tidelore.core.clock import SystemClock, format_instant
from tidelore.core.config_file import load_config
from tidelore.core.errors import UserError
from tidelore.core.extras import require
from tidelore.core.signals import ended_in_order
from tidelore_world.demo.comparison import Difference, compare, copy_sizes, count_copies
from tidelore_world.demo.killed_mirror import ENVIRON
from tidelore_world.demo.life import Life
from tidelore_world.demo.shapes import LiveDemo
from tidelore_world.demo.text import FATE, WIDE, counted, judge, verdict

if TYPE_CHECKING:
    from tidelore.cli.command import Invocation
    from tidelore_world.world import World

A_DAY = 86_400
PREFIX = "/lore"
_SETTINGS = """
[[gitlab]]
name = "gitlab"
login = "{login}"
base_url = "{url}"
projects = {projects}

[[github]]
name = "github"
login = "{reader}"
base_url = "{url}"
poll_interval_seconds = 5
allowed_users = {people}
track_authors = {people}
operator_logins = {operators}
command_prefix = "{prefix}"
{repos}

[bluesky]
base_url = "{url}"
plc_url = "{url}"
accounts = {accounts}
interval_minutes = 0.05
max_staleness_minutes = 0.2
initial_lookback_hours = 100000

[sync]
verify_reviewers = true

[service]
gitlab_interval_seconds = 3
metrics_port = 0
"""


class Tomorrow(SystemClock):
    """Our clock when a day has passed, for us and for the world."""

    def now_ms(self) -> int:
        return super().now_ms() + A_DAY * 1000


class Stage:
    """A world with everybody in it, and the application that follows all of them."""

    def __init__(self, world: World, url: str, folder: Path, seed: int) -> None:
        self.world = world
        self.people = [person.username.replace(".", "-") for person in world.prose.people]
        self.config_file = str(folder / "config.toml")
        self._database = str(folder / "lore.db")
        Path(self.config_file).write_text(_settings(world, url, self.people), encoding="utf-8")
        self.app = self.load()
        self.settings = SettingsFile(self.config_file, self.load)
        self.life = Life(world, seed, self.people[0], self.app.clock)

    def load(self) -> App:
        """Read the settings; nothing of whoever runs the demonstration has a say in them."""
        return App(load_config(self.config_file, {}), ENVIRON, db=self._database)

    async def follow(self) -> None:
        """Follow every pull request that is open; those to come are followed by rule, accounts by the settings."""
        from tidelore.app.feedback_tracking import track
        from tidelore.feedback.repositories import choose_repos

        for place in choose_repos(self.app.config, None, "github"):
            for pull in self.world.github.truth_pulls(place.name):
                if pull["state"] == "open":
                    await track(self.app, place, pr=pull["number"], issue=None)

    async def fill(self) -> None:
        """Mirror everything once, with documents, so that the first page has something to show."""
        from tidelore.app.accounts import poll_accounts
        from tidelore.app.mirroring import document
        from tidelore.sources.ports import RESOURCES
        from tidelore.sync.account_poll import PollRequest
        from tidelore.sync.mirror import MirrorRequest

        await self.follow()
        await mirror(self.app, MirrorRequest(RESOURCES), "lore demo")
        await poll_accounts(self.app, PollRequest(everyone=True))
        await document(self.app, full=False, force=False)

    def held(self) -> dict[str, int]:
        """Return what the copy holds, by list."""
        from tidelore_world.demo.truth_github import compare_github
        from tidelore_world.demo.truth_talk import count_talk

        database = self.app.open_store()
        try:
            repositories = copy_sizes(compare_github(database, self.world.github))
            return count_copies(database, self._paths()) | repositories | count_talk(database)
        finally:
            database.close()

    async def come_to_rest(self) -> None:
        """Let a day pass in which nothing happens, and read and verify everything once more."""
        from tidelore.app import feedback_polling as polling
        from tidelore.app.accounts import poll_accounts
        from tidelore.feedback.repositories import choose_repos
        from tidelore.sources.ports import RESOURCES
        from tidelore.sync.account_poll import PollRequest
        from tidelore.sync.mirror import MirrorRequest

        self.world.advance(A_DAY)
        app = replace(self.app, clock=Tomorrow())
        for _ in range(2):
            # What the first one sends or brings is seen by the second.
            places = choose_repos(app.config, None, "github")
            await polling.poll_places(app, places, polling.FeedbackPollRequest(command="lore demo"))
            await poll_accounts(app, PollRequest(everyone=True, verify=True, documents=False))
        # After the polls: the answers they send to commands are comments of the repositories.
        await mirror(app, MirrorRequest(RESOURCES), "lore demo")
        await mirror(app, MirrorRequest(RESOURCES, walk=False, scrub_budget=1_000_000), "lore demo")

    def compare(self) -> list[Difference]:
        """Compare the copy with the truth of all three networks."""
        from tidelore_world.demo.truth import true_rows
        from tidelore_world.demo.truth_github import compare_github
        from tidelore_world.demo.truth_talk import compare_talk

        world = self.world
        database = self.app.open_store()
        try:
            found = compare(database, partial(true_rows, world.gitlab), self._paths())
            found += compare_github(database, world.github)
            return found + compare_talk(database, world.github, world.bluesky, self.people, PREFIX)
        finally:
            database.close()

    def _paths(self) -> list[str]:
        return [project.path for project in self.world.gitlab.projects.values()]


def run_live(invocation: Invocation, seed: int, scale: float, seconds: float | None) -> Output:
    """Show a living world in the console, or, for so many seconds, let it be mirrored without a screen."""
    if seconds is None and (invocation.choices.robot or not is_terminal()):
        raise UserError(
            "`lore demo --console` needs a terminal",
            fix="use `--for DURATION` to run it without a terminal",
        )
    if seconds is None:
        require("console", "`lore demo --console`")
    with ended_in_order(FATE), staged(seed, scale) as stage:
        unseen = seconds is not None
        set_up_logging(stage.app.config, verbose=invocation.choices.verbose, quiet=unseen, service=True)
        run_until_signalled(stage.follow(), FATE)
        if seconds is None:
            return _show(stage, invocation)
        return _tell(stage, invocation, seed, seconds)


def serve_live(invocation: Invocation, seed: int, scale: float, port: int, *, in_browser: bool) -> Output:
    """Mirror a world, then serve its web page while the service follows its changes."""
    require("web", "`lore demo --web`")
    from tidelore.app.console import ServiceThread
    from tidelore.web.server import ServeWeb, WebServer

    with ended_in_order(FATE), staged(seed, scale) as stage:
        set_up_logging(stage.app.config, verbose=invocation.choices.verbose, quiet=True, service=True)
        server = WebServer(stage.app, ServeWeb(port=port))
        server.open()
        click.echo("Mirroring a simulated GitLab, GitHub and Bluesky …", err=True)
        run_until_signalled(stage.fill(), FATE)
        service = ServiceThread(stage.app, stage.settings)
        service.start()
        click.echo(f"Serving {server.address} (Ctrl+C stops)", err=True)
        if in_browser:
            click.launch(server.address)
        try:
            with stage.life.going_on():
                server.run()
        finally:
            service.stop()
        lines = [
            _lived(stage),
            "Stored in the local copy:",
            counted(stage.held()),
            "The temporary directory was removed.",
        ]
        return Output(None, lines, service.error)


@contextmanager
def staged(seed: int, scale: float) -> Iterator[Stage]:
    """Serve a populated world whose present is ours, and clean up behind it."""
    from tidelore_world.server import serve
    from tidelore_world.world import World

    world = World(seed, start=format_instant(SystemClock().now_ms()))
    world.gitlab.populate(scale)
    world.github.populate(scale)
    world.bluesky.populate(scale)
    # Somebody may watch for hours, and asks more in them than anybody would of the real service.
    world.github.settings.anonymous_limit = world.bluesky.settings.rate_limit = None
    with tempfile.TemporaryDirectory(prefix="tidelore-demo-") as folder, serve(world) as server:
        yield Stage(world, server.url, Path(folder), seed)


def _settings(world: World, url: str, people: list[str]) -> str:
    accounts = [account.handle for account in world.bluesky.network.accounts.values() if account.active]
    return _SETTINGS.format(
        url=url,
        # Somebody whom the others wait for, so that the first page has something to show.
        login=world.prose.people[1].username,
        reader=people[1],
        projects=json.dumps([project.path for project in world.gitlab.projects.values()]),
        people=json.dumps(people),
        operators=json.dumps(people[:1]),
        prefix=PREFIX,
        repos="\n".join(f"[[github.repos]]\nname = {json.dumps(name)}" for name in world.github.truth_repos()),
        accounts=json.dumps(accounts),
    )


def _show(stage: Stage, invocation: Invocation) -> Output:
    from tidelore.console.app import run_console

    with stage.life.going_on():
        error = run_console(
            stage.app,
            stage.settings,
            theme="auto",
            color=invocation.choices.color,
            tell=lambda text: click.echo(text, err=True),
            threaded=True,
        )
    lines = [_lived(stage), "Stored in the local copy:", counted(stage.held()), "The temporary directory was removed."]
    return Output(None, lines, error)


def _tell(stage: Stage, invocation: Invocation, seed: int, seconds: float) -> Output:
    from tidelore.app.serving import ServeRequest, run_service

    def say(text: str) -> None:
        if not invocation.choices.robot:
            click.echo(text)

    with stage.life.going_on():
        run_service(stage.app, ServeRequest(seconds=seconds), stage.settings)
    held = stage.held()
    say(_lived(stage))
    say("The service stored:")
    say(counted(held))
    say("Final sync after the last change. Local copy compared with the simulated server:")
    run_until_signalled(stage.come_to_rest(), FATE)
    differences = stage.compare()
    for found in differences:
        say(f"   {verdict(found, WIDE)}")
    data = {
        "seed": seed,
        "seconds": seconds,
        "changed": dict(stage.life.changes),
        "commands": stage.life.commands,
        "held": held,
        "comparison": [asdict(found) for found in differences],
    }
    return Output(convert(data, LiveDemo), (), judge(differences))


def _lived(stage: Stage) -> str:
    parts = [f"{count:,} changes in {name}" for name, count in stage.life.changes.items()]
    return f"Simulated activity: {', '.join(parts)}, {plural(stage.life.commands, 'operator command')}."
