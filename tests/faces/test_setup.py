"""The first minutes: `init` and `doctor`."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tomllib
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.faces.desk import COMMAND, CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.cli.main import main
from tidelore.core.config_file import load_config
from tidelore.store.database.migrate import own_versions

ROOT = Path(__file__).parents[2]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_writes_a_private_file_that_can_be_read_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["init", "--gitlab-url", "https://git.example.com", "--token-env", "MINE", "-p", "a/b", "-p", "c/d"]) == 0
    )
    path = home / ".config" / "tidelore" / "config.toml"
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    host = load_config(None, {"HOME": str(home)}).gitlab[0]
    assert (host.base_url, host.token_env, host.projects) == ("https://git.example.com", "MINE", ("a/b", "c/d"))
    shown = capsys.readouterr().out
    assert str(path) in shown
    assert "export MINE=" in shown


def test_init_with_repositories_alone_configures_only_github(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--github-repo", "octo/tide", "--github-repo", "octo/crane"]) == 0
    config = load_config(None, {"HOME": str(home)})
    assert config.gitlab == ()
    assert [repo.name for repo in config.github[0].repos] == ["octo/tide", "octo/crane"]
    shown = capsys.readouterr().out
    assert ("export GITHUB_TOKEN=" in shown, "GITLAB" in shown) == (True, False)


@pytest.mark.parametrize(("more", "gitlab", "github"), [([], None, "MINE"), (["-p", "a/b"], "MINE", "GITHUB_TOKEN")])
def test_init_writes_the_token_variable_to_the_host_it_is_for(
    home: Path, capsys: pytest.CaptureFixture[str], more: list[str], gitlab: str | None, github: str
) -> None:
    assert main(["init", "--github-repo", "octo/tide", "--token-env", "MINE", *more]) == 0
    config = load_config(None, {"HOME": str(home)})
    assert [host.token_env for host in config.gitlab] == ([] if gitlab is None else [gitlab])
    assert config.github[0].token_env == github
    exports = re.findall(r"export (\w+)=", capsys.readouterr().out)
    assert exports == [name for name in (gitlab, github) if name]


def test_init_to_a_folder_is_refused_without_advising_to_overwrite_it(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--config", str(tmp_path)]) == 2
    assert "--overwrite" not in capsys.readouterr().err


STEPS = ("lore doctor", "lore sync", "lore search")


def test_init_readme_and_guide_advise_the_same_first_steps(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "-p", "a/b"]) == 0
    texts = [capsys.readouterr().out]
    texts += [(ROOT / page).read_text() for page in ("README.md", "docs/guides/first-sync.md")]
    for text in texts:
        found = re.findall(r"^ *(lore (?:doctor|sync|search|ingest|poll))\b", text, re.MULTILINE)
        assert tuple(dict.fromkeys(found))[:3] == STEPS


def test_no_message_advises_to_ingest_one_list(home: Path) -> None:
    sources = [
        path for path in (ROOT / "src" / "tidelore").rglob("*.py") if path.name not in {"ingest.py", "recovery.py"}
    ]
    advice = re.compile(r"(run|with|fetch it with:?) `lore ingest")
    assert [path.name for path in sources if advice.search(path.read_text())] == []


def test_before_init_the_missing_copy_is_explained_by_init_and_later_by_sync(
    desk: Desk, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "issues"]) == 6
    assert "run `lore init` and `lore sync` first" in capsys.readouterr().err
    assert desk.robot("list", "issues").error["fix"].startswith("run `lore sync` first")


def test_with_a_file_that_names_no_project_a_sync_does_not_advise_init_which_would_refuse(desk: Desk) -> None:
    desk.config.unlink()
    assert desk.run("init", "--no-input").code == 0
    fix = desk.robot("sync").error["fix"]
    assert "lore init" not in fix
    assert "add your projects under [[gitlab]]" in fix


def test_init_writes_to_the_given_path(desk: Desk, home: Path) -> None:
    desk.config.unlink()
    assert desk.robot("init").data == {"path": str(desk.config), "projects": [], "repos": []}
    assert not (home / ".config").exists()


def test_init_refuses_to_overwrite_without_the_flag(desk: Desk) -> None:
    before = desk.config.read_text()
    desk.config.chmod(0o644)
    done = desk.robot("init", "-p", "a/b")
    assert done.code == 2
    assert done.error["code"] == "USAGE"
    assert desk.config.read_text() == before
    assert desk.robot("init", "-p", "a/b", "--overwrite").code == 0
    assert tomllib.loads(desk.config.read_text())["gitlab"][0]["projects"] == ["a/b"]
    assert mode(desk.config) == 0o600


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://git.example.com", "http://[::1", "https://", "https://host:port", "https://host?x=1"]
)
def test_init_with_an_invalid_url_writes_no_file(tmp_path: Path, home: Path, url: str) -> None:
    path = tmp_path / "new" / "config.toml"
    assert main(["init", "--gitlab-url", url, "--config", str(path)]) == 2
    assert not path.parent.exists()


def test_init_with_an_invalid_url_does_not_change_an_existing_file(desk: Desk) -> None:
    before = desk.config.read_bytes()
    assert desk.run("init", "--gitlab-url", "nonsense", "--overwrite").code == 2
    assert desk.config.read_bytes() == before


def test_init_refuses_a_url_with_a_password_without_quoting_it(desk: Desk) -> None:
    done = desk.run("init", "--overwrite", "--gitlab-url", "https://me:hunter2@git.example.com")
    assert done.code == 2
    assert "hunter2" not in done.out + done.err


def test_init_refuses_a_token_given_as_variable_name_without_quoting_it(desk: Desk) -> None:
    done = desk.run("init", "--overwrite", "--token-env", "glpat-abcdefghij0123456789")
    assert done.code == 2
    assert "glpat" not in done.out + done.err + desk.config.read_text()


@pytest.mark.parametrize("name", ["grüppe/projekt", "日本/語", "g/😀", 'g/a"b\\c', "g/tab\tand\x7f"])
def test_init_keeps_every_character_of_a_project(desk: Desk, name: str) -> None:
    # An answer holds no control characters; the file is what counts.
    assert desk.robot("init", "--overwrite", "-p", name).data["projects"] == [name.replace("\x7f", "")]
    assert tomllib.loads(desk.config.read_text())["gitlab"][0]["projects"] == [name]


def test_init_refuses_the_address_of_another_kind_of_database(home: Path) -> None:
    assert main(["init", "--db", "mysql://db/lore", "-p", "a/b"]) == 2
    assert not (home / ".config").exists()


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@db/lore", "postgresql://db/lore?password=hunter2"])
def test_init_refuses_a_database_address_with_a_password_without_quoting_it(
    home: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert main(["init", "--db", url, "-p", "a/b"]) == 2
    told = capsys.readouterr()
    assert "hunter2" not in told.out + told.err
    assert "PGPASSWORD" in told.err
    assert not (home / ".config").exists()


@pytest.mark.parametrize(
    ("given", "written"), [("postgresql://me@db/lore", "postgresql://me@db/lore"), ("here.db", "{folder}/here.db")]
)
def test_init_writes_the_database_that_it_was_given(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--db", given, "-p", "a/b"]) == 0
    assert load_config(None, {"HOME": str(home)}).storage.path == written.format(folder=tmp_path)


def test_init_and_sync_refuse_a_gitlab_project_without_a_group(desk: Desk) -> None:
    before = desk.config.read_text()
    done = desk.robot("init", "--overwrite", "-p", "nogroup")
    assert (done.code, done.error["details"]["key"]) == (2, "gitlab[0].projects[0]")
    assert '"group/nogroup"' in done.error["fix"]
    assert desk.config.read_text() == before
    desk.config.write_text('[[gitlab]]\nprojects = ["nogroup"]\n')
    assert desk.robot("sync").error["details"]["key"] == "gitlab[0].projects[0]"


@pytest.mark.parametrize(
    "text", ['[[gitlab]]\ngroups = ["acme"]\nprojects = ["4102", "a/b/c"]', '[[github]]\norgs = ["acme"]']
)
def test_names_of_groups_and_organisations_and_ids_of_projects_have_no_slash(desk: Desk, text: str) -> None:
    desk.config.write_text(text)
    assert desk.robot("doctor", "--offline").code == 0


def test_a_gitlab_url_beside_repositories_configures_gitlab_too(home: Path) -> None:
    assert main(["init", "--gitlab-url", "https://git.example.com", "--github-repo", "octo/tide"]) == 0
    config = load_config(None, {"HOME": str(home)})
    assert [host.base_url for host in config.gitlab] == ["https://git.example.com"]
    assert [repo.name for repo in config.github[0].repos] == ["octo/tide"]


def ask_init(home: Path, *options: str, answers: str = "") -> tuple[int, str]:
    """Run `lore init` on a terminal; return its exit code and what the terminal shows."""
    ours, theirs = os.openpty()
    words = [*COMMAND, "init", *options]
    environ = {**os.environ, "HOME": str(home), "TERM": "dumb"}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True)
    os.close(theirs)
    os.write(ours, answers.encode())
    shown = b""
    with suppress(OSError):  # EIO: the program has ended
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    return process.wait(30), shown.decode()


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ("\na/b c/d\n\n", [("gitlab", "https://gitlab.com", ("a/b", "c/d"), "GITLAB_TOKEN")]),
        ("https://git.example.com\nnogroup\na/b\nMINE\n", [("gitlab", "https://git.example.com", ("a/b",), "MINE")]),
        ("gitea\ngithub\nocto/tide\n\n", [("github", "https://api.github.com", ("octo/tide",), "GITHUB_TOKEN")]),
        ("\na/b\nglpat-0123456789\nMINE\n", [("gitlab", "https://gitlab.com", ("a/b",), "MINE")]),
    ],
)
def test_init_on_a_terminal_asks_what_to_mirror(
    home: Path, answers: str, wanted: list[tuple[str, str, tuple[str, ...], str]]
) -> None:
    code, shown = ask_init(home, answers=answers)
    assert code == 0, shown
    found = load_config(None, {"HOME": str(home)})
    hosts = [*found.gitlab, *found.github]
    assert [(one.kind, one.base_url, one.configured, one.token_env) for one in hosts] == wanted


@pytest.mark.parametrize("options", [("--no-input",), ("--robot",), ("-p", "a/b")])
def test_init_on_a_terminal_does_not_ask_what_options_answer(home: Path, options: tuple[str, ...]) -> None:
    code, shown = ask_init(home, *options)
    assert (code, "Forge" in shown) == (0, False)


def test_init_that_was_interrupted_while_it_asked_writes_no_file(home: Path) -> None:
    code, shown = ask_init(home, answers="\n\x04")
    assert code == 130, shown
    assert not (home / ".config").exists()


def test_init_in_a_read_only_folder_reports_it(desk: Desk) -> None:
    (desk.folder / "file").write_text("")
    done = main(["init", "--config", str(desk.folder / "file" / "config.toml")])
    out, err = desk.read()
    assert done == 1
    assert "cannot write" in err
    assert out == ""


def test_doctor_passes_on_a_working_setup(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ingested()
    desk.set_clock()
    monkeypatch.setenv("GITLAB_TOKEN", "a-token-that-works")
    desk.world.gitlab.token = "a-token-that-works"
    findings = desk.robot("doctor").data["findings"]
    assert all(found["ok"] for found in findings)
    assert [found["subject"] for found in findings][2:] == [
        f"gitlab ({desk.url})",
        f"gitlab {LEDGER}",
        f"gitlab {CONSOLE}",
    ]
    assert "signed in as " in findings[2]["detail"]
    assert findings[2]["detail"].endswith("discussions by GraphQL (complexity limit 250)")
    assert "BAD" not in desk.run("doctor").out


def test_doctor_needs_no_token_for_a_host_on_this_machine(desk: Desk) -> None:
    desk.set_clock()
    findings = desk.robot("doctor").data["findings"]
    assert "reachable without a token" in findings[2]["detail"]
    assert "discussions by REST (GraphQL allows too little without a token)" in findings[2]["detail"]


@pytest.mark.parametrize("why", ['graphql = "off" in the configuration', "GraphQL is refused (status 404)"])
def test_doctor_says_why_discussions_are_read_by_rest(desk: Desk, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    desk.set_clock()
    monkeypatch.setenv("GITLAB_TOKEN", "a-token-that-works")
    if "off" in why:
        desk.config.write_text(desk.config.read_text().replace("[[gitlab]]", '[[gitlab]]\ngraphql = "off"'))
    else:
        desk.world.gitlab.graphql_status = 404
    found = desk.robot("doctor").data["findings"][2]
    assert found["ok"]
    assert found["detail"].endswith(f"discussions by REST ({why})")


def test_doctor_reports_a_server_clock_that_is_far_off_with_a_fix(desk: Desk) -> None:
    # The world's clock stands in March 2026; whatever the date is here, that is not now.
    done = desk.robot("doctor")
    assert done.code == 1
    (found,) = [found for found in done.document["data"]["findings"] if not found["ok"]]
    assert found["subject"] == f"gitlab ({desk.url}) clock"
    assert "differs from the clock of this machine by" in found["detail"]
    assert "NTP" in found["fix"]
    desk.set_clock()
    assert desk.robot("doctor").code == 0


def test_doctor_reports_a_wrong_token(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.world.gitlab.token = "the-right-token"
    monkeypatch.setenv("GITLAB_TOKEN", "the-wrong-token")
    done = desk.robot("doctor")
    assert done.code == 4
    assert done.error["code"] == "CREDENTIALS_REJECTED"
    assert done.error["fix"]
    assert [found["ok"] for found in done.document["data"]["findings"]] == [True, True, False]


def test_doctor_reports_a_missing_gitlab_token(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    desk.configure(LEDGER, url="https://gitlab.invalid")
    done = desk.robot("doctor")
    assert done.code == 4
    assert done.error["code"] == "CREDENTIALS_MISSING"
    assert "GITLAB_TOKEN" in done.error["fix"]


def test_doctor_reports_an_unreachable_host(desk: Desk) -> None:
    desk.configure(LEDGER, url="http://127.0.0.1:9")
    done = desk.robot("doctor")
    assert done.code == 1
    assert done.error["code"] == "REMOTE_UNAVAILABLE"
    assert done.error["retryable"]


def test_doctor_asks_a_failing_host_twice_however_often_a_sync_would(desk: Desk) -> None:
    text = desk.config.read_text().replace("max_retries = 0", "max_retries = 9\nretry_backoff_seconds = 0.01")
    desk.config.write_text(text)
    fault = desk.world.faults.add("status", "GET /api/v4/projects", times=None, status=503)
    assert desk.robot("doctor").code == 1
    assert fault.fired == 2


def test_doctor_reports_a_missing_project_and_continues(desk: Desk) -> None:
    desk.configure("harbor/nowhere", CONSOLE)
    desk.set_clock()
    done = desk.robot("doctor")
    assert done.code == 6
    assert done.error["code"] == "REMOTE_NOT_FOUND"
    assert [found["ok"] for found in done.document["data"]["findings"]] == [True, True, True, False, True]
    missing = done.document["data"]["findings"][3]
    assert f"{desk.url}/api/v4/projects/harbor%2Fnowhere" in missing["detail"], "it says what was asked"
    assert "projects" in missing["fix"]
    assert "token" in missing["fix"]


def test_doctor_with_a_wrong_url_reports_the_requested_url_and_a_fix(desk: Desk) -> None:
    desk.configure(LEDGER, url=f"{desk.url}/some/where")
    done = desk.run("doctor")
    assert done.code == 6
    assert f"status 404): {desk.url}/some/where/api/v4/" in done.out
    assert "fix: check base_url" in done.out


def test_doctor_logs_its_requests_when_it_is_verbose(desk: Desk) -> None:
    assert f"GET {desk.url}/api/v4/projects" in desk.run("doctor", "--verbose").err
    assert "GET " not in desk.run("doctor").err


def with_groups(desk: Desk, *groups: str, extra: str = "") -> None:
    listed = ", ".join(f'"{group}"' for group in groups)
    desk.config.write_text(
        f'[[gitlab]]\nbase_url = "{desk.url}"\ngroups = [{listed}]\n{extra}\n[http]\nmax_retries = 0\n'
    )


def test_doctor_counts_the_projects_of_a_group_and_names_the_archived_ones(desk: Desk) -> None:
    desk.world.gitlab.archive_project(CONSOLE)
    desk.set_clock()
    with_groups(desk, "harbor", "harbor/platform")
    findings = {found["subject"]: found["detail"] for found in desk.robot("doctor").data["findings"]}
    assert findings["gitlab group harbor"] == f"2 projects, archived and skipped: {CONSOLE}"
    assert findings["gitlab group harbor/platform"] == "1 project"
    with_groups(desk, "harbor", extra="include_archived = true")
    assert f"gitlab group harbor: 2 projects, archived: {CONSOLE}\n" in desk.run("doctor").out


def test_doctor_marks_an_archived_project(desk: Desk) -> None:
    desk.world.gitlab.archive_project(CONSOLE)
    desk.set_clock()
    findings = {found["subject"]: found["detail"] for found in desk.robot("doctor").data["findings"]}
    assert findings[f"gitlab {CONSOLE}"].endswith(", archived and skipped")
    assert "archived" not in findings[f"gitlab {LEDGER}"]


def test_doctor_reports_a_missing_group_and_continues(desk: Desk) -> None:
    with_groups(desk, "nowhere", "harbor")
    desk.set_clock()
    done = desk.robot("doctor")
    assert done.code == 6
    assert done.error["details"]["group"] == "nowhere"
    assert [found["ok"] for found in done.document["data"]["findings"]] == [True, True, True, False, True]


def test_doctor_checks_every_host(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    desk.set_clock()
    desk.configure(LEDGER, extra='[[gitlab]]\nname = "closed"\nbase_url = "https://gitlab.invalid"\n')
    done = desk.robot("doctor")
    assert done.code == 4
    subjects = {found["subject"]: found["ok"] for found in done.document["data"]["findings"]}
    assert subjects[f"gitlab {LEDGER}"]
    assert not subjects["closed (https://gitlab.invalid)"]


def test_doctor_reports_a_database_readable_by_others(desk: Desk) -> None:
    desk.ingested()
    assert mode(desk.db) == 0o600
    desk.db.chmod(0o644)
    done = desk.robot("doctor", "--offline")
    assert done.code == 1
    assert done.error["fix"] == f"chmod 600 {desk.db}"


HANDLER = '[[github]]\nrepos = [{name = "harborline/ledger"}]\nhandler = ["/usr/bin/true"]\n'


@pytest.mark.parametrize(
    ("bits", "extra", "sound"),
    [
        (0o600, HANDLER, True),
        (0o644, HANDLER, True),
        (0o666, HANDLER, False),
        (0o664, HANDLER, False),
        (0o602, "", False),
        (0o664, "", True),
    ],
)
def test_doctor_fails_on_a_config_file_writable_by_others(desk: Desk, bits: int, extra: str, sound: bool) -> None:
    desk.configure(LEDGER, extra=extra)
    desk.config.chmod(bits)
    done = desk.robot("doctor", "--offline")
    assert (done.code == 0) == sound
    if not sound:
        assert done.error["code"] == "CONFIG_INVALID"
        assert done.error["fix"] == f"chmod 600 {desk.config}"
        assert ("a program" in done.error["message"]) == bool(extra)


def test_doctor_offline_sends_no_request(desk: Desk) -> None:
    assert desk.robot("doctor", "--offline").code == 0
    assert desk.world.requests.total() == 0


def test_doctor_reports_a_broken_config(desk: Desk) -> None:
    desk.config.write_text("[htp]\n")
    done = desk.robot("doctor")
    assert done.code == 2
    assert done.error["details"] == {"file": str(desk.config), "key": "htp", "nearest": "http"}


def test_init_db_prepares_a_database_with_which_a_role_without_create_rights_can_work(
    desk: Desk, capsys: pytest.CaptureFixture[str], postgres_address: str
) -> None:
    answers = []
    for _ in range(2):
        assert main(["init-db", "--robot", "--full", "--db", postgres_address]) == 0
        answers.append(json.loads(capsys.readouterr().out)["data"])
    compare("init-db", answers[0])
    assert [(one["applied"], one["queue"]) for one in answers] == [(sorted(own_versions()), "created"), ([], "present")]
    role = f"writer_{os.getpid()}"
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        for schema in ("public", "lore_queue"):
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
            connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
        try:
            theirs = make_conninfo(postgres_address, user=role, password="")
            address = "postgresql:///?" + urlencode(conninfo_to_dict(theirs))
            words = ["worker", "--once", "--config", str(desk.config), "--db", address]
            assert main(words) == 0, capsys.readouterr().err
            assert connection.execute("SELECT COUNT(*) > 0 FROM issues").fetchone() == (True,)
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


def test_init_db_creates_a_file_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "new" / "lore.db"
    latest = max(own_versions())
    for applied in (latest, 0):
        assert main(["init-db", "--db", str(path)]) == 0
        assert capsys.readouterr().out == f"{path}: schema version {latest}, {applied} migrations applied.\n"
