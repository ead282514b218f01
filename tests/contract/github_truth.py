"""Repositories of GitHub to read, and what a source read of them in the words of the world's truth."""

from __future__ import annotations

import json
from typing import Any

from tests.contract.github_bench import REPO, Bench

from tidelore.core.clock import format_instant
from tidelore.engine.ports import Page
from tidelore_world.github.payloads import node_id


def repo_id(bench: Bench) -> int:
    return bench.forge.repository(REPO).id


def repo_node(bench: Bench) -> str:
    return node_id("R", repo_id(bench))


def pull_node(bench: Bench, number: int) -> str:
    return node_id("PR", bench.forge.repository(REPO).thread(number).require_pull().id)


def payloads(pages: list[Page[Any]]) -> list[Any]:
    return [json.loads(item.payload) for page in pages for item in page.items]


def records(pages: list[Page[Any]]) -> list[Any]:
    return [item.record for page in pages for item in page.items]


def rejected(pages: list[Page[Any]]) -> list[Any]:
    return [entry for page in pages for entry in page.rejected]


def by_update(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["updated_at"], row["id"]))


def mixed(bench: Bench, count: int = 12) -> None:
    """Issues and pull requests in turn, each a minute later, some changed since."""
    forge = bench.forge
    for index in range(count):
        bench.world.advance(60)
        made = forge.create_issue(REPO, f"issue {index}", f"text {index}", labels=("bug",))
        bench.world.advance(60)
        pull = forge.create_pull(REPO, f"pull {index}", draft=index % 2 == 0)
        if index % 3 == 0:
            forge.comment(REPO, pull.number, "hello")
            forge.close(REPO, made.number, reason="not_planned")
        if index % 3 == 1:
            forge.merge(REPO, pull.number)
            forge.assign(REPO, made.number, "mira")


STORED_ELSEWHERE = ("commented", "reviewed", "committed", "line-commented")
"""Entries of a timeline that are not read as events."""


def shown(page: Page[Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": record.remote_id,
            "isResolved": record.is_resolved,
            "isOutdated": record.is_outdated,
            "resolvedBy": record.resolved_by,
            "path": record.path,
            "line": record.line,
            "root": record.root_comment_id,
        }
        for record in records([page])
    ]


def true_threads(bench: Bench, number: int, name: str = REPO) -> list[dict[str, Any]]:
    rows = bench.forge.truth_threads(name, number)
    return [{**{k: v for k, v in row.items() if k != "comments"}, "root": row["comments"][0]} for row in rows]


def discussed(bench: Bench, count: int = 3) -> None:
    forge = bench.forge
    forge.hub.separate_sequences = True
    for index in range(count):
        bench.world.advance(60)
        row = forge.create_discussion(
            REPO, f"topic {index}", "text", "mira", category="Q&A" if index % 2 else "General"
        )
        first = forge.comment_discussion(REPO, row.number, "one", "dependabot[bot]")
        reply = forge.comment_discussion(REPO, row.number, "re", reply_to=first.id)
        gone = forge.comment_discussion(REPO, row.number, "two")
        forge.comment_discussion(REPO, row.number, "re two", "ghost", reply_to=gone.id)
        forge.delete_discussion_comment(REPO, gone.id)
        if index % 2:
            forge.choose_answer(REPO, first.id, row.number)
        forge.upvote_discussion(REPO, row.number, index)
        if index % 3 == 0:
            forge.close_discussion(REPO, row.number)
            forge.lock_discussion(REPO, row.number)
        assert reply.id != first.id


def true_topics(bench: Bench, name: str = REPO) -> list[dict[str, Any]]:
    rows = sorted(bench.forge.truth_discussions(name), key=lambda row: (row["updatedAt"], row["databaseId"]))
    return rows[::-1]


def as_truth(record: Any) -> dict[str, Any]:
    """A record in the words of the truth."""

    def text(at: int | None) -> str | None:
        return None if at is None else f"{format_instant(at)[:19]}Z"

    def comment(row: Any) -> dict[str, Any]:
        return {
            "id": row.node_id,
            "databaseId": row.remote_id,
            "body": row.body,
            "author": row.author,
            "createdAt": text(row.created_at),
            "updatedAt": text(row.updated_at),
            "deletedAt": text(row.deleted_at),
            "upvoteCount": row.upvotes,
        }

    rows = record.comments
    answer = next((row.node_id for row in rows if row.is_answer), None)
    assert record.answer_id == next((row.remote_id for row in rows if row.is_answer), None)
    return {
        "id": record.node_id,
        "databaseId": record.remote_id,
        "number": record.iid,
        "title": record.title,
        "body": record.body,
        "author": record.author,
        "category": record.category,
        "createdAt": text(record.created_at),
        "updatedAt": text(record.updated_at),
        "closed": record.state == "closed",
        "closedAt": text(record.closed_at),
        "stateReason": record.state_reason and record.state_reason.upper(),
        "locked": record.locked,
        "isAnswered": record.is_answered,
        "answerChosenAt": text(record.answer_chosen_at),
        "answer": answer,
        "upvoteCount": record.upvotes,
        "comments": [
            comment(row) | {"replies": [comment(reply) for reply in rows if reply.parent_id == row.remote_id]}
            for row in rows
            if row.parent_id is None
        ],
    }


def without_ghost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The truth names the ghost; GraphQL shows no author at all."""
    loaded: list[dict[str, Any]] = json.loads(json.dumps(rows).replace('"ghost"', "null"))
    return loaded
