"""A token in the environment appears in no output of any command, in no mode, however the server provokes it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.faces.desk import LEDGER, Desk, Outcome
from tests.support.deep import gate_cases

from tidelore.store.database.opening import open_database

TOKEN = "s3cr3t/Tok+en=value"
MODES = [[], ["--verbose"], ["--robot"], ["--robot", "--verbose"], ["--quiet"]]
READS = [["count"], ["sync-status"], ["cursors", "list"], ["cursors", "show", "gitlab.issues", "ledger"], ["check"]]
ACTS = [["doctor"], ["ingest", "--type", "issues"], ["scrub", "--all"]]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
    desk.world.gitlab.token = TOKEN


def assert_silent(done: Outcome) -> None:
    for form in (TOKEN, quote(TOKEN, safe=""), quote(TOKEN)):
        assert form not in done.out
        assert form not in done.err


@pytest.mark.parametrize("mode", MODES, ids=" ".join)
@gate_cases(2)
def test_no_successful_command_prints_the_token(desk: Desk, mode: list[str]) -> None:
    for argv in [*ACTS, *READS, ["cursors", "reset", "gitlab.issues", "ledger", "--yes"], ["init"], ["cuont"]]:
        assert_silent(desk.run(*argv, *mode))
    shown = desk.run("ingest", "--type", "issues", *mode)
    assert_silent(shown)
    assert ("GET http://127.0.0.1" in shown.err) == ("--verbose" in mode)
    # The token did travel: the world answers nobody else.
    assert desk.query("SELECT COUNT(*) FROM issues")[0][0] == 7


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@gate_cases(2)
def test_no_command_prints_a_token_echoed_by_the_server(desk: Desk, status: int) -> None:
    desk.ingested()
    message = f"who is {TOKEN}? private_token={quote(TOKEN, safe='')} PRIVATE-TOKEN: {TOKEN}"
    fault = desk.world.faults.add("status", times=None, status=status, message=message, retry_after=3600)
    for mode in MODES:
        for argv in ACTS:
            _forget_pauses(desk)
            done = desk.run(*argv, *mode)
            assert done.code != 0, (argv, mode)
            assert_silent(done)
    assert fault.fired >= len(ACTS) * len(MODES)


def _forget_pauses(desk: Desk) -> None:
    """Let the next command ask again, although the server asked for a pause."""
    database = open_database(str(desk.db), create=False)
    try:
        with database.transaction() as tx:
            tx.execute("DELETE FROM source_pauses")
    finally:
        database.close()


def test_a_next_link_with_the_token_does_not_put_it_into_a_log(desk: Desk) -> None:
    desk.world.gitlab.foreign_next_link = f"http://127.0.0.1:9/steal?private_token={quote(TOKEN, safe='')}"
    desk.configure(LEDGER, extra="per_page = 2\n")
    for mode in MODES:
        done = desk.run("ingest", "--type", "issues", "--full", *mode)
        assert done.code == 0
        assert_silent(done)
    assert_silent(desk.robot("sync-status"))
    assert desk.robot("count", "issues").data["issues"]["total"] == 5


def test_the_database_does_not_contain_the_token(desk: Desk) -> None:
    desk.ingested()
    for path in desk.folder.glob("lore.db*"):
        assert TOKEN.encode() not in path.read_bytes()


@pytest.mark.parametrize("value", ["two\nlines-of-a-token", "tökén-with-umlauts", "abc123def 456ghi789"])
def test_an_invalid_token_is_not_quoted_in_the_error(desk: Desk, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GITLAB_TOKEN", value)
    for mode in MODES:
        done = desk.run("ingest", "--type", "issues", *mode)
        assert done.code == 4
        for part in value.split():
            assert part == "two" or part not in done.out + done.err


def test_a_password_in_a_database_url_is_not_printed(desk: Desk) -> None:
    from tidelore.cli.main import main

    for argv in (["count"], ["doctor", "--offline"], ["check"], ["ingest", "--type", "issues"]):
        for mode in MODES:
            desk.read()
            code = main([*argv, *mode, "--config", str(desk.config), "--db", "postgresql://me:hunter2@127.0.0.1:9/x"])
            assert code == 1
            assert "hunter2" not in "".join(desk.read())


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:pass/hunter2@127.0.0.1:9/x",
        "postgresql://me:pa@ss/hunter2@127.0.0.1:9/x",
        "postgresql://me:pass@hunter2@127.0.0.1:9/x",
        "postgresql://me:pass%hunter2@127.0.0.1:9/x",
        "postgresql://me:pass hunter2@127.0.0.1:9/x",
        "postgresql://me:pass[hunter2@127.0.0.1:9/x",
        "postgresql://me:pass?hunter2@127.0.0.1:9/x",
        "postgresql://me:pass#hunter2@127.0.0.1:9/x",
        "postgresql://me:a/1?hunter2=b@127.0.0.1:9/x",
        "postgresql://127.0.0.1:9/x?passwort=hunter2",
        "postgresql+psycopg://me:hunter2@127.0.0.1:9/x",
        "Postgres://me:hunter2@127.0.0.1:9/x",
    ],
)
def test_a_password_with_unescaped_signs_is_not_printed(desk: Desk, address: str) -> None:
    from tidelore.cli.main import main

    for argv in (["count"], ["doctor", "--offline"], ["ingest", "--type", "issues"]):
        for mode in MODES:
            desk.read()
            code = main([*argv, *mode, "--config", str(desk.config), "--db", address])
            said = "".join(desk.read())
            assert code in (1, 2)
            assert "hunter2" not in said
            assert "Traceback" not in said
    assert not list(desk.folder.rglob("*hunter2*"))
