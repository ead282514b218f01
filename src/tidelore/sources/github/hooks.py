"""Deliveries of GitHub's webhooks: `X-Hub-Signature-256` over the raw body, and the number each event is about.

The signature covers no time, so an old delivery is recognised by its id only. Redeliveries keep their id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from tidelore.core.clock import parse_instant
from tidelore.sources.github.client import GitHubClient, repo_path
from tidelore.sources.hooks import HookHint, InstalledHook, SentDelivery, delivery_id, hmac_of, is_same


class _Repository(Struct):
    id: int


class _Link(Struct):
    """The addresses that an issue has if it is a pull request."""


class _Thread(Struct):
    number: int
    pull_request: _Link | None = None


class _Changes(Struct):
    """Where a transferred issue is now; absent in the changes of other actions."""

    new_repository: _Repository | None = None
    new_issue: _Thread | None = None


class _Payload(Struct):
    repository: _Repository | None = None
    action: str = ""
    changes: _Changes | None = None
    issue: _Thread | None = None
    pull_request: _Thread | None = None


_ISSUE_EVENTS = frozenset({"issues", "issue_comment"})
_PULL_EVENTS = frozenset(
    {"pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_review_thread"}
)
_OTHER_EVENTS = frozenset({"discussion", "discussion_comment", "repository"})
_PAYLOADS = msgspec.json.Decoder(_Payload)


class GitHubHooks:
    """The format of GitHub's deliveries."""

    def authenticate(
        self,
        secret: str,
        headers: Mapping[str, str],
        body: bytes,
        now_ms: int,  # noqa: ARG002 - a delivery has no time
        max_age_ms: int,  # noqa: ARG002
    ) -> str | None:
        expected = "sha256=" + hmac_of(secret.encode(), body).hex()
        if not is_same(headers.get("x-hub-signature-256", ""), expected):
            return None
        return delivery_id(headers.get("x-github-delivery"))

    def read(self, headers: Mapping[str, str], body: bytes) -> HookHint | None:
        event = headers.get("x-github-event", "")
        if event not in _ISSUE_EVENTS | _PULL_EVENTS | _OTHER_EVENTS:
            return None
        found = _PAYLOADS.decode(body)
        if found.repository is None:
            return None
        thread = found.issue if event in _ISSUE_EVENTS else found.pull_request
        if event in _OTHER_EVENTS or thread is None:
            return HookHint(found.repository.id)
        is_pull = event in _PULL_EVENTS or thread.pull_request is not None
        # A resolved thread and a deleted comment leave the update time as it is; no list shows a deleted or
        # transferred issue.
        silent = event == "pull_request_review_thread" or found.action in ("deleted", "transferred")
        kind = "merge_requests" if is_pull else "issues"
        moved_to = _moved_to(found.changes) if event == "issues" and found.action == "transferred" else None
        return HookHint(found.repository.id, kind, thread.number, silent, moved_to)  # type: ignore[arg-type]


def _moved_to(changes: _Changes | None) -> HookHint | None:
    if changes is None or changes.new_repository is None or changes.new_issue is None:
        return None
    return HookHint(changes.new_repository.id, "issues", changes.new_issue.number)


EVENTS = (
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "discussion",
    "discussion_comment",
)
LAST = 20
"""How many deliveries are listed."""


class _Config(Struct):
    url: str = ""


class _Hook(Struct):
    id: int
    active: bool = True
    events: list[str] = []
    config: _Config = msgspec.field(default_factory=_Config)


class _Delivery(Struct):
    guid: str
    event: str
    status_code: int
    delivered_at: str


def _installed(found: _Hook) -> InstalledHook:
    missing = () if "*" in found.events else tuple(name for name in EVENTS if name not in found.events)
    return InstalledHook(found.id, found.config.url, missing, disabled=not found.active)


async def list_hooks(client: GitHubClient, repo_id: int) -> Sequence[InstalledHook]:
    """Return the webhooks of a repository; it may have at most 20 for one event."""
    address = f"{repo_path(repo_id)}/hooks"
    rows, _ = await client.list_page(address, {"per_page": 100}, etag=None, route="hooks")
    return [_installed(msgspec.json.decode(row, type=_Hook)) for row in rows or ()]


async def save_hook(client: GitHubClient, repo_id: int, hook_id: int | None, url: str, secret: str) -> InstalledHook:
    """Create a webhook, or complete a known one."""
    config = {"url": url, "content_type": "json", "secret": secret}
    content = {"name": "web", "active": True, "events": EVENTS, "config": config}
    path = "hooks" if hook_id is None else f"hooks/{hook_id}"
    method, read = "POST" if hook_id is None else "PATCH", msgspec.json.Decoder(_Hook).decode
    return _installed(await client.write(repo_id, path, content, read=read, route="hooks", method=method))


async def list_deliveries(client: GitHubClient, repo_id: int, hook_id: int) -> Sequence[SentDelivery]:
    """Return the last deliveries of a webhook."""
    address = f"{repo_path(repo_id)}/hooks/{hook_id}/deliveries"
    rows, _ = await client.list_page(address, {"per_page": LAST}, etag=None, route="hook_deliveries")
    found = [msgspec.json.decode(row, type=_Delivery) for row in rows or ()]
    return [
        SentDelivery(one.event, one.status_code or None, one.guid, parse_instant(one.delivered_at)) for one in found
    ]
