"""An INSERT of one row becomes one of several; what cannot be repeated is left as it is."""

from __future__ import annotations

import apsw
import pytest

from tidelore.store.database.sqlite import LONGEST_CACHED, SIZES, Repeated, grouped, repeated
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family


def repeatable(sql: str, *names: str) -> Repeated:
    """Return a statement that can be repeated."""
    found = repeated(sql, names)
    assert found is not None
    return found


def test_a_multi_row_insert_repeats_only_the_values_clause() -> None:
    sql = "INSERT INTO ships (name, flag, seen) VALUES (:name, :flag, :now) ON CONFLICT (name) DO NOTHING"
    found = repeatable(sql, "name", "flag", "now")
    assert found.sizes == SIZES
    assert found.text(1) == "INSERT INTO ships (name, flag, seen) VALUES (?,?,?) ON CONFLICT (name) DO NOTHING"
    assert found.text(2) == "INSERT INTO ships (name, flag, seen) VALUES (?,?,?),(?,?,?) ON CONFLICT (name) DO NOTHING"


def test_a_parameter_used_twice_or_in_a_subquery_is_numbered_correctly() -> None:
    sql = "INSERT INTO t (a, b, c) VALUES (:x, (SELECT id FROM u WHERE k = :x AND (h = :y)), ':) (''(, ' || :y)"
    assert repeatable(sql, "x", "y").text(2) == (
        "INSERT INTO t (a, b, c) VALUES"
        " (?,(SELECT id FROM u WHERE k = ?1 AND (h = ?)),':) (''(, ' || ?2),"
        "(?,(SELECT id FROM u WHERE k = ?3 AND (h = ?)),':) (''(, ' || ?4)"
    )


def test_parameters_are_numbered_in_the_order_of_their_names() -> None:
    assert repeatable("INSERT INTO t VALUES (:b, :a)", "a", "b").text(2) == "INSERT INTO t VALUES (?2,?1),(?4,?3)"


@pytest.mark.parametrize("size", SIZES)
def test_every_value_of_a_repeated_insert_reaches_its_own_column(size: int) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t (a, b, c)")
    rows = [(number, -number, f"row {number}") for number in range(size)]
    sql = "INSERT INTO t (c, a, b) VALUES (:z, :x, (SELECT :y WHERE :x IS NOT NULL))"
    text = repeatable(sql, "z", "x", "y").text(size)
    connection.execute(text, [value for a, b, c in rows for value in (c, a, b)])
    assert connection.execute("SELECT a, b, c FROM t ORDER BY a").fetchall() == rows


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
    assert repeated(sql, ("a", "id")) is None


def test_a_statement_that_does_not_use_every_name_is_not_repeated() -> None:
    assert repeated("INSERT INTO t (a) VALUES (:a)", ("a", "unused")) is None


@pytest.mark.parametrize("count", [0, 1, 3, 4, 15, 16, 17, 45, 50])
def test_grouping_keeps_every_row_once_and_in_order(count: int) -> None:
    groups = list(grouped((number, -number) for number in range(count)))
    assert [value for _, values in groups for value in values] == [
        value for number in range(count) for value in (number, -number)
    ]
    assert all(len(values) == 2 * size and size in SIZES for size, values in groups)
    assert len(groups) <= count // SIZES[0] + 8


@pytest.mark.parametrize("family", [ISSUES, MERGE_REQUESTS])
def test_a_full_page_of_a_wide_table_is_one_statement_that_the_driver_caches(family: Family) -> None:
    upsert = repeatable(family.upsert, *family.names)
    assert upsert.sizes[0] == 100
    assert all(len(upsert.text(size)) <= LONGEST_CACHED for size in upsert.sizes)


def test_a_statement_that_the_driver_does_not_cache_in_any_other_size_is_run_row_by_row() -> None:
    sql = f"INSERT INTO t (a) VALUES (:a || '{'x' * LONGEST_CACHED}')"
    assert repeatable(sql, "a").sizes == (1,)


def test_the_driver_caches_texts_up_to_the_assumed_length() -> None:
    assert apsw.Connection(":memory:").cache_stats()["max_cacheable_bytes"] == LONGEST_CACHED
