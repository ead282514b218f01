"""New settings: noticed by time, size or inode; refused ones change nothing."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tidelore.app.wiring import App, SettingsFile
from tidelore.core.config import Config
from tidelore.core.config_file import load_config
from tidelore.service.control import STILL_SECONDS, ConfigReloader, fingerprint


def watch(path: Path) -> ConfigReloader[Config]:
    return ConfigReloader(str(path), lambda: load_config(str(path), {}))


def write(path: Path, text: str, second: int = 0) -> None:
    """Write a file at an instant of its own, whatever the clock of the file system."""
    path.write_text(text)
    os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


def has_changed(watching: ConfigReloader[Config], now: float = 100.0) -> bool:
    """Whether it has changed, for somebody who looks twice, a moment apart."""
    watching.changed(now)
    return watching.changed(now + STILL_SECONDS)


def test_an_untouched_config_file_has_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    assert not has_changed(watching)
    assert not has_changed(watching, 500.0)


def test_a_config_file_is_read_only_after_writing_to_it_has_stopped(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "[http]\nper_page = 50\n")
    watching = watch(path)
    write(path, "", second=1)
    assert not watching.changed(10.0)
    assert not watching.changed(10.0 + STILL_SECONDS / 2)
    write(path, "[http]\nper_page = 60\n", second=2)
    assert not watching.changed(10.0 + STILL_SECONDS), "another file again"
    assert watching.changed(10.0 + 2 * STILL_SECONDS)
    loaded = watching.load()
    assert loaded is not None
    assert loaded.http.per_page == 60


@pytest.mark.parametrize("how", ["time", "size", "inode"])
def test_a_config_change_is_noticed_once(tmp_path: Path, how: str) -> None:
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
    assert has_changed(watching)
    loaded = watching.load()
    assert loaded is not None
    assert loaded.http.per_page in (51, 100)
    assert not has_changed(watching)


def test_an_invalid_config_file_is_reported_once_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    write(path, "[http]\nper_pages = 3\n", second=1)
    assert has_changed(watching)
    with caplog.at_level(logging.ERROR):
        assert watching.load() is None
    (record,) = caplog.records
    assert record.__dict__["event"] == "config_refused"
    assert "per_pages" in record.getMessage()
    assert not has_changed(watching)


def test_removing_and_restoring_the_config_file_are_two_changes(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "")
    watching = watch(path)
    path.unlink()
    assert fingerprint(str(path)) is None
    assert has_changed(watching)
    assert watching.load() is None
    write(path, "", second=9)
    assert has_changed(watching)
    assert watching.load() == Config()


def test_a_program_with_new_settings_still_ends_what_it_could_not_end_before(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, "[http]\nper_page = 50\n")

    def app() -> App:
        return App(load_config(str(path), {}), {}, str(tmp_path / "lore.db"))

    first = app()
    watching = SettingsFile(str(path), app).watch(first, "service", lambda _new: None)
    first.unended["run", 7] = lambda _database: None
    write(path, "[http]\nper_page = 60\n", second=1)
    loaded = watching.load()
    assert loaded is not None
    assert loaded.config.http.per_page == 60
    assert loaded.unended is first.unended
