"""Benchmark `agents`: calls, tokens and processor time of a scripted agent, by `--robot` and by MCP, on both forges.

The agent has no model: each task is the calls that a careful agent makes, and fails if the answer is not in them or the
server does not show what was asked for. The copy is a mirror of a simulated forge. Tokens are those of the answers,
estimated as `--max-tokens` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mcp import Client
from msgspec import Struct

from benchmarks.agent_place import FORGES, INJECTION, NOTES, SETTLE_SECONDS, Workplace, workplace
from benchmarks.findings import Finding
from benchmarks.scale import Scale
from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.core.text import estimate_tokens
from tidelore.mcp.server import make_server

_LONGEST_MS = 300
"""The most processor time of a task, with that of the simulated server, which runs in the same process."""
WHOLE_TASK = "what was decided, refresh it, answer the reviewer"
"""The task that the design promises in 3 calls, 2,000 tokens and 300 ms."""


class Bounds(Struct, frozen=True):
    """The most calls and tokens of a task."""

    calls: int
    tokens: int


class Agent:
    """Asks, and counts calls, tokens and processor time."""

    by = ""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.calls = self.tokens = 0
        self.seconds = self.began = 0.0

    def ask(self, tool: str, **arguments: Any) -> str:
        """Return an answer as JSON text; raise if it is an error."""
        self.began = time.process_time()
        answer = self._ask(tool, arguments)
        self.seconds += time.process_time() - self.began
        self.calls += 1
        self.tokens += estimate_tokens(answer)
        return answer

    def open_threads(self, reference: str) -> list[dict[str, Any]]:
        """Refresh an item, in one call that also lists its unresolved threads."""
        raise NotImplementedError

    def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        raise NotImplementedError


class RobotAgent(Agent):
    """Uses the command line with `--robot`."""

    by = "--robot"

    def open_threads(self, reference: str) -> list[dict[str, Any]]:
        answer = self.ask("threads", ref=reference, unresolved=True, max_age="0s", max_tokens=600)
        assert json.loads(answer)["meta"]["refreshed"], answer
        found: list[dict[str, Any]] = _data(answer)["items"]
        return found

    def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        document = self.place.lore(*command(self.place, tool, arguments))
        assert document["ok"], document
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def command(place: Workplace, tool: str, arguments: dict[str, Any]) -> list[str]:
    """Return the command line that asks the same as a tool of the MCP server."""
    ref, body, argv = arguments.pop("ref", None), arguments.pop("body", None), []
    for name, value in arguments.items():
        if name not in ("query", "whole", "place"):
            argv += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    kind = "mr" if ref == place.talk.request else "issue"
    match tool:
        case "search" | "why":
            return [tool, arguments.get("query") or arguments["place"], *argv]
        case "refresh":
            return ["sync", f"--{kind}", ref, "--no-embed"]
        case "show" if arguments.get("whole"):
            return ["show", kind, ref, *argv]
        case "show":
            return ["context", ref, *argv]
        case "reply" if body is None:
            return ["resolve", ref]
        case "reply":
            return ["reply", ref, body, *argv]
    return [tool, *([] if ref is None else [ref]), *argv]


class McpAgent(Agent):
    """Uses the tools of the MCP server, with the client of the official SDK."""

    by = "MCP"

    def open_threads(self, reference: str) -> list[dict[str, Any]]:
        (item,) = _data(self.ask("refresh", ref=reference))["items"]
        found: list[dict[str, Any]] = item["threads"]
        return found

    def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        return asyncio.run(self._call(tool, {"refs": [arguments["ref"]]} if tool == "refresh" else arguments))

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        environ = dict(os.environ)
        app = App(load_config(str(self.place.config), environ), environ, db=str(self.place.database))
        async with Client(make_server(app, allow_writes=True)) as client:
            # Connecting happens once in a session, so it is not a part of a call.
            connected = time.process_time()
            result = await client.call_tool(tool, arguments)
            self.seconds -= connected - self.began
        text = getattr(result.content[0], "text", "")
        assert not result.is_error, text
        return str(text)


def _decision(agent: Agent) -> None:
    assert "40 % speed" in agent.ask("search", query="what was decided about the crane speed", limit=3, max_tokens=600)


def _waiting(agent: Agent) -> None:
    assert "Which rope do we buy?" in agent.ask("threads", waiting_on="me", max_tokens=1200)


def _refresh(agent: Agent) -> None:
    talk = agent.place.talk
    talk.say(talk.request, f"A fresh remark for {agent.by}.", "mira")
    agent.ask("refresh", ref=talk.request)
    assert f"fresh remark for {agent.by}" in agent.ask("show", ref=talk.request, max_tokens=1200)


def _changes(agent: Agent) -> None:
    cursor = _data(agent.ask("changes", since="1d", max_tokens=400))["cursor"]
    talk = agent.place.talk
    talk.say(talk.strange, f"News for {agent.by}.", "mira")
    agent.place.refresh(talk.strange)
    items = _data(agent.ask("changes", since=cursor, max_tokens=600))["items"]
    assert [item["reference"] for item in items] == [talk.strange]
    assert f"News for {agent.by}." in [note["text"] for note in items[0]["notes"]]


def _data(answer: str) -> dict[str, Any]:
    """Return the data of an answer: in robot mode it is a part of the envelope."""
    document: dict[str, Any] = json.loads(answer)
    found: dict[str, Any] = document.get("data", document)
    return found


def _why(agent: Agent) -> None:
    assert "40 % speed" in agent.ask("why", place=f"{agent.place.checkout}/crane.py:2", max_tokens=1500)


def _no_answer(agent: Agent) -> None:
    assert _data(agent.ask("search", query="zeppelin mooring mast", max_tokens=600))["items"] == []


def _long(agent: Agent) -> None:
    answer = agent.ask("show", ref=agent.place.talk.long, whole=True, max_tokens=1500)
    assert f"Remark {NOTES - 1}:" in answer
    assert '"truncated":true' in answer


def _injection(agent: Agent) -> None:
    text = agent.ask("show", ref=agent.place.talk.strange, whole=True, max_tokens=1200)
    answer = json.loads(text)
    assert INJECTION in text, "it is shown as what somebody wrote"
    assert "discussions[].notes[].body" in (answer.get("untrusted") or answer["meta"]["untrusted"])


def _answer_killed(agent: Agent) -> None:
    """The first reply is killed after the server accepted it, so the agent repeats it."""
    question, body = _new_thread(agent, "Is the killed one answered, {by}?"), "Yes, once."
    thread = _find(_data(agent.ask("threads", ref=agent.place.talk.request, unresolved=True))["items"], question)
    agent.place.reply_killed(thread, body)
    agent.calls += 1
    time.sleep(SETTLE_SECONDS)
    assert _data(agent.ask("reply", ref=thread, body=body))["reply"]["status"] == "observed"
    assert _replies(agent, question) == [body]


def _resolve(agent: Agent) -> None:
    question = _new_thread(agent, "Is it done, {by}?")
    threads = agent.place.lore("threads", agent.place.talk.request, "--unresolved")["data"]["items"]
    assert _data(agent.ask("reply", ref=_find(threads, question), resolve=True))["state"] == "resolved"
    assert agent.place.talk.thread(question)[1]


def _whole_task(agent: Agent) -> None:
    """The reviewer's question is on the server only: without the refresh it could not be answered."""
    question = f"Who replaces the rope, {agent.by}?"
    agent.place.talk.ask(question)
    found = agent.ask("search", query="what was decided about the crane speed", limit=3, max_tokens=600)
    assert "40 % speed" in found
    reference = _data(found)["items"][0]["reference"]
    assert reference == agent.place.talk.request
    thread = _find(agent.open_threads(reference), question)
    done = _data(agent.ask("reply", ref=thread, body="Noor does, on Friday."))
    assert done["reply"]["status"] == "observed"
    assert _replies(agent, question) == ["Noor does, on Friday."]


def _new_thread(agent: Agent, text: str) -> str:
    """Let the reviewer open a thread, and bring it into the copy."""
    question = text.format(by=agent.by)
    agent.place.talk.ask(question)
    agent.place.refresh(agent.place.talk.request)
    return question


def _find(threads: list[dict[str, Any]], question: str) -> str:
    """Return the id of the thread that a question began."""
    return str(next(thread["id"] for thread in threads if thread["opening"] == question))


def _replies(agent: Agent, question: str) -> list[str]:
    """Return the first lines of the replies that the server has in a thread."""
    texts, _ = agent.place.talk.thread(question)
    return [text.partition("\n")[0] for text in texts[1:]]


TASKS: dict[str, tuple[Callable[[Agent], None], Bounds]] = {
    "find a decision": (_decision, Bounds(1, 600)),
    "list what waits for me": (_waiting, Bounds(1, 1200)),
    "refresh and read one thread": (_refresh, Bounds(2, 2000)),
    "what changed since my last visit": (_changes, Bounds(2, 1000)),
    "why is this line here": (_why, Bounds(1, 1500)),
    "a question with no answer": (_no_answer, Bounds(1, 300)),
    f"a thread of {NOTES} notes": (_long, Bounds(1, 1500)),
    "a thread with a prompt injection": (_injection, Bounds(1, 1200)),
    "answer a reviewer once though killed": (_answer_killed, Bounds(3, 1500)),
    "resolve a thread": (_resolve, Bounds(1, 300)),
    WHOLE_TASK: (_whole_task, Bounds(3, 2000)),
}
ONLY_ROBOT = frozenset({"why is this line here"})
"""The MCP server has no tool for it."""


def do_tasks(place: Workplace) -> Iterator[tuple[str, Agent, Bounds]]:
    """Do each task by both ways; yield its name and the agent that did it. A task that fails raises."""
    for kind in (RobotAgent, McpAgent):
        for name, (task, bounds) in TASKS.items():
            if kind is RobotAgent or name not in ONLY_ROBOT:
                agent = kind(place)
                task(agent)
                yield name, agent, bounds


def run(_scale: Scale) -> Iterator[Finding]:
    """Do each task on each forge and report its cost."""
    for forge in FORGES:
        with workplace(forge) as place:
            for name, agent, bounds in do_tasks(place):
                title = f"{forge.name}: {name}, {agent.by}"
                yield Finding("agents", f"{title}: calls", agent.calls, bound=bounds.calls)
                yield Finding("agents", f"{title}: tokens", agent.tokens, bound=bounds.tokens)
                yield Finding("agents", f"{title}: processor time", agent.seconds * 1000, "ms", _LONGEST_MS)
            seconds = _in_fresh_processes(place)
            yield Finding(
                "agents", f"{forge.name}: {WHOLE_TASK}, 3 fresh processes: processor time", seconds * 1000, "ms"
            )


class _FreshAgent(RobotAgent):
    """Starts a new process for each command, as a shell does."""

    by = "a shell"

    def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        # Not resolved: the script stands beside the environment's own interpreter, which is a link.
        lore = str(Path(sys.executable).with_name("lore"))
        argv = [lore, *command(self.place, tool, arguments), "--robot", *self.place.where()]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return done.stdout.strip()


def _in_fresh_processes(place: Workplace) -> float:
    """Do the whole task with three commands, and return the processor time of their processes."""
    before = _spent_by_children()
    _whole_task(_FreshAgent(place))
    return _spent_by_children() - before


def _spent_by_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
