"""`lore serve` as a process: it says where it serves, answers, refuses what it must, and stops when asked."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import httpx2
import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_extras import lore
from tests.support.fork_server import ForkedProcess, fork_lore


def address_of(process: ForkedProcess) -> str:
    """Wait for the line that says where it serves."""
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"Serving (http://\S+)", line)
    assert found is not None, line
    return found[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_asked_to_stop_and_ends_with_0(desk: Desk, number: signal.Signals) -> None:
    desk.ingested()
    process = desk.start("serve", "--port", "0", "--robot")
    try:
        address = address_of(process)
        with httpx2.Client(trust_env=False) as client:
            assert client.get(f"{address}issues", headers={"accept": "application/json"}).json()["data"]["total"] == 7
            assert client.get(address, headers={"host": "evil.example"}).status_code == 421
            with client.stream("GET", f"{address}status/live") as stream:
                # A stream that is open does not keep it from stopping.
                assert next(stream.iter_lines()).startswith("data: ")
                process.send_signal(number)
                out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.wait() == 0
    assert '"ok":true' in out
    assert address in out


def test_with_token_the_printed_address_opens_the_page_and_another_does_not(desk: Desk) -> None:
    desk.ingested()
    process = desk.start("serve", "--port", "0", "--token", TIDELORE_WEB_TOKEN="a-token-of-the-reader")
    try:
        address = address_of(process)
        assert address.endswith("?token=a-token-of-the-reader")
        with httpx2.Client(trust_env=False, follow_redirects=True) as client:
            assert client.get(address.partition("?")[0]).status_code == 401
            assert client.get(address).status_code == 200
            assert client.get(address.partition("?")[0]).status_code == 200
    finally:
        process.kill()


def test_an_address_for_others_without_a_token_and_a_port_in_use_are_refused(desk: Desk) -> None:
    refused = desk.robot("serve", "--host", "0.0.0.0", "--port", "0")
    assert (refused.code, refused.error["fix"]) == (
        2,
        "add --token, or leave --host out to listen on 127.0.0.1 only",
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        busy = desk.robot("serve", "--port", str(port))
    assert busy.code == 2
    assert busy.error["message"].startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert "--port" in busy.error["fix"]


def test_the_service_serves_the_page_beside_its_jobs_and_stops_both(desk: Desk) -> None:
    desk.ingested()
    desk.configure(LEDGER, CONSOLE, extra="[service]\nweb_port = 0\nmetrics_port = 0\n")
    process = desk.start("service", "--web", "--quiet")
    try:
        address = address_of(process)
        with httpx2.Client(trust_env=False, headers={"accept": "application/json"}) as client:
            assert client.get(f"{address}issues").json()["data"]["total"] == 7
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.wait() == 0


@pytest.mark.deep
def test_the_demo_serves_a_living_world(home: Path) -> None:
    process = fork_lore(["demo", "--web", "--port", "0", "--scale", "0.2"], os.environ)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Mirroring")
        address = address_of(process)
        with httpx2.Client(trust_env=False, headers={"accept": "application/json"}) as client:
            for path in ("issues", "mrs", "topics", "posts", "search?q=container"):
                assert client.get(f"{address}{path}").json()["data"]["total"] > 0, path
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.wait() == 0
    assert "The temporary directory was removed." in out


def test_without_the_extra_web_each_command_names_the_extra(desk: Desk) -> None:
    commands = [["serve"], ["service", "--web"], ["demo", "--web"]]
    for command, outcome in zip(commands, lore(desk.folder, "web", *commands), strict=True):
        assert outcome.code == 2
        assert f"`lore {' '.join(command)}` needs the extra 'web'" in outcome.err
        assert "pip install 'tidelore[web]'" in outcome.err
