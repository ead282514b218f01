"""`lore simulate`: serve the simulated forges on this machine."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output, render_output
from tidelore.core.clock import SystemClock, format_instant
from tidelore.core.errors import UserError
from tidelore_world.demo.shapes import SimulatedServers

if TYPE_CHECKING:
    from tidelore_world.wire import Request
    from tidelore_world.world import World


@lore_command("simulate", example="lore simulate --port 8080", answer=SimulatedServers)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 picks a free one.")
@click.option("--seed", type=int, default=7, show_default=True, help="Random seed of the simulated data.")
@click.option(
    "--scale", type=click.FloatRange(0.01, 1000), default=1.0, show_default=True, help="Amount of simulated data."
)
@click.option(
    "--start",
    metavar="TIME",
    help="Simulated time, such as 2026-03-02T09:00:00Z, which then stands still. Without it, the time of this machine.",
)
@click.option("--latency-ms", type=click.FloatRange(0, 60_000), default=0.0, help="Delay of every response.")
def command(invocation: Invocation, port: int, seed: int, scale: float, start: str | None, latency_ms: float) -> None:
    """Serve a simulated GitLab, GitHub and Bluesky.

    Listens on 127.0.0.1 until interrupted. POST /_sim/advance?seconds=60 lets simulated time pass; GET /_sim/ lists all
    control requests. The same seed, scale and --start give the same data.
    """
    from tidelore_world.server import run_forever

    world = _world(seed, scale, start)
    projects = [project.path for project in world.gitlab.projects.values()]
    repos = world.github.truth_repos()
    accounts = [account.handle for account in world.bluesky.network.accounts.values() if account.active]

    def ready(url: str) -> None:
        size = f"{len(projects)} projects, {len(repos)} repositories and {len(accounts)} accounts"
        lines = [
            f"Simulated servers with {size} at {url} (seed {seed}, scale {scale:g}). Press Ctrl-C to stop.",
            f'\n[[gitlab]]\nbase_url = "{url}"\nprojects = {json.dumps(projects)}',
            f'\n[[github]]\nbase_url = "{url}"\nrepos = {json.dumps(repos)}',
            f'\n[bluesky]\nbase_url = "{url}"\nplc_url = "{url}"\njetstream_url = "ws{url[4:]}/subscribe"',
            f"accounts = {json.dumps(accounts)}",
            f"\nControl: {url}/_sim/",
        ]
        render_output(Output(SimulatedServers(url, projects, list(repos), accounts), lines), invocation, "simulate")

    try:
        run_forever(world, port, latency_ms / 1000, ready)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot listen on port {port}: {os.strerror(error.errno or 0)}",
            fix="choose another port, or leave --port out",
            port=port,
        ) from None


def _world(seed: int, scale: float, start: str | None) -> World:
    """Build the world; without a start, its clock goes with the clock of this machine."""
    from tidelore_world.clock import parse_iso
    from tidelore_world.world import build_world

    if start is not None:
        try:
            parse_iso(start)
        except ValueError:
            raise UserError(
                f"invalid value for --start: {start!r}", fix="use a time such as 2026-03-02T09:00:00Z", start=start
            ) from None
        return build_world(seed, scale, start)
    clock = SystemClock()
    world = build_world(seed, scale, format_instant(clock.now_ms()))
    passed = clock.monotonic()

    def keep_up(_request: Request) -> None:
        nonlocal passed
        now = clock.monotonic()
        world.advance(now - passed)
        passed = now

    world.before_request.append(keep_up)
    return world
