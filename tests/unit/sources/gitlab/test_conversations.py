"""Notes by GraphQL as records, page sizes, and which answers lead to REST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.errors import AccessRefused, CredentialsRejected, RateLimited, RemoteTransient
from tidelore.core.model import ChildRecord
from tidelore.engine.ports import Page
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.conversations import (
    FIRST_SIZE,
    ConversationBatches,
    ParentList,
    read_discussions,
    read_note,
)
from tidelore.sources.gitlab.graphql import GitLabGraphQl
from tidelore.sources.graphql import PageSize

HOME = ParentList("merge_requests", 7, "port/north/crane")
ROUTE = "merge_requests/discussions"


def note(**fields: Any) -> dict[str, Any]:
    return {
        "id": "gid://gitlab/Note/12",
        "body": "The brake is late.",
        "system": False,
        "internal": False,
        "createdAt": "2026-03-02T09:00:00Z",
        "updatedAt": "2026-03-02T09:00:05Z",
        "resolvable": False,
        "resolved": False,
        "resolvedAt": None,
        "author": {"username": "mira"},
        "resolvedBy": None,
        "url": "https://forge.test/port/north/crane/-/merge_requests/1#note_12",
        "position": None,
        **fields,
    }


def page(*nodes: Any, more: bool = False) -> dict[str, Any]:
    return {"pageInfo": {"hasNextPage": more, "endCursor": "MQ" if more else None}, "nodes": list(nodes)}


def parent(iid: int, *notes: Any) -> dict[str, Any]:
    thread = {
        "id": f"gid://gitlab/Discussion/d{iid}",
        "replyId": f"gid://gitlab/Discussion/d{iid}",
        "notes": page(*notes),
    }
    return {"iid": str(iid), "discussions": page(thread)}


def said(*parents: Any, score: int = 60, status: int = 200, **more: Any) -> Answer:
    project = {"id": "gid://gitlab/Project/7", "parents": {"nodes": list(parents)}}
    data = {"queryComplexity": {"score": score, "limit": 250}, "project": project}
    return answer(status, json.dumps({"data": data} | more).encode())


def problem(message: str, status: int = 200, **more: Any) -> Answer:
    return answer(status, json.dumps({"errors": [{"message": message, **more}]}).encode())


def read(*script: Answer, iids: range = range(1, 3)) -> tuple[Any, ScriptedServer, GitLabGraphQl]:
    kept: list[GitLabGraphQl] = []

    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        client = GitLabClient(http)
        kept.append(GitLabGraphQl(lambda: client, "work"))
        return await read_discussions(kept[0], HOME, list(iids))

    found, server, _ = ask(*script, do=job, max_retries=0)
    return found, server, kept[0]


def sizes(server: ScriptedServer) -> list[int]:
    return [len(json.loads(seen.body)["variables"]["iids"]) for seen in server.seen]


def test_a_note_becomes_the_record_that_rest_gives_except_for_its_range() -> None:
    refs = {"baseSha": "b", "startSha": "c", "headSha": "a"}
    place = {
        "positionType": "text",
        "oldPath": "a.py",
        "newPath": "b.py",
        "oldLine": None,
        "newLine": 9,
        "diffRefs": refs,
    }
    found = read_note(json.dumps(note(id="gid://gitlab/DiffNote/9", position=place)).encode(), 3)
    assert found is not None
    assert (found.remote_id, found.note_type, found.position, found.author_username) == (9, "DiffNote", 3, "mira")
    assert (found.position_new_path, found.position_new_line, found.position_head_sha) == ("b.py", 9, "a")
    assert (found.position_range_unknown, found.position_line_range_start) == (True, None)
    plain = read_note(json.dumps(note()).encode(), 0)
    assert plain is not None
    assert (plain.note_type, plain.position_range_unknown) == (None, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "gid://gitlab/LabelNote/5f2a9c"},
        {"url": "https://forge.test/port/north/crane/-/commit/0a1b2c3d#note_12"},
    ],
)
def test_notes_that_rest_does_not_list_are_left_out(fields: dict[str, Any]) -> None:
    assert read_note(json.dumps(note(**fields)).encode(), 0) is None


def test_parents_that_are_not_shown_or_have_more_than_a_page_are_left_to_rest() -> None:
    long = {"iid": "2", "discussions": page(more=True)}
    found, _, _ = read(said(parent(1, note()), long), iids=range(1, 4))
    assert [iid for iid, one in found.items() if one is None] == [2, 3]
    assert [item.record.notes[0].body for item in found[1].items] == ["The brake is late."]


def test_a_note_that_cannot_be_parsed_leaves_its_parent_to_rest() -> None:
    found, _, _ = read(said(parent(1, note()), parent(2, note(createdAt="soon"))))
    assert found[1] is not None
    assert found[2] is None


@pytest.mark.parametrize(
    "partial",
    [
        said(None, parent(2, note())),
        said(parent(1, None), parent(2, note())),
        said({"iid": "1", "discussions": None}),
        said(parent(1, note()), errors=[{"message": "Timeout on Note.author", "path": ["project"]}]),
        problem("Query has complexity of 300, which exceeds max complexity of 250"),
        problem("Request timed out. Please try a less complex query.", 503),
        answer(502, b"bad gateway"),
    ],
    ids=["null parent", "null note", "null list", "timeout", "complexity", "503", "502"],
)
def test_a_partial_answer_is_asked_for_again_in_half_the_size(partial: Answer) -> None:
    found, server, _ = read(partial, said(parent(1, note())), iids=range(1, 26))
    assert sizes(server) == [25, 12]
    assert list(found) == list(range(1, 13))


def test_the_size_doubles_after_a_success_and_more_slowly_after_a_failure() -> None:
    async def job(http: HttpClient, _: ScriptedServer) -> list[int]:
        graphql = GitLabGraphQl(lambda: client, "work")
        client = GitLabClient(http)
        seen = []
        for _turn in range(6):
            await read_discussions(graphql, HOME, list(range(1, 201)))
            seen.append(graphql.size(ROUTE, FIRST_SIZE).outer)
        return seen

    good = said()
    found, server, _ = ask(good, good, answer(503, b""), good, good, good, good, do=job, max_retries=0)
    assert found == [50, 100, 50, 100, 100, 100]
    assert sizes(server) == [25, 50, 100, 50, 50, 100, 100]


def test_a_score_near_the_limit_makes_the_next_page_smaller() -> None:
    _, _, graphql = read(said(parent(1, note()), parent(2, note()), score=240))
    assert graphql.size(ROUTE, FIRST_SIZE) == PageSize(12)
    _, _, graphql = read(said(parent(1, note()), parent(2, note()), score=100))
    assert graphql.size(ROUTE, FIRST_SIZE) == PageSize(50)


@pytest.mark.parametrize(
    "refused",
    [
        problem("Field 'internal' doesn't exist on type 'Note'", extensions={"code": "undefinedField"}),
        problem("Not found!", 404),
        problem("API not accessible for user", 403),
        problem("Query too large", 422),
    ],
)
def test_a_server_that_refuses_the_query_is_read_by_rest(refused: Answer) -> None:
    with pytest.raises(AccessRefused):
        read(refused)


def test_rejected_credentials_are_not_a_reason_to_try_rest() -> None:
    with pytest.raises(CredentialsRejected):
        read(problem("Invalid token", 401))


def test_a_parent_that_fails_even_alone_is_a_failure_of_that_parent() -> None:
    with pytest.raises(RemoteTransient):
        read(*[answer(503, b"")] * 6)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (answer(200, b'{"data": {"queryComplexity": {"score": 3, "limit": 250}}}'), None),
        (problem("Not found!", 404), "GraphQL is refused (status 404)"),
    ],
)
def test_a_probe_says_why_graphql_is_not_used(script: Answer, why: str | None) -> None:
    async def job(http: HttpClient, _: ScriptedServer) -> str | None:
        client = GitLabClient(http)
        graphql = GitLabGraphQl(lambda: client, "work")
        await asyncio.gather(graphql.probe())
        return graphql.unused

    assert ask(script, do=job, max_retries=0)[0] == why


class Batches(ConversationBatches):
    """Notes which parents are read together, and reads nothing; those with the number `limited` fail."""

    def __init__(self, limited: int = 0) -> None:
        super().__init__(GitLabGraphQl(lambda: None, "work"))  # type: ignore[arg-type, return-value]
        self.begun: list[list[int]] = []
        self._limited = limited

    async def _read(self, home: ParentList, batch: Sequence[int]) -> dict[int, Page[ChildRecord] | None]:
        self.begun.append(list(batch))
        if self._limited in batch:
            raise RateLimited("wait")
        return {iid: Page() for iid in batch}

    async def ask(self, iids: Iterable[int]) -> int:
        """Ask for parents one after another; return how many queries were begun until then."""
        for iid in iids:
            await self.page(HOME.resource, HOME.remote_id, iid)
        await asyncio.sleep(0)
        return len(self.begun)


def test_the_next_query_is_sent_while_an_answer_is_used_and_no_more_than_one_ahead() -> None:
    async def job() -> None:
        batches, size = Batches(), FIRST_SIZE.outer
        batches.announce(HOME, range(1, 3 * size + 1))
        assert await batches.ask([1]) == 2
        assert await batches.ask(range(2, size + 1)) == 2
        assert await batches.ask([size + 1]) == 3
        assert await batches.ask(range(size + 2, 3 * size + 1)) == 3
        assert [iid for batch in batches.begun for iid in batch] == list(range(1, 3 * size + 1))

    asyncio.run(job())


def test_an_error_of_the_query_ahead_is_raised_where_its_parents_are_asked_for() -> None:
    async def job() -> None:
        batches, size = Batches(limited=FIRST_SIZE.outer + 1), FIRST_SIZE.outer
        batches.announce(HOME, range(1, 2 * size + 1))
        assert await batches.ask(range(1, size + 1)) == 2
        with pytest.raises(RateLimited):
            await batches.ask([size + 1])

    asyncio.run(job())


def test_an_answer_that_was_not_used_is_dropped_by_the_next_announcement() -> None:
    async def job() -> None:
        batches, size = Batches(), FIRST_SIZE.outer
        batches.announce(HOME, range(1, 2 * size + 1))
        await batches.ask([1])
        batches.announce(HOME, range(1, size + 1))
        await batches.ask([2])
        assert batches.begun[-1] == [2, 1, *range(3, size + 1)]

    asyncio.run(job())
