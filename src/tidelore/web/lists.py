"""The pages that list and search: issues, merge requests, topics, posts, and Search.

The address holds the whole state of a page. Filters are those of `lore list` and `lore search`, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from tidelore.app.answers import parse_page_token
from tidelore.app.listing import (
    POST_KINDS,
    ListRequest,
    PostRequest,
    TopicRequest,
    list_issues,
    list_merge_requests,
    list_posts_with_authors,
    list_topics,
)
from tidelore.app.pages.items import StoredProject, stored_projects
from tidelore.app.searching import SearchPage, SearchQuestion, mark_titles, search
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import parse_since
from tidelore.web.addresses import changed_query, with_query
from tidelore.web.rendering import Page, Site

PAGE_ITEMS = 25
MOST_ITEMS = 100
_IN_PROCESS = frozenset({"local", "minilm"})
"""The embedding providers that answer without a network; others would be asked at every key press."""
_WITHIN = (("", "any time"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year"))


class Choice(Struct, frozen=True):
    """A chip: a value that a filter may have, and the address with it."""

    label: str
    address: str
    active: bool


class ListedKind(Struct, frozen=True):
    """What a list shows and by which filters; `states` are offered as chips, `fields` as inputs."""

    title: str
    template: str
    read: Callable[[App, Any], Any]
    request: type[Any]
    states: tuple[str, ...]
    fields: tuple[str, ...]
    flags: tuple[str, ...] = ()
    state_name: str = "state"
    sorts: bool = True


_SHOWN = {"opened": "open"}
"""States whose chip says the same word as the rows do."""
_OPPOSITES = {"answered": "unanswered"}
_SHARED = ("project", "author", "assignee", "label", "milestone", "since")
LISTS: dict[str, ListedKind] = {
    "issues": ListedKind("Issues", "items.html", list_issues, ListRequest, ("opened", "closed"), (*_SHARED, "status")),
    "mrs": ListedKind(
        "Merge requests",
        "items.html",
        list_merge_requests,
        ListRequest,
        ("opened", "merged", "closed", "locked"),
        (*_SHARED, "reviewer", "target_branch", "source_branch"),
        ("draft",),
    ),
    "topics": ListedKind(
        "Topics",
        "items.html",
        list_topics,
        TopicRequest,
        ("opened", "closed"),
        ("project", "author", "category", "since"),
        ("answered",),
    ),
    "posts": ListedKind(
        "Posts",
        "posts.html",
        list_posts_with_authors,
        PostRequest,
        POST_KINDS,
        ("author", "since"),
        (),
        "kind",
        sorts=False,
    ),
}


_KINDS = {"issues": "issue", "mrs": "mr", "topics": "topic", "posts": "post"}
_NOUNS = _KINDS | {"mrs": "merge request"}


def list_page(site: Site, app: App, request: Request) -> Page:
    """Show one page of a list."""
    name = request.path_params["name"]
    if name not in LISTS:
        raise NotFound("This page does not exist.", fix="use the links above, or the search")
    kind = LISTS[name]
    query = request.query_params.multi_items()
    wanted = _wanted(kind, request, site.now_ms())
    found, authors = kind.read(app, kind.request(**wanted)), None
    if isinstance(found, tuple):
        found, authors = found
    projects = stored_projects(app)
    return Page(
        template=kind.template,
        title=kind.title,
        data=found,
        part="_rows.html" if kind.template == "items.html" else "_posts.html",
        context={
            "kind": _KINDS[name],
            "listed": kind,
            "noun": _NOUNS[name],
            "filtered": any(value for field, value in query if field not in {"sort", "order", "limit"}),
            "values": {field: request.query_params.get(field, "") for field in kind.fields},
            "labels": request.query_params.getlist("label"),
            "states": _chips(request.url.path, query, kind.state_name, [("", "all"), *_same(kind.states)]),
            "flags": {flag: _flag_chips(request.url.path, query, flag) for flag in (*kind.flags, "deleted")},
            "active": _active(request.url.path, query, kind.fields),
            "sorting": _sorting(request) if kind.sorts else [],
            "next_address": _next(request, found.next),
            "first_address": with_query(request.url.path, changed_query(query, {})) if "after" in wanted else None,
            "projects": [project.path for project in projects],
            "shared": shared_paths(projects),
            "authors": authors,
        },
    )


def _wanted(kind: ListedKind, request: Request, now_ms: int) -> dict[str, Any]:
    """Return the filters of an address; raise UserError for a value that a filter cannot have."""
    values = request.query_params
    wanted: dict[str, Any] = {name: values[name] for name in kind.fields if values.get(name)}
    wanted.pop("label", None)
    labels = tuple(label for label in values.getlist("label") if label)
    if labels and "label" in kind.fields:
        wanted["labels"] = labels
    if "since" in wanted:
        wanted["since"] = parse_since(wanted["since"], now_ms, "since")
    state = values.get(kind.state_name, "")
    if state not in {"", "all"}:
        wanted[kind.state_name] = _one_of(kind.state_name, state, kind.states)
    for flag in (*kind.flags, "deleted"):
        if values.get(flag):
            wanted[flag] = _one_of(flag, values[flag], ("yes", "no")) == "yes"
    if kind.sorts:
        wanted["sort"] = _one_of("sort", values.get("sort") or "updated", ("updated", "created"))
        wanted["ascending"] = _one_of("order", values.get("order") or "newest", ("newest", "oldest")) == "oldest"
    if values.get("after"):
        wanted["after"] = parse_page_token(values["after"])
    wanted["limit"] = _limit(values.get("limit"))
    if kind.request is ListRequest:
        wanted["with_talk"] = True
    return wanted


def _limit(text: str | None) -> int:
    if not text:
        return PAGE_ITEMS
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_ITEMS):
        raise UserError(f"invalid value for limit: {text!r}", fix=f"use a number from 1 to {MOST_ITEMS}", limit=text)
    return int(text)


def _one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise UserError(f"invalid value for {name}: {value!r}", fix="use any of: " + ", ".join(allowed), value=value)
    return value


def _same(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, _SHOWN.get(value, value)) for value in values]


def _chips(path: str, query: list[tuple[str, str]], name: str, choices: Sequence[tuple[str, str]]) -> list[Choice]:
    """Return a chip for each value of a filter; the empty value removes it."""
    given = dict(query).get(name, "")
    return [
        Choice(label, with_query(path, changed_query(query, {name: value or None})), given == value)
        for value, label in choices
    ]


def _flag_chips(path: str, query: list[tuple[str, str]], name: str) -> list[Choice]:
    """Return the chips of a yes-or-no filter; a chip that is on switches it off."""
    given = dict(query).get(name, "")
    words = {"yes": name} | ({} if name == "deleted" else {"no": _OPPOSITES.get(name, f"not {name}")})
    return [
        Choice(word, with_query(path, changed_query(query, {name: None if given == value else value})), given == value)
        for value, word in words.items()
    ]


def _active(path: str, query: list[tuple[str, str]], fields: Sequence[str]) -> list[Choice]:
    """Return the filters that are set, each with the address without it."""
    found = []
    for place, (name, value) in enumerate(query):
        if name in fields and value:
            rest = [pair for index, pair in enumerate(query) if index != place and pair[0] != "after"]
            found.append(Choice(f"{name.replace('_', ' ')}: {value}", with_query(path, rest), active=True))
    return found


def _sorting(request: Request) -> list[Choice]:
    query = request.query_params.multi_items()
    now = (request.query_params.get("sort") or "updated", request.query_params.get("order") or "newest")
    found = []
    for sort, order, label in (
        ("updated", "newest", "recently updated"),
        ("updated", "oldest", "least recently updated"),
        ("created", "newest", "newest"),
        ("created", "oldest", "oldest"),
    ):
        changes = {"sort": None if sort == "updated" else sort, "order": None if order == "newest" else order}
        address = with_query(request.url.path, changed_query(query, changes))
        found.append(Choice(label, address, now == (sort, order)))
    return found


def _next(request: Request, token: str | None) -> str | None:
    if token is None:
        return None
    query = request.query_params.multi_items()
    return with_query(request.url.path, [*changed_query(query, {}), ("after", token)])


def shared_paths(projects: Sequence[StoredProject]) -> frozenset[str]:
    """Return the paths that projects of two hosts have; only these need the host in an address."""
    paths = [project.path for project in projects]
    return frozenset(path for path in paths if paths.count(path) > 1)


def search_results(_site: Site, app: App, request: Request) -> Page:
    """Search; without a query, show how."""
    values = request.query_params
    text = values.get("q", "").strip()
    query = values.multi_items()
    question = SearchQuestion(
        text=text,
        mode="hybrid" if app.config.embedding.provider in _IN_PROCESS else "lexical",
        type=values.get("type") or None,
        project=values.get("project") or None,
        author=values.get("author") or None,
        state=values.get("state") or None,
        since=values.get("since") or None,
        path=values.get("path") or None,
        labels=tuple(label for label in values.getlist("label") if label),
        limit=_limit(values.get("limit")),
        after=values.get("after") or None,
    )
    found = search(app, question) if text else _nothing(question.mode)
    projects = stored_projects(app)
    types = [("", "everything"), ("issue", "issues"), ("mr", "merge requests"), ("discussion", "discussions")]
    types += [("topic", "topics"), ("post", "posts")]
    states = [("", "any state"), *_same(("opened", "closed", "merged"))]
    return Page(
        template="search.html",
        title=f"{text} – Search" if text else "Search",
        data=found,
        part="_results.html",
        context={
            "text": text,
            "titles": mark_titles(question, found),
            "chips": {
                "type": _chips("/search", query, "type", types),
                "state": _chips("/search", query, "state", states),
                "since": _chips("/search", query, "since", _WITHIN),
            },
            "kept": [(name, value) for name, value in query if name not in {"q", "after", "project"} and value],
            "active": _active("/search", query, ("author", "label", "path")),
            "project": values.get("project", ""),
            "projects": [project.path for project in projects],
            "next_address": _next(request, found.next),
            "shared": shared_paths(projects),
        },
    )


def _nothing(mode: str) -> SearchPage:
    return SearchPage(items=[], total=0, total_is_lower_bound=False, mode=mode, notice=None)
