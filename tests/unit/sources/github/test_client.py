"""The GitHub API as calls: what is asked and written, and what an answer is taken for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.asking import ask, drop, truncate
from tests.unit.http.wire_server import Answer, ScriptedServer, answer
from tests.unit.sources.github.test_transform import COMMENT, PULL, REMARK

from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError, RemoteNotFound, RemotePermanent
from tidelore.http.client import HttpClient, bearer
from tidelore.sources.github.client import AppIdentity, GitHubClient
from tidelore.sources.github.source import GitHubSource, parse_expiration
from tidelore.sources.ports import Greeting

REPOSITORY = answer(body=b'{"id": 1, "full_name": "o/r", "name": "r", "archived": true}')
CREATED = answer(201, json.dumps(COMMENT).encode())
USER = b'{"login": "mira", "type": "User"}'


def with_source(
    do: Callable[[GitHubSource], Awaitable[Any]],
    *script: Answer,
    identity: AppIdentity | None = None,
    signed_in: str = "token",
    **options: Any,
) -> tuple[Any, ScriptedServer]:
    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        client = GitHubClient(http, identity)
        return await do(GitHubSource("github", client, ManualClock(), signed_in=signed_in))

    result, server, _ = ask(*script, do=job, **{"auth": bearer, "max_retries": 0, **options})
    return result, server


def failing(do: Callable[[GitHubSource], Awaitable[Any]], *script: Answer, **options: Any) -> tuple[Any, Any]:
    async def caught(source: GitHubSource) -> RemoteError:
        with pytest.raises(RemoteError) as error:
            await do(source)
        return error.value

    return with_source(caught, *script, **options)


def post(source: GitHubSource) -> Awaitable[Any]:
    return source.post_comment("o/r", 12, "Done.")


def test_a_repository_is_found_by_its_name() -> None:
    found, server = with_source(lambda s: s.resolve("o/r"), REPOSITORY)
    assert (found.remote_id, found.path, found.archived) == (1, "o/r", True)
    assert server.seen[0].target == "/repos/o/r"


def test_a_repository_name_is_escaped_in_the_url() -> None:
    _, server = with_source(lambda s: s.resolve("o/r?x=1#y/../z"), REPOSITORY)
    assert server.seen[0].target == "/repos/o/r%3Fx%3D1%23y%2F..%2Fz"


def test_the_error_for_a_missing_repository_names_it() -> None:
    error, _ = failing(lambda s: s.resolve("o/r"), answer(404, b"{}"))
    assert isinstance(error, RemoteNotFound)
    assert "repository o/r does not exist" in error.message
    assert error.fix


@pytest.mark.parametrize("status", ["ahead", "behind", "diverged", "identical"])
def test_a_head_is_compared_with_its_base(status: str) -> None:
    found, server = with_source(
        lambda s: s.compare("o/r", "a" * 40, "b" * 40), answer(body=json.dumps({"status": status}).encode())
    )
    assert found == status
    assert server.seen[0].target == f"/repos/o/r/compare/{'a' * 40}...{'b' * 40}?per_page=1"


def test_a_missing_base_commit_counts_as_diverged_history() -> None:
    found, _ = with_source(lambda s: s.compare("o/r", "a" * 40, "b" * 40), answer(404, b"{}"), REPOSITORY)
    assert found == "diverged"


def test_a_missing_repository_is_not_reported_as_diverged_history() -> None:
    error, _ = failing(lambda s: s.compare("o/r", "a" * 40, "b" * 40), answer(404, b"{}"))
    assert isinstance(error, RemoteNotFound)


def test_a_pull_request_is_read_in_its_current_state() -> None:
    merged = {**PULL, "state": "closed", "merged": True, "merged_at": "2026-03-02T09:00:01Z"}
    found, server = with_source(lambda s: s.pull(7, 12), answer(body=json.dumps(merged).encode()))
    assert (found.number, found.state) == (12, "merged")
    assert server.seen[0].target == "/repositories/7/pulls/12"


def test_a_pull_request_that_cannot_be_parsed_is_a_remote_error() -> None:
    error, _ = failing(lambda s: s.pull(7, 12), answer(body=b'{"id": 1}'))
    assert error.reason == "bad_shape"


def test_a_comment_is_posted_once_and_its_record_returned() -> None:
    made, server = with_source(post, CREATED)
    assert (made.remote_id, made.number, made.kind) == (COMMENT["id"], 12, "issue_comment")
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/repos/o/r/issues/12/comments")
    assert json.loads(seen.body) == {"body": "Done."}
    assert seen.headers["authorization"].startswith("Bearer ")


def test_a_reply_to_a_review_comment_is_posted_in_its_thread() -> None:
    created = answer(201, json.dumps(REMARK).encode())
    made, server = with_source(lambda s: s.post_reply("o/r", 12, 5, "Done."), created)
    assert (made.kind, made.in_reply_to) == ("review_comment", 5)
    assert server.seen[0].target == "/repos/o/r/pulls/12/comments/5/replies"


@pytest.mark.parametrize(
    "step",
    [
        answer(500, b"{}"),
        answer(502, b"{}"),
        drop,
        truncate,
        answer(201, b"<html>"),
        answer(201, b"{}"),
        answer(201, json.dumps({**COMMENT, "updated_at": "soon"}).encode()),
    ],
    ids=["500", "502", "dropped", "truncated", "no json", "no comment", "no instant"],
)
def test_a_write_with_unknown_outcome_raises_unclear_write_and_is_not_retried(step: Answer) -> None:
    error, server = failing(post, step, CREATED, max_retries=3)
    assert error.reason == "unclear_write"
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [403, 404, 410, 422])
def test_a_write_that_is_refused_did_not_happen(status: int) -> None:
    error, server = failing(post, answer(status, b'{"message": "no"}'), max_retries=3)
    assert isinstance(error, RemotePermanent)
    assert (error.status, error.reason) == (status, "refused")
    assert len(server.seen) == 1


def test_a_rate_limited_write_reports_when_to_retry() -> None:
    body = b'{"message": "You have exceeded a secondary rate limit."}'
    error, server = failing(post, answer(403, body, Retry_After="30"), max_retries=3)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 30
    assert len(server.seen) == 1


def test_a_write_to_a_repository_by_its_number_goes_to_its_number() -> None:
    made, server = with_source(lambda source: source.post_comment(1, 12, "hello"), CREATED)
    assert made.number == 12
    assert [(seen.method, seen.target) for seen in server.seen] == [("POST", "/repositories/1/issues/12/comments")]


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirected_write_is_an_error_and_is_sent_nowhere_else(status: int) -> None:
    error, server = failing(post, answer(status, b"{}", Location="/repositories/1/issues/12/comments"))
    assert error.status == status
    assert len(server.seen) == 1


class Changing:
    """An identity whose tokens are numbered."""

    def __init__(self) -> None:
        self.number = 1

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer token-{self.number}"}

    async def app_headers(self) -> Mapping[str, str]:
        return {"Authorization": "Bearer claim"}

    def forget(self) -> None:
        self.number += 1


@pytest.mark.parametrize(("do", "good"), [(post, CREATED), (lambda s: s.resolve("o/r"), REPOSITORY)])
def test_an_expired_token_is_renewed_once(do: Any, good: bytes) -> None:
    _, server = with_source(do, answer(401, b"{}"), good, identity=Changing())
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer token-1", "Bearer token-2"]


def test_a_token_that_is_refused_after_renewal_is_an_error() -> None:
    error, server = failing(lambda s: s.resolve("o/r"), answer(401, b"{}"), identity=Changing())
    assert isinstance(error, CredentialsRejected)
    assert len(server.seen) == 2


def test_a_refused_token_that_cannot_be_renewed_is_an_error_at_once() -> None:
    error, server = failing(lambda s: s.resolve("o/r"), answer(401, b"{}"))
    assert isinstance(error, CredentialsRejected)
    assert len(server.seen) == 1


NOW = {"Date": "Mon, 02 Mar 2026 09:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "signed in as mira"),
        ({"X_OAuth_Scopes": "repo, read:org"}, "signed in as mira, scopes repo, read:org"),
        ({"X_OAuth_Scopes": ""}, "signed in as mira, no scopes"),
        (
            {"GitHub_Authentication_Token_Expiration": "2026-03-12 09:00:00 UTC"},
            "signed in as mira, expires in 1 week (2026-03-12)",
        ),
        (
            {"GitHub_Authentication_Token_Expiration": "2026-03-02 13:00:00 +0200"},
            "signed in as mira, expires in 2 hours (2026-03-02)",
        ),
        ({"GitHub_Authentication_Token_Expiration": "soon"}, "signed in as mira"),
        (
            {"X_RateLimit_Remaining": "4321", "X_RateLimit_Reset": "1772445600"},
            "signed in as mira, 4,321 requests left",
        ),
    ],
)
def test_the_sign_in_check_reports_login_scopes_expiry_and_remaining_requests(
    headers: dict[str, str], said: str
) -> None:
    found, _ = with_source(lambda s: s.greet(), answer(body=USER, headers={**NOW, **headers}))
    assert found == Greeting(said, login="mira")


def test_the_sign_in_check_measures_the_clock_difference_to_the_server() -> None:
    later = {"Date": "Mon, 02 Mar 2026 11:00:00 GMT"}
    found, _ = with_source(lambda s: s.greet(), answer(body=USER, headers={**NOW, **later}))
    assert found.skew_seconds == 7200


def test_the_sign_in_check_recognises_an_installation_token() -> None:
    found, server = with_source(lambda s: s.greet(), answer(403, b"{}"), answer(body=b"{}", headers=NOW))
    assert found.text == "signed in with the token of a GitHub App"
    assert [seen.target for seen in server.seen] == ["/user", "/rate_limit"]


def test_the_sign_in_check_without_a_token_uses_the_rate_limit_endpoint() -> None:
    found, server = with_source(
        lambda s: s.greet(), answer(body=b"{}", headers=NOW, X_RateLimit_Remaining="60"), signed_in="no", token=None
    )
    assert (
        found.text
        == "reachable without a token (which review threads, closing issues and Discussions need), 60 requests left"
    )
    assert server.seen[0].target == "/rate_limit"


def test_the_sign_in_check_of_a_server_without_rate_limits_uses_its_metadata() -> None:
    found, server = with_source(
        lambda s: s.greet(), answer(404, b"{}"), answer(body=b"{}", headers=NOW), signed_in="no", token=None
    )
    assert found.text == "reachable without a token (which review threads, closing issues and Discussions need)"
    assert [seen.target for seen in server.seen] == ["/rate_limit", "/meta"]


def test_the_sign_in_check_of_a_wrong_address_fails() -> None:
    with pytest.raises(RemoteNotFound):
        with_source(lambda s: s.greet(), answer(404, b"{}"), answer(404, b"{}"), signed_in="no", token=None)


def test_the_sign_in_check_of_an_app_uses_its_jwt_and_its_token() -> None:
    script = (
        answer(body=b'{"slug": "helper"}', headers=NOW),
        answer(body=b"{}", headers=NOW, X_RateLimit_Remaining="14999"),
    )
    found, server = with_source(lambda s: s.greet(), *script, identity=Changing(), signed_in="app")
    assert found.text == "signed in as helper[bot], an installation of a GitHub App, 14,999 requests left"
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer claim", "Bearer token-1"]


@pytest.mark.parametrize("text", [None, "", "never", "2026-03-02", "2026-13-02 09:00:00 UTC"])
def test_an_unreadable_token_expiry_is_ignored(text: str | None) -> None:
    assert parse_expiration(text) is None


def test_a_host_without_credentials_raises_its_reason_on_every_use() -> None:
    reason = CredentialsRejected("no token")
    source = GitHubSource("github", reason, ManualClock())
    assert source.closed is reason
    with pytest.raises(CredentialsRejected):
        source.pull_list(7)
