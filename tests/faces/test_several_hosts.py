"""Several hosts side by side, and settings for one project of one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.hosts import DAY, configure, host, sync

from tidelore.core.clock import parse_instant
from tidelore_world.server import serve
from tidelore_world.wire import Request
from tidelore_world.world import World


@pytest.fixture
def other() -> Iterator[tuple[World, str]]:
    """A second host, with one project of the very same path and number."""
    world = World()
    world.gitlab.create_project(LEDGER)
    world.gitlab.create_issue(LEDGER, title="of the other host")
    world.advance(DAY)
    with serve(world) as server:
        yield world, server.url


# Several hosts


def test_two_hosts_with_the_same_path_and_number_are_kept_apart(desk: Desk, other: tuple[World, str]) -> None:
    second = f'name = "other"\nbase_url = "{other[1]}"\nprojects = ["{LEDGER}"]'
    configure(desk, host(desk, f'projects = ["{LEDGER}"]'), second)
    report = sync(desk)
    assert {(scope.source, scope.tally.created) for scope in report.scopes} == {("gitlab", 5), ("other", 1)}
    assert sorted(desk.query("SELECT source, path FROM projects")) == [("gitlab", LEDGER), ("other", LEDGER)]


def test_a_host_without_a_token_fails_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    closed = 'name = "closed"\nbase_url = "https://gitlab.invalid"\nprojects = ["a/b", "c/d"]\ngroups = ["e"]'
    configure(desk, closed, host(desk, f'projects = ["{LEDGER}"]'))
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 7
    codes = {scope["project"]: (scope["error"] or {}).get("code") for scope in done.document["data"]["scopes"]}
    missing = "CREDENTIALS_MISSING"
    assert codes == {"a/b": missing, "c/d": missing, "e/*": missing, LEDGER: None}
    assert desk.robot("count", "issues").data["issues"]["total"] == 5


def test_verification_continues_on_the_other_hosts_when_one_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    closed = 'name = "closed"\nbase_url = "https://gitlab.invalid"\nprojects = ["a/b"]'
    configure(desk, closed, host(desk, f'projects = ["{LEDGER}"]'))
    sync(desk)
    done = desk.robot("scrub", "--all")
    assert done.code == 7
    verified = {scope["project"]: scope["error"] is None for scope in done.document["data"]["scrubbed"]}
    assert verified == {"a/b": False, LEDGER: True}


def test_a_project_of_a_working_host_is_synced_despite_a_host_without_token(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    closed = 'name = "closed"\nbase_url = "https://gitlab.invalid"\nprojects = ["a/b"]'
    configure(desk, closed, host(desk, f'projects = ["{LEDGER}"]'))
    assert desk.run("ingest", "--type", "issues", "-p", "ledger").code == 0


def test_without_a_token_for_any_host_nothing_is_done(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    hosts = [f'name = "{name}"\nbase_url = "https://{name}.invalid"\nprojects = ["a/b"]' for name in ("one", "two")]
    configure(desk, *hosts)
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 4
    assert done.error["code"] == "CREDENTIALS_MISSING"
    assert not desk.db.exists()


def test_a_rejected_token_stops_its_host_alone_and_is_tried_once(
    desk: Desk, other: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "the-wrong-token")
    other[0].gitlab.token = "the-right-token"
    second = [f'name = "other"\nbase_url = "{other[1]}"\ntoken_env = "OTHER_TOKEN"']
    configure(
        desk, host(desk, f'projects = ["{LEDGER}"]'), "\n".join([*second, 'projects = ["a/b"]', 'groups = ["c"]'])
    )
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 7
    codes = {scope["project"]: (scope["error"] or {}).get("code") for scope in done.document["data"]["scopes"]}
    assert codes == {LEDGER: None, "a/b": "CREDENTIALS_REJECTED", "c/*": "CREDENTIALS_REJECTED"}
    assert other[0].requests.total() == 1


# Settings for one project


def test_rewind_and_pagination_overrides_apply_to_one_project(desk: Desk) -> None:
    override = (
        f'[[gitlab.overrides]]\nproject = "{CONSOLE}"\ncursor_rewind_seconds = 7200\nuse_keyset_pagination = true'
    )
    configure(desk, host(desk, 'groups = ["harbor"]', override))
    sync(desk)
    asked: dict[str, Request] = {}

    def remember(request: Request) -> None:
        if request.segments[-1] == "issues":
            asked.setdefault(request.segments[-2], request)

    desk.world.before_request.append(remember)
    sync(desk)
    latest = "SELECT project_id, MAX(updated_at) AS at FROM issues GROUP BY project_id"
    seen = {}
    for path, number, latest_at in desk.query(
        f"SELECT path, remote_id, at FROM projects JOIN ({latest}) ON project_id = id"
    ):
        request = asked[str(number)]
        rewound = latest_at - parse_instant(request.first("updated_after") or "never")
        seen[path] = (rewound, request.first("pagination"))
    assert seen == {LEDGER: (2_000, None), CONSOLE: (7_200_000, "keyset")}
