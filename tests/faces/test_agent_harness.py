"""The scripted agent of `benchmarks/agents.py` succeeds in every reading task, by `--robot` and by MCP."""

from __future__ import annotations

from pathlib import Path

from benchmarks.agents import TASKS, do_tasks, workplace


def test_every_reading_task_is_done_within_its_calls_and_tokens(home: Path) -> None:
    with workplace() as place:
        costs = [(name, agent.by, agent.calls, agent.tokens, bounds) for name, agent, bounds in do_tasks(place)]
    assert len(costs) == 2 * len(TASKS) - 1
    assert [cost for cost in costs if cost[2] > cost[4].calls or cost[3] > cost[4].tokens] == []
