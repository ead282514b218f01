"""The lists under a parent, read over HTTP: how they go on, where they never go, and what one bad child costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import ScriptedServer, answer

from tidelore.core.errors import RemoteNotFound, RemoteTransient
from tidelore.core.model import DiscussionRecord, Item
from tidelore.engine.ports import ListRequest, Page, Pages
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import LISTS, child_lists
from tidelore_world.gitlab.state import FileDiff, Issue, MergeRequest
from tidelore_world.server import Server, serve
from tidelore_world.world import World

PATH = "port/harbour"
EVENT_FAMILIES = ("state", "label", "milestone")
ALL_HEADERS = frozenset({"link", "x-next-page", "x-page", "x-prev-page", "x-total", "x-total-pages", "x-per-page"})


class Harbour:
    """A served project with an issue and a merge request that have several children of every kind."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.world = server.world
        self.forge = server.world.gitlab
        self.project = self.forge.create_project(PATH)
        issues = [self.forge.create_issue(PATH, title=f"Late {number}") for number in range(5)]
        self.issue: Issue = issues[0]
        files = [FileDiff(f"src/{name}.py", f"src/{name}.py", "@@\n") for name in "abcde"]
        self.request: MergeRequest = self.forge.create_merge_request(
            PATH, closes=[issue.iid for issue in issues], reviewers=["ada", "ben", "cleo"], diffs=files
        )
        for parent in (self.issue, self.request):
            for number in range(5):
                self.forge.add_note(parent, f"Remark {number}", thread=number % 2 == 0)
        for step in range(3):
            self.world.advance(60)
            self.forge.close_issue(PATH, self.issue.iid)
            self.forge.edit_issue(PATH, self.issue.iid, labels=[f"step-{step}"], milestone=f"v{step}")
            self.forge.reopen_issue(PATH, self.issue.iid)

    def run(self, do: Callable[[GitLabClient], Awaitable[Any]]) -> Any:
        async def job() -> Any:
            async with HttpClient(self.server.url, max_retries=0) as http:
                return await do(GitLabClient(http))

        return asyncio.run(job())

    def pages(self, kind: str, resource: str = "merge_requests", *, per_page: int = 2) -> list[list[Page[Any]]]:
        """Return every page of every list of one kind."""
        iid = self.issue.iid if resource == "issues" else self.request.iid

        async def do(client: GitLabClient) -> list[list[Page[Any]]]:
            lists = child_lists(client, kind, resource, self.project.id, iid, per_page=per_page)
            return [await walk(pages) for pages in lists]

        found: list[list[Page[Any]]] = self.run(do)
        return found

    def items(self, kind: str, resource: str = "merge_requests", *, per_page: int = 2) -> list[Item[Any]]:
        return [
            item for pages in self.pages(kind, resource, per_page=per_page) for page in pages for item in page.items
        ]

    def truth(self, kind: str, resource: str = "merge_requests") -> list[dict[str, Any]]:
        if kind == "discussions":
            if resource == "issues":
                return self.forge.truth_discussions("issues", PATH, self.issue.iid)
            return self.forge.truth_discussions("merge_requests", PATH, self.request.iid)
        if kind == "positions":
            return self.forge.truth_discussions("merge_requests", PATH, self.request.iid)
        if kind == "resource_events":
            told = [self.forge.truth_events("issues", PATH, self.issue.iid, family) for family in EVENT_FAMILIES]
            return [row for rows in told for row in rows]
        read = {
            "closes_issues": self.forge.truth_closes,
            "diffs": self.forge.truth_diffs,
            "reviewers": self.forge.truth_reviewers,
        }
        return read[kind](PATH, self.request.iid)


async def walk(pages: Pages[Any]) -> list[Page[Any]]:
    read = [await pages.fetch(ListRequest())]
    while (token := read[-1].next_token) is not None:
        assert len(read) < 20, "the list has no end"
        read.append(await pages.fetch(ListRequest(token=token)))
    return read


@pytest.fixture
def harbour() -> Iterator[Harbour]:
    with serve(World()) as server:
        yield Harbour(server)


def payloads(items: list[Item[Any]]) -> list[Any]:
    return [json.loads(item.payload) for item in items]


EVERYTHING = [
    ("discussions", "issues"),
    ("resource_events", "issues"),
    *((kind, "merge_requests") for kind in LISTS if kind != "resource_events"),
]


@pytest.mark.parametrize(("kind", "resource"), EVERYTHING)
@pytest.mark.parametrize(
    "stripped", [frozenset(), frozenset({"link"}), ALL_HEADERS], ids=["link", "x-next-page", "full page"]
)
def test_every_child_list_is_read_to_its_end_with_any_pagination_headers(
    harbour: Harbour, kind: str, resource: str, stripped: frozenset[str]
) -> None:
    harbour.forge.strip_headers = stripped
    truth = harbour.truth(kind, resource)
    assert len(truth) > 2, "one page proves nothing"
    assert payloads(harbour.items(kind, resource)) == truth


def test_every_kind_of_child_is_covered_by_these_tests() -> None:
    assert {kind for kind, _ in EVERYTHING} == set(LISTS)


def test_without_headers_a_full_last_page_is_followed_by_one_more_request(harbour: Harbour) -> None:
    harbour.forge.strip_headers = ALL_HEADERS
    (pages,) = harbour.pages("diffs", per_page=5)
    assert [len(page.items) for page in pages] == [5, 0]


def test_the_first_page_sets_the_page_size_and_the_next_uses_the_servers_link(harbour: Harbour) -> None:
    harbour.items("diffs")
    path = f"/api/v4/projects/{harbour.project.id}/merge_requests/{harbour.request.iid}/diffs"
    asked = [urlsplit(target) for _, target, _ in harbour.world.log]
    assert [one.path for one in asked] == [path] * 3
    assert parse_qs(asked[0].query) == {"per_page": ["2"]}
    assert [parse_qs(one.query).get("page") for one in asked] == [None, ["2"], ["3"]]


@pytest.mark.parametrize("stripped", [frozenset(), ALL_HEADERS - {"link"}])
def test_a_next_link_to_another_origin_is_not_followed_and_no_child_is_lost(
    harbour: Harbour, stripped: frozenset[str]
) -> None:
    harbour.forge.strip_headers = stripped
    with serve(World()) as stranger:
        harbour.forge.foreign_next_link = f"{stranger.url}/api/v4/projects/1/issues?page=2"
        found = harbour.items("discussions")
        assert not stranger.world.requests
    assert payloads(found) == harbour.truth("discussions")


@pytest.mark.parametrize(("shape", "error"), [("null", "Expected `object`"), ("string", "Expected `object`")])
@pytest.mark.parametrize("kind", [kind for kind in LISTS if kind != "resource_events"])
def test_a_child_that_cannot_be_parsed_is_rejected_and_the_others_are_kept(
    harbour: Harbour, kind: str, shape: str, error: str
) -> None:
    fault = harbour.world.faults.add("malformed_item", shape=shape)
    ((page,),) = harbour.pages(kind, per_page=100)
    assert fault.fired == 1
    assert len(page.items) == len(harbour.truth(kind)) - 1
    assert [error in rejected.error for rejected in page.rejected] == [True]
    assert page.rejected[0].key.startswith("content:")


def test_a_rejected_child_counts_towards_a_full_page(harbour: Harbour) -> None:
    harbour.forge.strip_headers = ALL_HEADERS
    harbour.world.faults.add("malformed_item", shape="null")
    (pages,) = harbour.pages("discussions")
    assert [(len(page.items), len(page.rejected)) for page in pages] == [(1, 1), (2, 0), (1, 0)]


def test_a_discussion_with_one_bad_note_is_rejected_as_a_whole_with_its_id(harbour: Harbour) -> None:
    thread = harbour.request.discussions[0]
    harbour.forge.add_note(harbour.request, "torn \x00 text", discussion=thread)
    ((page,),) = harbour.pages("discussions", per_page=100)
    assert [(one.key, one.error) for one in page.rejected] == [(thread.id, "notes[1]: body: contains a NUL character")]
    assert json.loads(page.rejected[0].payload) == harbour.truth("discussions")[0]
    assert payloads(list(page.items)) == harbour.truth("discussions")[1:]


def test_text_with_an_escaped_nul_is_accepted(harbour: Harbour) -> None:
    harbour.forge.add_note(harbour.request, r"escape it as \u0000")
    record: DiscussionRecord = harbour.items("discussions", per_page=100)[-1].record
    assert record.notes[0].body == r"escape it as \u0000"


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("diffs", {"old_path": "a\x00b", "new_path": "ab"}),
        ("closes_issues", {"id": "QUAY-1", "title": "a\x00b"}),
        ("reviewers", {"user": {"username": "a\x00b"}}),
    ],
)
def test_a_nul_is_refused_in_every_kind_of_child(kind: str, broken: dict[str, Any]) -> None:
    page = scripted(kind, answer(body=json.dumps([broken]).encode(), X_Next_Page=""))[0]
    assert (list(page.items), [one.error[-24:] for one in page.rejected]) == ([], ["contains a NUL character"])


def test_the_same_bad_id_in_three_event_lists_gives_three_rejections() -> None:
    bad = json.dumps([{"id": 142, "created_at": "soon", "state": "closed", "action": "add"}]).encode()
    pages = scripted("resource_events", answer(body=bad, X_Next_Page=""))
    assert [one.key for page in pages for one in page.rejected] == [
        "resource_state_events:142",
        "resource_label_events:142",
        "resource_milestone_events:142",
    ]
    assert {one.error.partition(":")[0] for page in pages for one in page.rejected} == {"created_at"}


def test_a_child_page_carries_the_servers_clock(harbour: Harbour) -> None:
    now_ms = harbour.world.clock.now_us // 1000
    (pages,) = harbour.pages("diffs")
    assert {page.server_at for page in pages} == {now_ms - now_ms % 1000}


def test_the_child_list_of_a_deleted_parent_is_an_error_and_not_empty(harbour: Harbour) -> None:
    harbour.forge.delete_merge_request(PATH, harbour.request.iid)
    with pytest.raises(RemoteNotFound):
        harbour.pages("discussions")


@pytest.mark.parametrize("fault", ["truncated", "not_json", "disconnect"])
def test_a_truncated_child_page_is_an_error_and_not_a_short_list(harbour: Harbour, fault: Any) -> None:
    planned = harbour.world.faults.add(fault, after=1)
    with pytest.raises(RemoteTransient):
        harbour.pages("discussions")
    assert planned.fired == 1


def scripted(kind: str, *script: bytes) -> list[Page[Any]]:
    """Return the first page of each list of one kind, as a scripted server answers it."""

    async def job(http: HttpClient, _: ScriptedServer) -> list[Page[Any]]:
        lists = child_lists(GitLabClient(http), kind, "merge_requests", 42, 3, per_page=2)
        return [await pages.fetch(ListRequest()) for pages in lists]

    found: list[Page[Any]] = ask(*script, do=job, max_retries=0)[0]
    return found
