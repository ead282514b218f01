"""Webhooks of the simulated forges: what changes is delivered, signed, to an address.

Owns the payloads, the headers and the signatures, and how a delivery can go wrong on the way: lost, doubled, late. A
payload names the project and the item and shows a title that the API never shows, so that a receiver that stores what
it is sent is found out. Deliveries are sent in the order of the changes by one background thread, as HTTP/1.1 POSTs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import queue
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Literal
from urllib.parse import urlsplit

from tidelore_world.github.repository import Repository
from tidelore_world.gitlab.state import Item, MergeRequest
from tidelore_world.installed_hooks import Installed, InstalledHooks, Sent
from tidelore_world.world import World

FORGED_TITLE = "A title that only a webhook has"
SIGNING = "whsec_"
_SECONDS = 10.0


@dataclass
class Hooked:
    """One delivery: what is sent."""

    headers: dict[str, str]
    body: bytes


def sign_github(secret: str, event: str, payload: Mapping[str, Any], delivery: str | None = None) -> Hooked:
    """A delivery as GitHub sends it."""
    body = json.dumps(payload).encode()
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/simulated",
        "X-GitHub-Hook-ID": "292430182",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
        "X-Hub-Signature-256": f"sha256={digest}",
    }
    return Hooked(headers, body)


def sign_gitlab(secret: str, event: str, payload: Mapping[str, Any], at_s: int, delivery: str | None = None) -> Hooked:
    """A delivery as GitLab sends it: with the secret token, or signed if it is a signing token."""
    body, key = json.dumps(payload).encode(), delivery or str(uuid.uuid4())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitLab/simulated",
        "X-Gitlab-Event": event,
        "X-Gitlab-Event-UUID": str(uuid.uuid4()),
        "Idempotency-Key": key,
    }
    if not secret.startswith(SIGNING):
        return Hooked({**headers, "X-Gitlab-Token": secret}, body)
    signed = f"{key}.{at_s}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix(SIGNING)), signed, hashlib.sha256).digest()
    signature = {
        "webhook-id": key,
        "webhook-timestamp": str(at_s),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }
    return Hooked(headers | signature, body)


def post(url: str, sent: Hooked) -> int:
    """Deliver once and return the status."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
    try:
        connection.request("POST", place.path, sent.body, sent.headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@dataclass
class Hook:
    """Where and how one forge delivers. `fate` decides for each delivery: sent, lost, sent twice, or after the next."""

    url: str
    secret: str
    fate: Callable[[], Literal["send", "lose", "double", "late"]] = lambda: "send"
    late: list[Hooked] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """What the receiver answered; 0 if it did not."""
    row: Installed | None = None
    """Where its deliveries are recorded, if it was installed through the API."""


class HookSender:
    """Sends what changes in a world. `gitlab` and `github` begin; `flush` waits until everything is delivered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queue: queue.Queue[tuple[Hook, Hooked]] = queue.Queue()
        threading.Thread(target=self._send_forever, name="hook-sender", daemon=True).start()

    def gitlab(self, url: str, secret: str) -> Hook:
        """Deliver what changes on the simulated GitLab."""
        hook = Hook(url, secret)
        self._world.gitlab.on_event = lambda event, item: self._put(hook, self._of_item(hook, event, item))
        return hook

    def github(self, url: str, secret: str) -> Hook:
        """Deliver what changes in the repositories that the simulated GitHub has now."""
        hook = Hook(url, secret)
        for repo in self._world.github.hub.repositories.values():
            repo.on_event = self._reporter(hook, repo)
        return hook

    def installed(self) -> None:
        """Deliver what changes to the webhooks that are installed through the API, each with its own secret."""

        def of_item(event: str, item: Item) -> None:
            for row in self._world.gitlab.hooks.of(item.project.id):
                hook = Hook(row.url, row.secret, row=row)
                self._put(hook, self._of_item(hook, event, item))

        self._world.gitlab.on_event = of_item
        for repo in self._world.github.hub.repositories.values():
            repo.on_event = self._of_repository(repo)

    def _of_repository(self, repo: Repository) -> Callable[[str, str, int], None]:
        def report(event: str, action: str, number: int) -> None:
            for row in self._world.github.hooks.of(repo.id):
                if event in row.fields["events"]:
                    self._reporter(Hook(row.url, row.secret, row=row), repo)(event, action, number)

        return report

    def flush(self) -> None:
        """Wait until everything was delivered."""
        self._queue.join()

    def _reporter(self, hook: Hook, repo: Repository) -> Callable[[str, str, int], None]:
        def report(event: str, action: str, number: int) -> None:
            payload = github_payload(repo, event, action, number)
            self._put(hook, sign_github(hook.secret, event, payload))

        return report

    def _of_item(self, hook: Hook, event: str, item: Item) -> Hooked:
        name = {"note": "Note Hook", "issues": "Issue Hook", "merge_requests": "Merge Request Hook"}
        title = name["note" if event == "note" else item.kind]
        return sign_gitlab(hook.secret, title, gitlab_payload(event, item), self._world.clock.now_us // 1_000_000)

    def _put(self, hook: Hook, sent: Hooked) -> None:
        fate = hook.fate()
        if fate == "late":
            hook.late.append(sent)
            return
        late, hook.late = hook.late, []
        for one in [sent] * {"send": 1, "lose": 0, "double": 2}[fate] + late:
            self._queue.put((hook, one))

    def _send_forever(self) -> None:
        while True:
            hook, sent = self._queue.get()
            status = 0
            with suppress(OSError, HTTPException):
                status = post(hook.url, sent)
            hook.statuses.append(status)
            if hook.row is not None:
                headers, now = sent.headers, self._world.clock.now_us
                event = headers.get("X-GitHub-Event") or headers["X-Gitlab-Event"]
                key = headers.get("X-GitHub-Delivery") or headers["Idempotency-Key"]
                InstalledHooks.record(hook.row, Sent(event, key, status, now))
            self._queue.task_done()


def gitlab_payload(event: str, item: Item) -> dict[str, Any]:
    """What GitLab tells of a changed item, or of a note under it."""
    shown = {"id": item.id, "iid": item.iid, "title": FORGED_TITLE, "state": item.state}
    kind = "merge_request" if isinstance(item, MergeRequest) else "issue"
    project = {"id": item.project.id, "path_with_namespace": item.project.path}
    if event == "note":
        noteable = "MergeRequest" if isinstance(item, MergeRequest) else "Issue"
        note = {"id": 1, "note": FORGED_TITLE, "noteable_type": noteable, "action": "create"}
        return {"object_kind": "note", "project": project, "object_attributes": note, kind: shown}
    pushed = {"oldrev": "0" * 40} if event == "push" else {}
    return {"object_kind": kind, "project": project, "object_attributes": shown | pushed | {"action": "update"}}


def github_payload(repo: Repository, event: str, action: str, number: int) -> dict[str, Any]:
    """What GitHub tells of an issue, a pull request, or something said in it."""
    found = repo.find_thread(number)
    shown: dict[str, Any] = {"number": number, "title": FORGED_TITLE}
    home = {"id": repo.id, "full_name": repo.full_name}
    if event in ("issues", "issue_comment"):
        if found is not None and found.pull is not None:
            shown["pull_request"] = {"url": f"/pulls/{number}"}
        payload = {"action": action, "repository": home, "issue": shown}
        if action == "transferred":
            target, new_number = repo.transferred[number]
            payload["changes"] = {"new_issue": {"number": new_number}, "new_repository": {"id": target}}
        return payload
    return {"action": action, "repository": home, "pull_request": shown}
