"""The GitLab API as calls: what is asked, and what becomes of items that cannot be understood."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.content import digest
from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import ISSUES, MERGE_REQUESTS
from tidelore.sources.items import ItemReader, reject

GOOD: dict[str, Any] = {
    "id": 7,
    "iid": 3,
    "title": "T",
    "state": "opened",
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:00:01Z",
}


def raws(*values: Any) -> list[msgspec.Raw]:
    return [msgspec.Raw(value if isinstance(value, bytes) else json.dumps(value).encode()) for value in values]


def with_client(do: Callable[[GitLabClient], Awaitable[Any]], *script: Answer) -> tuple[Any, ScriptedServer]:
    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        return await do(GitLabClient(http))

    result, server, _ = ask(*script, do=job)
    return result, server


@pytest.mark.parametrize("reader", [ISSUES, MERGE_REQUESTS])
@pytest.mark.parametrize(
    ("bad", "key", "locator", "error"),
    [
        (None, None, None, "Expected `object`"),
        ("text", None, None, "Expected `object`"),
        (17, None, None, "Expected `object`"),
        ([], None, None, "Expected `object`"),
        ({}, None, None, "missing required field `id`"),
        ({**GOOD, "id": None}, None, "3", "$.id"),
        ({**GOOD, "id": "seven"}, "seven", "3", "$.id"),
        ({**GOOD, "id": 2**63}, str(2**63), "3", "$.id"),
        ({**GOOD, "id": True}, None, "3", "$.id"),
        ({**GOOD, "id": ""}, None, "3", "$.id"),
        ({**GOOD, "iid": "x"}, "7", None, "$.iid"),
        ({**GOOD, "iid": True}, "7", None, "$.iid"),
        ({**GOOD, "title": None}, "7", "3", "$.title"),
        ({**GOOD, "labels": "bug"}, "7", "3", "$.labels"),
        ({**GOOD, "author": {"name": "no username"}}, "7", "3", "$.author"),
        ({**GOOD, "user_notes_count": 10**30}, "7", "3", "$.user_notes_count"),
        ({**GOOD, "updated_at": "not a time"}, "7", "3", "updated_at: "),
        ({**GOOD, "created_at": "2026-03-02T09:00:00"}, "7", "3", "created_at: "),
        (b'{"id": 7, "iid": 3, "title": "\\ud800"}', "7", "3", ""),
        (b'{"id": 7, "iid": 3, "title": "\\ud800 and more text"}', "7", "3", "surrogate"),
        (b'{"id": 7, "iid": 3, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}", "7", "3", ""),
    ],
)
def test_an_item_that_cannot_be_parsed_is_rejected_and_the_others_are_kept(
    reader: ItemReader[Any, Any], bad: Any, key: str | None, locator: str | None, error: str
) -> None:
    before, wrong, after = raws({**GOOD, "id": 1}, bad, {**GOOD, "id": 2})
    found = reader.read([before, wrong, after], lambda record: record.updated_at)
    assert [item.version.id for item in found.items] == [1, 2]
    (rejected,) = found.rejected
    assert rejected.payload == bytes(wrong)
    assert rejected.key == (key or f"content:{digest(bytes(wrong)).hex()}")
    assert rejected.locator == locator
    assert error in rejected.error


def test_an_item_carries_its_version_its_position_and_its_payload() -> None:
    (raw,) = raws(GOOD)
    (item,) = ISSUES.read([raw], lambda record: record.created_at).items
    assert item.payload == bytes(raw)
    assert item.version == (7, 1_772_442_001_000, digest(bytes(raw)))
    assert item.at == 1_772_442_000_000


def test_rejected_payloads_without_an_id_are_keyed_by_content() -> None:
    assert reject(b"null", "x").key != reject(b'"null"', "x").key
    assert reject(b"null", "x").key == reject(b"null", "y").key


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("group/sub/project", "/api/v4/projects/group%2Fsub%2Fproject"),
        ("a b/ü?#%", "/api/v4/projects/a%20b%2F%C3%BC%3F%23%25"),
        (42, "/api/v4/projects/42"),
    ],
)
def test_a_project_is_requested_by_its_encoded_path(name: str | int, target: str) -> None:
    body = json.dumps({"id": 42, "path_with_namespace": "group/project", "name": "P"}).encode()
    found, server = with_client(lambda client: client.project(name), answer(body=body))
    assert server.seen[0].target == target
    assert found.remote_id == 42


def test_the_current_user_is_read_from_the_user_endpoint() -> None:
    (user, _), server = with_client(lambda client: client.user(), answer(body=b'{"username": "ann", "id": 1}'))
    assert user.username == "ann"
    assert server.seen[0].target == "/api/v4/user"


def test_the_reachability_check_requests_only_public_projects() -> None:
    reply, server = with_client(lambda client: client.greet(), answer(body=b"[{}]"))
    assert reply.status == 200
    assert server.seen[0].target == "/api/v4/projects?per_page=1"


@pytest.mark.parametrize(("status", "there"), [(200, True), (404, False), (410, False)])
def test_only_not_found_counts_as_a_deleted_object(status: int, there: bool) -> None:
    found, _ = with_client(lambda client: client.exists("api/v4/x", route="x"), answer(status, b"{}"))
    assert found is there


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_other_errors_do_not_count_as_a_deleted_object(status: int) -> None:
    with pytest.raises(RemotePermanent) as caught:
        with_client(lambda client: client.exists("api/v4/x", route="x"), answer(status, b"{}"))
    assert not isinstance(caught.value, RemoteNotFound)


def test_the_remaining_request_budget_is_read_from_the_headers() -> None:
    async def do(client: GitLabClient) -> int | None:
        assert client.governor.remaining is None
        await client.user()
        return client.governor.remaining

    left, _ = with_client(do, answer(body=b'{"username": "a"}', RateLimit_Remaining="17", RateLimit_Reset="9999999999"))
    assert left == 17


def test_a_list_response_that_is_not_a_list_is_an_error_and_not_an_empty_page() -> None:
    with pytest.raises(RemotePermanent, match="unexpected response"):
        with_client(lambda c: c.list_page("api/v4/x", None, etag=None, route="x"), answer(body=b'{"message": "no"}'))
