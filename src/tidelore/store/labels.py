"""Labels and people of issues and merge requests. Owns the junction tables.

Links are written anew on every upsert: what vanished remotely vanishes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelore.store.database import Transaction


def relink_labels(
    tx: Transaction,
    project_id: int,
    table: str,
    column: str,
    names_by_parent: Mapping[int, Sequence[str]],
    fresh: bool,  # noqa: FBT001 - rows that were just created have no links to clear
) -> int:
    """Make each parent carry exactly these labels; return how many labels are new to the project."""
    if not fresh:
        _clear(tx, table, column, names_by_parent)
    wanted = {name for names in names_by_parent.values() for name in names}
    if not wanted:
        return 0
    known = _label_ids(tx, project_id)
    created = sorted(wanted - known.keys())
    if created:
        tx.execute_many(
            "INSERT INTO labels (project_id, name) VALUES (:project_id, :name)"
            " ON CONFLICT (project_id, name) DO NOTHING",
            [{"project_id": project_id, "name": name} for name in created],
        )
        known = _label_ids(tx, project_id)
    tx.execute_rows(
        f"INSERT INTO {table} ({column}, label_id) VALUES (:parent, :label) ON CONFLICT DO NOTHING",
        ("parent", "label"),
        [(parent, known[name]) for parent, names in names_by_parent.items() for name in names],
    )
    return len(created)


def relink_people(
    tx: Transaction,
    table: str,
    column: str,
    names_by_parent: Mapping[int, Sequence[str]],
    fresh: bool,  # noqa: FBT001 - as above
) -> int:
    """Make each parent name exactly these people; return how many links that is."""
    if not fresh:
        _clear(tx, table, column, names_by_parent)
    rows = [(parent, name) for parent, names in names_by_parent.items() for name in dict.fromkeys(names)]
    if rows:
        tx.execute_rows(
            f"INSERT INTO {table} ({column}, username) VALUES (:parent, :username)", ("parent", "username"), rows
        )
    return len(rows)


def _clear(tx: Transaction, table: str, column: str, parents: Mapping[int, Sequence[str]]) -> None:
    tx.execute(f"DELETE FROM {table} WHERE {column} {tx.among('ids')}", {"ids": tx.integers(parents)})


def _label_ids(tx: Transaction, project_id: int) -> dict[str, int]:
    rows = tx.execute("SELECT name, id FROM labels WHERE project_id = :project_id", {"project_id": project_id})
    return dict(rows)
