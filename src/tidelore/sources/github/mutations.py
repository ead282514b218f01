"""Sends GraphQL mutations to GitHub; resolves review threads, which REST cannot do, and reads their state.

A mutation is sent once, without retries. Errors of a mutation come with status 200: a refusal is permanent, a failure
of the server leaves it unknown whether the change was made (`unclear_write`).
"""

from __future__ import annotations

from typing import NoReturn, TypeVar

import msgspec
from msgspec import Struct

from tidelore.core.errors import RateLimited, RemoteNotFound, RemotePermanent
from tidelore.core.redaction import redact
from tidelore.http.failures import unclear_write
from tidelore.http.response import Response
from tidelore.sources.github.client import GitHubClient
from tidelore.sources.github.graphql import LIMITED, REFUSED, GraphQlClient
from tidelore.sources.graphql import NULL, GraphQlAnswer, GraphQlData, PageSize, Problem, decode
from tidelore.sources.ports import WriteRequest

RESOLVE_THREAD = "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { id isResolved } } }"
UNRESOLVE_THREAD = "mutation($id: ID!) { unresolveReviewThread(input: {threadId: $id}) { thread { id isResolved } } }"
THREAD_STATE = """query($id: ID!) { rateLimit { cost remaining resetAt }
  node(id: $id) { ... on PullRequestReviewThread { id isResolved } } }"""
_ONE = PageSize(1, 1)
T = TypeVar("T")


class WriteKind(Struct, frozen=True):
    """What a mutation does, to what, and what the token needs for it; for error messages."""

    verb: str
    thing: str
    fix: str


_RESOLVING = WriteKind("resolve review threads", "review thread", "give the token write access to pull requests")


class _State(Struct, frozen=True, rename="camel"):
    is_resolved: bool


class _Changed(Struct, frozen=True):
    thread: _State


class _ChangedBy(Struct, frozen=True, rename="camel"):
    resolve_review_thread: _Changed | None = None
    unresolve_review_thread: _Changed | None = None


class _Found(Struct, frozen=True):
    node: _State | None = None


def resolve_request(client: GitHubClient, thread: str, *, resolved: bool) -> WriteRequest:
    """Return the request that resolves or unresolves a review thread, given by its global id."""
    document = RESOLVE_THREAD if resolved else UNRESOLVE_THREAD
    return WriteRequest("POST", client.graphql_address, {"query": document, "variables": {"id": thread}})


async def set_resolved(client: GitHubClient, thread: str, *, resolved: bool) -> bool:
    """Resolve or unresolve a review thread and return its state; one in that state already stays as it is."""
    request = resolve_request(client, thread, resolved=resolved)
    response = await client.mutate(request.content, route="graphql/resolve")
    done = read_mutation(client, response, _ChangedBy, _RESOLVING)
    changed = done.resolve_review_thread if resolved else done.unresolve_review_thread
    if changed is None:
        raise unclear_write(redact(response.url), response.status)
    return changed.thread.is_resolved


def read_mutation(client: GitHubClient, response: Response, as_type: type[T], kind: WriteKind) -> T:
    """Return the data of the answer to a mutation; raise what its errors amount to."""
    try:
        answer = msgspec.json.decode(response.body, type=GraphQlAnswer)
        if answer.errors:
            _refuse(client, answer.errors, response, kind)
        return msgspec.json.decode(answer.data if answer.data != NULL else b"{}", type=as_type)
    except msgspec.DecodeError:
        raise unclear_write(redact(response.url), response.status) from None


async def read_resolved(graphql: GraphQlClient, thread: str) -> bool:
    """Return whether a review thread is resolved on the server."""

    def read(data: GraphQlData) -> bool:
        found = decode(data, _Found).node
        if found is None:
            raise RemoteNotFound(
                "the review thread does not exist or is not visible to the token", status=404, reason="not_found"
            )
        return found.is_resolved

    return await graphql.ask(THREAD_STATE, lambda _size: {"id": thread}, read, route="thread", size=_ONE)


def _refuse(client: GitHubClient, problems: tuple[Problem, ...], response: Response, write: WriteKind) -> NoReturn:
    said = client.clean(problems[0].message)
    kinds = {problem.kind for problem in problems}
    if kinds & LIMITED:
        raise RateLimited(f"the GraphQL rate limit is exhausted: {said}", status=response.status, reason="rate_limit")
    if kinds & REFUSED:
        raise RemotePermanent(
            f"the token may not {write.verb} of this repository",
            status=403,
            reason="refused",
            fix=write.fix,
            said=said,
        )
    if "NOT_FOUND" in kinds:
        raise RemoteNotFound(f"no such {write.thing} for this token", status=404, reason="not_found", said=said)
    if "UNPROCESSABLE" in kinds:
        raise RemotePermanent("the server refused the change", status=422, reason="refused", said=said)
    raise unclear_write(redact(response.url), response.status)
