"""Compares the stored copy of a repository with the simulated GitHub, item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tidelore.core.clock import parse_instant
from tidelore.store.database.port import Database
from tidelore_world.github.forge import GitHubForge

Rows = dict[Any, Any]


def differences(database: Database, forge: GitHubForge, repo: str) -> list[str]:
    """Return every difference between the copy of a repository and the world; empty if there is none."""
    path = forge.repository(repo).full_name
    found: list[str] = []
    for name, held, true in _comparisons(database, forge, path):
        found += [f"{name} {key}: missing" for key in sorted(true.keys() - held.keys(), key=str)]
        found += [f"{name} {key}: extra" for key in sorted(held.keys() - true.keys(), key=str)]
        both = sorted(held.keys() & true.keys(), key=str)
        found += [f"{name} {key}: {held[key]!r} instead of {true[key]!r}" for key in both if held[key] != true[key]]
    return found


def _comparisons(database: Database, forge: GitHubForge, path: str) -> list[tuple[str, Rows, Rows]]:
    read = _reader(database, path)
    everything = forge.truth_issues(path)
    issues = [row for row in everything if "pull_request" not in row]
    sides = {row["number"]: row for row in everything if "pull_request" in row}
    pulls = forge.truth_pulls(path)
    numbers = [row["number"] for row in pulls]
    return [
        (
            "issue",
            read("SELECT t.iid, t.title, t.state, t.updated_at, t.user_notes_count, t.description FROM issues t"),
            {row["number"]: (*_head(row), row["comments"], row["body"]) for row in issues},
        ),
        (
            "pull request",
            read(
                "SELECT t.iid, t.title, t.state, t.updated_at, t.user_notes_count, t.head_sha, t.draft, t.target_branch"
                " FROM merge_requests t"
            ),
            {
                row["number"]: (
                    *_head(row),
                    sides[row["number"]]["comments"],
                    row["head"]["sha"],
                    int(row["draft"]),
                    row["base"]["ref"],
                )
                for row in pulls
            },
        ),
        (
            "comment",
            read(_notes("issue_comment", "COALESCE(i.iid, m.iid)")),
            {row["id"]: (_number(row["issue_url"]), *_said(row)) for row in forge.truth_comments(path)},
        ),
        (
            "review comment",
            read(_notes("review_comment", "m.iid")),
            {row["id"]: (_number(row["pull_request_url"]), *_said(row)) for row in forge.truth_review_comments(path)},
        ),
        (
            "review",
            read(_notes("review_summary", "m.iid", "n.review_state")),
            {
                row["id"]: (number, row["body"] or "", _login(row), parse_instant(row["submitted_at"]), row["state"])
                for number in numbers
                for row in forge.truth_reviews(path, number)
            },
        ),
        (
            "thread",
            read(
                "SELECT d.node_id, t.iid, d.resolved, d.resolved_by, d.is_outdated,"
                " (SELECT COUNT(*) FROM notes n WHERE n.discussion_id = d.id)"
                " FROM discussions d JOIN merge_requests t ON t.id = d.merge_request_id AND d.resolvable = 1"
            ),
            {
                row["id"]: (
                    number,
                    int(row["isResolved"]),
                    row["resolvedBy"],
                    int(row["isOutdated"]),
                    len(row["comments"]),
                )
                for number in numbers
                for row in forge.truth_threads(path, number)
            },
        ),
        (
            "closing issue",
            read(
                "SELECT t.iid || '-' || c.issue_iid, 1 FROM mr_closes_issues c JOIN merge_requests t"
                " ON t.id = c.merge_request_id"
            ),
            {f"{number}-{issue}": (1,) for number in numbers for issue in forge.truth_closing_issues(path, number)},
        ),
        (
            "file",
            read(
                "SELECT t.iid || ' ' || c.new_path, c.old_path FROM mr_file_changes c JOIN merge_requests t"
                " ON t.id = c.merge_request_id AND c.head_sha = t.head_sha"
            ),
            {
                f"{number} {row['filename']}": (row.get("previous_filename") or row["filename"],)
                for number in numbers
                for row in forge.truth_files(path, number)
            },
        ),
        (
            "topic",
            read(
                "SELECT t.remote_id, t.iid, t.title, t.body, t.author_username, t.category, t.state, t.is_answered,"
                " t.upvotes, t.locked, t.updated_at FROM topics t"
            ),
            {row["databaseId"]: _topic(row) for row in forge.truth_discussions(path)},
        ),
        (
            "topic comment",
            read(
                "SELECT c.remote_id, t.iid, c.in_reply_to, c.body, c.author_username, c.is_answer, c.deleted_at"
                " FROM topic_comments c JOIN topics t ON t.id = c.topic_id"
            ),
            dict(_topic_comments(forge, path)),
        ),
        (
            "state event",
            _events(database, path),
            {
                row["id"]: (number, row["event"])
                for number in [thread["number"] for thread in everything]
                for row in forge.truth_timeline(path, number)
                if row["event"] in ("closed", "reopened", "merged")
            },
        ),
    ]


def _events(database: Database, path: str) -> Rows:
    rows = database.read(
        "SELECT c.remote_id, COALESCE(i.iid, m.iid), c.state FROM resource_state_events c"
        " JOIN projects p ON p.id = c.project_id"
        " LEFT JOIN issues i ON i.id = c.issue_id LEFT JOIN merge_requests m ON m.id = c.merge_request_id"
        " WHERE p.path = :path",
        {"path": path},
    )
    return {row[0]: tuple(row[1:]) for row in rows}


def _reader(database: Database, path: str) -> Callable[[str], Rows]:
    def read(sql: str) -> Rows:
        rows = database.read(
            f"{sql} JOIN projects p ON p.id = t.project_id WHERE p.path = :path AND t.deleted_at IS NULL",
            {"path": path},
        )
        found: Rows = {}
        for key, *values in rows:
            assert key not in found, f"{key} is stored twice"
            found[key] = tuple(values)
        return found

    return read


def _notes(kind: str, number: str, *more: str) -> str:
    columns = ", ".join(("n.body", "n.author_username", "n.updated_at", *more))
    return (
        f"SELECT n.remote_id, {number}, {columns} FROM notes n"
        " JOIN discussions d ON d.id = n.discussion_id LEFT JOIN issues i ON i.id = d.issue_id"
        f" LEFT JOIN merge_requests m ON m.id = d.merge_request_id"
        f" JOIN (SELECT id, project_id, NULL AS deleted_at FROM discussions) t ON t.id = d.id AND n.kind = '{kind}'"
    )


def _topic(row: dict[str, Any]) -> tuple[Any, ...]:
    answered = row["isAnswered"]
    return (
        row["number"],
        row["title"],
        row["body"],
        _known(row["author"]),
        row["category"],
        "closed" if row["closed"] else "opened",
        None if answered is None else int(answered),
        row["upvoteCount"],
        int(row["locked"]),
        parse_instant(row["updatedAt"]),
    )


def _topic_comments(forge: GitHubForge, path: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for topic in forge.truth_discussions(path):
        for comment in topic["comments"]:
            for row, parent in ((comment, None), *((reply, comment["databaseId"]) for reply in comment["replies"])):
                deleted = row["deletedAt"]
                yield (
                    row["databaseId"],
                    (
                        topic["number"],
                        parent,
                        row["body"],
                        _known(row["author"]),
                        int(row["id"] == topic["answer"]),
                        None if deleted is None else parse_instant(deleted),
                    ),
                )


def _known(login: str | None) -> str | None:
    return None if login == "ghost" else login


def _head(row: dict[str, Any]) -> tuple[str, str, int]:
    merged = row.get("merged_at") is not None
    state = "merged" if merged else {"open": "opened"}.get(row["state"], row["state"])
    return row["title"], state, parse_instant(row["updated_at"])


def _said(row: dict[str, Any]) -> tuple[str, str | None, int]:
    return row["body"] or "", _login(row), parse_instant(row["updated_at"])


def _login(row: dict[str, Any]) -> str | None:
    user = row.get("user")
    return None if user is None or user["login"] == "ghost" else user["login"]


def _number(url: str) -> int:
    return int(url.rpartition("/")[2])
