"""The endpoints of project webhooks on the simulated GitLab: list, add, edit, and the events of one.

Owns their payloads. A token is taken and never shown. (source: gitlab-org/gitlab merge request 231325)
"""

from __future__ import annotations

import json
from typing import Any

from tidelore_world.gitlab.answers import error, page_of
from tidelore_world.gitlab.state import Project
from tidelore_world.gitlab.view import View
from tidelore_world.installed_hooks import Installed, Sent
from tidelore_world.wire import Request, Response, json_response

_EVENTS = (
    "push_events",
    "tag_push_events",
    "issues_events",
    "confidential_issues_events",
    "note_events",
    "confidential_note_events",
    "merge_requests_events",
)


def hook_payload(hook: Installed, project: Project) -> dict[str, Any]:
    """One webhook as the API shows it."""
    shown = {name: bool(hook.fields.get(name, name == "push_events")) for name in _EVENTS}
    signed = hook.secret.startswith("whsec_")
    tokens = {"token_present": bool(hook.secret) and not signed, "signing_token_present": signed}
    return {"id": hook.id, "url": hook.url, "project_id": project.id, "alert_status": "executable", **shown, **tokens}


def list_hooks(forge: View, request: Request, project: Project) -> Response:
    """`GET /projects/:id/hooks`."""
    return page_of(forge, request, forge.hooks.of(project.id), lambda hook: hook_payload(hook, project))


def list_events(forge: View, request: Request, hook_id: int, project: Project) -> Response:
    """`GET /projects/:id/hooks/:hook_id/events`."""
    hook = forge.hooks.find(project.id, hook_id)
    if hook is None:
        return error(404, "404 Not found")
    return page_of(forge, request, hook.sent, lambda sent: _event(hook, sent))


def _event(hook: Installed, sent: Sent) -> dict[str, Any]:
    return {
        "id": sent.at_us,
        "url": hook.url,
        "trigger": sent.event,
        "request_headers": {"Idempotency-Key": sent.delivery_id, "X-Gitlab-Token": "[REDACTED]"},
        "response_status": str(sent.status) if sent.status else "internal error",
        "execution_duration": 0.1,
    }


def save_hook(hook_id: int | None, forge: View, request: Request, project: Project) -> Response:
    """`POST /projects/:id/hooks` and `PUT /projects/:id/hooks/:hook_id`."""
    posted = json.loads(request.body or b"{}")
    url, secret = posted.pop("url", ""), posted.pop("signing_token", None) or posted.pop("token", "")
    if not url:
        return error(400, "url is missing", "error")
    if hook_id is None:
        hook = forge.hooks.add(project.id, url, secret, posted)
        return json_response(hook_payload(hook, project), 201)
    known = forge.hooks.find(project.id, hook_id)
    if known is None:
        return error(404, "404 Not found")
    known.url, known.secret = url, secret or known.secret
    known.fields |= posted
    return json_response(hook_payload(known, project))
