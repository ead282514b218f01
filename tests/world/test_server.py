"""The world on a socket: keep-alive, latency, faults on the wire, threads, foreground mode."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.world.asking import PATH, PROJECT, project_world

from tidelore_world.server import HOST, Server, serve
from tidelore_world.world import World


@pytest.fixture
def served() -> Iterator[Server]:
    world = project_world()
    world.gitlab.bulk(PATH, issues=40)
    with serve(world) as server:
        yield server


def _connect(server: Server, timeout: float = 5.0) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)


def _get(connection: http.client.HTTPConnection, target: str) -> tuple[int, dict[str, str], bytes]:
    connection.request("GET", target)
    response = connection.getresponse()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def test_one_connection_serves_many_requests_with_world_time_and_own_links(served: Server) -> None:
    connection = _connect(served)
    local = None
    for page in range(1, 4):
        status, headers, body = _get(connection, f"{PROJECT}/issues?page={page}&per_page=10")
        assert (status, len(json.loads(body))) == (200, 10)
        assert headers["date"] == "Mon, 02 Mar 2026 09:00:00 GMT"
        assert f"<{served.url}{PROJECT}/issues?" in headers["link"]
        local = local or connection.sock.getsockname()
        assert connection.sock.getsockname() == local
    connection.close()
    assert served.world.requests.total() == 3


def test_the_server_listens_on_the_loopback_interface_only(served: Server) -> None:
    assert served.url == f"http://127.0.0.1:{served.port}"


def test_not_modified_has_no_body_and_keeps_the_connection(served: Server) -> None:
    connection = _connect(served)
    _, headers, _ = _get(connection, f"{PROJECT}/issues")
    connection.request("GET", f"{PROJECT}/issues", headers={"If-None-Match": headers["etag"]})
    response = connection.getresponse()
    assert (response.status, response.read()) == (304, b"")
    assert _get(connection, PROJECT)[0] == 200
    connection.close()


def test_pipelined_requests_are_answered_in_order_even_if_the_first_is_slow(served: Server) -> None:
    served.world.faults.add("slow", f"{PROJECT}/issues/3", seconds=0.2)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        heads = [f"GET {PROJECT}/issues/{iid} HTTP/1.1\r\nHost: x\r\n" for iid in (3, 1, 2)]
        client.sendall(("\r\n".join(heads[:2]) + "\r\n" + heads[2] + "Connection: close\r\n\r\n").encode())
        received = b"".join(iter(lambda: client.recv(65_536), b""))
    order = [int(part.partition(b",")[0]) for part in received.split(b'"iid":')[1:] if part[:1].isdigit()]
    assert order == [3, 1, 2]


def test_a_request_split_over_many_packets_is_reassembled(served: Server) -> None:
    body = json.dumps({"kind": "status", "status": 502}).encode()
    head = f"POST /_sim/faults HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        for byte in head + body:
            client.sendall(bytes([byte]))
        received = b"".join(iter(lambda: client.recv(65_536), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert [fault.kind for fault in served.world.faults.faults] == ["status"]


def test_a_malformed_request_ends_the_connection_and_not_the_server(served: Server) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        client.sendall(b"\x03\x01 nonsense\r\n\r\n")
        try:
            received = client.recv(100)
        except ConnectionResetError:
            received = b""
    assert received == b""
    connection = _connect(served)
    assert _get(connection, PROJECT)[0] == 200
    connection.close()


def test_a_tls_handshake_is_answered_at_once_so_that_the_client_need_not_wait(served: Server) -> None:
    with socket.create_connection((HOST, served.port), timeout=5) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        assert connection.recv(100) == b""


def test_timeout_fault_holds_the_connection_then_drops_it(served: Server) -> None:
    fault = served.world.faults.add("timeout", seconds=0.3)
    connection = _connect(served)
    begin = time.monotonic()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        _get(connection, PROJECT)
    assert time.monotonic() - begin >= 0.3
    connection.close()
    assert fault.fired == 1


def test_a_disconnect_fault_drops_the_connection_at_once(served: Server) -> None:
    served.world.faults.add("disconnect")
    connection = _connect(served)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        _get(connection, PROJECT)
    connection.close()


def test_a_truncated_response_announces_more_than_it_sends(served: Server) -> None:
    served.world.faults.add("truncated")
    connection = _connect(served)
    with pytest.raises(http.client.IncompleteRead):
        _get(connection, f"{PROJECT}/issues")
    connection.close()


def test_a_slow_response_delays_only_its_own_connection(served: Server) -> None:
    fault = served.world.faults.add("slow", f"{PROJECT}/issues", seconds=3.0)
    slow, fast = _connect(served), _connect(served)
    begin = time.monotonic()
    slow.request("GET", f"{PROJECT}/issues")
    while not fault.fired:
        time.sleep(0.001)
    assert _get(fast, PROJECT)[0] == 200
    assert select.select([slow.sock], [], [], 0)[0] == [], "the slow one is not answered yet"
    slow.getresponse().read()
    assert time.monotonic() - begin >= 3.0
    slow.close()
    fast.close()


def test_latency_is_paid_per_request_and_in_parallel() -> None:
    world = project_world()
    with serve(world, latency_seconds=0.5) as server:
        connections = [_connect(server) for _ in range(10)]
        begin = time.monotonic()
        for connection in connections:
            connection.request("GET", PROJECT)
        for connection in connections:
            response = connection.getresponse()
            assert response.status == 200
            response.read()
        elapsed = time.monotonic() - begin
        for connection in connections:
            connection.close()
    assert 0.5 <= elapsed < 0.5 * len(connections), "one after the other they would take ten times as long"


def test_latency_counts_from_the_arrival_of_a_request() -> None:
    with (
        serve(project_world(), latency_seconds=1.0) as server,
        socket.create_connection((HOST, server.port)) as connection,
    ):
        begin = time.monotonic()
        connection.sendall(f"GET {PROJECT} HTTP/1.1\r\nhost: x\r\n\r\n".encode() * 10)
        received = b""
        while received.count(b"HTTP/1.1 200") < 10:
            received += connection.recv(65_536)
        elapsed = time.monotonic() - begin
    assert 1.0 <= elapsed < 10.0, "those that came together leave together"


def test_world_may_be_changed_from_another_thread_while_it_is_served(served: Server) -> None:
    world = served.world
    stop = threading.Event()

    def change() -> None:
        while not stop.wait(0.001):
            with world.lock:
                world.advance(1)
                world.gitlab.edit_issue(PATH, 7)

    thread = threading.Thread(target=change)
    thread.start()
    connection = _connect(served)
    try:
        for _ in range(60):
            status, _, body = _get(connection, f"{PROJECT}/issues?order_by=updated_at&sort=desc&per_page=100")
            assert status == 200
            assert len({row["iid"] for row in json.loads(body)}) == 40
    finally:
        stop.set()
        thread.join()
        connection.close()


def test_leaving_the_server_block_closes_the_port_even_after_an_error() -> None:
    ports: list[int] = []

    def fail_inside() -> None:
        with serve(World()) as server:
            ports.append(server.port)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]), timeout=1)


def test_a_port_in_use_is_a_user_error(served: Server) -> None:
    with pytest.raises(OSError, match="in use"), serve(World(), port=served.port):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_foreground_server_prints_its_address_and_stops_on_a_signal(number: signal.Signals) -> None:
    program = (
        "from tidelore_world.server import run_forever\n"
        "from tidelore_world.world import World\n"
        "run_forever(World(), 0, 0.0, lambda url: print(url, flush=True))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    with process:
        url = process.stdout.readline().strip()
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
        assert _get(connection, "/api/v4/version")[0] == 200
        process.send_signal(number)
        assert process.wait(10) == 0
        connection.close()
