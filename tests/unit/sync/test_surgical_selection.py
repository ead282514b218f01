"""Which items are meant: pure, from the words of a command line to items of projects."""

from __future__ import annotations

from typing import Any

import pytest

from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import Kind, Reference
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.runs import RunRecord
from tidelore.sync.report import EntityOutcome, write_outcomes
from tidelore.sync.surgical_preflight import (
    ChosenItem,
    RequestedItem,
    SurgicalFlags,
    check_flags,
    choose_again,
    read_asked,
    select,
)

FORGE = "https://forge.test"
FLAGS = SurgicalFlags()


def config(**changes: Any) -> Config:
    host = {"base_url": FORGE, "projects": ["port/ledger", "port/console"]}
    return parse_config({"gitlab": [host], **changes})


def row(path: str, configured: str, source: str = "gitlab", number: int = 1) -> ProjectRow:
    return ProjectRow(number, source, number, path, path, configured, 0, 0)


def references(choices: list[ChosenItem]) -> list[str]:
    return [choice.reference for choice in choices]


def chosen(*words: str, project: str | None = None, settings: Config | None = None) -> list[str]:
    asked = [read_asked(word, "mr" if "!" in word else "issue") for word in words]
    return references(select(settings or config(), [], asked, project))


@pytest.mark.parametrize(
    ("text", "kind", "reference"),
    [
        ("12", "issue", Reference(12)),
        (" #12 ", "issue", Reference(12, is_hashed=True)),
        ("!12", "mr", Reference(12)),
        ("port/ledger!12", "mr", Reference(12, "port/ledger")),
        (f"{FORGE}/a/b/-/issues/3", "issue", Reference(3, "a/b", f"{FORGE}/a/b")),
    ],
)
def test_a_number_a_reference_and_a_web_address_are_parsed(text: str, kind: Kind, reference: Reference) -> None:
    assert read_asked(text, kind) == RequestedItem(kind, reference)


@pytest.mark.parametrize("text", ["0", "-1", "abc", "", "1.5", "#0", "port/ledger#0", "1,2", "99999999999999999999"])
@pytest.mark.parametrize("kind", ["issue", "mr"])
def test_a_value_that_is_not_a_positive_number_is_refused_naming_the_flag(text: str, kind: Kind) -> None:
    with pytest.raises(UserError) as refused:
        read_asked(text, kind)
    assert refused.value.exit_code == 2
    assert refused.value.message.startswith(f"--{kind} {text!r}")
    assert "positive number" in (refused.value.fix or "")


@pytest.mark.parametrize(
    ("text", "kind", "fix"),
    [
        ("port/ledger!3", "issue", "use --mr 'port/ledger!3'"),
        (f"{FORGE}/a/b/-/merge_requests/3", "issue", f"use --mr '{FORGE}/a/b/-/merge_requests/3'"),
    ],
)
def test_a_reference_of_the_wrong_kind_is_refused_naming_the_right_flag(text: str, kind: Kind, fix: str) -> None:
    with pytest.raises(UserError) as refused:
        read_asked(text, kind)
    assert (refused.value.fix, refused.value.details["option"]) == (fix, f"--{kind}")


def test_a_hash_names_a_merge_request_only_on_a_forge_with_one_sequence_of_numbers() -> None:
    asked = [read_asked("port/ledger#3", "mr")]
    with pytest.raises(UserError) as refused:
        select(config(), [], asked, None)
    assert (refused.value.fix, refused.value.details["option"]) == ("use --issue 'port/ledger#3'", "--mr")
    github = parse_config({"github": [{"repos": ["port/ledger"]}]})
    (choice,) = select(github, [], asked, None)
    assert (choice.kind, choice.reference) == ("mr", "port/ledger#3")


def test_a_plain_number_uses_the_project_option_before_the_default_project() -> None:
    settings = config(default_project="console")
    assert chosen("1", settings=settings) == ["port/console#1"]
    assert chosen("1", settings=settings, project="ledger") == ["port/ledger#1"]
    assert chosen("port/console!2", "1", settings=settings, project="ledger") == ["port/console!2", "port/ledger#1"]


def test_a_plain_number_without_a_project_is_refused_with_both_fixes() -> None:
    with pytest.raises(UserError) as refused:
        chosen("1")
    assert refused.value.exit_code == 2
    assert all(word in (refused.value.fix or "") for word in ("--project", "-p", "default_project"))


def test_an_item_named_twice_is_selected_once() -> None:
    assert chosen("7", "#7", "port/ledger#7", "ledger#7", f"{FORGE}/port/ledger/-/issues/7", project="ledger") == [
        "port/ledger#7"
    ]
    assert chosen("7", "!7", project="ledger") == ["port/ledger#7", "port/ledger!7"], "two kinds are two items"


def test_a_hundred_items_are_allowed_and_one_more_is_not() -> None:
    hundred = [read_asked(str(number), "issue") for number in range(1, 101)]
    check_flags(FLAGS, [*hundred, *hundred])
    assert len(select(config(), [], [*hundred, *hundred], "ledger")) == 100
    with pytest.raises(UserError, match=r"Too many surgical targets \(101\)\. Maximum is 100\."):
        check_flags(FLAGS, [*hundred, read_asked("1", "mr"), read_asked("1", "mr")])


def test_the_limit_of_a_hundred_items_counts_items_of_all_projects() -> None:
    asked = [read_asked(f"port/{name}#{number}", "issue") for name in ("ledger", "console") for number in range(1, 52)]
    check_flags(FLAGS, asked)
    with pytest.raises(UserError, match=r"Too many surgical targets \(102\)"):
        select(config(), [], asked, None)


def test_a_project_that_is_not_configured_is_not_found() -> None:
    with pytest.raises(NotFound) as missing:
        chosen("elsewhere/thing#1")
    assert "port/ledger" in (missing.value.fix or "")


def test_a_web_address_of_an_unconfigured_host_is_refused() -> None:
    with pytest.raises(UserError) as refused:
        chosen("https://other.test/port/ledger/-/issues/1")
    assert refused.value.exit_code == 2
    assert FORGE in (refused.value.fix or "")
    with pytest.raises(UserError):
        chosen(f"{FORGE}.evil.test/port/ledger/-/issues/1")


def test_a_renamed_project_is_found_by_either_name() -> None:
    known = [row("port/books", "port/ledger")]
    for name in ("port/books", "books", "port/ledger"):
        (choice,) = select(config(), known, [read_asked(f"{name}#1", "issue")], None)
        assert (choice.configured, choice.reference) == ("port/ledger", "port/books#1")


def test_a_stored_group_project_matches_by_its_last_part_others_by_full_path_only() -> None:
    settings = parse_config({"gitlab": [{"base_url": FORGE, "groups": ["port"]}]})
    known = [row("port/deep/ledger", "port/deep/ledger")]
    asked = [read_asked("ledger#1", "issue"), read_asked("port/new#2", "issue")]
    assert references(select(settings, known, asked, None)) == ["port/deep/ledger#1", "port/new#2"]
    with pytest.raises(NotFound):
        select(settings, known, [read_asked("portal/new#2", "issue")], None)
    with pytest.raises(NotFound):
        select(settings, [row("old/gone", "old/gone")], [read_asked("old/gone#2", "issue")], None)


def test_a_path_on_two_hosts_is_ambiguous_and_a_web_address_is_not() -> None:
    hosts = [{"name": name, "base_url": f"https://{name}.test", "projects": ["port/ledger"]} for name in ("one", "two")]
    settings = parse_config({"gitlab": hosts})
    with pytest.raises(UserError, match="matches 2"):
        chosen("port/ledger#1", settings=settings)
    (choice,) = select(settings, [], [read_asked("https://two.test/port/ledger/-/issues/1", "issue")], None)
    assert choice.source == "two"


ITEM = [RequestedItem("issue", Reference(7))]


def test_surgical_no_docs_requires_no_embed_validation() -> None:
    with pytest.raises(UserError, match="--no-docs requires --no-embed") as refused:
        check_flags(SurgicalFlags(no_docs=True), ITEM)
    assert refused.value.exit_code == 2
    check_flags(SurgicalFlags(no_docs=True, no_embed=True), ITEM)
    check_flags(SurgicalFlags(no_docs=True), [])


@pytest.mark.parametrize(
    ("flags", "asked", "message"),
    [
        (SurgicalFlags(full=True), ITEM, "--full cannot be combined"),
        (SurgicalFlags(full=True, retry_failed=3), [], "--full cannot be combined"),
        (SurgicalFlags(preflight_only=True), [], "--preflight-only requires --issue or --mr"),
        (SurgicalFlags(retry_failed=3), ITEM, "--retry-failed"),
        (SurgicalFlags(retry_failed=3, dry_run=True), [], "--dry-run"),
        (SurgicalFlags(retry_failed=3, project="x"), [], "--project"),
        (SurgicalFlags(retry_failed=3, no_docs=True), [], "--no-embed"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    flags: SurgicalFlags, asked: list[RequestedItem], message: str
) -> None:
    with pytest.raises(UserError, match=message) as refused:
        check_flags(flags, asked)
    assert refused.value.exit_code == 2
    assert refused.value.fix


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (SurgicalFlags(), []),
        (SurgicalFlags(full=True), []),
        (SurgicalFlags(dry_run=True), ITEM),
        (SurgicalFlags(preflight_only=True), ITEM),
        (SurgicalFlags(retry_failed=3, preflight_only=True), []),
        (SurgicalFlags(project="x"), ITEM),
    ],
)
def test_compatible_flags_are_accepted(flags: SurgicalFlags, asked: list[RequestedItem]) -> None:
    check_flags(flags, asked)


def record(mode: str, status: str, *outcomes: EntityOutcome) -> RunRecord:
    values: dict[str, Any] = dict.fromkeys(RunRecord.__struct_fields__)
    values |= {"id": 3, "mode": mode, "status": status, "command": "lore sync"}
    return RunRecord(**values | {"outcomes_json": write_outcomes(outcomes)})


def test_retry_failed_selects_the_failed_items_of_the_run_under_the_current_path() -> None:
    missing = EntityOutcome("merge_request", 4, "port/books!4", "gitlab", "port/ledger")
    missing.fail("fetch", "TIMEOUT", "no answer")
    assert choose_again(config(), record("surgical", "failed", missing)) == [
        ChosenItem("mr", 4, "gitlab", "port/ledger", "port/books", "!")
    ]


@pytest.mark.parametrize(("mode", "status"), [("standard", "failed"), ("surgical", "running")])
def test_retry_failed_refuses_a_run_without_items_or_still_running(mode: str, status: str) -> None:
    with pytest.raises(UserError) as refused:
        choose_again(config(), record(mode, status))
    assert refused.value.exit_code == 2
    assert refused.value.fix
