"""Stores payloads as they were received, each version once (table `raw_payloads`), and reads them back.

A payload is identified by remote id and content hash. Payloads are compressed with zstd. A project's first payloads of
a type train a dictionary (table `payload_dictionaries`), which makes the next ones half as large and takes half the
time: they share their field names. A dictionary outlives the payloads it was trained with, so it must not contain what
a deletion removes: only words that many of them have in common are part of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.store.database.port import Database, Params, Row, Transaction

if TYPE_CHECKING:
    import zstandard

_COLUMNS = (
    *("content_hash", "project_id", "resource_type", "remote_id", "encoding", "payload", "dictionary_id"),
    "fetched_at",
)
_INSERT = (
    f"INSERT INTO raw_payloads ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    " ON CONFLICT (remote_id, content_hash) DO NOTHING"
)
_SMALL = 128
"""Payloads smaller than this grow when compressed."""
_LEVEL = 1
"""zstd level 1 compresses as well as zlib in a third of the time."""
SAMPLES = 32
"""The number of payloads that train a dictionary: the first ones."""
TRAINED_AFTER = 256
"""The number of payloads after which a dictionary is trained: for fewer it costs more time than it saves."""
_DICTIONARY_BYTES = 8192
_COMMON = 8
"""A word is part of a dictionary if at least one of this many samples has it."""
_WORDS = re.compile(r"\w+|\W+")
LEFT_OUT_PAYLOAD = "left_out"
"""The `resource_type` of a payload whose bytes a snapshot leaves out; its row stays, because other rows refer to it."""


_TABLES = {"issue": "issues", "merge_request": "merge_requests", "topic": "topics", "post": "posts"}
_BELOW = {"issue": "issue_id", "merge_request": "merge_request_id"}
_PAYLOAD = "r.resource_type, r.remote_id, r.fetched_at, r.encoding, r.payload, r.dictionary_id"
_HELD = "r.resource_type NOT IN (:left_out, 'tombstone')"


class Content(NamedTuple):
    """A payload, the remote id it belongs to, and its digest."""

    remote_id: str
    digest: bytes
    payload: bytes


class Packed(NamedTuple):
    """A payload as it is stored."""

    encoding: str
    payload: bytes
    dictionary_id: int | None


def store_contents(
    tx: Transaction,
    project_id: int | None,
    resource_type: str,
    contents: Iterable[Content],
    *,
    pack: Pack,
    now_ms: int,
) -> None:
    """Store each payload that is not stored yet."""
    chosen = list(contents)
    packed = pack(tx, project_id, resource_type, [content.payload for content in chosen], now_ms)
    tx.execute_rows(
        _INSERT,
        _COLUMNS,
        [
            (content_hash, project_id, resource_type, remote_id, encoding, payload, dictionary_id, now_ms)
            for (remote_id, content_hash, _), (encoding, payload, dictionary_id) in zip(chosen, packed, strict=True)
        ],
    )


def forget_payloads(
    tx: Transaction, project_id: int, resource_type: str, table: str, remote_ids: Sequence[str]
) -> None:
    """Delete the payloads of these objects that no row of their table refers to any more."""
    tx.execute_many(
        "DELETE FROM raw_payloads WHERE remote_id = :remote_id AND resource_type = :resource_type"
        " AND project_id = :project_id"
        f" AND NOT EXISTS (SELECT 1 FROM {table} t WHERE t.raw_payload_id = raw_payloads.id)",
        [{"remote_id": key, "resource_type": resource_type, "project_id": project_id} for key in remote_ids],
    )


class PayloadReader:
    """Decompresses stored payloads; each dictionary is read once."""

    def __init__(self, read: Callable[[str, Params], list[Row]]) -> None:
        self._read = read
        self._decompressors: dict[int | None, zstandard.ZstdDecompressor] = {}

    def unpack(self, encoding: str, payload: bytes, dictionary_id: int | None) -> bytes:
        """Return a payload as it was received, or raise ValueError."""
        if encoding == "identity":
            return bytes(payload)
        import zstandard

        try:
            return self._decompressor(dictionary_id).decompress(payload)
        except zstandard.ZstdError as error:
            raise ValueError(f"a stored payload cannot be unpacked: {error}") from None

    def _decompressor(self, dictionary_id: int | None) -> zstandard.ZstdDecompressor:
        import zstandard

        if dictionary_id not in self._decompressors:
            dictionary = None
            if dictionary_id is not None:
                rows = self._read("SELECT dictionary FROM payload_dictionaries WHERE id = :id", {"id": dictionary_id})
                if not rows:
                    raise ValueError(f"the dictionary {dictionary_id} of a stored payload is missing")
                dictionary = zstandard.ZstdCompressionDict(bytes(rows[0][0]))
            self._decompressors[dictionary_id] = zstandard.ZstdDecompressor(dict_data=dictionary)
        return self._decompressors[dictionary_id]


class Training(Struct):
    """The first payloads of a project and type, and how many there were."""

    samples: list[bytes]
    seen: int = 0


class Pack:
    """Encodes payloads for storage, and trains dictionaries. Expensive to create; any thread may call it."""

    def __init__(self, *, compress: bool = True) -> None:
        self._compress = compress
        # One compressor must not be used by two threads at the same time.
        self._lock = Lock()
        self._plain: zstandard.ZstdCompressor | None = None
        self._trained: dict[bytes, zstandard.ZstdCompressor] = {}
        self._training: dict[tuple[int | None, str], Training] = {}
        self._without: set[tuple[int | None, str]] = set()

    def __call__(
        self, tx: Transaction, project_id: int | None, resource_type: str, payloads: Sequence[bytes], now_ms: int
    ) -> list[Packed]:
        """Return each payload as it is to be stored. A dictionary that is trained now is stored by this transaction."""
        if not self._compress:
            return [Packed("identity", payload, None) for payload in payloads]
        with self._lock:
            large = [payload for payload in payloads if len(payload) >= _SMALL]
            known = self._known(tx, project_id, resource_type) if large else None
            if large and known is None and (project_id, resource_type) not in self._without:
                known = self._train(tx, project_id, resource_type, large, now_ms)
            dictionary_id, compressor = known or (None, self._compressor())
            squeezed = iter(_compress_all(compressor, large))
            if len(large) == len(payloads):
                return [Packed("zstd", payload, dictionary_id) for payload in squeezed]
            return [
                Packed("identity", payload, None)
                if len(payload) < _SMALL
                else Packed("zstd", next(squeezed), dictionary_id)
                for payload in payloads
            ]

    def _known(
        self, tx: Transaction, project_id: int | None, resource_type: str
    ) -> tuple[int, zstandard.ZstdCompressor] | None:
        """Return the stored dictionary. It is looked up once in each transaction: one that is rolled back takes the
        dictionary that it stored with it, and its id may be given to another.
        """
        seen = tx.gathered(_nothing_to_flush)
        found = {row[2:] for row in seen if row[:2] == (project_id, resource_type)}
        if not found:
            rows = tx.execute(
                f"SELECT id, content_hash FROM payload_dictionaries WHERE resource_type = :type AND {_of(project_id)}"
                " ORDER BY id DESC LIMIT 1",
                {"type": resource_type, "project_id": project_id},
            )
            found = {(rows[0][0], bytes(rows[0][1])) if rows else (None, b"")}
            seen.update((project_id, resource_type, *row) for row in found)
        for dictionary_id, content_hash in found:
            if dictionary_id is not None:
                return dictionary_id, self._loaded(tx, dictionary_id, content_hash)
        return None

    def _loaded(self, tx: Transaction, dictionary_id: int, content_hash: bytes) -> zstandard.ZstdCompressor:
        if content_hash not in self._trained:
            ((stored,),) = tx.execute(
                "SELECT dictionary FROM payload_dictionaries WHERE id = :id", {"id": dictionary_id}
            )
            self._trained[content_hash] = _trained_compressor(bytes(stored))
        return self._trained[content_hash]

    def _train(
        self, tx: Transaction, project_id: int | None, resource_type: str, payloads: Sequence[bytes], now_ms: int
    ) -> tuple[int, zstandard.ZstdCompressor] | None:
        """Keep the first payloads as samples; once there were enough, train and store a dictionary."""
        key = project_id, resource_type
        training = self._training.setdefault(key, Training([]))
        training.samples += payloads[: SAMPLES - len(training.samples)]
        training.seen += len(payloads)
        if training.seen < TRAINED_AFTER:
            return None
        del self._training[key]
        dictionary = train(training.samples)
        compressor = None if dictionary is None else self._worthwhile(dictionary, training.samples)
        if dictionary is None or compressor is None:
            self._without.add(key)
            return None
        content_hash = digest(dictionary)
        ((dictionary_id,),) = tx.execute(
            "INSERT INTO payload_dictionaries (project_id, resource_type, content_hash, dictionary, created_at)"
            " VALUES (:project_id, :type, :hash, :dictionary, :now) RETURNING id",
            {
                "project_id": project_id,
                "type": resource_type,
                "hash": content_hash,
                "dictionary": dictionary,
                "now": now_ms,
            },
        )
        self._trained[content_hash] = compressor
        tx.gathered(_nothing_to_flush).add((project_id, resource_type, dictionary_id, content_hash))
        return dictionary_id, compressor

    def _worthwhile(self, dictionary: bytes, samples: Sequence[bytes]) -> zstandard.ZstdCompressor | None:
        """Return the compressor with a dictionary if it saves more than the dictionary takes.

        It is assumed that as many payloads follow as there were before it was trained.
        """
        plain, trained = self._compressor(), _trained_compressor(dictionary)
        saved = sum(len(plain.compress(sample)) - len(trained.compress(sample)) for sample in samples)
        return trained if saved * TRAINED_AFTER // len(samples) > len(dictionary) else None

    def _compressor(self) -> zstandard.ZstdCompressor:
        if self._plain is None:
            import zstandard

            self._plain = zstandard.ZstdCompressor(level=_LEVEL)
        return self._plain


def packer(*, compress: bool) -> Pack:
    """Return a function that encodes payloads for storage."""
    return Pack(compress=compress)


def train(samples: Sequence[bytes]) -> bytes | None:
    """Return a dictionary for payloads like these JSON objects; None if they are too different.

    The same samples give the same dictionary.
    """
    import zstandard

    try:
        values = [msgspec.json.decode(sample) for sample in samples]
        counts = Counter(word for value in values for word in set(_WORDS.findall("\n".join(_texts(value)))))
        common = {word for word, count in counts.items() if count * _COMMON >= len(values)}
        shapes = [msgspec.json.encode(_shape(value, common)) for value in values]
        # With given parameters it takes half the time of a search for the best ones, and the result is no larger.
        return zstandard.train_dictionary(_DICTIONARY_BYTES, [*shapes], k=1000, d=8).as_bytes()
    except (msgspec.DecodeError, RecursionError, zstandard.ZstdError):
        return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _shape(value: Any, common: Collection[str]) -> Any:
    """Return a JSON value without the words that are not common, and without numbers."""
    if isinstance(value, str):
        return "".join([word for word in _WORDS.findall(value) if word in common])
    if isinstance(value, dict):
        return {name: _shape(inner, common) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner, common) for inner in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _compress_all(compressor: zstandard.ZstdCompressor, payloads: Sequence[bytes]) -> list[bytes]:
    """Compress payloads in one call: each call gives up the interpreter's lock and then waits for the other thread."""
    import zstandard

    if not payloads or "multi_compress_to_buffer" not in zstandard.backend_features:
        return [compressor.compress(payload) for payload in payloads]
    packed = compressor.multi_compress_to_buffer(list(payloads))
    return [packed[place].tobytes() for place in range(len(packed))]


def _trained_compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    import zstandard

    data = zstandard.ZstdCompressionDict(dictionary)
    # Otherwise the dictionary is processed again for every payload.
    data.precompute_compress(level=_LEVEL)
    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=data)


def _of(project_id: int | None) -> str:
    return "project_id IS NULL" if project_id is None else "project_id = :project_id"


def _nothing_to_flush(_tx: Transaction, _rows: Collection[Row]) -> None:
    """Write nothing: the rows only remember, for one transaction, which dictionaries it may use."""


class RawPayload(NamedTuple):
    """A payload, decompressed."""

    type: str
    remote_id: str
    fetched_at: int
    payload: bytes


def read_payload(database: Database, source_type: str, row_id: int) -> RawPayload | None:
    """Return the payload of an item; None if it is deleted or left out."""
    found = _read_held(
        database,
        f"SELECT {_PAYLOAD} FROM {_TABLES[source_type]} t JOIN raw_payloads r ON r.id = t.raw_payload_id"
        f" WHERE t.id = :id AND {_HELD}",
        row_id,
    )
    return found[0] if found else None


def read_payloads_below(database: Database, source_type: str, row_id: int) -> list[RawPayload]:
    """Return the payloads of the discussions and comments of an issue or merge request, in their order.

    A topic's payload contains its comments.
    """
    column = _BELOW.get(source_type)
    if column is None:
        return []
    return _read_held(
        database,
        f"SELECT {_PAYLOAD}, d.first_note_at AS begun, d.id AS thread, -1 AS place"
        f" FROM discussions d JOIN raw_payloads r ON r.id = d.raw_payload_id WHERE d.{column} = :id AND {_HELD}"
        f" UNION ALL SELECT {_PAYLOAD}, d.first_note_at, d.id, n.position FROM discussions d"
        " JOIN notes n ON n.discussion_id = d.id JOIN raw_payloads r ON r.id = n.raw_payload_id"
        f" WHERE d.{column} = :id AND {_HELD} ORDER BY begun, thread, place",
        row_id,
    )


def _read_held(database: Database, sql: str, row_id: int) -> list[RawPayload]:
    reader = PayloadReader(database.read)
    rows = database.read(sql, {"id": row_id, "left_out": LEFT_OUT_PAYLOAD})
    return [
        RawPayload(kind, remote_id, fetched_at, reader.unpack(*packed[:3]))
        for kind, remote_id, fetched_at, *packed in rows
    ]
