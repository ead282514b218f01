"""Operator commands: the grammar, who may give them, when they are too old."""

from __future__ import annotations

import pytest

from tidelore.feedback.commands import COMMANDS, Command, authorise, help_text, is_command, is_expired, parse_command


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/lore status", Command("status", {})),
        ("/lore", Command("help", {})),
        ("/lore \t ", Command("help", {})),
        ("/lore Unblock\nplease", Command("unblock", {})),
        ("/lore unblock pr=12 head_sha=ABCDEF1\r\nand so on", Command("unblock", {"pr": "12", "head_sha": "abcdef1"})),
        ("/lore\tretry\tissue=7", Command("retry", {"issue": "7"})),
        ('/lore pause pr="12"', Command("pause", {"pr": "12"})),
        ("/lore resume 'pr=12'", Command("resume", {"pr": "12"})),
        ("/lore sync PR=3", Command("sync", {"pr": "3"})),
    ],
)
def test_a_command_is_parsed_from_the_first_line(body: str, command: Command) -> None:
    assert parse_command(body, "/lore") == command


@pytest.mark.parametrize(
    "body",
    [
        "",
        "lore status",
        "/lorestatus",
        "/lore-status",
        "/LORE status",
        " /lore status",
        "\n/lore status",
        "> /lore status",
    ],
)
def test_text_without_the_exact_command_prefix_is_not_a_command(body: str) -> None:
    assert parse_command(body, "/lore") is None
    assert not is_command(body, "/lore")


def test_the_command_prefix_is_configurable() -> None:
    assert parse_command("/mergexo unblock", "/mergexo") == Command("unblock", {})
    assert parse_command("/lore unblock", "/mergexo") is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("explode", "unknown command 'explode'"),
        ("unblock now", "'now' is not of the form key=value"),
        ("unblock issue=7", "`unblock` takes pr=, head_sha=, not 'issue'"),
        ("help pr=7", "`help` takes no keys, not 'pr'"),
        ("unblock pr=1 pr=2", "pr= is given twice"),
        ("unblock pr=0", "pr= takes the number of a pull request, not '0'"),
        ("unblock pr=-3", "pr= takes the number of a pull request, not '-3'"),
        ("unblock pr=٣", "pr= takes the number of a pull request, not '٣'"),
        ("retry issue=", "issue= takes the number of an issue, not ''"),
        ("unblock head_sha=main", "head_sha= takes a commit, 7 to 64 hex digits, not 'main'"),
        ('pause pr="12', "could not parse the line: no closing quotation"),
        ("pause \\", "could not parse the line: no escaped character"),
        ("x" * 1_000_000, "a command has at most 1,000 characters"),
    ],
)
def test_an_invalid_command_gives_the_reason_and_no_arguments(line: str, problem: str) -> None:
    command = parse_command(f"/lore {line}", "/lore")
    assert command is not None
    assert command.problem == problem
    assert command.args == {}


def test_an_unknown_command_name_is_shortened_and_its_mentions_are_defused() -> None:
    command = parse_command(f"/lore @everyone`<b>\x07{'x' * 500}", "/lore")
    assert command is not None
    assert command.name.startswith("?everyone??b??xxx")
    assert len(command.name) == 61


def test_help_names_every_command_with_its_keys() -> None:
    text = help_text("/mergexo")
    assert all(f"`/mergexo {name}" in text for name in COMMANDS)
    assert "`/mergexo unblock [pr=…] [head_sha=…]`" in text


@pytest.mark.parametrize(
    ("author", "flagged", "permission"),
    [
        ("operator", False, "allowed"),
        ("OPERATOR", False, "allowed"),
        ("stranger", False, "refused"),
        ("operator", True, "ignored"),
        ("ci[bot]", False, "ignored"),
        (None, False, "ignored"),
    ],
)
def test_operators_are_allowed_other_users_refused_and_bots_ignored(
    author: str | None, flagged: bool, permission: str
) -> None:
    assert authorise(author, flagged, ("Operator",)) == permission


def test_no_user_is_an_operator_when_none_is_configured() -> None:
    assert authorise("owner", False, ()) == "refused"


def test_a_bot_listed_as_operator_is_still_ignored() -> None:
    assert authorise("ci[bot]", True, ("ci[bot]",)) == "ignored"


@pytest.mark.parametrize(
    ("commented_at", "blocked_at", "expired"),
    [(4_000, 5_000, True), (5_000, 5_900, False), (6_000, 5_900, False), (4_000, None, False)],
)
def test_a_command_expires_by_whole_seconds_and_only_on_a_blocked_thread(
    commented_at: int, blocked_at: int | None, expired: bool
) -> None:
    assert is_expired(commented_at, blocked_at) is expired
