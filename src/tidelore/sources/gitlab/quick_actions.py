"""Finds the lines of a text that GitLab would run as quick actions, with the rights of the token.

GitLab runs a line that begins with `/` and the name of an action, in any case, followed by a space or the end of the
line; carriage returns are removed first. The names depend on version and edition, so any word counts. Text in code
blocks is not run, but versions differ in what a code block is: old ones search with a regular expression, new ones
parse Markdown. So only a block that all of them see counts: three backticks at the beginning of a line, up to a line
of exactly three backticks. After a line that could begin another kind of block no code block counts any more.
"""

from __future__ import annotations

import re

_ACTION = re.compile(r"/\w+(?=\s|$)")
_OPENS = re.compile(r"```[^`]*$")
_CLOSES = re.compile(r" {0,3}`{3,}[ \t]*$")
_OTHER_BLOCK = re.compile(r"\s*(```|~~~|<|>>>|---|\+\+\+|;;;)")
"""Fences of other forms, HTML, quotes of several lines, and front matter: each may hide where a code block begins."""
_FENCE = "```"


def find_quick_actions(body: str) -> list[str]:
    """Return the lines of a text that may be run; a line in doubt is one of them."""
    found: list[str] = []
    in_code, all_agree = False, True
    suspects: list[str] = []
    for line in body.replace("\r", "").split("\n"):
        if in_code:
            if _CLOSES.match(line):
                in_code, all_agree = False, line == _FENCE
                suspects = []
            elif _ACTION.match(line):
                suspects.append(line)
        elif all_agree and _OPENS.match(line):
            in_code = True
        elif _ACTION.match(line):
            found.append(line)
        elif _OTHER_BLOCK.match(line):
            all_agree = False
    # An old version sees no code block where the closing line is missing.
    return found + suspects
