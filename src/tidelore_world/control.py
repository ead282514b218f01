"""The remote control under `/_sim/`: statistics, time, truth, changes and faults over HTTP.

Owns the control routes and the one door that tells them from the world's own requests. Refuses to count
its requests or to let a fault strike them. Invariant: control runs under the world's lock, as requests do.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tidelore_world.bluesky.records import POST, REPOST
from tidelore_world.faults import Fault
from tidelore_world.gitlab.records import NotHere
from tidelore_world.wire import Request, Response, json_response
from tidelore_world.world import World

INDEX: Mapping[str, str] = MappingProxyType(
    {
        "GET /_sim/": "this index",
        "GET /_sim/stats": "requests by route since the last reset, and their total",
        "POST /_sim/stats/reset": "forget the counted requests",
        "POST /_sim/advance?seconds=N": "let time pass",
        "GET /_sim/projects": "GitLab project paths with their numbers and sizes",
        "GET /_sim/truth/gitlab/<encoded path>/issues|merge_requests": "what the API would show now, whole",
        "POST /_sim/change?seed=N&count=K[&kinds=a,b]": "a seeded mix of changes; answers what was done",
        "GET /_sim/repos": "GitHub repositories with their open pull requests",
        "GET /_sim/truth/github/<owner>/<repo>/issues|pulls|comments|review_comments|milestones|discussions": (
            "what the API would show now, whole"
        ),
        "GET /_sim/truth/github/<owner>/<repo>/<number>/timeline|reviews|files|threads|closing_issues": (
            "the same of one issue or pull request"
        ),
        "POST /_sim/github/change?seed=N&count=K[&kinds=a,b]": "the same for GitHub",
        "GET /_sim/accounts": "Bluesky accounts with their handles and sizes",
        "GET /_sim/truth/bluesky/<handle or DID>/feed|posts|reposts": "what the API would show now, whole",
        "POST /_sim/bluesky/change?seed=N&count=K[&kinds=a,b]": "the same for Bluesky",
        "POST /_sim/bluesky/cut": "drop every connection of the event stream; answers how many",
        "POST /_sim/faults": "plan a fault: {kind, route?, route_regex?, times?, after?, chance?, ...options}",
        "GET /_sim/faults": "the planned faults and how often each fired",
        "DELETE /_sim/faults": "drop every fault",
    }
)


def answer(world: World, request: Request) -> Response:
    """Answer any request to the world's origin, control or forge."""
    if not request.path.startswith("/_sim"):
        return world.handle(request)
    with world.lock:
        try:
            return _controls(request)(world, request)
        except NotHere as problem:
            return json_response({"error": str(problem)}, 404)
        except (ValueError, TypeError, KeyError) as problem:
            return json_response({"error": str(problem)}, 400)
        except LookupError as problem:
            return json_response({"error": str(problem)}, 404)


def _control(world: World, request: Request) -> Response:
    match (request.method, *request.segments[1:]):
        case ("GET",):
            return json_response(dict(INDEX))
        case ("GET", "stats"):
            return json_response({"requests": dict(world.requests), "total": world.requests.total()})
        case ("POST", "stats", "reset"):
            world.requests.clear()
            return json_response({"total": 0})
        case ("POST", "advance"):
            world.advance(float(request.first("seconds") or "0"))
            return json_response({"now": world.clock.iso_ms()})
        case ("GET", "projects"):
            return json_response(_projects(world))
        case ("GET", "truth", "gitlab", path, "issues"):
            return json_response(world.gitlab.truth_issues(path))
        case ("GET", "truth", "gitlab", path, "merge_requests"):
            return json_response(world.gitlab.truth_merge_requests(path))
        case ("POST", "change"):
            return json_response(_change(world, request))
        case ("POST", "faults"):
            return json_response(_plan_fault(world, request))
        case ("GET", "faults"):
            return json_response([_fault(fault) for fault in world.faults.faults])
        case ("DELETE", "faults"):
            world.faults.clear()
            return json_response([])
    return _no_control()


def _controls(request: Request) -> Callable[[World, Request], Response]:
    """Return who answers: the controls of the world, or those of one network in it."""
    words = request.segments[1:3]
    if words[:1] == ("accounts",) or "bluesky" in words:
        return _control_bluesky
    return _control_github if words[:1] == ("repos",) or "github" in words else _control


def _control_github(world: World, request: Request) -> Response:
    forge = world.github
    match (request.method, *request.segments[1:]):
        case ("GET", "repos"):
            return json_response(_repos(world))
        case ("GET", "truth", "github", owner, name, kind) if kind in _GITHUB_LISTS:
            return json_response(getattr(forge, f"truth_{kind}")(f"{owner}/{name}"))
        case ("GET", "truth", "github", owner, name, number, kind) if kind in _GITHUB_CHILDREN:
            return json_response(getattr(forge, f"truth_{kind}")(f"{owner}/{name}", int(number)))
        case ("POST", "github", "change"):
            count, rng, kinds = _mix(request)
            return json_response(forge.change(count, rng, kinds, world.advance))
    return _no_control()


_GITHUB_LISTS = frozenset({"issues", "pulls", "comments", "review_comments", "milestones", "discussions"})
_GITHUB_CHILDREN = frozenset({"timeline", "reviews", "files", "threads", "closing_issues"})


def _repos(world: World) -> list[dict[str, Any]]:
    return [
        {
            "name": repo.full_name,
            "open_pulls": [row.number for row in repo.threads if row.pull is not None and row.state == "open"],
        }
        for repo in world.github.hub.repositories.values()
    ]


def _control_bluesky(world: World, request: Request) -> Response:
    forge = world.bluesky
    match (request.method, *request.segments[1:]):
        case ("GET", "accounts"):
            return json_response(_accounts(world))
        case ("GET", "truth", "bluesky", actor, "feed"):
            return json_response(forge.truth_feed(actor, request.origin))
        case ("GET", "truth", "bluesky", actor, "posts"):
            return json_response(forge.truth_records(actor, POST))
        case ("GET", "truth", "bluesky", actor, "reposts"):
            return json_response(forge.truth_records(actor, REPOST))
        case ("POST", "bluesky", "change"):
            count, rng, kinds = _mix(request)
            return json_response(forge.change(count, rng, kinds, world.advance))
        case ("POST", "bluesky", "cut"):
            return json_response({"dropped": forge.jetstream.cut()})
    return _no_control()


def _accounts(world: World) -> list[dict[str, Any]]:
    return [
        {
            "did": account.did,
            "handle": account.handle,
            "active": account.active,
            "posts": len(account.shelf(POST)),
            "reposts": len(account.shelf(REPOST)),
        }
        for account in world.bluesky.network.accounts.values()
    ]


def _mix(request: Request) -> tuple[int, random.Random, list[str] | None]:
    rng = random.Random(int(request.first("seed") or "1"))
    kinds = request.first("kinds")
    return int(request.first("count") or "10"), rng, kinds.split(",") if kinds else None


def _no_control() -> Response:
    return json_response({"error": "no such control", "index": dict(INDEX)}, 404)


def _projects(world: World) -> list[dict[str, Any]]:
    return [
        {
            "id": project.id,
            "path": project.path,
            "issues": len(project.issues),
            "merge_requests": len(project.merge_requests),
        }
        for project in world.gitlab.projects.values()
    ]


def _change(world: World, request: Request) -> list[dict[str, Any]]:
    count, rng, kinds = _mix(request)
    return world.gitlab.change(count, rng, kinds, world.advance)


def _plan_fault(world: World, request: Request) -> dict[str, Any]:
    arguments = json.loads(request.body)
    pattern = arguments.pop("route_regex", None)
    if pattern is not None:
        arguments["route"] = re.compile(pattern)
    return _fault(world.faults.add(**arguments))


def _fault(fault: Fault) -> dict[str, Any]:
    route = fault.route.pattern if isinstance(fault.route, re.Pattern) else fault.route
    return {"kind": fault.kind, "route": route, "times": fault.times, "fired": fault.fired}
