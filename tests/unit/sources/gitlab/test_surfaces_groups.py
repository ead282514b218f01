"""The projects of a group: how it is asked for, to its last page, and what one bad answer may not spoil."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import ProjectRecord
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import group_projects


def project(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "path_with_namespace": f"port/p{number}", "name": f"p{number}", **fields}


def page(*projects: Any, **headers: str) -> Answer:
    return answer(body=json.dumps(projects).encode(), headers=headers)


def listed(*script: Answer, group: str = "port/north") -> tuple[list[ProjectRecord], ScriptedServer]:
    async def job(http: HttpClient, _: ScriptedServer) -> list[ProjectRecord]:
        return await group_projects(GitLabClient(http), group, per_page=2)

    result, server, _ = ask(*script, do=job, max_retries=0)
    return result, server


def test_group_projects_are_requested_with_subgroups_in_a_fixed_order() -> None:
    found, server = listed(page(project(7, archived=True, web_url="http://x/7")))
    target = urlsplit(server.seen[0].target)
    assert target.path == "/api/v4/groups/port%2Fnorth/projects"
    assert parse_qs(target.query) == {
        "include_subgroups": ["true"],
        "order_by": ["id"],
        "sort": ["asc"],
        "per_page": ["2"],
    }
    assert found == [ProjectRecord(7, "port/p7", "p7", "http://x/7", archived=True)]


def test_a_full_page_of_projects_without_headers_is_followed_by_the_next() -> None:
    found, server = listed(page(project(1), project(2)), page(project(3)))
    assert [record.remote_id for record in found] == [1, 2, 3]
    assert server.seen[1].target.endswith("page=2")


def test_a_project_listed_on_two_pages_is_returned_once() -> None:
    found, _ = listed(page(project(1), project(2)), page(project(2, name="new")))
    assert [(record.remote_id, record.name) for record in found] == [(1, "p1"), (2, "new")]


def test_a_next_link_to_another_origin_is_ignored_and_the_list_continues(caplog: pytest.LogCaptureFixture) -> None:
    link = '<http://127.0.0.1:9/steal?page=2>; rel="next"'
    with caplog.at_level(logging.WARNING, "tidelore"):
        found, server = listed(page(project(1), project(2), Link=link), page(project(3)))
    assert len(found) == 3
    assert server.seen[1].target.startswith("/api/v4/groups/")
    assert "another origin" in caplog.text


def test_circular_next_links_end_the_list() -> None:
    rows = (project(1), project(2))
    there, back = (f'</api/v4/other?page={number}>; rel="next"' for number in (2, 1))
    found, server = listed(page(*rows, Link=there), page(*rows, Link=back), page(*rows, Link=there))
    assert len(found) == 2
    assert len(server.seen) == 3


@pytest.mark.parametrize("bad", [None, {"id": "seven"}, {"id": 9, "path_with_namespace": "a/\x00", "name": "x"}])
def test_a_project_that_cannot_be_parsed_does_not_hide_the_others(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tidelore"):
        found, server = listed(page(bad, project(2)), page(project(3)))
    assert [record.remote_id for record in found] == [2, 3]
    assert len(server.seen) == 2
    assert "could not parse" in caplog.text


def test_an_empty_group_has_no_projects() -> None:
    assert listed(page())[0] == []


def test_the_error_for_a_missing_group_names_it() -> None:
    with pytest.raises(RemoteNotFound, match="group port/north does not exist") as caught:
        listed(answer(404, b'{"message": "404 Group Not Found"}'))
    assert caught.value.details["group"] == "port/north"
    assert "groups" in (caught.value.fix or "")
