"""A forge that only the registry names is configured, checked, listed, served and mirrored like the others.

Over real HTTP and with the real command line, in this process or in one that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.source_houses import PROJECT, ToyHouse
from tests.support.deep import gate_cases
from tests.support.fork_server import fork_script
from tests.toy.source import TOY, ToyHost

from tidelore.app.positions import source_kinds
from tidelore.app.service_jobs import build_jobs
from tidelore.app.wiring import App, load_settings
from tidelore.cli.main import main
from tidelore.core.config import all_hosts, forge_hosts, override_sync, sync_settings
from tidelore.core.config_file import parse_config
from tidelore.core.errors import ConfigError
from tidelore.engine.crashpoint import Seam
from tidelore.sources.registry import also, host_tables
from tidelore_world.server import serve

DRIVER = Path(__file__).parents[1] / "toy" / "driver.py"
HOST = '[[toy]]\nbase_url = "http://127.0.0.1:9"\n'


@pytest.fixture
def registered() -> Iterator[None]:
    with also(TOY):
        yield


class ServedToy(ToyHouse):
    """A toy tracker on a socket, and the command line beside it."""

    url = ""

    @property
    def config_file(self) -> Path:
        return self.path.with_name("config.toml")

    def configure(self, extra: str = "") -> None:
        self.config_file.write_text(
            f'[http]\nper_page = 3\nmax_retries = 0\n[sync]\nscrub_share = 0\n[embedding]\nprovider = "none"\n'
            f'[[toy]]\nbase_url = "{self.url}"\nprojects = ["{PROJECT}"]\n{extra}'
        )

    def arguments(self, *argv: str) -> list[str]:
        return ["--full", *argv, "--robot", "--config", str(self.config_file), "--db", str(self.path)]


@contextmanager
def served(folder: Path) -> Iterator[ServedToy]:
    house = ServedToy(folder)
    with serve(house.world) as server:
        house.url = server.url
        house.configure()
        yield house


def lore(house: ServedToy, capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    """Run a command here and return its data."""
    capsys.readouterr()
    code = main(house.arguments(*argv))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, document
    found: dict[str, Any] = document["data"]
    return found


# Configuration


@pytest.mark.usefixtures("registered")
def test_a_table_of_a_registered_forge_is_read_with_its_own_defaults() -> None:
    text = f'{HOST}projects = ["harbour/tides"]\ngroups = ["quay"]\n[[toy]]\nname = "two"\nbase_url = "https://b.example"\n'
    config = parse_config(tomllib.loads(text), tables=host_tables)
    first, second = config.others
    assert isinstance(first, ToyHost)
    assert (first.name, first.token_env, second.name) == ("toy", "TOY_TOKEN", "two")
    assert all_hosts(config) == (first, second)
    assert [(host.kind, host.name, host.projects, host.groups) for host in forge_hosts(config)] == [
        ("toy", "toy", ("harbour/tides",), ("quay",))
    ]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        (f"{HOST}project = ['a']", "toy[0].project", "toy[0].projects"),
        (f"{HOST}{HOST}tokn_env = 'a'", "toy[1].tokn_env", "toy[1].token_env"),
        ("[[toyy]]\n", "toyy", "toy"),
        ("[[gitlb]]\n", "gitlb", "gitlab"),
        (
            f"{HOST}[[toy.overrides]]\nproject = 'a'\nsettle_second = 1",
            "toy[0].overrides[0].settle_second",
            "toy[0].overrides[0].settle_seconds",
        ),
    ],
)
def test_an_unknown_key_beside_a_registered_forge_is_refused_with_the_nearest_one(
    text: str, key: str, nearest: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text), "my.toml", host_tables)
    assert caught.value.message == f"my.toml: unknown key {key}"
    assert caught.value.details == {"file": "my.toml", "key": key, "nearest": nearest}


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (f"{HOST}name = 3", "toy[0].name", "Expected `str`, got `int`"),
        ("[toy]\n", "toy", "Expected `array`, got `object`"),
        ("[[toy]]\n", "toy[0]", "Object missing required field `base_url`"),
        ('[[toy]]\nbase_url = "not a url"', "toy[0].base_url", "not an http(s) URL"),
        (f'[[gitlab]]\nname = "toy"\n{HOST}', "toy[0].name", "'toy' is already used by gitlab[0]"),
        (
            f'{HOST}[[toy.overrides]]\nproject = "a"\n',
            "toy[0].overrides[0].project",
            "'a' is not a project of this host",
        ),
    ],
)
def test_a_wrong_value_in_a_table_of_a_registered_forge_is_named_by_its_whole_key(
    text: str, key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(tomllib.loads(text), "my.toml", host_tables)
    assert caught.value.message == f"my.toml: {key}: {message}"


@pytest.mark.usefixtures("registered")
def test_a_token_in_a_table_of_a_registered_forge_is_refused() -> None:
    with pytest.raises(ConfigError, match="tokens must not be stored in this file"):
        parse_config(tomllib.loads(f'{HOST}token = "x"'), tables=host_tables)


def test_a_table_of_a_forge_that_is_not_registered_is_an_unknown_key() -> None:
    with pytest.raises(ConfigError, match="unknown key toy"):
        parse_config(tomllib.loads(HOST), tables=host_tables)


def test_the_hosts_of_other_forges_cannot_be_written_under_the_name_of_their_field() -> None:
    with pytest.raises(ConfigError, match="unknown key others"):
        parse_config({"others": []}, tables=host_tables)


@pytest.mark.usefixtures("registered")
def test_the_overrides_of_a_registered_forge_apply_to_its_projects_and_give_way_to_the_command() -> None:
    text = f'{HOST}projects = ["a"]\n[[toy.overrides]]\nproject = "a"\nfetch_mr_diffs = true\nsettle_seconds = 5\n'
    config = parse_config(tomllib.loads(text), tables=host_tables)
    assert sync_settings(config, "toy", "a").settle_seconds == 5
    assert sync_settings(config, "toy", "b").settle_seconds == config.sync.settle_seconds
    assert not sync_settings(override_sync(config, fetch_mr_diffs=False), "toy", "a").fetch_mr_diffs


# Commands


@pytest.mark.usefixtures("registered")
def test_doctor_checks_its_credentials_its_projects_and_its_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as house:
        house.configure('groups = ["harbour"]\n')
        house.world.clock.now_us = App(house.config(), {}).clock.now_ms() * 1000
        found = lore(house, capsys, "doctor")["findings"]
        told = {one["subject"]: one["detail"] for one in found}
        assert told[f"toy ({house.url})"] == "signed in as reader"
        assert told[f"toy {PROJECT}"] == "id 70"
        assert told["toy group harbour"] == "1 project"


@pytest.mark.usefixtures("registered")
def test_sync_show_search_audit_and_sources_work_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as house:
        number = house.open("Bollard torque", "the mooring winch slips")
        house.say(number, "grease the hawser drum")
        house.world.advance(600)
        lore(house, capsys, "sync", "--no-embed")
        assert house.copy() == house.truth()
        assert lore(house, capsys, "show", "issue", f"{PROJECT}#{number}")["title"] == "Bollard torque"
        assert lore(house, capsys, "show", "issue", f"{house.url}/{PROJECT}/issues/{number}")["iid"] == number
        (hit,) = lore(house, capsys, "search", "hawser", "--mode", "lexical")["items"]
        assert hit["reference"] == f"{PROJECT}#{number}"
        (source,) = lore(house, capsys, "sources")["items"]
        assert (source["source"], source["kind"], source["path"]) == ("toy", "toy", PROJECT)
        assert lore(house, capsys, "audit", "toy")["differences"] == []
        house.edit(number, "newer")
        lore(house, capsys, "sync", "--issue", f"{PROJECT}#{number}", "--no-embed")
        assert house.copy() == house.truth()


@pytest.mark.usefixtures("registered")
def test_a_kind_of_item_that_a_forge_does_not_have_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as house:
        code = main(house.arguments("sync", "--mr", f"{PROJECT}!1", "--no-embed"))
        outcome = json.loads(capsys.readouterr().out)
    assert code != 0
    assert "toy has no merge requests" in json.dumps(outcome)


@pytest.mark.usefixtures("registered")
def test_the_service_syncs_it_and_shows_it_by_its_title(tmp_path: Path) -> None:
    house = ServedToy(tmp_path)
    house.url = "http://127.0.0.1:9"
    house.configure()
    config = load_settings(str(house.config_file), {})
    app = App(config, {}, str(house.path))
    with house.database() as database:
        specs = [job.spec for job in build_jobs(app, database)]
    assert [(spec.name, spec.source, spec.kind) for spec in specs if spec.source == "toy"] == [
        ("toy:toy", "toy", "sync")
    ]
    assert source_kinds(config) == {"toy": "Toy tracker"}


@pytest.mark.usefixtures("registered")
def test_a_host_without_a_token_is_closed_and_named_in_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOY_TOKEN", raising=False)
    house = ServedToy(tmp_path)
    house.url = "https://toy.invalid"
    house.configure()
    code = main(house.arguments("sync", "--no-embed"))
    error = json.loads(capsys.readouterr().out)["error"]
    assert (code != 0, error["code"]) == (True, "CREDENTIALS_MISSING")
    assert "TOY_TOKEN" in error["fix"]


# A real process, killed


@pytest.mark.parametrize(
    ("seam", "visit"),
    [(Seam.AFTER_FETCH, 2), (Seam.INSIDE_COMMIT, 2), (Seam.AFTER_COMMIT, 4), (Seam.BEFORE_FINISH, 1)],
)
@gate_cases(2)
def test_a_killed_process_loses_nothing_and_the_next_one_completes_the_copy(
    tmp_path: Path, seam: Seam, visit: int
) -> None:
    with served(tmp_path) as house:
        for place in range(7):
            house.say(house.open(f"crane {place}"), f"about crane {place}")
            house.world.advance(10)
        house.world.advance(600)

        def run(*instant: str) -> tuple[int, str]:
            words = [*instant, "--", *house.arguments("sync", "--no-embed")]
            process = fork_script(DRIVER, words, {**os.environ, "HOME": str(tmp_path)})
            out, err = process.communicate(60)
            return process.wait(60), out + err

        code, told = run(seam.value, str(visit), str(int(signal.SIGKILL)))
        assert code == -signal.SIGKILL, told
        true_titles = {number: shown[0] for number, shown in house.truth().items()}
        titles = {number: shown[0] for number, shown in house.copy().items()}
        assert titles.items() <= true_titles.items()
        code, told = run(seam.value, "0", "0")
        assert code == 0, told
        assert house.copy() == house.truth()
        assert house.problems() == []
