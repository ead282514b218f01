"""`lore mcp`: the tools as an agent's client uses them, over stdio and HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.databases.migrated_file import lay_out
from tests.databases.review import LAB, lay_out_hub, lay_out_lab
from tests.faces.desk import COMMAND, LEDGER, Desk
from tests.faces.writing import TOKENS, writing

from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.core.text import estimate_tokens
from tidelore.mcp.server import make_server, serve_http

TOKEN = "a-token-of-this-test"
Work = Callable[[Client], Awaitable[None]]


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """A copy with threads on both forges."""
    desk.config.write_text('[[gitlab]]\nlogin = "ann"\n[[github]]\nlogin = "ann"\n[embedding]\nprovider = "none"\n')
    lay_out(desk.db)
    with closing(desk.store()) as database:
        lay_out_lab(database)
        lay_out_hub(database)
    assert desk.run("generate-docs").code == 0
    return desk


def in_process(desk: Desk, work: Work, mode: str = "auto", *, allow_writes: bool = False) -> None:
    """Let a client work with a server in this process."""
    app = App(load_config(str(desk.config), {}), desk.environ, db=str(desk.db))

    async def connected() -> None:
        async with Client(make_server(app, allow_writes=allow_writes), mode=mode) as client:
            await work(client)

    asyncio.run(connected())


def over_stdio(desk: Desk, work: Work) -> None:
    """Let a client start a real process and talk to it."""
    command, *rest = COMMAND
    arguments = [*rest, "mcp", "--config", str(desk.config), "--db", str(desk.db)]

    async def connected() -> None:
        started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
        async with Client(started) as client:
            await work(client)

    asyncio.run(connected())


@pytest.fixture
def served(talk: Desk) -> Iterator[str]:
    """The address of a server over HTTP, in a real process."""
    process = talk.start("mcp", "--http", "--port", "0", LORE_MCP_TOKEN=TOKEN)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"Serving MCP on (http://127\.0\.0\.1:\d+/mcp)\n", line)
        assert found, line
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def over_http(address: str, work: Work) -> None:
    @asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        headers = {"authorization": f"Bearer {TOKEN}"}
        own = httpx2.AsyncClient(headers=headers)
        async with own as http, streamable_http_client(address, http_client=http) as made:
            yield made

    async def connected() -> None:
        async with Client(transport()) as client:
            await work(client)

    asyncio.run(connected())


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that succeeds; its text is the same as its structured content."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    content = result.structured_content
    assert json.loads(result.content[0].text) == content  # type: ignore[union-attr]
    assert isinstance(content, dict)
    return content


async def use_every_reading_tool(client: Client) -> None:
    found = await ask(client, "search", query="crane")
    assert found["items"][0]["reference"].startswith(LAB)
    assert "items[].snippet" in found["untrusted"]
    waiting = await ask(client, "threads", waiting_on="me")
    assert {"asked", "review_comment:300"} <= {item["id"] for item in waiting["items"]}
    shown = await ask(client, "show", ref=f"{LAB}!1")
    assert shown["item"]["title"] == "Slow the crane"
    assert [thread["id"] for thread in shown["threads"]] == ["answered", "asked"]
    news = await ask(client, "changes", since="2023-01-01")
    assert news["total"] == 5
    assert (await ask(client, "changes", since=news["cursor"]))["items"] == []


def test_tools_and_resources_work_over_stdio_in_a_real_process(talk: Desk) -> None:
    over_stdio(talk, use_every_reading_tool)


def test_tools_work_over_http_with_the_token_and_not_without(talk: Desk, served: str) -> None:
    over_http(served, use_every_reading_tool)
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        request = Request(served, data=b"{}", headers={"Content-Type": "application/json", **headers})
        with pytest.raises(OSError, match="401"):
            urlopen(request)
    foreign = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.test", "Content-Type": "application/json"}
    with pytest.raises(OSError, match=r"42[01]|403"):
        urlopen(Request(served, data=b"{}", headers=foreign))


def test_a_client_can_connect_as_soon_as_the_address_is_told(talk: Desk) -> None:
    class Told(Exception):
        pass

    def connect(address: str) -> None:
        socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), 5).close()
        raise Told

    with pytest.raises(Told):
        serve_http(App(load_config(str(talk.config), {}), talk.environ, db=str(talk.db)), 0, TOKEN, connect)


def test_both_generations_of_the_protocol_are_served(talk: Desk) -> None:
    seen: list[str] = []

    async def look(client: Client) -> None:
        seen.append(client.protocol_version)
        assert (await ask(client, "threads", ref=f"{LAB}!4"))["total"] == 1

    in_process(talk, look, "legacy")
    in_process(talk, look, "2026-07-28")
    assert seen[0] < "2026"
    assert seen[1] == "2026-07-28"


def test_the_schemas_of_all_tools_take_at_most_1500_tokens_and_say_what_is_read_only(talk: Desk) -> None:
    async def look(client: Client) -> None:
        listed = (await client.list_tools()).tools
        written = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in listed])
        assert estimate_tokens(written) <= 1500, estimate_tokens(written)
        names.append([tool.name for tool in listed])
        hints = {tool.name: tool.annotations for tool in listed if tool.annotations}
        assert [name for name, hint in hints.items() if hint.read_only_hint] == ["search", "show", "threads", "changes"]
        assert [name for name, hint in hints.items() if hint.destructive_hint] == names[-1][5:]
        for tool in listed:
            assert tool.output_schema
            assert set(tool.input_schema["properties"]) >= set(tool.input_schema.get("required", []))

    names: list[list[str]] = []
    in_process(talk, look)
    in_process(talk, look, allow_writes=True)
    reading = ["search", "show", "threads", "changes", "refresh"]
    assert names == [reading, [*reading, "reply"]]


@pytest.mark.parametrize("forge", ["gitlab", "github"])
def test_an_agent_finds_the_thread_by_a_refresh_answers_the_reviewer_once_and_resolves_the_thread(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forge: str
) -> None:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    with writing(tmp_path, capfd.readouterr, forge) as desk:

        async def look(client: Client) -> None:
            (waiting,) = (await ask(client, "threads", ref=desk.item, unresolved=True))["items"]
            (refreshed,) = (await ask(client, "refresh", refs=[desk.item]))["items"]
            assert [thread["id"] for thread in refreshed["threads"]] == [waiting["id"]]
            planned = await ask(client, "reply", ref=waiting["id"], body="Because.", resolve=True, dry_run=True)
            assert planned["requests"][0]["method"] == "POST"
            for _ in range(2):
                done = await ask(client, "reply", ref=waiting["id"], body="Because.", resolve=True)
                assert (done["reply"]["status"], done["state"]) == ("observed", "resolved")
            assert (await ask(client, "threads", ref=desk.item, unresolved=True))["items"] == []
            assert (await ask(client, "reply", ref=waiting["id"], resolve=False))["state"] == "unresolved"
            for arguments in ({"ref": "nothing"}, {"ref": desk.item, "resolve": True}, {"ref": desk.item, "body": " "}):
                assert (await client.call_tool("reply", arguments)).is_error
            if forge == "gitlab":
                refused = await client.call_tool("reply", {"ref": desk.item, "body": "Quoted:\n/close"})
                assert refused.is_error
                assert "backslash" in str(refused.content)
                assert "--allow" not in str(refused.content)
            else:
                done = await ask(client, "reply", ref=f"discussioncomment-{desk.remark}", body="Indeed.")
                assert (done["reply"]["status"], done["refreshed"]) == ("observed", True)
                shown = await ask(client, "show", ref=desk.topic)
                assert "Indeed." in str(shown["notes"])

        in_process(desk, look, allow_writes=True)
        assert (desk.ours(), desk.is_resolved) == (["Because.", *(["Indeed."] if forge == "github" else [])], False)


def test_a_wrong_call_is_an_error_that_names_the_remedy(talk: Desk) -> None:
    async def look(client: Client) -> None:
        for tool, arguments, word in (
            ("show", {"ref": "what?"}, "use #12"),
            ("show", {"ref": f"{LAB}!99"}, "lore sync"),
            ("threads", {"waiting_on": "you"}, "input schema"),
            ("show", {"reference": "#2"}, "show takes ref, project, whole, skip, max_tokens; see"),
            ("threads", {"colour": "red"}, "colour"),
            ("changes", {"since": "whenever"}, "7d"),
            ("refresh", {"refs": []}, "1 to 20"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, tool
            assert word in result.content[0].text, (tool, result.content)  # type: ignore[union-attr]
        with pytest.raises(Exception, match="no such tool"):
            await client.call_tool("reply", {})

    in_process(talk, look)


def test_a_thread_is_a_resource_and_its_text_is_marked_as_untrusted(talk: Desk) -> None:
    async def look(client: Client) -> None:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "lore://thread/{ref}"
        read = await client.read_resource(f"lore://thread/{quote('octo/tide#5', safe='')}")
        document = json.loads(read.contents[0].text)  # type: ignore[union-attr]
        assert document["title"] == "Tide table"
        assert "discussions[].notes[].body" in document["untrusted"]
        with pytest.raises(Exception, match=r"no issue|no merge request"):
            await client.read_resource("lore://thread/77")

    in_process(talk, look)


def test_refresh_fetches_an_item_and_reports_progress(desk: Desk) -> None:
    desk.ingested()
    desk.configure(LEDGER, extra='[embedding]\nprovider = "none"\n')
    with desk.world.lock:
        desk.world.advance(3600)
        desk.world.gitlab.edit_issue(LEDGER, 2, title="Far too fast")
    steps: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message))

    async def look(client: Client) -> None:
        done = await client.call_tool("refresh", {"refs": [f"{LEDGER}#2"]}, progress_callback=note)
        assert not done.is_error, done
        assert done.structured_content["items"] == [{"reference": f"{LEDGER}#2", "outcome": "stored"}]
        assert (await ask(client, "show", ref=f"{LEDGER}#2"))["item"]["title"] == "Far too fast"

    in_process(desk, look)
    assert steps
    assert [step for step, _ in steps] == sorted({step for step, _ in steps})
    assert all(message for _, message in steps)
    assert len({message for _, message in steps}) > 1, steps


def test_an_unusable_token_is_refused_with_a_fix(talk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORE_MCP_TOKEN", "short")
    done = talk.robot("mcp", "--http")
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert "16" in done.error["fix"]
