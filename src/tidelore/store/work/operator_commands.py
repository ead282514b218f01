"""Stores commands of operators (table `operator_commands`).

A command is stored in the cursor's transaction and applied from its row (invariant 8); it is finished once.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import Where, insert
from tidelore.store.work.events import NewCommand, pull_reference


class CommandKey(NamedTuple):
    """Identifies a command: a version of a comment in a project."""

    project_id: int
    command_key: str


class CommandRow(Struct, frozen=True):
    """A command with every column of its row. `pull_reference` is read with it: the merge request it is about."""

    command_key: str
    project_id: int
    repo_full_name: str
    issue_number: int
    pr_number: int | None
    comment_id: int
    author: str | None
    command: str
    args_json: str
    body: str
    status: str
    result: str | None
    commented_at: int
    ingested_at: int
    applied_at: int | None
    pull_reference: str | None = None

    @property
    def thread(self) -> str:
        """The thread it was written in, as its forge writes it."""
        named = self.pull_reference if self.pr_number == self.issue_number else None
        return f"{self.repo_full_name}{named or f'#{self.issue_number}'}"

    @property
    def key(self) -> CommandKey:
        return CommandKey(self.project_id, self.command_key)

    @property
    def args(self) -> dict[str, str]:
        return msgspec.json.decode(self.args_json, type=dict[str, str])


_FIELDS = ", ".join(CommandRow.__struct_fields__[:-1])
_ROWS = f"SELECT {_FIELDS}, {pull_reference('operator_commands', 'pr_number')} FROM operator_commands"


def insert_command(tx: Transaction, project_id: int, repo: str, command: NewCommand, now_ms: int) -> bool:
    """Store a command with its status. Return False if it was stored before; it is not changed."""
    record = command.record
    values = {
        "command_key": command.command_key,
        "project_id": project_id,
        "repo_full_name": repo,
        "issue_number": command.number,
        "pr_number": command.pr_number,
        "comment_id": record.remote_id,
        "author": record.author,
        "command": command.command,
        "args_json": msgspec.json.encode(command.args, order="sorted").decode(),
        "body": record.body,
        "status": command.status,
        "result": command.result,
        "commented_at": record.updated_at,
        "ingested_at": now_ms,
    }
    sql = f"{insert('operator_commands', values)} ON CONFLICT (project_id, command_key) DO NOTHING"
    return tx.change(sql, values) > 0


def pending(database: Database, *, project_id: int | None = None) -> list[CommandRow]:
    """Return the commands to apply, in the order in which they were written."""
    where = Where("status = 'pending'").narrow("project_id = :project_id", project_id=project_id)
    rows = database.read(f"{_ROWS} WHERE {where} ORDER BY commented_at, comment_id", where.params)
    return [CommandRow(*row) for row in rows]


def finish(tx: Transaction, key: CommandKey, status: str, result: str | None, now_ms: int) -> bool:
    """Record the result of a command. Return False if it was finished before; the caller that gets True replies."""
    return (
        tx.change(
            "UPDATE operator_commands SET status = :status, result = :result, applied_at = :now"
            " WHERE project_id = :project_id AND command_key = :command_key AND status = 'pending'",
            {**key._asdict(), "status": status, "result": result, "now": now_ms},
        )
        > 0
    )


def find_command(database: Database, key: CommandKey) -> CommandRow | None:
    """Return one command."""
    rows = database.read(f"{_ROWS} WHERE project_id = :project_id AND command_key = :command_key", key._asdict())
    return CommandRow(*rows[0]) if rows else None


def list_commands(database: Database, *, project_id: int | None = None, limit: int = 100) -> list[CommandRow]:
    """Return commands, newest first."""
    where = Where().narrow("project_id = :project_id", project_id=project_id)
    rows = database.read(
        f"{_ROWS} WHERE {where} ORDER BY commented_at DESC, comment_id DESC LIMIT :limit",
        {**where.params, "limit": limit},
    )
    return [CommandRow(*row) for row in rows]
