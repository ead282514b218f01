"""Which lines of a reply GitLab would run as quick actions."""

from __future__ import annotations

import pytest

from tidelore.sources.gitlab.quick_actions import find_quick_actions


@pytest.mark.parametrize(
    "body",
    [
        "Nothing here.",
        "see a/b and /usr/bin/env",
        "/usr/bin/env is a path",
        " /close",
        "\\/close",
        "`/close`",
        "> /close",
        "- /close",
        "```\n/close\n```",
        "Look:\n```sh\n/close\n/label ~bug\n```\nand\n```\n/merge\n```",
    ],
)
def test_text_that_no_version_of_gitlab_runs_is_accepted(body: str) -> None:
    assert find_quick_actions(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "/close",
        "/CLOSE",
        "/assign @me",
        "Text\n/close\nmore",
        "Text\r\n/close\r\nmore",
        "/clo\rse",
        "```\ncode\n```\n/close",
        "```\n/close",
        "```\n  ```\n/close\n```",
        "```\n  ```\n```\n/close\n```",
        "````\n```\n````\n/close\n```",
        "~~~\n```\n~~~\n/close\n```",
        "<!--\n```\n-->\n/close\n```",
        "<details>\n/close\n</details>",
        ">>>\n```\n>>>\n/close\n```",
        "---\n```\n---\n/close\n```",
        "- item\n  ```\n/close\n  ```",
        "`\n/close\n`",
    ],
)
def test_a_line_that_some_version_of_gitlab_may_run_is_found(body: str) -> None:
    (line,) = find_quick_actions(body)
    assert line.lower().startswith(("/close", "/assign"))
