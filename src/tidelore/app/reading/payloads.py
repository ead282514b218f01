"""Read the stored payloads of an item: what its forge or network sent, unchanged. Reads the local database only."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Struct

from tidelore.app.answers import Instant, means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import NotFound, UserError
from tidelore.store.mirror.payloads import RawPayload, read_payload, read_payloads_below


class StoredPayload(Struct, frozen=True):
    """One object as it was received."""

    type: Annotated[str, means("issue, merge_request, topic, post, discussion or note")]
    remote_id: Annotated[str, means("id on the server")]
    fetched_at: Annotated[Instant, means("when it was received")]
    payload: Annotated[Any, means("the JSON that the server sent", untrusted=True)]


class ItemPayloads(Struct, frozen=True):
    """The answer of `lore payload`."""

    reference: Annotated[str, means("the item as it was named")]
    item: Annotated[StoredPayload, means("the payload of the item")]
    below: Annotated[list[StoredPayload], means("with --discussions: those of its discussions and comments")]


def find_payloads(app: App, reference: str, project: str | None = None, *, below: bool = False) -> ItemPayloads:
    """Return the payload of the item that a reference names, and with `below` those of its conversation."""
    if app.config.lockdown:
        raise UserError(
            "payloads are not shown in lockdown: they contain the text of everyone",
            fix="use `lore show`, which leaves out what people without write access wrote",
        )
    meant = parse_any(reference)
    with app.reading() as database:
        found = find_thread(database, meant, project, app.config.default_project)
        item = read_payload(database, found.type, found.id)
        others = read_payloads_below(database, found.type, found.id) if below else []
    if item is None:
        raise NotFound(
            f"no payload of {reference} is stored",
            fix="a deleted item has none, and a snapshot made with --no-payloads has none at all",
            reference=reference,
        )
    return ItemPayloads(reference, _stored(item), [_stored(one) for one in others])


def _stored(row: RawPayload) -> StoredPayload:
    return StoredPayload(row.type, row.remote_id, Instant(row.fetched_at), msgspec.json.decode(row.payload))
