"""How many requests are under way while accounts are read side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from tests.properties.inprocess import WorldTransport
from tests.situations.bluesky.house import Waters


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
