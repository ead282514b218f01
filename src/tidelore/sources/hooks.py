"""What a forge's webhooks have in common: how a delivery is authenticated, what it announces, how one is installed.

A delivery is authenticated over its raw bytes before any of it is parsed. Of its payload only the id of the project
and the number of the item are read; everything that is stored comes from the forge's API.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from tidelore.sources.ports import ProjectSource

LONGEST_ID = 200
"""The longest delivery id that is accepted."""


class HookHint(Struct, frozen=True):
    """What a delivery announces: an item of a project, or without a number something else of it.

    `silent`: the change may leave the update time of the item as it is, so that its list does not show it. `moved_to`:
    the item is now this one of another project.
    """

    remote_id: int
    kind: Literal["issues", "merge_requests"] | None = None
    number: int | None = None
    silent: bool = False
    moved_to: HookHint | None = None


class HookFormat(Protocol):
    """How a forge signs its deliveries and what they say. Header names are lower case."""

    def authenticate(
        self, secret: str, headers: Mapping[str, str], body: bytes, now_ms: int, max_age_ms: int
    ) -> str | None:
        """Return the delivery's id, or None if it is not signed with the secret, too old, or has no id."""
        ...

    def read(self, headers: Mapping[str, str], body: bytes) -> HookHint | None:
        """Return what it announces, or None if that is not mirrored. Raises msgspec.MsgspecError if unreadable."""
        ...


class InstalledHook(Struct, frozen=True):
    """A webhook of a project on its forge. `missing` are the events that we need and it does not send."""

    id: int
    url: str
    missing: tuple[str, ...] = ()
    disabled: bool = False


class SentDelivery(Struct, frozen=True):
    """A delivery as the forge recorded it. `status` is what it was answered, None if it got no response."""

    event: str
    status: int | None
    delivery_id: str | None = None
    at: int | None = None


@runtime_checkable
class HookSource(ProjectSource, Protocol):
    """A host on which webhooks can be installed."""

    async def hooks(self, remote_id: int) -> Sequence[InstalledHook]:
        """Return the webhooks of a project."""
        ...

    async def save_hook(self, remote_id: int, hook_id: int | None, url: str, secret: str) -> InstalledHook:
        """Create a webhook, or complete the one with this id; return it as the forge stored it."""
        ...

    async def hook_deliveries(self, remote_id: int, hook_id: int) -> Sequence[SentDelivery]:
        """Return the last deliveries of a webhook, the newest first."""
        ...


def hmac_of(key: bytes, content: bytes) -> bytes:
    """Return the HMAC-SHA256 of content."""
    return hmac.new(key, content, sha256).digest()


def is_same(given: str, expected: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def delivery_id(given: str | None) -> str | None:
    """Return a delivery's id, or None if it has none that can be stored."""
    return given if given and len(given) <= LONGEST_ID and given.isprintable() and given.isascii() else None
