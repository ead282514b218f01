"""Compare a list with the stored one by a cheap request, and read it only where they differ.

A forge may show the children of many parents with one request, but not in the form that is stored, or not reliably
enough to delete by. Such a list is `Glanced`: if the glance shows exactly the stored versions, nothing changed, and
nothing else is requested; in any other case the list itself is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

from tidelore.core.model import R_co
from tidelore.engine.ports import ListRequest, Page, Pages

C = TypeVar("C")


@runtime_checkable
class Glanced(Protocol[R_co]):
    """A remote list that can be compared by a cheaper request than the one that reads it."""

    async def fetch(self, request: ListRequest) -> Page[R_co]:
        """Read one page."""
        ...

    async def glance(self) -> Page[R_co] | None:
        """Return the whole list as a cheaper request shows it; None if only `fetch` can tell."""
        ...

    def covers(self, key: str) -> bool:
        """Return whether a child with this key belongs to the list."""
        ...


class ComparedList(Generic[C]):
    """A list that is read only if a glance at it differs from the stored versions `held`."""

    def __init__(self, remote: Glanced[C], held: Callable[[], Mapping[str, bytes]]) -> None:
        self._remote = remote
        self._held = held
        self._is_new = True

    async def fetch(self, request: ListRequest) -> Page[C]:
        if self._is_new:
            # Once: a list that takes several passes is read by its own requests to the end.
            self._is_new = False
            page = await self._remote.glance()
            if page is not None and self._is_same(page):
                return page
        return await self._remote.fetch(request)

    def _is_same(self, page: Page[C]) -> bool:
        shown = {str(item.version.id): item.version.digest for item in page.items}
        stored = {key: found for key, found in self._held().items() if self._remote.covers(key)}
        return not page.rejected and shown == stored


def compared(lists: Sequence[Pages[C]], held: Callable[[], Mapping[str, bytes]]) -> Sequence[Pages[C]]:
    """Return the lists of one kind of children, where possible compared with the stored ones before they are read."""
    return [ComparedList(one, held) if isinstance(one, Glanced) else one for one in lists]
