"""Find the web page of an item of any kind. Reads the local database only."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound
from tidelore.store.reading.changes import read_changed


class OpenedItem(Struct, frozen=True):
    """The answer of `lore open`."""

    reference: Annotated[str, means("the item as it was named")]
    type: Annotated[str, means("issue, merge_request, topic or post")]
    title: Annotated[str, means("its title", untrusted=True)]
    web_url: Annotated[str, means("its address")]


def find_page(app: App, reference: str, project: str | None = None) -> OpenedItem:
    """Return the page of the item that a reference names."""
    meant = parse_any(reference)
    with app.reading() as database:
        found = find_thread(database, meant, project, app.config.default_project)
        row = read_changed(database, found.type, [found.id])[found.id]
    if row.web_url is None:
        raise NotFound(f"no address of {reference} is stored", fix="refresh it with `lore sync`", reference=reference)
    return OpenedItem(reference, found.type, row.title, row.web_url)
