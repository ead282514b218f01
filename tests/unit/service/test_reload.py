"""New settings: noticed by time, size or inode; refused ones change nothing."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tidelore.config import Config, load_config
from tidelore.service.reload import Reloading, fingerprint


def watch(path: Path) -> Reloading[Config]:
    return Reloading(str(path), lambda: load_config(str(path), {}))


def write(path: Path, text: str, second: int = 0) -> None:
    """Write a file at an instant of its own, whatever the clock of the file system."""
    path.write_text(text)
    os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


def test_an_untouched_file_has_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    assert not watching.changed()
    assert not watching.changed()


@pytest.mark.parametrize("how", ["time", "size", "inode"])
def test_a_change_is_noticed_once(tmp_path: Path, how: str) -> None:
    path = tmp_path / "config.toml"
    write(path, "[http]\nper_page = 50\n")
    watching = watch(path)
    if how == "time":
        write(path, "[http]\nper_page = 51\n", second=1)
    elif how == "size":
        write(path, "[http]\nper_page = 100\n")
    else:
        other = tmp_path / "other"
        write(other, "[http]\nper_page = 51\n")
        other.replace(path)
    assert watching.changed()
    loaded = watching.load()
    assert loaded is not None
    assert loaded.http.per_page in (51, 100)
    assert not watching.changed()


def test_an_invalid_file_is_refused_with_one_line_and_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    write(path, "[http]\nper_pages = 3\n", second=1)
    assert watching.changed()
    with caplog.at_level(logging.ERROR):
        assert watching.load() is None
    (record,) = caplog.records
    assert record.__dict__["event"] == "config_refused"
    assert "per_pages" in record.getMessage()
    assert not watching.changed()


def test_a_file_that_goes_and_comes_back_is_a_change_each_time(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    path.unlink()
    assert fingerprint(str(path)) is None
    assert watching.changed()
    assert watching.load() is None
    write(path, "", second=9)
    assert watching.changed()
    assert watching.load() == Config()
