"""`lore mcp` with a client that shares no code with ours: that of the TypeScript SDK, installed from npm.

It checks structured content against the output schemas, which the Python client does not do in the same way. Runs with
`make test-all`; without npm and node, or where the package cannot be installed, it is skipped with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.faces.desk import Desk
from tests.faces.mcp.test_mcp import TOKEN, served, talk

__all__ = ["served", "talk"]
PACKAGE = "@modelcontextprotocol/sdk@1.32.2"
pytestmark = pytest.mark.deep
SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const wanted = JSON.parse(process.argv[2]);
const transport = wanted.url
  ? new StreamableHTTPClientTransport(new URL(wanted.url), {
      requestInit: { headers: { Authorization: `Bearer ${wanted.token}` } },
    })
  : new StdioClientTransport({ command: wanted.command[0], args: wanted.command.slice(1), env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const found = await client.callTool({ name: "search", arguments: { query: "crane", limit: 2 } });
const shown = await client.callTool({ name: "show", arguments: { ref: "port/harbour!1", max_tokens: 900 } });
const threads = await client.callTool({ name: "threads", arguments: { waiting_on: "me" } });
const changes = await client.callTool({ name: "changes", arguments: { since: "2000-01-01" } });
const refused = await client.callTool({ name: "show", arguments: { ref: "port/harbour!99" } });
const resource = await client.readResource({ uri: "lore://thread/port%2Fharbour!1" });
await client.close();
const server = client.getServerVersion();
console.log(JSON.stringify({ server, tools, found, shown, threads, changes, refused, resource }));
"""


@pytest.fixture(scope="session")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and the client it imports."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm and node are not installed: the second MCP client comes from npm")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "client.mjs").write_text(SCRIPT)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr[-300:]}")
    return folder


def use(folder: Path, **wanted: Any) -> dict[str, Any]:
    """Let the client work and return what it got."""
    done = subprocess.run(
        ["node", "client.mjs", json.dumps(wanted)], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def check(answer: dict[str, Any]) -> None:
    assert answer["server"]["name"] == "lore"
    assert [tool["name"] for tool in answer["tools"]][:5] == ["search", "show", "threads", "changes", "refresh"]
    assert answer["found"]["structuredContent"]["items"]
    assert answer["shown"]["structuredContent"]["item"]["title"] == "Slow the crane"
    assert json.loads(answer["shown"]["content"][0]["text"]) == answer["shown"]["structuredContent"]
    assert answer["threads"]["structuredContent"]["total"] == 6
    assert answer["changes"]["structuredContent"]["cursor"].startswith("c")
    assert answer["refused"]["isError"] is True
    assert "Slow the crane" in answer["resource"]["contents"][0]["text"]


def test_the_typescript_client_uses_every_reading_tool_over_stdio(talk: Desk, node_client: Path) -> None:
    check(use(node_client, command=talk.arguments("mcp")))


def test_the_typescript_client_uses_every_reading_tool_over_http(served: str, node_client: Path) -> None:
    check(use(node_client, url=served, token=TOKEN))
