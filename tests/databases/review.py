"""A copy with review threads on GitLab and on GitHub: what the tests of threads, context, changes and MCP share.

`ann` is the login used as our own on both hosts.
"""

from __future__ import annotations

from typing import Any

from tests.databases.feedback_samples import comment, items
from tests.databases.samples import CREATED, issue, merge_request
from tests.databases.talk import (
    CLOSES_ISSUES,
    DIFFS,
    DISCUSSIONS,
    RESOURCE_EVENTS,
    attach,
    closed_issue,
    discussion,
    file_change,
    keep,
    note,
    placed,
    state_event,
)

from tidelore.core.model import ProjectRecord, Scope
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.port import Database
from tidelore.store.mirror.comments import CommentTable
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow, save_project

LAB = "port/harbour"
HUB = "octo/tide"


def said(remote_id: int, body: str, author: str, **changes: Any) -> Any:
    """A note; the higher its id, the later it was written."""
    return note(remote_id, body, author_username=author, **changes)


def reviewed(remote_id: int, body: str, author: str, path: str = "src/crane.py", line: int = 7, **changes: Any) -> Any:
    return placed(remote_id, body, path, line, author_username=author, **changes)


def lay_out_lab(database: Database, path: str = LAB, remote_id: int = 1) -> ProjectRow:
    """A merge request of ann's with four threads and a comment, one of noor's, and an issue."""
    record = ProjectRecord(remote_id, path, path.rpartition("/")[2], f"https://forge.test/{path}", archived=False)
    with database.transaction() as tx:
        project = save_project(tx, "gitlab", path, record, CREATED)
    ours: dict[str, Any] = {"author_username": "Ann", "references_full": f"{path}!1", "description": "Closes #3"}
    keep(
        database,
        project,
        MERGE_REQUESTS,
        [
            merge_request(1, title="Slow the crane", web_url=f"https://forge.test/{path}/-/merge_requests/1", **ours),
            merge_request(2, title="Paint it", author_username="noor", references_full=f"{path}!2"),
            merge_request(4, title="Old", state="merged", author_username="ann", references_full=f"{path}!4"),
        ],
    )
    keep(database, project, ISSUES, [issue(3, references_full=f"{path}#3", title="The crane is too fast")])
    attach(
        database, project, "merge_requests", 1, DISCUSSIONS,
        discussion("asked", reviewed(10, "Why 40 %?", "noor"), reviewed(11, "And who decided?", "mira")),
        discussion("answered", reviewed(20, "Rename this.", "noor"), reviewed(21, "Done.", "ann")),
        discussion("settled", reviewed(30, "Nit.", "noor", resolved=True, resolved_by="ann")),
        discussion("system", note(40, "added 1 commit", is_system=True)),
        discussion("chat", said(50, "Nice work", "mira")),
    )  # fmt: skip
    attach(
        database, project, "merge_requests", 2, DISCUSSIONS,
        discussion("foreign", reviewed(60, "Too blue.", "mira"), reviewed(61, "No.", "noor")),
        discussion("joined", reviewed(70, "Which paint?", "ann"), reviewed(71, "The red one.", "noor")),
        discussion("called", reviewed(80, "Colour.", "mira"), reviewed(81, "cc @ANN: your call", "noor")),
        discussion("near", reviewed(90, "Ask @anna or mail x@ann.test", "mira")),
    )  # fmt: skip
    attach(database, project, "merge_requests", 4, DISCUSSIONS, discussion("late", reviewed(95, "Too late?", "noor")))
    attach(database, project, "issues", 3, DISCUSSIONS, discussion("i", said(97, "Seen again.", "mira")))
    attach(database, project, "merge_requests", 1, CLOSES_ISSUES, closed_issue(3, 3, f"{path}#3"))
    attach(database, project, "merge_requests", 1, RESOURCE_EVENTS, state_event(1), state_event(2, "reopened"))
    attach(database, project, "merge_requests", 1, DIFFS, file_change("src/crane.py", "src/crane.py"))
    return project


def lay_out_hub(database: Database, path: str = HUB) -> ProjectRow:
    """A pull request of ann's with a review thread of unknown state, a comment, and the comment of a robot."""
    record = ProjectRecord(7, path, path.rpartition("/")[2], f"https://hub.test/{path}", archived=False, node_id="R_7")
    with database.transaction() as tx:
        project = save_project(tx, "github", path, record, CREATED)

    def write(surface: str, table: Any, found: Any) -> None:
        scope = Scope("github", f"github.{surface}", "7", project.id, path)
        PageWriter(database, scope, table, lambda: CREATED).commit(Batch(list(found), Cursor()))

    number: dict[str, Any] = {"references_short": "#5", "references_full": f"{path}#5", "iid": 5}
    write("pulls", MERGE_REQUESTS, [merge_request(905, title="Tide table", author_username="ann", **number)])

    def at(order: int) -> dict[str, int]:
        return {"created_at": CREATED + order, "updated_at": CREATED + order, "number": 5}

    review: dict[str, Any] = {"kind": "review_comment", "path": "tide.c", "side": "RIGHT", "commit_sha": "c" * 40}
    first = comment(300, body="Off by one?", author="noor", line=3, **review, **at(300))
    second = comment(301, body="I think so.", author="mira", line=3, in_reply_to=300, **review, **at(301))
    write("review_comments", CommentTable("review_comment"), items(first, second))
    spoken = comment(400, body="Please rebase.", author="noor", **at(400))
    robot = comment(401, body="Build passed.", author="ci[bot]", is_bot=True, **at(401))
    write("issue_comments", CommentTable("issue_comment"), items(spoken, robot))
    return project
