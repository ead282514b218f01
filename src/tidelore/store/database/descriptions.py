"""Reads what the comments of the migrations say of each table, view and column.

docs/reference/schema.md and the metadata for Datasette are made of it.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from tidelore.store.database.migrate import schema_texts

QUERIES = {
    "search": {
        "title": "Search all conversations",
        "description": "Full-text search; words are combined with AND, OR, NOT and quotation marks.",
        "sql": "select d.source_type, d.title, snippet(documents_fts, 1, '[', ']', '…', 24) as passage, d.state,"
        " d.author_username as author, d.url from documents_fts join documents d on d.id = documents_fts.rowid"
        " where documents_fts match :words order by rank limit 50",
    },
    "unresolved_threads": {
        "title": "Unresolved review threads, oldest first",
        "sql": "select t.project, t.iid, t.title, t.began, t.last_note from v_threads t"
        " where t.resolvable = 1 and t.resolved = 0 order by t.began limit 200",
    },
}
"""Queries that a browser of the database offers."""
_CREATED = re.compile(r"CREATE (TABLE|VIEW) (\w+)(?: AS| \()$")
_COLUMN = re.compile(r"    ([a-z_]+) +([A-Z]+)([^-]*)(?:-- (.*))?$")
_ADDED = re.compile(r"ALTER TABLE (\w+) ADD COLUMN ([a-z_]+) +([A-Z]+)([^-]*)(?:-- (.*))?$")
_REFERENCE = re.compile(r"REFERENCES (\w+)")


class DescribedColumn(Struct, frozen=True):
    """A column, its type, what its comment says, and the table it refers to."""

    name: str
    type: str
    comment: str
    refers_to: str | None


class DescribedTable(Struct):
    """A table or view, with the comment above it."""

    name: str
    comment: str
    is_view: bool
    columns: list[DescribedColumn] = field(default_factory=list)


def describe_schema() -> dict[str, DescribedTable]:
    """Return the tables and views of the common schema, in the order of the migrations."""
    return read_tables("\n".join(schema_texts()))


def read_tables(sql: str) -> dict[str, DescribedTable]:
    """Return what a text of the common SQL creates, in its order."""
    tables: dict[str, DescribedTable] = {}
    current: DescribedTable | None = None
    comment: list[str] = []
    for line in sql.splitlines():
        if line.startswith("-- "):
            comment.append(line.removeprefix("-- "))
        elif created := _CREATED.match(line):
            current = tables[created[2]] = DescribedTable(created[2], " ".join(comment), created[1] == "VIEW")
            comment = []
        elif line.startswith(")") or not line:
            current, comment = None, []
        elif current is not None and not current.is_view and (column := _COLUMN.match(line)):
            current.columns.append(_column(column[1], column[2], column[3], column[4]))
        elif added := _ADDED.match(line):
            tables[added[1]].columns.append(_column(added[2], added[3], added[4], added[5]))
    return tables


def _column(name: str, kind: str, constraints: str, comment: str | None) -> DescribedColumn:
    refers = _REFERENCE.search(constraints)
    return DescribedColumn(name, kind.lower(), comment or "", refers[1] if refers else None)
