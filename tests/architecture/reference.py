"""The reference pages as data: sections with their tables. Owns reading Markdown, judges nothing."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "reference"
_CELL = re.compile(r"(?<!\\)\|")


def sections(page: str) -> dict[str, str]:
    """Return the text below each `## heading`."""
    parts = re.split(r"^## (.+)$", (PAGES / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def preface(page: str) -> str:
    """Return the text above the first `## heading`."""
    return (PAGES / page).read_text(encoding="utf-8").partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the rows of the first table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace(r"\|", "|") for cell in _CELL.split(line)[1:-1]] for line in lines[2:]]


def code(cell: str) -> str:
    """Return what stands between the backticks of a cell."""
    return cell.partition("`")[2].partition("`")[0]
