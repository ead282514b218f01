"""What each REST v4 endpoint answers once its project is found.

Owns the endpoints. Refuses to match paths or to check rights. Invariant: a handler only reads; requests
that change the instance are in `writes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tidelore_world.gitlab import items, threads
from tidelore_world.gitlab.answers import conditional, error, page, page_of
from tidelore_world.gitlab.listing import (
    ItemQuery,
    keyset_headers,
    offset_headers,
    parse_items,
    parse_order,
    parse_paging,
)
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.shelf import Shelf, Slice
from tidelore_world.gitlab.state import Item, Kind, MergeRequest, Note, Project
from tidelore_world.gitlab.view import View, closed_issues, encode
from tidelore_world.wire import Request, Response, json_response

VERSION = "18.5.1-ee"
OLD_VERSION = "12.10.14-ee"

Child = Callable[[View, Request, Kind, int, Project], Response]


def version(forge: View, request: Request) -> Response:
    """`/version`."""
    number = OLD_VERSION if forge.old_server else VERSION
    return conditional(request, encode({"version": number, "revision": "4a1c8b7e2d0", "enterprise": True}))


def me(forge: View, request: Request) -> Response:
    """`/user`: the caller's own account; nobody is logged in without a token."""
    if not (request.headers.get("private-token") or request.headers.get("authorization")):
        return error(401, "401 Unauthorized")
    payload = items.user_payload(forge.caller) | {"is_admin": False, "bot": False}
    return conditional(request, encode(payload))


def list_projects(forge: View, request: Request) -> Response:
    """`/projects`, newest first."""
    return _projects(forge, request, list(forge.projects.values()))


def group_projects(forge: View, request: Request, group: str) -> Response:
    """`/groups/:id/projects`: direct children, or the whole tree with `include_subgroups`."""
    if group not in forge.groups:
        return error(404, "404 Group Not Found")
    inside = [project for project in forge.projects.values() if project.path.startswith(f"{group}/")]
    if request.first("include_subgroups") not in ("true", "1"):
        inside = [project for project in inside if project.path.rpartition("/")[0] == group]
    return _projects(forge, request, inside)


def one_project(request: Request, project: Project) -> Response:
    """`/projects/:id`."""
    return conditional(request, encode(items.project_payload(project)))


def members(forge: View, request: Request, project: Project) -> Response:
    """`/projects/:id/members/all`: who may do what, inherited rights included."""

    def shown(entry: tuple[str, int]) -> items.Payload:
        payload = items.user_payload(forge.user(entry[0])) | {"access_level": entry[1], "expires_at": None}
        return payload | {"created_at": items.instant(project.created_at_us), "membership_state": "active"}

    return page_of(forge, request, list(project.members.items()), shown)


def merge_base(request: Request, project: Project) -> Response:
    """`/projects/:id/repository/merge_base` of two heads of merge requests."""
    refs = request.query.get("refs[]", [])
    if len(refs) < 2:
        return error(400, "400 Bad request - Provide at least 2 refs")
    requests = [mr for mr in project.merge_requests if {version.head_sha for version in mr.versions} & set(refs)]
    heads = {version.head_sha for mr in requests for version in mr.versions}
    unknown = [ref for ref in refs if ref not in heads]
    if unknown:
        return error(400, f"Could not find {'ref' if len(unknown) == 1 else 'refs'}: {', '.join(unknown)}")
    if len(requests) != 1:
        return error(404, "404 Merge Base Not Found")
    versions = requests[0].versions
    first, last = sorted(next(n for n, one in enumerate(versions) if one.head_sha == ref) for ref in refs[:2])
    is_straight = not any(version.forced for version in versions[first + 1 : last + 1])
    sha = versions[first].head_sha if is_straight else versions[first].base_sha
    return conditional(request, encode({"id": sha, "short_id": sha[:8], "parent_ids": []}))


def list_items(forge: View, request: Request, kind: Kind, project: Project) -> Response:
    """`/projects/:id/issues` and `/projects/:id/merge_requests`."""
    query = parse_items(request, kind, ties_follow_sort=forge.ties_follow_sort)
    if query.keyset and (kind == "merge_requests" or not forge.keyset_issues):
        return error(405, "Keyset pagination is not yet available for this type of request", "error")
    found = _select(forge, project.shelf(kind), query)
    if query.keyset:
        rest = found if query.cursor is None else found.after(query.cursor)
        rows = rest.rows(0, query.paging.per_page)
        last_key = query.order.key(rows[-1]) if len(rest) > len(rows) else None
        headers = keyset_headers(request, query.paging, last_key)
    else:
        rows = found.rows(query.paging.offset, query.paging.per_page)
        headers = offset_headers(request, query.paging, len(found))
    return page(forge, request, [forge.encoded(row) for row in rows], headers)


def one_item(forge: View, request: Request, kind: Kind, iid: int, project: Project) -> Response:
    """`/projects/:id/issues/:iid` and `/projects/:id/merge_requests/:iid`."""
    try:
        item = forge.item(kind, project, iid)
    except NotHere:
        return error(404, "404 Not found")
    if isinstance(item, MergeRequest):
        shown = items.single_merge_request_payload(item, old_server=forge.old_server)
    else:
        shown = forge.payload(item) | {"subscribed": False}
    return conditional(request, encode(shown))


def _child(read: Callable[[View, Request, Item], Response]) -> Child:
    def handler(forge: View, request: Request, kind: Kind, iid: int, project: Project) -> Response:
        try:
            item = forge.item(kind, project, iid)
        except NotHere:
            return error(404, "404 Not found")
        return read(forge, request, item)

    return handler


def _discussions(forge: View, request: Request, item: Item) -> Response:
    return page_of(forge, request, item.discussions, lambda found: threads.discussion_payload(found, item))


def one_discussion(forge: View, kind: Kind, iid: int, discussion: str, project: Project) -> Response:
    """`/projects/:id/issues/:iid/discussions/:id` and the same of merge requests."""
    try:
        item = forge.item(kind, project, iid)
        return json_response(threads.discussion_payload(forge.discussion(item, discussion), item))
    except NotHere:
        return error(404, "404 Discussion Not Found")


def _notes(forge: View, request: Request, item: Item) -> Response:
    order = parse_order(request)

    def key(note: Note) -> tuple[int, int]:
        return (note.created_at_us if order.by == "created_at" else note.updated_at_us), note.id

    notes = [note for discussion in item.discussions for note in discussion.notes]
    notes.sort(key=key, reverse=order.descending)
    return page_of(forge, request, notes, lambda note: threads.note_payload(note, item))


def _events(family: str) -> Child:
    def read(forge: View, request: Request, item: Item) -> Response:
        chosen = [event for event in item.events if event.family == family]
        return page_of(forge, request, chosen, lambda event: threads.event_payload(event, item))

    return _child(read)


def _of_merge_request(read: Callable[[View, Request, MergeRequest], Response]) -> Child:
    def only(forge: View, request: Request, item: Item) -> Response:
        assert isinstance(item, MergeRequest)
        return read(forge, request, item)

    return _child(only)


def _closes(forge: View, request: Request, mr: MergeRequest) -> Response:
    paging, closing = parse_paging(request), closed_issues(mr)
    shown = closing[paging.offset : paging.offset + paging.per_page]
    return page(forge, request, map(forge.encoded, shown), offset_headers(request, paging, len(closing)))


def _diffs(forge: View, request: Request, mr: MergeRequest) -> Response:
    if forge.old_server:
        # The endpoint came with 15.7.
        return error(404, "404 Not Found", "error")
    return page_of(forge, request, mr.diffs, threads.diff_payload)


def _changes(forge: View, request: Request, mr: MergeRequest) -> Response:
    shown = items.single_merge_request_payload(mr, old_server=forge.old_server)
    changes = [threads.diff_payload(diff) for diff in mr.diffs]
    return conditional(request, encode(shown | {"changes": changes, "overflow": False}))


def _versions(forge: View, request: Request, mr: MergeRequest) -> Response:
    return page_of(forge, request, mr.versions[::-1], lambda found: threads.version_payload(found, mr))


def _reviewers(forge: View, request: Request, mr: MergeRequest) -> Response:
    return page_of(forge, request, mr.reviewers, lambda user: threads.reviewer_payload(user, mr))


_ON_BOTH: Mapping[str, Child] = MappingProxyType(
    {
        "discussions": _child(_discussions),
        "notes": _child(_notes),
        "resource_state_events": _events("state"),
        "resource_label_events": _events("label"),
        "resource_milestone_events": _events("milestone"),
    }
)
_ON_MERGE_REQUESTS: Mapping[str, Child] = MappingProxyType(
    {
        **_ON_BOTH,
        "closes_issues": _of_merge_request(_closes),
        "diffs": _of_merge_request(_diffs),
        "changes": _of_merge_request(_changes),
        "versions": _of_merge_request(_versions),
        "reviewers": _of_merge_request(_reviewers),
    }
)


def child(kind: Kind, name: str) -> Child | None:
    """The endpoint of that name under an item of that kind."""
    return (_ON_BOTH if kind == "issues" else _ON_MERGE_REQUESTS).get(name)


def _projects(forge: View, request: Request, projects: list[Project]) -> Response:
    readable = [project for project in projects if not project.forbidden]
    wanted = request.first("archived")
    if wanted in ("true", "false"):
        readable = [project for project in readable if project.archived == (wanted == "true")]
    readable.sort(key=lambda project: project.id, reverse=request.first("sort", "desc") == "desc")
    return page_of(forge, request, readable, items.project_payload)


def _select(forge: View, shelf: Shelf[Item], query: ItemQuery) -> Slice[Item]:
    """Answer by index alone where possible; otherwise scan once and remember until the shelf changes."""
    if not query.needs_scan:
        return shelf.ordered(query.order, *query.order_span)
    token = (
        query.state,
        query.scope,
        query.iids,
        query.updated_after_us,
        query.updated_before_us,
        query.created_after_us,
        query.created_before_us,
    )
    return shelf.selected(query.order, token, lambda item: _passes(forge, item, query))


def _passes(forge: View, item: Item, query: ItemQuery) -> bool:
    return (
        (query.state is None or item.state == query.state)
        and (query.iids is None or item.iid in query.iids)
        and (query.scope != "created_by_me" or item.author is forge.caller)
        and (query.scope != "assigned_to_me" or forge.caller in item.assignees)
        and _within(item.updated_at_us, query.updated_after_us, query.updated_before_us)
        and _within(item.created_at_us, query.created_after_us, query.created_before_us)
    )


def _within(at_us: int, from_us: int | None, to_us: int | None) -> bool:
    return (from_us is None or at_us >= from_us) and (to_us is None or at_us <= to_us)
