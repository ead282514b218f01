"""The scripted agent of `benchmarks/agents.py` succeeds in every task on both forges, by `--robot` and by MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from benchmarks.agent_place import FORGES, GitHubTalk, GitLabTalk, workplace
from benchmarks.agents import TASKS, do_tasks
from tests.support.fork_server import fork_script


def spawn(script: Path, argv: Sequence[str], environ: Mapping[str, str]) -> int:
    process = fork_script(script, list(argv), dict(environ))
    process.communicate(timeout=60)
    assert process.returncode is not None
    return process.returncode


@pytest.mark.parametrize("forge", FORGES)
def test_every_task_is_done_within_its_calls_and_tokens(home: Path, forge: type[GitLabTalk] | type[GitHubTalk]) -> None:
    with workplace(forge, spawn) as place:
        costs = [(name, agent.by, agent.calls, agent.tokens, bounds) for name, agent, bounds in do_tasks(place)]
    assert len(costs) == 2 * len(TASKS) - 1
    assert [cost for cost in costs if cost[2] > cost[4].calls or cost[3] > cost[4].tokens] == []
