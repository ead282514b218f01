"""The lists under an issue or a merge request, as the engine reads them. Owns which lists make up a kind of children.

A child that cannot be understood becomes a `Rejected` beside its readable siblings; what follows from that is the
engine's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import ChildRecord, DiscussionRecord, Item, Rejected
from tidelore.engine.ports import ListRequest, Page, Pages
from tidelore.sources.gitlab.changes import read_closed_issue, read_diff, read_reviewer
from tidelore.sources.gitlab.client import API, GitLabClient
from tidelore.sources.gitlab.events import read_label_event, read_milestone_event, read_state_event
from tidelore.sources.gitlab.threads import read_discussion
from tidelore.sources.reading import next_address, refuse_nul, reject

Understand = Callable[[bytes], Item[ChildRecord]]

LISTS: Mapping[str, Mapping[str, Understand]] = MappingProxyType(
    {
        "discussions": {"discussions": read_discussion},
        "resource_events": {
            "resource_state_events": read_state_event,
            "resource_label_events": read_label_event,
            "resource_milestone_events": read_milestone_event,
        },
        "closes_issues": {"closes_issues": read_closed_issue},
        "diffs": {"diffs": read_diff},
        "reviewers": {"reviewers": read_reviewer},
    }
)
"""The lists behind each kind of children, by the last part of their address."""


class ChildList(Struct, frozen=True):
    """One list under one parent. Where several make up one kind, `prefix` keeps what was rejected apart."""

    client: GitLabClient
    address: str
    route: str
    understand: Understand
    per_page: int
    prefix: str = ""

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        first = request.token is None
        address = request.token or self.address
        params = {"per_page": self.per_page} if first else None
        raws, reply = await self.client.list_page(address, params, etag=None, route=self.route)
        items, rejected = self._understand_all(raws or ())
        following = next_address(reply, len(raws or ()), self.per_page, self.route)
        return Page(items=items, rejected=rejected, next_token=following, server_at=reply.server_at)

    def _understand_all(self, raws: Iterable[Raw]) -> tuple[list[Item[ChildRecord]], list[Rejected]]:
        items: list[Item[ChildRecord]] = []
        rejected: list[Rejected] = []
        for raw in raws:
            payload = bytes(raw)
            try:
                item = self.understand(payload)
                if b"\\u0000" in payload:
                    _refuse_nul(item.record)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                refused = reject(payload, str(error))
                rejected.append(replace(refused, key=self.prefix + refused.key))
                continue
            items.append(item)
        return items, rejected


class FileList(ChildList, frozen=True):
    """The changed files of a merge request: `diffs`, and `changes` on servers from before GitLab 15.7."""

    async def fetch(self, request: ListRequest) -> Page[ChildRecord]:
        if self.client.lacks_diffs:
            return await self._changes()
        try:
            return await super().fetch(request)
        except RemoteNotFound as missing:
            if request.token is not None:
                raise
            try:
                page = await self._changes()
            except RemoteNotFound:
                # Neither is there: the merge request is gone, or its files are not shown to us.
                raise missing from None
        self.client.lacks_diffs = True
        return page

    async def _changes(self) -> Page[ChildRecord]:
        address, route = (f"{text.removesuffix('diffs')}changes" for text in (self.address, self.route))
        raws, reply = await self.client.changes(address, route=route)
        items, rejected = self._understand_all(raws)
        return Page(items=items, rejected=rejected, server_at=reply.server_at)


def child_lists(
    client: GitLabClient, kind: str, resource: str, remote_id: int, iid: int, *, per_page: int
) -> Sequence[Pages[ChildRecord]]:
    """Return the lists that make up one kind of children of one parent."""
    above = f"{API}/projects/{remote_id}/{resource}/{iid}"
    lists = LISTS[kind]
    return [
        (FileList if name == "diffs" else ChildList)(
            client, f"{above}/{name}", f"{resource}/{name}", understand, per_page, f"{name}:" if len(lists) > 1 else ""
        )
        for name, understand in lists.items()
    ]


def _refuse_nul(record: Struct) -> None:
    refuse_nul(record)
    if isinstance(record, DiscussionRecord):
        for place, note in enumerate(record.notes):
            try:
                refuse_nul(note)
            except ValueError as error:
                raise ValueError(f"notes[{place}]: {error}") from None
