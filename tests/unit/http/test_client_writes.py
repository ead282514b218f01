"""A write is sent once, and its fate is told truthfully."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.unit.http.asking import ask, drip, drop, flood, hang, truncate
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.http.client import HttpClient
from tidelore.http.response import Response


def test_a_write_is_sent_once_with_its_content() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> Response:
        return await client.write("/notes", {"body": "hé"})

    reply, server, _ = ask(answer(201, b'{"id":1}'), do=do)
    assert (reply.status, reply.body) == (201, b'{"id":1}')
    assert server.seen[0].method == "POST"
    assert msgspec.json.decode(server.seen[0].body) == {"body": "hé"}
    assert server.seen[0].headers["content-type"] == "application/json"


async def write(client: HttpClient, _: ScriptedServer) -> RemoteError:
    with pytest.raises((RemoteTransient, RemotePermanent)) as caught:
        await client.write("/notes", {})
    return caught.value


@pytest.mark.parametrize("fault", [hang, drop, truncate, drip, answer(500), answer(502), flood])
def test_a_write_with_unknown_outcome_raises_unclear_write_and_is_not_retried(fault: Answer) -> None:
    error, server, _ = ask(fault, do=write, timeout_seconds=0.4, total_timeout_seconds=0.6, max_response_bytes=100_000)
    assert error.reason == "unclear_write"
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (answer(422), RemotePermanent),
        (answer(401), CredentialsRejected),
        (answer(429, Retry_After="1"), RateLimited),
        (answer(301, Location="/y"), RemotePermanent),
    ],
)
def test_a_refused_write_raises_and_is_not_retried(refusal: Answer, kind: type[Exception]) -> None:
    error, server, _ = ask(refusal, do=write)
    assert type(error) is kind
    assert len(server.seen) == 1


def test_a_write_that_was_never_sent_is_not_an_unclear_write() -> None:
    async def run() -> str | None:
        async with ScriptedServer() as server:
            url = server.url
        async with HttpClient(url) as client:
            with pytest.raises(RemoteTransient) as caught:
                await client.write("/x")
            return caught.value.reason

    assert asyncio.run(run()) == "connection"
