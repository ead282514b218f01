"""`lore export`: rows of lists as files for other programs."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk

from tidelore.app.export import rows as export_rows


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """A desk with issues, one of which is written to trouble a spreadsheet and a terminal."""
    with desk.world.lock:
        desk.world.gitlab.edit_issue(LEDGER, 1, title='a "b", c', description="first\nsecond\u202e\x1b[31m")
        desk.world.gitlab.edit_issue(LEDGER, 2, labels=["bug", "ui"])
    desk.ingested()
    return desk


def test_every_row_is_exported_in_each_format_over_several_pages(
    filled: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(export_rows, "PAGE", 2)
    out = {name: tmp_path / f"issues.{name}" for name in ("csv", "json", "jsonl")}
    for path in out.values():
        done = filled.robot("export", "issues", "-o", str(path))
        assert done.data == {"path": str(path), "format": path.suffix[1:], "rows": 7}
    listed = {item["reference"] for item in filled.robot("list", "issues", "-n", "100").data["items"]}
    rows = json.loads(out["json"].read_text(encoding="utf-8"))
    assert {row["reference"] for row in rows} == listed
    assert [row["created_at"] for row in rows] == sorted(row["created_at"] for row in rows)
    assert [json.loads(line) for line in out["jsonl"].read_text(encoding="utf-8").splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(out["csv"].read_text(encoding="utf-8"))))
    assert [row["reference"] for row in table] == [row["reference"] for row in rows]
    first = next(row for row in table if row["reference"] == f"{LEDGER}#1")
    assert (first["title"], first["description"]) == ('a "b", c', "first\nsecond")
    assert next(row for row in table if row["reference"] == f"{LEDGER}#2")["labels"] == "bug; ui"


def test_filters_and_fields_narrow_what_is_written_to_stdout(filled: Desk) -> None:
    done = filled.spawn("export", "issues", "-p", "console", "--fields", "title,iid", "--format", "jsonl")
    assert [list(json.loads(line)) for line in done.out.splitlines()] == [["title", "iid"]] * 2
    done = filled.spawn("export", "issues", "--state", "closed", "--fields", "reference")
    assert done.out == f"reference\n{LEDGER}#1\n"
    done = filled.spawn("export", "issues", "--label", "bug", "--fields", "reference", "-n", "1")
    assert done.out == f"reference\n{LEDGER}#2\n"


def test_notes_are_exported_with_the_item_they_belong_to(desk: Desk) -> None:
    with desk.world.lock:
        forge = desk.world.gitlab
        forge.add_note(forge.merge_request(CONSOLE, 1), "please *check* this")
    assert desk.run("sync", "--no-embed").code == 0
    notes = [json.loads(line) for line in desk.spawn("export", "notes", "--format", "jsonl").out.splitlines()]
    assert [(note["reference"], note["item"], note["body"]) for note in notes] == [
        (f"{CONSOLE}!1", "mr", "please *check* this")
    ]
    mrs = desk.spawn("export", "mrs", "--fields", "reference,draft").out.splitlines()
    assert len(mrs) == 5
    assert mrs[1].endswith(",false")


def test_an_existing_file_and_stdout_in_robot_mode_are_refused(filled: Desk, tmp_path: Path) -> None:
    target = tmp_path / "issues.csv"
    target.write_text("precious")
    assert filled.robot("export", "issues", "-o", str(target)).code == 2
    assert target.read_text() == "precious"
    assert filled.robot("export", "issues").error["fix"].startswith("add -o FILE")
    assert filled.robot("export", "issues", "-o", str(target), "--force").data["rows"] == 7


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl"])
def test_an_export_that_fails_before_the_first_row_prints_only_its_error(desk: Desk, kind: str) -> None:
    done = desk.spawn("export", "issues", "--format", kind)
    assert (done.code, done.out) == (6, "")
    assert done.err.startswith("error: no database at ")
    assert "Traceback" not in done.err


def test_parquet_keeps_types_or_says_which_extra_is_missing(filled: Desk, tmp_path: Path) -> None:
    target = tmp_path / "issues.parquet"
    done = filled.robot("export", "issues", "-o", str(target))
    if importlib.util.find_spec("pyarrow") is None:
        assert done.error["fix"] == "pip install 'tidelore[parquet]'"
        assert not target.exists()
        return
    parquet = importlib.import_module("pyarrow.parquet")
    table = parquet.read_table(target)
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["iid"] == "int64"
    assert kinds["created_at"] == "timestamp[ms, tz=UTC]"
    assert kinds["labels"].startswith("list<")
    assert table.num_rows == 7
