"""Real servers on 127.0.0.1 for the HTTP client tests: scripted answers, a proxy, a private authority."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


Answer = bytes | Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def answer(
    status: int = 200, body: bytes = b"[]", headers: Mapping[str, str] | None = None, **more_headers: str
) -> bytes:
    """Return the bytes of a complete answer; header names are written with underscores."""
    fields = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    fields |= {name.replace("_", "-"): value for name, value in {**(headers or {}), **more_headers}.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


async def read_request(reader: asyncio.StreamReader, connection: int = 0) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body, connection)


class ScriptedServer:
    """Gives the scripted answers in order, the last one again and again; one may act on the socket."""

    def __init__(self, *script: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._script = list(script)
        self._tls = tls
        self._connections = 0
        self._open: set[asyncio.Task[None]] = set()
        self.seen: list[Seen] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._connections += 1
        connection = self._connections
        try:
            while (request := await read_request(reader, connection)) is not None:
                self.seen.append(request)
                step = self._script[min(len(self.seen), len(self._script)) - 1]
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                else:
                    await step(request, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()


class Proxy:
    """A plain HTTP proxy: absolute-form GETs and CONNECT tunnels."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            request = await read_request(reader)
            if request is None:
                return
            self.requests.append(request)
            if request.method == "CONNECT":
                host, _, port = request.target.rpartition(":")
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                authority, _, path = request.target.removeprefix("http://").partition("/")
                host, _, port = authority.rpartition(":")
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
                far_writer.write(f"{request.method} /{path} HTTP/1.1\r\n{head}\r\n".encode() + request.body)
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                far_writer.close()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


@dataclass(frozen=True)
class Authority:
    """A private certificate authority and a server certificate it signed for 127.0.0.1."""

    ca_file: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def create_authority(folder: Path) -> Authority:
    """Make an authority with the openssl program; keys live in the test's own folder only."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "these tests need the `openssl` program to make a private certificate authority"

    def run(*arguments: str) -> None:
        done = subprocess.run([openssl, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    (folder / "ca.ext").write_text("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n")
    (folder / "leaf.ext").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name, subject in (("ca", "/CN=Test authority"), ("leaf", "/CN=127.0.0.1")):
        run("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
    run(
        "x509",
        "-req",
        "-in",
        "ca.csr",
        "-signkey",
        "ca.key",
        "-extfile",
        "ca.ext",
        "-days",
        "2",
        "-out",
        "ca.pem",
    )
    signed_by = (
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-set_serial",
        "2",
        "-extfile",
        "leaf.ext",
        "-days",
        "2",
    )
    run("x509", "-req", "-in", "leaf.csr", *signed_by, "-out", "leaf.pem")
    return Authority(folder / "ca.pem", folder / "leaf.pem", folder / "leaf.key")
