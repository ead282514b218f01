"""A payload is stored once, as it came, whatever its form on disk."""

from __future__ import annotations

import os

import pytest
from tests.databases.samples import CREATED, add_project, stored_payload

from tidelore.core.content import digest
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import Content, packer, store_contents


def content(payload: bytes, key: str = "1") -> Content:
    return Content(key, digest(payload), payload)


def store(database: Database, *payloads: bytes, compress: bool = True) -> None:
    project = add_project(database)
    with database.transaction() as tx:
        store_contents(
            tx,
            project.id,
            "issue",
            [content(payload) for payload in payloads],
            pack=packer(compress=compress),
            now_ms=CREATED,
        )


def rows(database: Database) -> list[tuple[int, str, int]]:
    return database.read("SELECT id, encoding, LENGTH(payload) FROM raw_payloads ORDER BY id")


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize(
    "payload",
    [b"{}", b"x" * 127, b"x" * 128, b'{"title": "' + "Löschkran 🚢".encode() * 500 + b'"}', bytes(range(256)) * 9],
    ids=["tiny", "below-limit", "at-limit", "text", "binary"],
)
def test_a_payload_is_read_back_byte_for_byte(database: Database, payload: bytes, compress: bool) -> None:
    store(database, payload, compress=compress)
    ((payload_id, _, _),) = rows(database)
    assert stored_payload(database, payload_id) == payload
    assert database.read("SELECT content_hash FROM raw_payloads") == [(digest(payload),)]


def test_large_payloads_are_compressed_and_small_ones_are_not(database: Database) -> None:
    store(database, b"y" * 5000, b"small")
    (large, small) = rows(database)
    assert large[1] == "zstd"
    assert large[2] < 500
    assert small[1:] == ("identity", 5)


def test_without_compression_payloads_are_stored_unchanged(database: Database) -> None:
    store(database, b"y" * 5000, compress=False)
    assert rows(database)[0][1:] == ("identity", 5000)


def test_identical_payloads_are_stored_once(database: Database) -> None:
    payload = os.urandom(300)
    store(database, payload, payload)
    before = rows(database)
    store(database, payload, compress=False)
    assert rows(database) == before
    assert len(before) == 1


def test_payloads_differing_in_one_byte_are_stored_separately(database: Database) -> None:
    store(database, b"z" * 200, b"z" * 201)
    assert len(rows(database)) == 2
