"""Documents: the text by which conversations are found. Owns the table `documents`; the full text follows it by itself.

A document whose content is stored already is not written again, so nothing behind it (index, vectors) is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.content import digest
from tidelore.core.model import Document
from tidelore.store.database import Transaction
from tidelore.store.dirty import Source

_COLUMNS = (*Document.__struct_fields__, "generated_at", "content_hash")
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in {"source_type", "source_id"})
_UPSERT = (
    f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    f" ON CONFLICT (source_type, source_id) DO UPDATE SET {_UPDATES}"
)


class Written(Struct, frozen=True):
    """What a batch changed: the documents written, by id, and how many went or stayed as they were."""

    ids: list[int]
    removed: int
    unchanged: int


def write_documents(tx: Transaction, sources: Sequence[Source], documents: Sequence[Document], now_ms: int) -> Written:
    """Make these sources have exactly these documents."""
    held = _held(tx, sources)
    made = {
        Source(document.source_type, document.source_id): replace(document, content=tx.indexable(document.content))
        for document in documents
    }
    hashes = {source: digest(msgspec.json.encode(document)) for source, document in made.items()}
    changed = [source for source in made if held.get(source, (0, b""))[1] != hashes[source]]
    gone = [row_id for source, (row_id, _) in held.items() if source not in made]
    if gone:
        tx.execute(f"DELETE FROM documents WHERE id {tx.among('ids')}", {"ids": tx.integers(gone)})
    tx.execute_rows(_UPSERT, _COLUMNS, [(*_values(made[source]), now_ms, hashes[source]) for source in changed])
    ids = [row_id for source, (row_id, _) in _held(tx, changed).items()]
    return Written(ids, len(gone), len(made) - len(changed))


def remove_documents(tx: Transaction, source_type: str, source_ids: Sequence[int]) -> None:
    """Delete the documents of these sources at once, without waiting for the next run that makes documents."""
    tx.execute(
        f"DELETE FROM documents WHERE source_type = :type AND source_id {tx.among('ids')}",
        {"type": source_type, "ids": tx.integers(source_ids)},
    )


def _held(tx: Transaction, sources: Iterable[Source]) -> dict[Source, tuple[int, bytes]]:
    found: dict[Source, tuple[int, bytes]] = {}
    by_type: dict[str, list[int]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source.id)
    for source_type, ids in by_type.items():
        rows = tx.execute(
            "SELECT source_id, id, content_hash FROM documents"
            f" WHERE source_type = :type AND source_id {tx.among('ids')}",
            {"type": source_type, "ids": tx.integers(ids)},
        )
        found |= {Source(source_type, key): (row_id, bytes(value)) for key, row_id, value in rows}
    return found


def _values(document: Document) -> list[object]:
    """Return the columns; lists are lines, so that both a person and an index can read them."""
    values = [getattr(document, name) for name in Document.__struct_fields__]
    return ["\n".join(value) if isinstance(value, tuple) else value for value in values]
