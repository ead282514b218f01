"""Write rows as CSV, JSON, JSON lines or Parquet, one after another.

Text of others is freed of control, bidi and invisible characters. A list is one cell in CSV, separated by `; `. Parquet
needs the extra `parquet` and keeps the types.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Struct

from tidelore.app.answers import Instant, means, robot_form
from tidelore.core.errors import StorageFailed, UserError
from tidelore.core.extras import require
from tidelore.core.text import without_hidden

FORMATS = ("csv", "json", "jsonl", "parquet")
_ROW_GROUP = 10_000


class Export(Struct, frozen=True):
    """The answer of `lore export`."""

    path: Annotated[str | None, means("the file that was written, or null for stdout")]
    format: Annotated[str, means("csv, json, jsonl or parquet")]
    rows: Annotated[int, means("number of rows")]


class ExportTarget(Struct, frozen=True):
    """Where to write, in which format and which columns; without a path, to stdout."""

    format: str
    columns: tuple[str, ...]
    path: Path | None = None
    replace: bool = False


def choose_format(wanted: str | None, path: str | None) -> str:
    """Return the format that is asked for, or that the ending of the file names; else CSV."""
    ending = "" if path is None else Path(path).suffix.removeprefix(".").lower()
    ending = {"ndjson": "jsonl"}.get(ending, ending)
    return wanted or (ending if ending in FORMATS else "csv")


def write_export(rows: Iterable[Struct], shape: type[Struct], target: ExportTarget) -> Export:
    """Write rows to the file or to stdout; the file appears under its name when it is complete."""
    if target.format == "parquet":
        require("parquet", "`--format parquet`")
    rows = iter(rows)
    # An error of the database or of a filter comes before the first byte is written.
    counted = _Counted(chain(list(islice(rows, 1)), rows))
    write = _WRITERS[target.format]
    if target.path is None:
        stream = sys.stdout.buffer
        write(counted, shape, target.columns, stream)
        stream.flush()
        return Export(None, target.format, counted.count)
    path = target.path.expanduser().absolute()
    if path.exists() and not target.replace:
        raise UserError(f"{path} exists", fix="choose another file, or overwrite it with --force", path=str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            part.chmod(0o600)
            write(counted, shape, target.columns, stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise StorageFailed(
            f"cannot write {path}: {error.strerror}", fix="choose another file with --output", path=str(path)
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return Export(str(path), target.format, counted.count)


class _Counted:
    """Counts the rows that pass."""

    def __init__(self, rows: Iterable[Struct]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Struct]:
        for row in self._rows:
            self.count += 1
            yield row


Writer = Callable[[Iterable[Struct], type[Struct], tuple[str, ...], IO[bytes]], None]


def _csv(rows: Iterable[Struct], _shape: type[Struct], columns: tuple[str, ...], stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(([_cell(value) for value in _plain(row, columns).values()]) for row in rows)
    finally:
        # Otherwise it closes the stream, which may be stdout, when it is collected.
        text.detach()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _json(rows: Iterable[Struct], _shape: type[Struct], columns: tuple[str, ...], stream: IO[bytes]) -> None:
    stream.write(b"[")
    for at, row in enumerate(rows):
        stream.write((b",\n" if at else b"\n") + msgspec.json.encode(_plain(row, columns)))
    stream.write(b"\n]\n")


def _jsonl(rows: Iterable[Struct], _shape: type[Struct], columns: tuple[str, ...], stream: IO[bytes]) -> None:
    for row in rows:
        stream.write(msgspec.json.encode(_plain(row, columns)) + b"\n")


def _parquet(rows: Iterable[Struct], shape: type[Struct], columns: tuple[str, ...], stream: IO[bytes]) -> None:
    from importlib import import_module

    # By name: the types of this optional package are not known where it is not installed.
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")

    kinds = {field.name: field.type for field in msgspec.structs.fields(shape)}
    schema = arrow.schema([(name, _arrow_type(arrow, kinds[name])) for name in columns])
    left = iter(rows)
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        while group := list(islice(left, _ROW_GROUP)):
            values = [{name: _clean(getattr(row, name)) for name in columns} for row in group]
            writer.write_table(arrow.Table.from_pylist(values, schema=schema))


def _arrow_type(arrow: Any, annotation: Any) -> Any:
    parts = list(_parts(annotation))
    if any(get_origin(part) in (list, tuple) for part in parts):
        return arrow.list_(arrow.string())
    if Instant in parts:
        return arrow.timestamp("ms", tz="UTC")
    return arrow.bool_() if bool in parts else arrow.int64() if int in parts else arrow.string()


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield an annotation and everything it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _clean(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [without_hidden(str(one)) for one in value]
    return without_hidden(value) if isinstance(value, str) else value


def _plain(row: Struct, columns: tuple[str, ...]) -> dict[str, Any]:
    return {name: robot_form(getattr(row, name), full=True).value for name in columns}


_WRITERS: dict[str, Writer] = {"csv": _csv, "json": _json, "jsonl": _jsonl, "parquet": _parquet}
