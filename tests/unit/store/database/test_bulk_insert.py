"""An INSERT of one row becomes one of several; what cannot be repeated is left as it is."""

from __future__ import annotations

import apsw
import pytest

from tidelore.store.database.sqlite import LONGEST_CACHED, SIZES, grouped, repeated
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family


def test_a_multi_row_insert_repeats_only_the_values_clause() -> None:
    sql = "INSERT INTO ships (name, flag, seen) VALUES (:name, :flag, :now) ON CONFLICT (name) DO NOTHING"
    found = repeated(sql, ("name", "flag", "now"))
    assert tuple(found) == SIZES
    assert found[1] == "INSERT INTO ships (name, flag, seen) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING"
    assert found[2] == (
        "INSERT INTO ships (name, flag, seen) VALUES (?1, ?2, ?3), (?4, ?5, ?6) ON CONFLICT (name) DO NOTHING"
    )


def test_a_parameter_used_twice_or_in_a_subquery_is_numbered_correctly() -> None:
    sql = "INSERT INTO t (a, b, c) VALUES (:x, (SELECT id FROM u WHERE k = :x AND (h = :y)), ':) (''(' || :y)"
    assert repeated(sql, ("x", "y"))[2] == (
        "INSERT INTO t (a, b, c) VALUES"
        " (?1, (SELECT id FROM u WHERE k = ?1 AND (h = ?2)), ':) (''(' || ?2),"
        " (?3, (SELECT id FROM u WHERE k = ?3 AND (h = ?4)), ':) (''(' || ?4)"
    )


def test_parameters_are_numbered_in_the_order_of_their_names() -> None:
    assert repeated("INSERT INTO t VALUES (:b, :a)", ("a", "b"))[1] == "INSERT INTO t VALUES (?2, ?1)"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = :a WHERE id = :id",
        "DELETE FROM t WHERE a = :a AND id = :id",
        "INSERT INTO t (a) SELECT :a WHERE :id > 0",
        "INSERT INTO t (a) VALUES (:a) ON CONFLICT (a) DO UPDATE SET b = :id",
        "WITH w AS (SELECT :id AS x) INSERT INTO t (a) VALUES (:a)",
        "INSERT INTO t (a) VALUES (:a, (:id)",
    ],
)
def test_a_statement_using_a_value_outside_the_values_clause_is_not_repeated(sql: str) -> None:
    assert not repeated(sql, ("a", "id"))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 15, 16, 17, 45, 50])
def test_grouping_keeps_every_row_once_and_in_order(count: int) -> None:
    groups = list(grouped((number, -number) for number in range(count)))
    assert [value for _, values in groups for value in values] == [
        value for number in range(count) for value in (number, -number)
    ]
    assert all(len(values) == 2 * size and size in SIZES for size, values in groups)
    assert len(groups) <= count // SIZES[0] + 8


@pytest.mark.parametrize("family", [ISSUES, MERGE_REQUESTS])
def test_the_upsert_of_a_wide_table_has_only_texts_that_the_driver_caches(family: Family) -> None:
    sizes = repeated(family.upsert, family.names)
    assert SIZES[0] not in sizes
    assert all(len(text) <= LONGEST_CACHED for text in sizes.values())


def test_a_statement_that_the_driver_does_not_cache_in_any_other_size_is_run_row_by_row() -> None:
    sql = f"INSERT INTO t (a) VALUES (:a || '{'x' * LONGEST_CACHED}')"
    assert tuple(repeated(sql, ("a",))) == (1,)


def test_the_driver_caches_texts_up_to_the_assumed_length() -> None:
    assert apsw.Connection(":memory:").cache_stats()["max_cacheable_bytes"] == LONGEST_CACHED
