"""A suite is left out of the gate exactly while the files it depends on are those of the last full run."""

from __future__ import annotations

from pathlib import Path

from tests.support.proven import SUITES, is_proven, write_record


def test_a_suite_is_proven_until_a_file_it_depends_on_changes_appears_or_goes(tmp_path: Path) -> None:
    record = tmp_path / "proven.json"
    world = tmp_path / "src" / "tidelore_world"
    world.mkdir(parents=True)
    (world / "clock.py").write_text("a = 1")
    assert not any(is_proven(suite, record, tmp_path) for suite in SUITES)
    write_record(record, tmp_path)
    assert all(is_proven(suite, record, tmp_path) for suite in SUITES)
    for change in (
        lambda: (world / "clock.py").write_text("a = 2"),
        lambda: (world / "new.py").write_text(""),
        lambda: (world / "new.py").rename(world / "other.py"),
        lambda: (world / "other.py").unlink(),
    ):
        change()
        assert not is_proven("tests/world", record, tmp_path)
        write_record(record, tmp_path)
