"""The parts of statements that many tables share."""

from __future__ import annotations

from tidelore.store.database.statements import Where, insert


def test_a_filter_that_was_not_given_adds_neither_a_condition_nor_a_parameter() -> None:
    where = Where("t.deleted_at IS NULL", since=5)
    where.narrow("t.state = :state", state=None).narrow("t.draft = :draft", draft=0)
    assert str(where) == "t.deleted_at IS NULL AND t.draft = :draft"
    assert where.params == {"since": 5, "draft": 0}
    assert str(Where().narrow("a = :a", a=None)) == "1 = 1"


def test_a_condition_with_two_parameters_needs_both() -> None:
    where = Where().narrow("(at, id) < (:at, :id)", at=1, id=None)
    assert (str(where), where.params) == ("1 = 1", {})


def test_an_insert_names_each_column_and_replaces_all_but_the_key() -> None:
    assert insert("jobs", {"name": "a", "due": 1}) == "INSERT INTO jobs (name, due) VALUES (:name, :due)"
    replacing = insert("jobs", ("name", "due", "state"), key=("name",))
    assert replacing.endswith(" ON CONFLICT (name) DO UPDATE SET due = excluded.due, state = excluded.state")
