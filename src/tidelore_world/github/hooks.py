"""The endpoints of repository webhooks on the simulated GitHub: list, create, update, and the deliveries of one.

Owns their payloads. A secret is taken and shown as asterisks. (memory of docs: rest/repos/webhooks)
"""

from __future__ import annotations

import json
from typing import Any

from tidelore_world.clock import iso_millis
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, not_found
from tidelore_world.installed_hooks import Installed, InstalledHooks
from tidelore_world.wire import Response, json_response


def hook_payload(hook: Installed) -> dict[str, Any]:
    """One webhook as the API shows it."""
    config = {"url": hook.url, "content_type": hook.fields["content_type"], "insecure_ssl": "0"}
    shown = config | ({"secret": "********"} if hook.secret else {})
    row = {"type": "Repository", "id": hook.id, "name": "web", "active": hook.fields["active"]}
    return {**row, "events": hook.fields["events"], "config": shown}


class Hooks:
    """Handlers of webhooks."""

    def __init__(self) -> None:
        self.rows = InstalledHooks()

    def list(self, call: Call) -> Response:
        """`GET /hooks`; a repository has few, so there is one page."""
        return json_response([hook_payload(hook) for hook in self.rows.of(call.repo.id)])

    def create(self, call: Call) -> Response:
        """`POST /hooks`; a second one with the same address is refused."""
        posted = json.loads(call.request.body or b"{}")
        config = posted.get("config", {})
        if not config.get("url"):
            raise ApiFailure(422, "Validation Failed")
        if any(hook.url == config["url"] for hook in self.rows.of(call.repo.id)):
            raise ApiFailure(422, "Validation Failed: Hook already exists on this repository")
        fields = {
            "events": posted.get("events", ["push"]),
            "active": posted.get("active", True),
            "content_type": config.get("content_type", "form"),
        }
        made = self.rows.add(call.repo.id, config["url"], config.get("secret", ""), fields)
        return json_response(hook_payload(made), 201)

    def update(self, call: Call) -> Response:
        """`PATCH /hooks/{id}`."""
        hook = self._find(call)
        posted = json.loads(call.request.body or b"{}")
        config = posted.get("config", {})
        hook.url, hook.secret = config.get("url", hook.url), config.get("secret", hook.secret)
        hook.fields |= {name: posted[name] for name in ("events", "active") if name in posted}
        return json_response(hook_payload(hook))

    def deliveries(self, call: Call) -> Response:
        """`GET /hooks/{id}/deliveries`."""
        return json_response(
            [
                {
                    "id": sent.at_us,
                    "guid": sent.delivery_id,
                    "delivered_at": iso_millis(sent.at_us),
                    "redelivery": False,
                    "duration": 0.1,
                    "status": "OK" if sent.status < 300 else "Invalid HTTP Response",
                    "status_code": sent.status,
                    "event": sent.event,
                    "action": None,
                }
                for sent in self._find(call).sent
            ]
        )

    def _find(self, call: Call) -> Installed:
        found = self.rows.find(call.repo.id, call.numbers[0])
        if found is None:
            raise not_found()
        return found
