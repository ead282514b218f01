"""Deliveries of GitLab's webhooks: a secret token in a header, or a signature over id, time and raw body.

A signing token begins with `whsec_`; a hook that has one must be signed. A secret token is sent as it is, and says
nothing about the body or its age: anyone who has seen it can send anything, so a signing token is better.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from tidelore.sources.gitlab.client import API, GitLabClient
from tidelore.sources.hooks import HookHint, InstalledHook, SentDelivery, delivery_id, hmac_of, is_same

SIGNING = "whsec_"


class _Project(Struct):
    id: int


class _Numbered(Struct):
    iid: int | None = None
    oldrev: str | None = None


class _Payload(Struct):
    object_kind: str = ""
    project: _Project | None = None
    object_attributes: _Numbered | None = None
    issue: _Numbered | None = None
    merge_request: _Numbered | None = None


_PAYLOADS = msgspec.json.Decoder(_Payload)


class GitLabHooks:
    """The format of GitLab's deliveries."""

    def authenticate(
        self, secret: str, headers: Mapping[str, str], body: bytes, now_ms: int, max_age_ms: int
    ) -> str | None:
        if secret.startswith(SIGNING):
            if not _is_signed(secret, headers, body, now_ms, max_age_ms):
                return None
            return delivery_id(headers.get("webhook-id"))
        if not is_same(headers.get("x-gitlab-token", ""), secret):
            return None
        # Older servers send no key that their retries repeat; there an equal body is the same delivery.
        return delivery_id(headers.get("idempotency-key") or sha256(body).hexdigest())

    def read(self, headers: Mapping[str, str], body: bytes) -> HookHint | None:  # noqa: ARG002 - the body names its event
        found = _PAYLOADS.decode(body)
        if found.project is None:
            return None
        own = None if found.object_attributes is None else found.object_attributes.iid
        if found.object_kind in ("issue", "work_item") and own is not None:
            return HookHint(found.project.id, "issues", own)
        if found.object_kind == "merge_request" and own is not None:
            # A push, which names the head before it, does not move the merge request's update time.
            pushed = found.object_attributes is not None and found.object_attributes.oldrev is not None
            return HookHint(found.project.id, "merge_requests", own, silent=pushed)
        if found.object_kind == "note":
            # Within a minute of the last change a note does not move its parent's update time either.
            if found.merge_request is not None and found.merge_request.iid is not None:
                return HookHint(found.project.id, "merge_requests", found.merge_request.iid, silent=True)
            if found.issue is not None and found.issue.iid is not None:
                return HookHint(found.project.id, "issues", found.issue.iid, silent=True)
        return None


def _is_signed(secret: str, headers: Mapping[str, str], body: bytes, now_ms: int, max_age_ms: int) -> bool:
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING), validate=True)
        sent_ms = int(headers.get("webhook-timestamp", "")) * 1000
    except (ValueError, binascii.Error):
        return False
    head = f"{headers.get('webhook-id', '')}.{headers['webhook-timestamp']}.".encode("utf-8", "surrogateescape")
    expected = "v1," + base64.b64encode(hmac_of(key, head + body)).decode()
    # Several signatures are sent while a token is exchanged for another; all are compared.
    matching = [is_same(given, expected) for given in headers.get("webhook-signature", "").split(" ")]
    return any(matching) and abs(now_ms - sent_ms) <= max_age_ms


EVENTS = (
    "issues_events",
    "confidential_issues_events",
    "note_events",
    "confidential_note_events",
    "merge_requests_events",
)
LAST = 20
"""How many deliveries are listed."""


class _Hook(Struct):
    id: int
    url: str
    issues_events: bool = False
    confidential_issues_events: bool = False
    note_events: bool = False
    confidential_note_events: bool = False
    merge_requests_events: bool = False
    alert_status: str = "executable"


class _Event(Struct):
    trigger: str = ""
    response_status: str | int | None = None
    request_headers: dict[str, str] = {}


def _installed(found: _Hook) -> InstalledHook:
    missing = tuple(name for name in EVENTS if not getattr(found, name))
    return InstalledHook(found.id, found.url, missing, disabled=found.alert_status != "executable")


async def list_hooks(client: GitLabClient, project_id: int) -> Sequence[InstalledHook]:
    """Return the first hundred webhooks of a project, which is as many as a project may have on gitlab.com."""
    address = f"{API}/projects/{project_id}/hooks"
    rows, _ = await client.list_page(address, {"per_page": 100}, etag=None, route="hooks")
    return [_installed(msgspec.json.decode(row, type=_Hook)) for row in rows or ()]


async def save_hook(client: GitLabClient, project_id: int, hook_id: int | None, url: str, secret: str) -> InstalledHook:
    """Create a webhook, or complete a known one."""
    key = "signing_token" if secret.startswith(SIGNING) else "token"
    content = {"url": url, key: secret, "push_events": False, **dict.fromkeys(EVENTS, True)}
    address = f"{API}/projects/{project_id}/hooks" + ("" if hook_id is None else f"/{hook_id}")
    method, read = "POST" if hook_id is None else "PUT", msgspec.json.Decoder(_Hook).decode
    return _installed(await client.write(address, content, read=read, route="hooks", method=method))


async def list_deliveries(client: GitLabClient, project_id: int, hook_id: int) -> Sequence[SentDelivery]:
    """Return the last deliveries of a webhook."""
    address = f"{API}/projects/{project_id}/hooks/{hook_id}/events"
    rows, _ = await client.list_page(address, {"per_page": LAST}, etag=None, route="hook_events")
    found = [msgspec.json.decode(row, type=_Event) for row in rows or ()]
    return [
        SentDelivery(one.trigger, _status(one.response_status), one.request_headers.get("Idempotency-Key"))
        for one in found
    ]


def _status(given: str | int | None) -> int | None:
    """Return a status; `internal error` stands for no response."""
    return int(given) if given is not None and str(given).isdecimal() else None
