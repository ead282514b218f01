"""Accounts that are read at the same time: by one process, and by several with a range each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from tests.properties.inprocess import WorldTransport
from tests.situations.bluesky.house import CYCLE, Waters

from tidelore.app.workers import scopes
from tidelore.app.workers.scopes import build_scopes
from tidelore.core.errors import LockHeld
from tidelore.store.mirror.accounts import AccountRange, account_ranges
from tidelore.store.work.session import acquire_lease
from tidelore.sync.account_poll import PollRequest


class Counting(WorldTransport):
    """Counts how many requests are under way."""

    running = most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().handle_async_request(request)
        finally:
            self.running -= 1


@pytest.mark.parametrize("mode", ["feed", "records"])
def test_a_poll_uses_exactly_the_configured_number_of_concurrent_requests(tmp_path: Path, mode: str) -> None:
    waters = Waters(tmp_path, max_concurrent=4, mode=mode)
    waters.add(*(f"reader{number}.test" for number in range(30)))
    waters.transport = Counting(waters.world)
    assert waters.poll().accounts == 30
    assert waters.transport.most == 4


def test_ranges_of_accounts_are_polled_by_several_processes_and_cover_every_account_once(tmp_path: Path) -> None:
    waters = Waters(tmp_path)
    names = [f"reader{number}.test" for number in range(8)]
    waters.add(*names)
    for name in names:
        waters.sky.post(name, f"from {name}")
    with waters.database() as database:
        ranges = account_ranges(database, 3)
    assert ranges == [AccountRange(1, 3), AccountRange(4, 6), AccountRange(7, 9)]
    reports = [waters.poll(within=one, configured=one == ranges[0]) for one in ranges]
    assert [report.accounts for report in reports] == [3, 3, 2]
    assert all(waters.held(name) == waters.truth(name) for name in names)


def test_a_poll_of_all_accounts_is_refused_while_a_range_is_polled_but_another_range_is_not(tmp_path: Path) -> None:
    waters = Waters(tmp_path)
    waters.add(*(f"reader{number}.test" for number in range(6)))
    with waters.database() as database:
        shop = waters.app().workshop(database, "lore worker")
        acquire_lease(shop, force=False, name=PollRequest(within=AccountRange(1, 3)).lease)
    with pytest.raises(LockHeld):
        waters.poll()
    assert waters.poll(within=AccountRange(4, 6)).accounts == 3


def test_workers_poll_a_range_of_accounts_each_if_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waters = Waters(tmp_path)
    waters.add(*(f"reader{number}.test" for number in range(5)))
    with waters.database() as database:
        assert [name for name in build_scopes(waters.app(), database) if "poll" in name] == ["bluesky:poll"]
        monkeypatch.setattr(scopes, "MOST_ACCOUNTS", 2)
        names = [name for name in build_scopes(waters.app(), database) if "poll" in name]
    assert names == ["bluesky:poll:1-2", "bluesky:poll:3-4", "bluesky:poll:5-6"]


def test_a_range_is_verified_without_the_accounts_of_others(tmp_path: Path) -> None:
    waters = Waters(tmp_path)
    names = [f"reader{number}.test" for number in range(4)]
    waters.add(*names)
    for name in names:
        waters.sky.post(name, f"from {name}")
    waters.poll()
    waters.world.advance(CYCLE)
    report = waters.poll(within=AccountRange(3, 4), scrub_budget=100)
    assert sorted(one.handle for one in report.verified) == names[2:]
