"""`--lockdown`: no text of people without write access in any answer, and a count of what was left out."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from mcp import Client
from tests.databases.migrated_file import lay_out
from tests.databases.review import HUB, LAB, lay_out_hub, lay_out_lab
from tests.databases.samples import CREATED
from tests.faces.desk import Desk
from tests.faces.mcp.test_mcp import in_process

from tidelore.core.model import MemberRecord
from tidelore.store.work.project_members import replace_members

CONFIG = '[[gitlab]]\nlogin = "ann"\n[[github]]\nlogin = "ann"\n[embedding]\nprovider = "none"\n'
UNTRUSTED = ("And who decided?", "Nice work", "Seen again", "I think so", "too fast", "cc @anna")
"""Words of mira, who may only read on both forges, and of a reporter who is not a member."""
COMMANDS = (
    ("show", "mr", f"{LAB}!1"),
    ("show", "issue", f"{LAB}#3"),
    ("show", "mr", f"{HUB}#5"),
    ("context", f"{LAB}!1"),
    ("context", f"{HUB}#5"),
    ("threads", "--state", "all"),
    ("changes", "--since", "2000-01-01"),
    ("digest", "--since", "2000-01-01"),
    ("search", "decided OR again OR think OR crane"),
)


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """A copy of both forges: ann owns, noor may write, mira may only read; `issue 3` is by a stranger."""
    desk.config.write_text(CONFIG)
    lay_out(desk.db)
    with closing(desk.store()) as database:
        lab, hub = lay_out_lab(database), lay_out_hub(database)
        members = [MemberRecord("Ann", 50), MemberRecord("noor", 30), MemberRecord("mira", 20)]
        with database.transaction() as tx:
            replace_members(tx, lab.id, members, CREATED)
            for author, association in (("ann", "OWNER"), ("noor", "MEMBER"), ("mira", "CONTRIBUTOR")):
                for table in ("notes", "merge_requests"):
                    tx.execute(
                        f"UPDATE {table} SET author_association = :association"
                        " WHERE author_username = :author AND project_id = :hub",
                        {"association": association, "author": author, "hub": hub.id},
                    )
            tx.execute("UPDATE issues SET author_username = 'stranger'", {})
    assert desk.run("generate-docs").code == 0
    return desk


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_no_text_of_people_without_write_access_is_in_the_answer(talk: Desk, command: tuple[str, ...]) -> None:
    locked = talk.robot(*command, "--lockdown")
    assert locked.code == 0
    assert [words for words in UNTRUSTED if words in locked.out] == []
    assert locked.document["meta"]["lockdown"]["left_out"] > 0
    open_answer = talk.robot(*command)
    assert any(words in open_answer.out for words in UNTRUSTED)
    assert "lockdown" not in open_answer.document["meta"]


def test_text_of_people_with_write_access_is_shown_on_both_forges(talk: Desk) -> None:
    shown = talk.robot("show", "mr", f"{LAB}!1", "--lockdown")
    assert shown.data["title"] == "Slow the crane"
    assert "Why 40 %?" in shown.out
    assert "Off by one?" in talk.robot("context", f"{HUB}#5", "--lockdown").out


def test_without_stored_associations_and_members_everything_is_left_out(talk: Desk) -> None:
    with closing(talk.store()) as database, database.transaction() as tx:
        tx.execute("DELETE FROM project_members", {})
        for table in ("notes", "merge_requests"):
            tx.execute(f"UPDATE {table} SET author_association = NULL", {})
    for reference in (f"{LAB}!1", f"{HUB}#5"):
        data = talk.robot("show", "mr", reference, "--files", "--lockdown").data
        assert data["title"] == "[left out]"
        assert not any(data[name] for name in ("discussions", "description", "files", "source_branch"))


def test_the_configuration_switches_it_on_and_says_who_is_trusted(talk: Desk) -> None:
    talk.config.write_text('lockdown = true\ntrusted_associations = ["OWNER"]\n' + CONFIG)
    said = talk.robot("show", "mr", f"{LAB}!1")
    assert said.data["title"] == "Slow the crane"
    assert "Why 40 %?" not in said.out
    assert "Off by one?" not in talk.robot("threads", f"{HUB}#5").out
    talk.config.write_text('trusted_associations = ["MEMBERS"]\n' + CONFIG)
    refused = talk.robot("threads")
    assert (refused.code, "trusted_associations" in refused.error["message"]) == (2, True)


def test_people_are_told_how_much_was_left_out(talk: Desk) -> None:
    done = talk.run("show", "mr", f"{LAB}!1", "--lockdown")
    assert "note: 3 texts of people without write access left out (lockdown)" in done.err
    assert "Nice work" not in done.out


def test_a_passage_is_chosen_from_the_texts_of_trusted_people_alone(talk: Desk) -> None:
    (found,) = talk.robot("search", "decided why", "--lockdown", "--limit", "1").data["items"]
    assert found["reference"] == f"{LAB}!1"
    assert found["snippet"] == "@noor: Why 40 %?"


def test_the_mcp_server_in_lockdown_leaves_out_the_same(talk: Desk) -> None:
    talk.config.write_text("lockdown = true\n" + CONFIG)

    async def work(client: Client) -> None:
        for tool, arguments in (
            ("show", {"ref": f"{LAB}!1", "whole": True}),
            ("threads", {}),
            ("changes", {"since": "2000-01-01"}),
            ("search", {"query": "decided"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error
            text = json.dumps(result.structured_content)
            assert [words for words in UNTRUSTED if words in text] == []
            assert result.structured_content["lockdown"]["left_out"] > 0
        resource = await client.read_resource("lore://thread/port%2Fharbour%231".replace("%231", "!1"))
        assert "Nice work" not in resource.contents[0].text  # type: ignore[union-attr]

    in_process(talk, work)
