"""The truth of a simulated GitHub beside our copy of it: every list of a repository, item by item.

Written from what GitHub's interface promises, independently of the code that reads it: a mistake in reading shows as
a difference. The demo and the tests compare with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidelore.core.clock import parse_instant
from tidelore_world.demo.comparison import Difference, Rows

if TYPE_CHECKING:
    from tidelore.store.database.port import Database
    from tidelore_world.github import GitHubForge

Read = Callable[[str], Rows]
Compared = tuple[str, Rows, Rows]
"""The name of a list, what the copy holds of it and what the forge shows."""


def compare_github(database: Database, forge: GitHubForge) -> list[Difference]:
    """Compare every list of every repository with the forge."""
    found: dict[str, Difference] = {}
    for repo in forge.truth_repos():
        for name, held, true in comparisons(database, forge, repo):
            found.setdefault(name, Difference(name)).add(true, held)
    return list(found.values())


def comparisons(database: Database, forge: GitHubForge, path: str) -> list[Compared]:
    """Return each list of a repository by its name: what the copy holds and what the forge shows."""
    read = _reader(database, path)
    return [
        *_items(read, forge, path),
        *_comments(read, forge, path),
        *_children(read, forge, path),
        *_topics(read, forge, path),
        ("github_state_events", _events(database, path), _true_events(forge, path)),
        ("github_timeline_events", _timeline_events(database, path), _true_timeline_events(forge, path)),
    ]


def _items(read: Read, forge: GitHubForge, path: str) -> list[Compared]:
    everything = forge.truth_issues(path)
    issues = [row for row in everything if "pull_request" not in row]
    sides = {row["number"]: row for row in everything if "pull_request" in row}
    return [
        (
            "github_issues",
            read("SELECT t.iid, t.title, t.state, t.updated_at, t.user_notes_count, t.description FROM issues t"),
            {row["number"]: (*_head(row), row["comments"], row["body"]) for row in issues},
        ),
        (
            "github_pull_requests",
            read(
                "SELECT t.iid, t.title, t.state, t.updated_at, t.user_notes_count, t.description, t.head_sha,"
                " t.draft, t.target_branch FROM merge_requests t"
            ),
            {
                row["number"]: (
                    *_head(row),
                    sides[row["number"]]["comments"],
                    row["body"],
                    row["head"]["sha"],
                    int(row["draft"]),
                    row["base"]["ref"],
                )
                for row in forge.truth_pulls(path)
            },
        ),
    ]


def _comments(read: Read, forge: GitHubForge, path: str) -> list[Compared]:
    return [
        (
            "github_comments",
            read(_notes("issue_comment", "COALESCE(i.iid, m.iid)")),
            {row["id"]: (_number(row["issue_url"]), *_said(row)) for row in forge.truth_comments(path)},
        ),
        (
            "github_review_comments",
            read(_notes("review_comment", "m.iid")),
            {row["id"]: (_number(row["pull_request_url"]), *_said(row)) for row in forge.truth_review_comments(path)},
        ),
        (
            "github_reviews",
            read(_notes("review_summary", "m.iid", "n.review_state")),
            {
                row["id"]: (number, row["body"] or "", _login(row), parse_instant(row["submitted_at"]), row["state"])
                for number in _pulls(forge, path)
                for row in forge.truth_reviews(path, number)
            },
        ),
    ]


def _children(read: Read, forge: GitHubForge, path: str) -> list[Compared]:
    numbers = _pulls(forge, path)
    return [
        (
            "github_threads",
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
            "github_closing_issues",
            read(
                "SELECT t.iid || '-' || c.issue_iid, 1 FROM mr_closes_issues c JOIN merge_requests t"
                " ON t.id = c.merge_request_id"
            ),
            {f"{number}-{issue}": (1,) for number in numbers for issue in forge.truth_closing_issues(path, number)},
        ),
        (
            "github_files",
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
    ]


def _topics(read: Read, forge: GitHubForge, path: str) -> list[Compared]:
    return [
        (
            "github_topics",
            read(
                "SELECT t.remote_id, t.iid, t.title, t.body, t.author_username, t.category, t.state, t.is_answered,"
                " t.upvotes, t.locked, t.updated_at FROM topics t"
            ),
            {row["databaseId"]: _topic(row) for row in forge.truth_discussions(path)},
        ),
        (
            "github_topic_comments",
            read(
                "SELECT c.remote_id, t.iid, c.in_reply_to, c.body, c.author_username, c.is_answer, c.deleted_at"
                " FROM topic_comments c JOIN topics t ON t.id = c.topic_id"
            ),
            dict(_topic_comments(forge, path)),
        ),
    ]


def _pulls(forge: GitHubForge, path: str) -> list[int]:
    return [row["number"] for row in forge.truth_pulls(path)]


def _true_events(forge: GitHubForge, path: str) -> Rows:
    return {
        row["id"]: (thread["number"], row["event"])
        for thread in forge.truth_issues(path)
        for row in forge.truth_timeline(path, thread["number"])
        if row["event"] in ("closed", "reopened", "merged")
    }


def _events(database: Database, path: str) -> Rows:
    rows = database.read(
        "SELECT c.remote_id, COALESCE(i.iid, m.iid), c.state FROM resource_state_events c"
        " JOIN projects p ON p.id = c.project_id"
        " LEFT JOIN issues i ON i.id = c.issue_id LEFT JOIN merge_requests m ON m.id = c.merge_request_id"
        " WHERE p.path = :path",
        {"path": path},
    )
    return _keyed(rows)


_ELSEWHERE = ("commented", "reviewed", "committed", "line-commented", "closed", "reopened", "merged")
_NAMED = ("labeled", "unlabeled", "milestoned", "demilestoned")


def _true_timeline_events(forge: GitHubForge, path: str) -> Rows:
    found: Rows = {}
    for thread in forge.truth_issues(path):
        for row in forge.truth_timeline(path, thread["number"]):
            if row["event"] in (*_ELSEWHERE, *_NAMED):
                continue
            key = str(row.get("id"))
            if row["event"] == "cross-referenced":
                key = f"{thread['number']} {row['source']['issue']['id']} {row['created_at']}"
            found[key] = (thread["number"], row["event"], None if row["actor"] is None else row["actor"]["login"])
    return found


def _timeline_events(database: Database, path: str) -> Rows:
    rows = database.read(
        "SELECT c.event_key, COALESCE(i.iid, m.iid), c.action, c.user_username FROM timeline_events c"
        " JOIN projects p ON p.id = c.project_id"
        " LEFT JOIN issues i ON i.id = c.issue_id LEFT JOIN merge_requests m ON m.id = c.merge_request_id"
        " WHERE p.path = :path",
        {"path": path},
    )
    return _keyed(rows)


def _reader(database: Database, path: str) -> Read:
    def read(sql: str) -> Rows:
        rows = database.read(
            f"{sql} JOIN projects p ON p.id = t.project_id WHERE p.path = :path AND t.deleted_at IS NULL",
            {"path": path},
        )
        return _keyed(rows)

    return read


def _keyed(rows: Iterable[Sequence[Any]]) -> Rows:
    """Return rows by their first column. What is stored twice gets a key that the forge never shows: it is extra."""
    found: Rows = {}
    for key, *values in rows:
        found[(key, len(found)) if key in found else key] = tuple(values)
    return found


def _notes(kind: str, number: str, *more: str) -> str:
    columns = ", ".join(("n.body", "n.author_username", "n.updated_at", *more))
    return (
        f"SELECT n.remote_id, {number}, {columns} FROM notes n"  # noqa: S608 - constants of this module
        " JOIN discussions d ON d.id = n.discussion_id LEFT JOIN issues i ON i.id = d.issue_id"
        " LEFT JOIN merge_requests m ON m.id = d.merge_request_id"
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
