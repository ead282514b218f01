"""From a handle to the DID, and from the DID to the server that holds its records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import Answer, ScriptedServer, answer
from tests.unit.sources.bluesky.shapes import DID

from tidelore.core.errors import RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.http.client import HttpClient
from tidelore.sources.bluesky.client import Origins, XrpcClient, allowed_origin
from tidelore.sources.bluesky.identity import AccountIdentity, read_document, resolve_handle


def document(did: str = DID, **more: Any) -> dict[str, Any]:
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": "https://pds.example"}
    return {"id": did, "alsoKnownAs": ["at://Ada.example"], "service": [service], **more}


def encoded(value: Any, status: int = 200) -> bytes:
    return answer(status, json.dumps(value).encode())


def run(do: Callable[[HttpClient, Origins], Awaitable[Any]], *script: Answer) -> tuple[Any, ScriptedServer]:
    async def job() -> tuple[Any, ScriptedServer]:
        async with ScriptedServer(*script) as server:
            clock = ManualClock()
            origins = Origins(lambda url: HttpClient(url, clock=clock, max_retries=0), local=True)
            async with HttpClient(server.url, clock=clock, max_retries=0) as http:
                try:
                    return await do(http, origins), server
                finally:
                    await origins.close()

    return asyncio.run(job())


@pytest.mark.parametrize("name", ["Ada.Example", "@ada.example", " ada.example ", "at://ada.example"])
def test_a_handle_is_resolved_in_every_spelling(name: str) -> None:
    found, server = run(lambda http, _: resolve_handle(XrpcClient(http), name), encoded({"did": DID}))
    assert found == DID
    assert server.seen[0].target == "/xrpc/com.atproto.identity.resolveHandle?handle=ada.example"


def test_a_did_needs_no_request_to_be_resolved() -> None:
    found, server = run(lambda http, _: resolve_handle(XrpcClient(http), DID), encoded({}))
    assert (found, server.seen) == (DID, [])


def test_the_error_for_an_unknown_handle_names_it() -> None:
    refused = encoded({"error": "InvalidRequest", "message": "Unable to resolve handle"}, 400)
    with pytest.raises(RemoteNotFound, match="account not found: nobody") as caught:
        run(lambda http, _: resolve_handle(XrpcClient(http), "nobody.example"), refused)
    assert caught.value.details["handle"] == "nobody.example"
    with pytest.raises(RemoteNotFound):
        run(lambda http, _: resolve_handle(XrpcClient(http), "did:plc:a b"), encoded({}))


def test_a_server_error_is_not_reported_as_an_unknown_handle() -> None:
    with pytest.raises(RemoteTransient):
        run(lambda http, _: resolve_handle(XrpcClient(http), "ada.example"), answer(502))


def test_the_did_document_gives_server_and_handle() -> None:
    found, server = run(lambda http, origins: read_document(http, origins, DID), encoded(document()))
    assert found == AccountIdentity(DID, "ada.example", "https://pds.example")
    assert server.seen[0].target == f"/{DID}"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"alsoKnownAs": []}, (None, "https://pds.example")),
        ({"alsoKnownAs": ["https://x.example", "at://"]}, (None, "https://pds.example")),
        ({"service": []}, ("ada.example", None)),
        ({"service": [{"id": "#labeler", "serviceEndpoint": "https://x.example"}]}, ("ada.example", None)),
        (
            {"service": [{"id": f"{DID}#atproto_pds", "serviceEndpoint": "https://x.example"}]},
            ("ada.example", "https://x.example"),
        ),
        ({"service": [{"id": "#atproto_pds", "serviceEndpoint": {"uri": "x"}}]}, ("ada.example", None)),
        ({"service": [{"id": "#atproto_pds"}]}, ("ada.example", None)),
    ],
)
def test_a_did_document_with_missing_fields_is_accepted(
    more: dict[str, Any], expected: tuple[str | None, str | None]
) -> None:
    found, _ = run(lambda http, origins: read_document(http, origins, DID), encoded(document(**more)))
    assert (found.handle, found.pds_url) == expected


def test_a_did_web_document_is_fetched_from_its_host() -> None:
    async def do(_: HttpClient, origins: Origins) -> tuple[AccountIdentity, list[str]]:
        async def tell(seen: Any, writer: asyncio.StreamWriter) -> None:
            writer.write(encoded(document(f"did:web:127.0.0.1%3A{host.port}")))

        async with ScriptedServer(tell) as host:
            async with HttpClient("http://127.0.0.1:9", max_retries=0) as plc:
                found = await read_document(plc, origins, f"did:web:127.0.0.1%3A{host.port}")
            return found, [seen.target for seen in host.seen]

    (found, targets), _ = run(do, answer())
    assert (found.handle, targets) == ("ada.example", ["/.well-known/did.json"])


def test_a_did_document_for_another_did_is_refused() -> None:
    with pytest.raises(RemotePermanent, match="is for did:plc:other"):
        run(lambda http, origins: read_document(http, origins, DID), encoded(document("did:plc:other")))


@pytest.mark.parametrize("did", ["did:key:z6Mk", "did:plc:", "plc", "did:plc:a/../b", "did:web:a b"])
def test_other_did_methods_are_refused_without_a_request(did: str) -> None:
    with pytest.raises(RemotePermanent, match="cannot read the DID document"):
        run(lambda http, origins: read_document(http, origins, did), encoded(document()))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://pds.example", "https://pds.example"),
        ("https://PDS.example:8443/path?x=1", "https://pds.example:8443"),
        ("https://user:word@pds.example/", "https://pds.example"),
        ("https://[2606:4700::1]/", "https://[2606:4700::1]"),
        ("https://8.8.8.8", "https://8.8.8.8"),
    ],
)
def test_a_public_server_address_is_allowed(url: str, origin: str) -> None:
    assert allowed_origin(url, local=False) == origin


@pytest.mark.parametrize(
    "url",
    [
        "http://pds.example",
        "https://localhost",
        "https://127.0.0.1",
        "http://127.0.0.1:2583",
        "https://10.0.0.5",
        "https://192.168.1.1:8443",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://[fd00::1]/",
        "https://printer",
        "https://localhost.",
        "https://nas.local.",
        "https://127.1",
        "https://0x7f.1",
        "https://2130706433",
        "https://nas.local",
        "https://vault.internal",
        "ftp://pds.example",
        "https://",
        "https://[bad",
        "",
    ],
)
def test_a_did_document_cannot_direct_requests_to_private_addresses(url: str) -> None:
    with pytest.raises(RemotePermanent, match="refused to contact"):
        allowed_origin(url, local=False)


def test_a_local_network_may_use_loopback_but_no_other_private_address() -> None:
    assert allowed_origin("http://127.0.0.1:2583/x", local=True) == "http://127.0.0.1:2583"
    with pytest.raises(RemotePermanent):
        allowed_origin("http://10.0.0.5", local=True)


def test_idle_clients_are_closed_and_those_in_use_are_not() -> None:
    closed: list[str] = []

    class Told(HttpClient):
        async def aclose(self) -> None:
            closed.append(self.address(""))
            await super().aclose()

    async def job() -> None:
        origins = Origins(Told, local=True, most_idle=2)
        async with origins.using("http://127.0.0.1:1") as kept:
            for port in range(2, 6):
                async with origins.using(f"http://127.0.0.1:{port}"):
                    pass
            assert closed == ["http://127.0.0.1:2/", "http://127.0.0.1:3/"]
            async with origins.using("http://127.0.0.1:1") as again:
                assert again is kept
        await origins.close()

    asyncio.run(job())
    assert sorted(closed) == [f"http://127.0.0.1:{port}/" for port in range(1, 6)]
