"""SQL, HTTP and time stay in the rooms that own them; each rule is shown to catch what it forbids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.architecture.walls import (
    clocks_in_the_world,
    clocks_outside_the_clock,
    fences_outside_the_leases,
    http_clients_outside_http,
    page_loops_outside_the_engine,
    records_of_any_type,
    sockets_outside_the_sources,
    sql_outside_the_store,
)

Plant = Callable[[dict[str, str]], Path]


def test_sql_is_used_in_the_store_only(source: Path) -> None:
    assert sql_outside_the_store(source) == []


def test_http_clients_are_used_in_the_sources_only(source: Path) -> None:
    assert http_clients_outside_http(source) == []


def test_sockets_are_opened_in_the_sources_only(source: Path) -> None:
    assert sockets_outside_the_sources(source) == []


def test_system_clocks_are_read_in_the_clock_module_only(source: Path) -> None:
    assert clocks_outside_the_clock(source) == []


def test_records_between_sources_and_store_are_typed(source: Path) -> None:
    assert records_of_any_type(source) == []


def test_a_record_typed_any_is_caught_wherever_it_is_written(plant: Plant) -> None:
    text = """from tidelore.engine import ports
def read(lister: Lister[Any], page: ports.Page[Any] | None) -> dict[str, Any]: ...
found: list[Item[list[Any]]] = []
families: dict[str, Family[IssueRecord]]
"""
    assert records_of_any_type(plant({"store/a.py": text})) == [
        "store/a.py:3: Item[list[Any]]",
        "store/a.py:2: Lister[Any]",
        "store/a.py:2: ports.Page[Any]",
    ]


def test_the_simulated_world_reads_no_clock(world_source: Path) -> None:
    assert clocks_in_the_world(world_source) == []


def test_a_transaction_under_a_lease_is_opened_only_by_the_one_context_manager(source: Path, plant: Plant) -> None:
    assert fences_outside_the_leases(source) == []
    text = "from tidelore.store.work.leases import _fence\n\n\ndef f(tx, lease):\n    _fence(tx, lease)\n"
    root = plant({"sync/lists.py": text, "store/work/leases.py": text})
    assert sorted(fences_outside_the_leases(root)) == ["sync/lists.py:1", "sync/lists.py:5"]


def test_pages_are_read_by_the_engine_only(source: Path, plant: Plant) -> None:
    assert page_loops_outside_the_engine(source) == []
    text = "async def f(page):\n    return page.next_token\n"
    assert page_loops_outside_the_engine(plant({"sync/x.py": text, "engine/y.py": text})) == ["sync/x.py:2"]


def test_the_rules_detect_real_code_moved_to_a_forbidden_package(source: Path, plant: Plant) -> None:
    # The same text, moved to a room that may not hold it: a rule that is blind would pass the tests above.
    stolen = {
        "cli/sync_status.py": (source / "store" / "mirror" / "cursors.py").read_text(),
        "cli/transport.py": (source / "http" / "transport.py").read_text(),
        "cli/socket.py": (source / "sources" / "bluesky" / "stream_socket.py").read_text(),
        "cli/clock.py": (source / "core/clock.py").read_text(),
    }
    root = plant(stolen)
    assert sql_outside_the_store(root)
    assert http_clients_outside_http(root)
    assert sockets_outside_the_sources(root)
    assert {line.rpartition(" ")[2] for line in clocks_outside_the_clock(root)} == {
        "time.time_ns",
        "time.monotonic",
        "asyncio.sleep",
    }


@pytest.mark.parametrize(
    "text",
    [
        'q = "SELECT 1"',
        'q = "  SELECT id FROM issues"',
        'q = """\n    insert into issues values (1)"""',
        'q = f"UPDATE {table} SET x = 1"',
        'q = "delete from issues"',
        'q = ("CREATE TABLE x" " (a)")',
        'def f():\n    run("PRAGMA user_version")',
        'q = "select id\\nfrom issues"',
    ],
)
def test_sql_outside_the_store_is_caught(plant: Plant, text: str) -> None:
    assert len(sql_outside_the_store(plant({"sync/lists.py": text}))) == 1
    assert sql_outside_the_store(plant({"sync/lists.py": "", "store/mirror/parents.py": text})) == []


@pytest.mark.parametrize(
    "text",
    [
        '"""SELECT what matters."""',
        'help = "Select a project"',
        'help = "Create one with: lore init"',
        'note = "update the configuration"',
        'name = "SELECTED"',
    ],
)
def test_plain_english_is_not_mistaken_for_sql(plant: Plant, text: str) -> None:
    assert sql_outside_the_store(plant({"sync/lists.py": text})) == []


@pytest.mark.parametrize(
    "text",
    [
        "import httpx2",
        "from httpx2 import AsyncClient",
        "import urllib.request",
        "from urllib import request",
        "from urllib.request import urlopen",
        "import http.client",
        "def f():\n    import requests",
    ],
)
def test_an_http_client_outside_the_sources_is_caught(plant: Plant, text: str) -> None:
    assert len(http_clients_outside_http(plant({"sync/lists.py": text}))) == 1
    assert http_clients_outside_http(plant({"sync/lists.py": "", "http/client.py": text})) == []


@pytest.mark.parametrize("text", ["import websockets", "from websockets.asyncio.client import connect"])
@pytest.mark.parametrize("room", ["sync", "embedding"])
def test_a_socket_outside_the_sources_is_caught(plant: Plant, text: str, room: str) -> None:
    assert len(sockets_outside_the_sources(plant({f"{room}/stream.py": text}))) == 1
    assert sockets_outside_the_sources(plant({f"{room}/stream.py": "", "sources/stream.py": text})) == []


def test_urls_and_status_names_are_not_mistaken_for_an_http_client(plant: Plant) -> None:
    text = "from urllib.parse import urlsplit\nfrom http import HTTPStatus\nimport httpx2ish"
    assert http_clients_outside_http(plant({"sync/lists.py": text})) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import monotonic as m\nm()", "time.monotonic"),
        ("import time\nstart = time.monotonic", "time.monotonic"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime as d\nd.datetime.utcnow()", "datetime.datetime.utcnow"),
        ("from datetime import date\ndate.today()", "datetime.date.today"),
        ("def f():\n    import asyncio\n    asyncio.sleep(0)", "asyncio.sleep"),
    ],
)
def test_a_system_clock_outside_the_clock_module_is_caught(plant: Plant, text: str, name: str) -> None:
    found = clocks_outside_the_clock(plant({"engine/walk.py": text}))
    assert len(found) == 1
    assert found[0].endswith(f": {name}")


def test_the_simulator_may_sleep_but_not_read_the_time(plant: Plant) -> None:
    waiting = "import asyncio\nasyncio.sleep(0)"
    assert clocks_in_the_world(plant({"server.py": waiting})) == []
    knowing = "import time\ntime.time()"
    assert len(clocks_in_the_world(plant({"server.py": knowing}))) == 1


def test_calls_of_the_clock_interface_are_allowed(plant: Plant) -> None:
    text = "async def f(clock):\n    await clock.sleep(1)\n    return clock.monotonic()"
    assert clocks_outside_the_clock(plant({"engine/walk.py": text})) == []
