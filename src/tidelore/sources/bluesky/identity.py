"""Resolves accounts: handle to DID, DID to its document, and why an account is not shown.

A handle may pass to another account, a DID never does, so everything is stored under the DID. The document comes from
the PLC directory, or for `did:web` from the host in the DID. Other DID methods are refused.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from msgspec import Struct

from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.http.client import HttpClient
from tidelore.http.tls import is_loopback
from tidelore.sources.bluesky.client import Origins, XrpcClient
from tidelore.sources.bluesky.payloads import DidDocument

_DID = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]+")
_PDS = "#atproto_pds"
_ERROR_NAME = re.compile(r'"error"\s*:\s*"(\w+)"')
_HIDDEN = {
    "AccountDeactivated": "deactivated",
    "RepoDeactivated": "deactivated",
    "AccountTakedown": "suspended",
    "RepoSuspended": "suspended",
    "RepoTakendown": "taken down",
    "RepoNotFound": "not found",
}
_NONE_SUCH = ("Profile not found", "Actor not found", "Could not find repo")


class AccountIdentity(Struct, frozen=True):
    """An account as described by its DID document; the handle is the claimed one."""

    did: str
    handle: str | None
    pds_url: str | None


async def resolve_handle(appview: XrpcClient, handle: str) -> str:
    """Return the DID of a handle, with or without its `@`; a DID is returned unchanged."""
    name = handle.strip().removeprefix("@").removeprefix("at://")
    if name.startswith("did:"):
        if _DID.fullmatch(name) is None:
            raise _unknown(handle, None)
        return name
    try:
        return await appview.resolve_handle(name.lower())
    except RemotePermanent as error:
        if error.status in (400, 404):
            raise _unknown(handle, error) from None
        raise


def why_hidden(error: RemotePermanent) -> str | None:
    """Return why a server does not show an account: deactivated, suspended, taken down, not found; None if unknown."""
    said = str(error.details.get("said") or "")
    named = _ERROR_NAME.search(said)
    if named is not None and named[1] in _HIDDEN:
        return _HIDDEN[named[1]]
    return "not found" if any(text in said for text in _NONE_SUCH) else None


async def read_document(plc: HttpClient, origins: Origins, did: str) -> AccountIdentity:
    """Request the document of a DID and return its account."""
    method, _, name = did.removeprefix("did:").partition(":")
    if not _DID.fullmatch(did) or method not in ("plc", "web"):
        raise RemotePermanent(
            f"cannot read the DID document of {did[:200]}", reason="unknown_did_method", did=did[:200]
        )
    if method == "plc":
        document, _ = await plc.get_json(f"/{quote(did, safe=':')}", as_type=DidDocument, route="did_document")
    else:
        host = unquote(name)
        scheme = "http" if is_loopback(f"http://{host}") else "https"
        async with origins.using(f"{scheme}://{host}") as http:
            document, _ = await http.get_json(".well-known/did.json", as_type=DidDocument, route="did_document")
    if document.id != did:
        raise RemotePermanent(f"the DID document of {did} is for {document.id[:200]}", reason="wrong_document", did=did)
    return parse_document(document)


def parse_document(document: DidDocument) -> AccountIdentity:
    """Return the account described by a document."""
    handle = next((name[5:].lower() for name in document.also_known_as if name.startswith("at://") and name[5:]), None)
    endpoints = (service.endpoint for service in document.service if service.id in (_PDS, f"{document.id}{_PDS}"))
    pds_url = next((endpoint for endpoint in endpoints if isinstance(endpoint, str)), None)
    return AccountIdentity(document.id, handle, pds_url)


def _unknown(handle: str, error: RemotePermanent | None) -> RemoteNotFound:
    return RemoteNotFound(
        f"account not found: {handle}",
        fix="check the handle; if it was changed, use the DID",
        status=error.status if error else None,
        url=error.url if error else None,
        handle=handle,
    )
