"""A payload is stored once, as it came, whatever its form on disk."""

from __future__ import annotations

import os

import msgspec
import pytest
from tests.databases.samples import CREATED, add_project, stored_payload

from tidelore.core.content import digest
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import (
    SAMPLES,
    TRAINED_AFTER,
    Content,
    Pack,
    PayloadReader,
    packer,
    store_contents,
    train,
)


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


def issue_payload(number: int, text: str = "") -> bytes:
    value = {
        "id": number,
        "title": f"Crane {number * 7919}",
        "description": text,
        "state": "opened" if number % 2 else "closed",
        "author": {"id": number % 7, "username": f"person{number % 3}", "state": "active", "locked": False},
        "web_url": f"https://gitlab.example/harbour/archive/-/issues/{number}",
        "time_stats": {"time_estimate": 0, "total_time_spent": 0, "human_time_estimate": None},
        "references": {"short": f"#{number}", "relative": f"#{number}", "full": f"harbour/archive#{number}"},
    }
    return msgspec.json.encode(value)


def store_pages(database: Database, pack: Pack, numbers: range, text: str = "", size: int = 100) -> None:
    project = add_project(database)
    for begin in range(numbers.start, numbers.stop, size):
        page = range(begin, min(begin + size, numbers.stop))
        contents = [content(issue_payload(number, text), str(number)) for number in page]
        with database.transaction() as tx:
            store_contents(tx, project.id, "issue", contents, pack=pack, now_ms=CREATED)


def stored_issues(database: Database) -> dict[int, bytes]:
    reader = PayloadReader(database.read)
    found = database.read("SELECT remote_id, encoding, payload, dictionary_id FROM raw_payloads")
    return {int(key): reader.unpack(*packed) for key, *packed in found}


def test_many_payloads_train_a_dictionary_that_halves_the_next_ones(database: Database) -> None:
    store_pages(database, packer(compress=True), range(600))
    assert stored_issues(database) == {number: issue_payload(number) for number in range(600)}
    sizes: dict[int, float] = dict(
        database.read(
            "SELECT COALESCE(dictionary_id, 0), AVG(LENGTH(payload)) FROM raw_payloads GROUP BY dictionary_id"
        )
    )
    ((dictionary_id, project_id),) = database.read("SELECT id, project_id FROM payload_dictionaries")
    assert project_id == database.read("SELECT id FROM projects")[0][0]
    assert sizes.keys() == {0, dictionary_id}
    assert sizes[dictionary_id] < sizes[0] / 2


def test_another_run_uses_the_stored_dictionary(database: Database) -> None:
    store_pages(database, packer(compress=True), range(300))
    store_pages(database, packer(compress=True), range(300, 310))
    assert database.read("SELECT COUNT(*) FROM payload_dictionaries") == [(1,)]
    assert database.read(
        "SELECT COUNT(*) FROM raw_payloads WHERE dictionary_id IS NOT NULL AND CAST(remote_id AS INTEGER) >= 300"
    ) == [(10,)]
    assert stored_issues(database) == {number: issue_payload(number) for number in range(310)}


def test_two_writers_of_one_transaction_use_the_dictionary_that_one_of_them_trained(database: Database) -> None:
    project = add_project(database)
    contents = [content(issue_payload(number), str(number)) for number in range(TRAINED_AFTER + 44)]
    with database.transaction() as tx:
        store_contents(tx, project.id, "issue", contents[:-20], pack=packer(compress=True), now_ms=CREATED)
        store_contents(tx, project.id, "issue", contents[-20:], pack=packer(compress=True), now_ms=CREATED)
    assert stored_issues(database) == {number: issue_payload(number) for number in range(len(contents))}
    assert database.read("SELECT COUNT(*), COUNT(dictionary_id) FROM raw_payloads") == [(len(contents), len(contents))]


def test_a_dictionary_that_was_rolled_back_packs_nothing(database: Database) -> None:
    pack = packer(compress=True)
    project = add_project(database)
    contents = [content(issue_payload(number), str(number)) for number in range(300)]

    def fail() -> None:
        with database.transaction() as tx:
            store_contents(tx, project.id, "issue", contents, pack=pack, now_ms=CREATED)
            raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError, match="rolled back"):
        fail()
    other = packer(compress=True)
    store_pages(database, other, range(1000, 1300), text="Other words of other items. " * 4)
    store_pages(database, pack, range(300))
    assert len(stored_issues(database)) == 600
    assert database.problems() == []


def test_a_dictionary_holds_no_word_of_a_single_payload() -> None:
    samples = [issue_payload(number, f"all of them share this. secret{number} " * 9) for number in range(SAMPLES)]
    trained = train(samples)
    assert trained is not None
    assert b"secret" not in trained
    assert b"share" in trained
    assert train(samples) == trained


def test_payloads_without_anything_in_common_are_packed_without_a_dictionary(database: Database) -> None:
    project = add_project(database)
    contents = [content(os.urandom(300), str(number)) for number in range(TRAINED_AFTER + 1)]
    pack = packer(compress=True)
    for _ in range(2):
        with database.transaction() as tx:
            store_contents(tx, project.id, "issue", contents, pack=pack, now_ms=CREATED)
    assert database.read("SELECT COUNT(*) FROM payload_dictionaries") == [(0,)]
    assert {bytes(row) for (row,) in database.read("SELECT content_hash FROM raw_payloads")} == {
        one.digest for one in contents
    }
