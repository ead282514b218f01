"""One fetch profile: for the same workload the service asks exactly what the commands ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from tests.situations.service.station import LAB, OWNER, REPOS, Station, Watch
from tests.situations.service.test_sources import catch_up, follow

from tidelore.cli.main import main

_INSTANTS = ("updated_after=", "since=", "created_after=")


def command(post: Station, *argv: str) -> Callable[[], None]:
    def act() -> None:
        code = main([*argv, "--config", str(post.config), "--db", str(post.db), "--quiet"])
        assert code == 0

    return act


def compared(
    post: Station,
    argv: tuple[str, ...],
    change: Callable[[], object],
    prepare: Callable[[], object] = lambda: None,
    between: Callable[[], object] = lambda: None,
) -> None:
    """Spend one workload twice, by the command and by the service: a first reading, a quiet one, one with news."""
    by_command, by_service = command(post, *argv), post.once
    spent: dict[str, list[Counter[str]]] = {"command": [], "service": []}
    actors: dict[str, Callable[[], object]] = {"command": by_command, "service": by_service}
    for phase in ("first", "quiet", "news"):
        if phase == "news":
            change()
        for name, act in actors.items():
            post.copy = name
            (prepare if phase == "first" else between)()
            spent[name].append(plain(post.spent(act)))
    assert spent["command"] == spent["service"]
    assert all(sum(counts.values()) > 0 for counts in spent["command"])


def plain(spent: Counter[str]) -> Counter[str]:
    """Requests without what depends on the instant they were sent at."""
    found: Counter[str] = Counter()
    for target, times in spent.items():
        path, _, query = target.partition("?")
        kept = [
            part for part in query.split("&") if not part.startswith(("updated_after=", "since=", "created_after="))
        ]
        found[f"{path}?{'&'.join(kept)}"] += times
    return found


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    logger = logging.getLogger("tidelore")
    monkeypatch.setattr(logger, "handlers", logger.handlers)
    monkeypatch.setattr(logger, "propagate", logger.propagate)


def test_a_sync_by_the_service_costs_as_much_as_by_command(post: Station) -> None:
    post.lab()
    post.write()
    compared(post, ("sync",), lambda: post.world.gitlab.create_issue(LAB))


def test_a_repository_poll_by_the_service_costs_as_much_as_by_command(post: Station) -> None:
    post.hub(extra='fetch = "repo"\nmirror = "followed"')
    post.write()
    post.world.github.comment(REPOS[0], 1, "Hello.", OWNER)
    catch_up(post)

    def prepare() -> None:
        for repo in REPOS:
            follow(post, repo)

    def change() -> None:
        catch_up(post)
        post.world.github.comment(REPOS[0], 1, "More.", OWNER)

    compared(post, ("poll", "github"), change, prepare)


def test_an_account_poll_by_the_service_costs_as_much_as_by_command(post: Station) -> None:
    for name in ("mira.test", "noor.test"):
        post.world.bluesky.create_account(name)
        post.world.bluesky.post(name, "Hello.")
    catch_up(post)
    post.sky("mira.test", "noor.test")
    post.write()

    def everybody_is_due() -> None:
        with post.database() as database, database.transaction() as tx:
            tx.execute("UPDATE accounts SET next_poll_at = 0")

    def change() -> None:
        catch_up(post)
        post.world.bluesky.post("mira.test", "More.")

    compared(post, ("poll", "bluesky"), change, between=everybody_is_due)


def test_a_quiet_poll_of_the_running_service_is_three_conditional_requests(post: Station) -> None:
    post.hub(extra='fetch = "repo"', repos=REPOS[:1])
    post.write()
    follow(post)
    catch_up(post)

    async def story(watch: Watch) -> None:
        name = f"github:github/{REPOS[0]}"
        await watch.rounds(name, 4)
        before, asked = watch.job(name).requests, len(post.world.log)
        await watch.rounds(name, 3)
        rounds = (watch.job(name).requests - before) // 3
        assert rounds >= 2
        assert {status for _, _, status in post.world.log[asked:]} == {304}

    post.serve(story)


def test_monitoring_the_service_sends_no_requests(post: Station) -> None:
    post.interval = 3600
    post.lab()
    post.write()

    async def story(watch: Watch) -> None:
        await watch.rounds("gitlab:gitlab", 1)
        before = len(post.world.log)
        for _ in range(10):
            await asyncio.to_thread(command(post, "status"))
            await watch.get("/metrics")
            await watch.get("/healthz")
        assert len(post.world.log) == before

    post.serve(story)
