"""Writes notes on issues and merge requests, finds them again, resolves threads, and reads who has access to a project.

A list of notes has no filter by time: it is read from the newest note down to the instant of interest. It contains the
replies in discussions and the notes on the diff too.
"""

from __future__ import annotations

import logging
from urllib.parse import quote

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, MemberRecord, NoteRecord, Version, comment_of_note
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.gitlab.client import API, GitLabClient
from tidelore.sources.gitlab.payloads import Member
from tidelore.sources.gitlab.transform import transform_note
from tidelore.sources.items import next_address, parse_items
from tidelore.sources.ports import AnswerPlace, WriteRequest
from tidelore.sources.rest_lists import read_whole

_LOG = logging.getLogger(__name__)
_KINDS = {"pr": ("merge_requests", "mr"), "issue": ("issues", "issue")}


class NoteList:
    """What people said on one issue or merge request, the newest first, down to `since`; without system notes."""

    def __init__(self, client: GitLabClient, place: AnswerPlace, per_page: int) -> None:
        self._client = client
        self._place = place
        self._per_page = per_page
        self._route = f"{_KINDS[place.scope_kind][0]}/notes"

    async def fetch(self, request: ListRequest) -> Page[CommentRecord]:
        order: dict[str, str | int] = {"order_by": "created_at", "sort": "desc", "per_page": self._per_page}
        params = order if request.token is None else None
        address = request.token or f"{_address(self._place)}/notes"
        raws, response = await self._client.list_page(address, params, etag=None, route=self._route)
        items, rejected = parse_items(raws or (), self._understand, "id")
        following = next_address(response, len(raws or ()), self._per_page, self._route)
        if request.since is not None and any(item.at < request.since for item in items):
            following = None
        return Page(items=items, rejected=rejected, next_token=following, server_at=response.server_at)

    def _understand(self, payload: bytes) -> Item[CommentRecord] | None:
        note = transform_note(payload, 0)
        if note.is_system:
            return None
        version = Version(note.remote_id, note.updated_at, digest(payload))
        return Item(version, note.created_at, payload, _comment(note, self._place))


def note_request(client: GitLabClient, place: AnswerPlace, body: str) -> WriteRequest:
    """Return the request that writes a note in the conversation, or into a discussion."""
    above = _address(place) if place.discussion is None else _discussion(place)
    return WriteRequest("POST", client.address(f"{above}/notes", {}), {"body": body})


async def post_note(client: GitLabClient, place: AnswerPlace, body: str) -> CommentRecord:
    """Write a note in the conversation, or into a discussion; a reply in an internal discussion is internal."""
    request = note_request(client, place, body)
    route = f"{_KINDS[place.scope_kind][0]}/post"
    return await client.write(
        request.url,
        request.content,
        read=lambda payload: _comment(transform_note(payload, 0), place),
        route=route,
    )


class _ResolvableNote(Struct, frozen=True):
    resolvable: bool = False
    resolved: bool | None = None


class _ResolvableDiscussion(Struct, frozen=True):
    notes: tuple[_ResolvableNote, ...]

    @property
    def is_resolved(self) -> bool | None:
        """Whether all its notes that can be resolved are; None if none can."""
        states = [bool(note.resolved) for note in self.notes if note.resolvable]
        return all(states) if states else None


def resolve_request(client: GitLabClient, place: AnswerPlace, *, resolved: bool) -> WriteRequest:
    """Return the request that resolves or unresolves a discussion."""
    return WriteRequest("PUT", client.address(_discussion(place), {}), {"resolved": resolved})


async def set_resolved(client: GitLabClient, place: AnswerPlace, *, resolved: bool) -> bool | None:
    """Resolve or unresolve a discussion and return its state.

    One that is in that state already stays as it is: the server changes only notes that are not.
    """
    request = resolve_request(client, place, resolved=resolved)
    read = msgspec.json.Decoder(_ResolvableDiscussion).decode
    route = f"{_KINDS[place.scope_kind][0]}/resolve"
    found = await client.write(request.url, request.content, read=read, route=route, method="PUT")
    return found.is_resolved


async def read_resolved(client: GitLabClient, place: AnswerPlace) -> bool | None:
    """Return whether a discussion is resolved on the server; None if it cannot be resolved."""
    route = f"{_KINDS[place.scope_kind][0]}/discussion"
    return (await client.one(_discussion(place), as_type=_ResolvableDiscussion, route=route)).is_resolved


async def project_members(client: GitLabClient, project_id: int, *, per_page: int) -> list[MemberRecord]:
    """Return everyone with access to a project with the highest level, by username."""
    levels: dict[str, int] = {}
    address, read = f"{API}/projects/{project_id}/members/all", msgspec.json.Decoder(Member).decode
    every = read_whole(client, address, {"per_page": per_page}, read, route="members", what="a member of a project")
    async for member in every:
        levels[member.username] = max(member.access_level, levels.get(member.username, 0))
    return [MemberRecord(username, level) for username, level in sorted(levels.items())]


def _address(place: AnswerPlace) -> str:
    return f"{API}/projects/{quote(str(place.repo), safe='')}/{_KINDS[place.scope_kind][0]}/{place.number}"


def _discussion(place: AnswerPlace) -> str:
    return f"{_address(place)}/discussions/{quote(place.discussion or '', safe='')}"


def _comment(note: NoteRecord, place: AnswerPlace) -> CommentRecord:
    return comment_of_note(note, place.number, _KINDS[place.scope_kind][1])
