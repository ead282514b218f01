"""The projects of a GitLab group. Owns how a group is listed, the groups inside it included.

Refuses links to another origin. A project that cannot be understood is left out of this answer with a warning;
it does not take its group with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Raw

from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import ProjectRecord
from tidelore.sources.gitlab.client import API, GitLabClient
from tidelore.sources.gitlab.payloads import Project
from tidelore.sources.gitlab.transform import transform_project
from tidelore.sources.reading import next_address, refuse_nul

_LOG = logging.getLogger(__name__)
_ROUTE = "group"


async def group_projects(client: GitLabClient, group: str, *, per_page: int) -> list[ProjectRecord]:
    """Return every project of a group, each once, in the order of their numbers."""
    start = f"{API}/groups/{quote(group, safe='')}/projects"
    order: dict[str, str | int] = {"include_subgroups": "true", "order_by": "id", "sort": "asc", "per_page": per_page}
    found: dict[int, ProjectRecord] = {}
    asked: set[str] = set()
    try:
        raws, reply = await client.list_page(start, order, etag=None, route=_ROUTE)
        while raws:
            found |= {record.remote_id: record for record in _read(raws)}
            following = next_address(reply, len(raws), per_page, _ROUTE)
            if following is None or following in asked:
                break
            asked.add(following)
            raws, reply = await client.list_page(following, None, etag=None, route=_ROUTE)
    except RemoteNotFound as error:
        raise RemoteNotFound(
            f"group {group} does not exist or is not visible to the token",
            fix="correct its path under `groups` of this host, or give the token access to it",
            status=error.status,
            url=error.url,
            group=group,
        ) from None
    return list(found.values())


def _read(raws: Sequence[Raw]) -> Iterator[ProjectRecord]:
    for raw in raws:
        try:
            record = transform_project(msgspec.json.decode(raw, type=Project))
            refuse_nul(record)
        except (msgspec.DecodeError, ValueError) as error:
            _LOG.warning("could not parse a project of a group: %s", error)
            continue
        yield record
