"""The receiver of webhooks: what it does while the database is busy, and that it never waits without bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from tests.databases.migrated_file import lay_out
from tests.unit.service.bench import Bench

from tidelore.core.clock import SystemClock
from tidelore.core.errors import RemoteTransient
from tidelore.service import hook_receiver
from tidelore.service.hook_receiver import HookHost, HookReceiver
from tidelore.sources.registry import hook_format
from tidelore.store.database.opening import open_database
from tidelore_world.hooks import post, sign_github

SECRET = "it is only a test"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A database with one repository."""
    path = tmp_path / "lore.db"
    lay_out(path)
    database = open_database(str(path))
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO projects (source, remote_id, path, name, configured, created_at, updated_at)"
            " VALUES ('hub', 7, 'octo/tide', 'tide', 'octo/tide', 1, 1)"
        )
    database.close()
    return path


@pytest.fixture
def receiver(place: Path) -> Iterator[HookReceiver]:
    found = hook_format("github")
    assert found is not None
    hosts = {"hub": HookHost(SECRET, found, lambda row: row.path == "octo/tide")}
    told: list[str] = []
    made = HookReceiver(hosts, lambda: open_database(str(place)), SystemClock(), lambda names: _note(told, names), 300)
    made.open("127.0.0.1", 0)
    yield made
    asyncio.run(made.close())


def _note(told: list[str], names: Iterable[str]) -> None:
    told.extend(names)


def test_deliveries_beyond_the_bound_are_refused_while_the_database_is_busy_and_the_others_stored(
    place: Path, receiver: HookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_receiver, "MOST_WAITING", 3)
    url = f"http://127.0.0.1:{receiver.port}/hooks/hub"
    payload = {"repository": {"id": 7}, "issue": {"number": 1}}
    assert post(url, sign_github(SECRET, "issues", payload)) == 202
    busy = open_database(str(place))
    with ThreadPoolExecutor(12) as senders:
        with busy.transaction() as tx:
            tx.execute("UPDATE projects SET name = 'busy'")
            under_way = [senders.submit(post, url, sign_github(SECRET, "issues", payload)) for _ in range(12)]
            refused = [one.result() for one in wait(under_way, timeout=0.7).done]
        statuses = [one.result() for one in under_way]
    assert set(refused) == {503}
    assert sorted(set(statuses)) == [202, 503]
    assert busy.read("SELECT COUNT(*) FROM hook_deliveries") == [(1 + statuses.count(202),)]
    busy.close()


def test_an_announced_job_runs_at_once_unless_it_is_backing_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    well, ill = bench.counted("well", "hub", interval=600.0), bench.counted("ill", "lab", interval=600.0)
    ill.error = RemoteTransient("no response")

    async def story(_loop: object) -> None:
        assert (len(well.turns), len(ill.turns)) == (1, 1)
        bench.control.announce(["well", "ill", "unknown"])
        await bench.clock.settle()

    bench.run(story)
    assert (len(well.turns), len(ill.turns)) == (2, 1)
